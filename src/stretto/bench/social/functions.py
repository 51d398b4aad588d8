"""The functions of the network: compose a post, read a user's timeline, read the timeline at home.

A post goes into the timeline of its author, and into that at home of each follower. A timeline is read with the posts
that it lists: two round trips for a batch of requests, if nothing is cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from stretto import App, Context, Function, SharedState, sinks
from stretto.actors.source import Source
from stretto.bench.social.network import Ask, Network

BATCH_ROWS = 16
"""How many requests a client sends at once, at most."""
ANSWERS = pa.schema(
    [("request", pa.int64()), ("ask", pa.int64()), ("user", pa.int64()), ("posts", pa.list_(pa.int64()))]
)


class Post(msgspec.Struct):
    """A post, of its author."""

    number: int
    author: int
    text: str


class Compose(Function):
    """Writes a post, and its number into timelines. It reads nothing."""

    def __init__(self, shared: SharedState, network: Network) -> None:
        self.shared = shared
        self._network = network

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        shared = self.shared
        for number, user in zip(batch.column("request").to_pylist(), batch.column("user").to_pylist(), strict=True):
            once = str(number)
            shared.value(f"post:{number}", Post).set(Post(number, user, f"post {number} of {user}"))
            shared.list(f"user:{user}", int).append(number, once=once)
            for follower in self._network.followers[user]:
                shared.list(f"home:{follower}", int).append(number, once=once)
        posts = pa.array([[number] for number in batch.column("request").to_pylist()], pa.list_(pa.int64()))
        ctx.send(pa.RecordBatch.from_arrays([*batch.columns, posts], schema=ANSWERS))


class ReadTimeline(Function):
    """Reads the timelines of one kind, and the posts that they list."""

    def __init__(self, shared: SharedState, kind: str) -> None:
        self.shared = shared
        self._kind = kind

    def shared_reads(self, batch: pa.RecordBatch, ctx: Context) -> Iterator[Any]:
        timelines = [self._timeline(user) for user in dict.fromkeys(batch.column("user").to_pylist())]
        yield timelines
        numbers = dict.fromkeys(number for timeline in timelines for number in timeline.get())
        yield [self.shared.value(f"post:{number}", Post) for number in numbers]

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        found = []
        for user in batch.column("user").to_pylist():
            posts = [self.shared.value(f"post:{number}", Post).get() for number in self._timeline(user).get()]
            found.append([post.number for post in posts if post is not None])
        columns = [*batch.columns, pa.array(found, pa.list_(pa.int64()))]
        ctx.send(pa.RecordBatch.from_arrays(columns, schema=ANSWERS))

    def _timeline(self, user: int) -> Any:
        return self.shared.list(f"{self._kind}:{user}", int)


def app(name: str, source: Source, shared: SharedState, network: Network) -> App:
    """Returns the app: a parser that hands each request to what serves it, on any worker."""
    made = App(name, batch_rows=BATCH_ROWS)
    asked = made.source("requests", source)
    for step, ask, function in (
        ("compose", Ask.COMPOSE, Compose(shared, network)),
        ("read_user", Ask.USER_TIMELINE, ReadTimeline(shared, "user")),
        ("read_home", Ask.HOME_TIMELINE, ReadTimeline(shared, "home")),
    ):
        served = asked.filter(f"ask = {int(ask)}", name=f"{step}_requests").apply(function, ANSWERS, name=step)
        served.sink(sinks.collect(), name=f"{step}_answers")
    return made
