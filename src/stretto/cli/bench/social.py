"""`stretto bench social`: a social network on shared objects, in the workers' memory and on a server."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench.social.own_redis import OwnRedis
from stretto.bench.social.run import Served, Setting, as_json, serve
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

WAYS = (
    ("memory", False, "always"),
    ("memory-cached", False, "1 s"),
    ("redis", True, "always"),
    ("redis-cached", True, "1 s"),
)
"""The name of each run, whether objects are on a server, and how fresh they are."""


def social(
    users: Annotated[int, typer.Option(min=2, help="Number of users.")] = Setting.users,
    follows: Annotated[int, typer.Option(min=1, help="How many others each user follows.")] = Setting.follows,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = Setting.requests,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")] = 2,
    server: Annotated[
        str | None, typer.Option(envvar="STRETTO_REDIS", help="URL of a Redis to use; otherwise it starts its own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal requests.")] = Setting.seed,
    json: Json = False,
) -> None:
    """Serve a social network: users compose posts, and read timelines, of which popular users have longer ones.

    Objects are in the workers' memory, then in Redis; each without copies at the workers, and with copies up to a
    second old. An independent model checks every answer, and in Redis all timelines in the end. The exit code is 1 when
    one is wrong."""
    setting = Setting(users, follows, requests, seed)
    found: dict[str, Served] = {}
    with (
        reported(),
        ExitStack() as stack,
        tempfile.TemporaryDirectory() as directory,
        spark_session("stretto bench social", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        url = server or stack.enter_context(OwnRedis(Path(directory))).url
        for name, on_server, fresh in WAYS:
            note(f"{name} ...")
            found[name] = serve(cluster, name, setting, url if on_server else None, fresh)
    if json:
        print_json({"match": all(each.match for each in found.values()), **{k: as_json(v) for k, v in found.items()}})
    else:
        _print(found)
    if not all(each.match for each in found.values()):
        raise typer.Exit(WRONG_ANSWER)


def _print(found: dict[str, Served]) -> None:
    table = Table("objects", "answers", "requests/s", "p50 ms", "p99 ms", "reads", "fetched")
    for name, each in found.items():
        latency = (f"{value:g}" if value is not None else "-" for value in each.latency_ms.values())
        verdict = "right" if each.match else "; ".join(each.wrong)
        table.add_row(name, verdict, f"{each.per_s:g}", *latency, str(each.reads), str(each.fetches))
    Console().print(table)
