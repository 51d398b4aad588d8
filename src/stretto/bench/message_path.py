"""Measures what one message costs a worker: receive, enqueue, schedule, apply a no-op, send; locally and over a socket.

The worker machine, the codec and the sockets are the real ones; only the peer is simulated by this program. Costs are
CPU time of the thread in microseconds, the median of several rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import CREDITS_PER_CHANNEL
from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, Forward, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.seat import Seat
from stretto.protocol.channels import Data, Grant, OpenChannel
from stretto.protocol.jobs import Deploy, Start
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.membership import COORDINATOR, Member, Members
from stretto.runtime.garbage import calm_garbage_collector
from stretto.runtime.keys import KeyPair
from stretto.runtime.transport import Transport
from stretto.worker.events import CodeLoaded, Effect, Ran, Run
from stretto.worker.machine import Worker

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])
ROUNDS = 5
ACTORS = (10, 100, 1_000, 10_000, 100_000)
PENDING = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Path:
    """Microseconds per message, in total and by step."""

    total_us: float
    steps_us: dict[str, float]


@dataclass(frozen=True)
class Report:
    """The cost of one message, and how it grows."""

    local: Path
    remote: Path
    by_actors_us: dict[int, float]
    by_pending_us: dict[int, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class NoOp(Function):
    """Forwards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Swallow(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def measure(messages: int = 20_000, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Returns all figures; takes about a minute."""
    with calm_garbage_collector():
        return _measured(messages, progress)


def _measured(messages: int, progress: Callable[[str], None]) -> Report:
    progress("one message, locally")
    local = _median_path(lambda: _local_round(messages))
    progress("one message, over a socket")
    remote = _median_path(lambda: _remote_round(messages))
    by_actors, by_pending = {}, {}
    for actors in ACTORS:
        progress(f"{actors:,} actors")
        by_actors[actors] = _growth(actors, pending=actors, messages=messages)
    for pending in PENDING:
        progress(f"{pending:,} pending messages")
        by_pending[pending] = _growth(100, pending, messages)
    return Report(local, remote, by_actors, by_pending)


def _batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([1]), pa.array([1], pa.timestamp("us", tz="UTC"))], schema=SCHEMA)


def _worker(actors: int, downstream: str) -> Worker:
    """Returns a worker that hosts `actors` no-ops, each fed by a remote instance; `downstream` hosts the consumers."""
    worker = Worker("me~1")
    feed = Stage("up", SCHEMA, edges=[Edge("noop", "in", Forward() if actors > 1 else Rebalance())])
    drain = Stage("noop", SCHEMA, edges=[Edge("down", "in", Forward() if actors > 1 else Rebalance())])
    deployment = Deployment(
        "job",
        {
            "up": FunctionSpec("up", Swallow(), actors, {"out": feed}),
            "noop": FunctionSpec("noop", NoOp(), actors, {"out": drain}),
            "down": FunctionSpec("down", Swallow(), actors),
        },
    )
    placement = {"up": ["peer~1"] * actors, "noop": ["me~1"] * actors, "down": [downstream] * actors}
    members = [Member(name, name, name, "host", 1) for name in ("me~1", "peer~1")]
    _settle(worker, FrameArrived(COORDINATOR, Members(1, members)))
    _settle(worker, FrameArrived(COORDINATOR, Deploy("job", "", placement)))
    _settle(worker, CodeLoaded("job", deployment))
    _settle(worker, FrameArrived(COORDINATOR, Start("job")))
    for actor in range(actors):
        _settle(
            worker,
            FrameArrived(
                "peer~1", OpenChannel(actor, Address("job", "up", actor), Address("job", "noop", actor), "in", b"")
            ),
        )
    return worker


def _settle(worker: Worker, event: Any) -> None:
    """Pass an event to the worker, and carry out its runs until it requests none."""
    pending = [effect for effect in worker.handle(event, 0) if isinstance(effect, Run)]
    while pending:
        run = pending.pop()
        done = Ran(run.seat, run.work, run.seat.instance.apply(run.work, 0), 0)
        pending += [effect for effect in worker.handle(done, 0) if isinstance(effect, Run)]


def _median_path(measured: Callable[[], dict[str, float]]) -> Path:
    rounds = [measured() for _ in range(ROUNDS)]
    steps = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    return Path(statistics.median(sum(found.values()) for found in rounds), steps)


class _Steps:
    """Sums the thread's CPU time by step, minus the cost of reading the clock."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self._at = time.thread_time_ns()

    def lap(self, step: str) -> None:
        now = time.thread_time_ns()
        self._spent[step] = self._spent.get(step, 0) + now - self._at
        self._at = time.thread_time_ns()

    def per_message_us(self, messages: int) -> dict[str, float]:
        return {step: spent / messages / 1000 for step, spent in self._spent.items()}


def _local_round(messages: int) -> dict[str, float]:
    """A batch arrives in memory, goes through a no-op, and on to an instance of the same worker."""
    worker, batch, steps = _worker(1, "me~1"), _batch(), _Steps()
    for seq in range(1, messages + 1):
        event = FrameArrived("peer~1", Data(0, seq, 0, batch))
        steps.lap("bench")
        effects = worker.handle(event, 0)
        steps.lap("receive, enqueue, schedule")
        run = next(effect for effect in effects if isinstance(effect, Run))
        steps.lap("bench")
        outcome = run.seat.instance.apply(run.work, 0)
        steps.lap("apply a no-op")
        effects = worker.handle(Ran(run.seat, run.work, outcome, 0), 0)
        steps.lap("number, send, give back credit")
        for effect in effects:
            if isinstance(effect, Run):
                _settle_run(worker, effect)
        steps.lap("bench")
    found = steps.per_message_us(messages)
    del found["bench"]
    return found


def _settle_run(worker: Worker, run: Run) -> None:
    worker.handle(Ran(run.seat, run.work, run.seat.instance.apply(run.work, 0), 0), 0)


def _remote_round(messages: int) -> dict[str, float]:
    """The same between two members: over an authenticated, encrypted connection in, and over another one out."""
    worker, batch, steps = _worker(1, "peer~1"), _batch(), _Steps()
    with _connected() as (near, far):
        _send_and_receive(
            far,
            near,
            OpenChannel(0, Address("job", "up", 0), Address("job", "noop", 0), "in", SCHEMA.serialize().to_pybytes()),
        )
        uncredited = 0
        for seq in range(1, messages + 1):
            far.send("me~1", Data(0, seq, 0, batch))
            steps.lap("bench")
            while not (arrivals := near.poll(0)):
                steps.lap("bench")  # The bytes are still on their way, which costs the worker nothing.
            steps.lap("socket and decode")
            ((sender, frame),) = arrivals
            effects = worker.handle(FrameArrived(sender, frame), 0)
            steps.lap("receive, enqueue, schedule")
            run = next(effect for effect in effects if isinstance(effect, Run))
            outcome = run.seat.instance.apply(run.work, 0)
            steps.lap("apply a no-op")
            sends = worker.handle(Ran(run.seat, run.work, outcome, 0), 0)
            steps.lap("number, send, give back credit")
            for send in sends:
                if isinstance(send, Send) and send.to == "peer~1":
                    near.send(send.to, send.frame)
            steps.lap("encode and socket")
            uncredited += 1
            if uncredited == CREDITS_PER_CHANNEL // 2:
                worker.handle(FrameArrived("peer~1", Grant(1, uncredited)), 0)
                uncredited = 0
                far.poll(0)
    found = steps.per_message_us(messages)
    del found["bench"]
    return found


@contextmanager
def _connected() -> Iterator[tuple[Transport, Transport]]:
    """Two members of one cluster with real sockets on loopback."""
    keys = {name: KeyPair.new() for name in ("me~1", "peer~1")}
    sides = [Transport("bench", name, pair, "127.0.0.1") for name, pair in keys.items()]
    try:
        members = [Member(s.member, s.endpoint, keys[s.member].public, "127.0.0.1", 0) for s in sides]
        for side in sides:
            side.set_members(members)
        yield sides[0], sides[1]
    finally:
        for side in sides:
            side.close()


def _send_and_receive(sender: Transport, receiver: Transport, frame: Any) -> None:
    sender.send(receiver.member, frame)
    while not receiver.poll(1000):
        pass


def _growth(actors: int, pending: int, messages: int) -> float:
    """Returns microseconds per message when `actors` take turns and `pending` messages wait in their mailboxes.

    Credits bound a real mailbox; they are ignored here, to measure what a long queue costs."""
    rounds = []
    worker, batch = _worker(actors, "me~1"), _batch()
    fed = list(worker.jobs["job"].seats.values())[:actors]
    run: Run | None = None
    for _ in range(ROUNDS):
        waiting = sum(len(seat.mailbox) for seat in fed)
        run = _preload(worker, fed, batch, pending - waiting) or run
        assert run is not None
        began = time.thread_time_ns()
        done = 0
        while run is not None and done < messages:
            outcome = run.seat.instance.apply(run.work, 0)
            run = _next_run(worker.handle(Ran(run.seat, run.work, outcome, 0), 0))
            done += 1
        rounds.append((time.thread_time_ns() - began) / done / 1000)
    return statistics.median(rounds)


def _preload(worker: Worker, seats: list[Seat], batch: pa.RecordBatch, pending: int) -> Run | None:
    """Enqueue `pending` more messages, spread evenly over the actors; returns the run that an idle worker requests."""
    first: Run | None = None
    sequences = {seat: seat.inputs[0].received for seat in seats}
    for index in range(pending):
        seat = seats[index % len(seats)]
        sequences[seat] += 1
        frame = Data(seat.inputs[0].number, sequences[seat], 0, batch)
        run = _next_run(worker.handle(FrameArrived("peer~1", frame), 0))
        first = first or run
    return first


def _next_run(effects: list[Effect]) -> Run | None:
    return next((effect for effect in effects if isinstance(effect, Run)), None)
