"""Dataflows in virtual time: the answer does not depend on delays, number of workers, partitions or batch size.

The reference is the same app on one worker with one partition per function; tests/spark/test_nexmark.py compares that
reference with Spark SQL. Bugs are planted into the worker machine to make the checks fail.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.channel import CREDITS_PER_CHANNEL, Message, OutChannel, Payload
from stretto.actors.context import Context
from stretto.actors.critical import EndOfInput, SyncProgram
from stretto.actors.deadlines import AT_ONCE
from stretto.actors.function import Function
from stretto.actors.work import Outcome
from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload, build
from stretto.bench.verify import Match, compare
from stretto.coordinator.records import JobStatus
from stretto.errors import InvariantError
from stretto.protocol.channels import CriticalSent, Data, OpenChannel
from stretto.protocol.machines import Send
from stretto.simulator.engine.cluster import SimulatedCluster, SimulatedJob, Timing
from stretto.worker.channels import Channels
from stretto.worker.events import Effect, Event
from stretto.worker.machine import Worker, WorkerParts

EVENTS = 20_000
SEED = 7


def simulate(query: str, workers: int, parallelism: int, batch: int, disorder_s: float, seed: int) -> pa.Table:
    config = NexmarkConfig(events=EVENTS, seed=SEED, disorder_s=disorder_s)
    app = build(query, Workload(config, batch=batch))
    cluster = SimulatedCluster(workers, seed)
    job = cluster.submit(lowered(app.plan(), query, parallelism, batch))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    return answer(app, job)


def answer(app: App, job: SimulatedJob) -> pa.Table:
    table = job.writers["out"].table()
    sink = next(node for node in app.plan().sinks if node.name == "out")
    return final_rows(table, sink)


@lru_cache
def reference(query: str) -> pa.Table:
    return simulate(query, workers=1, parallelism=1, batch=4096, disorder_s=0.0, seed=0)


# Query 12 depends on processing time by its definition, so runs of different timing have different answers. The other
# queries that are left out have only functions that remaining ones have too.
TIMELESS = [query for query in QUERIES if query not in ("q10", "q12", "q14", "q16", "q17", "q21", "q22")]


@pytest.mark.parametrize("query", TIMELESS)
def test_the_answer_does_not_depend_on_the_schedule(query: str) -> None:
    choices = random.Random(query)
    for seed in range(1, 5):
        workers, parallelism = choices.choice([1, 2, 3, 5, 9]), choices.choice([1, 2, 4, 7])
        batch, disorder_s = choices.choice([50, 333, 4096]), choices.choice([0.0, 0.5, 2.0])
        verdict = compare(simulate(query, workers, parallelism, batch, disorder_s, seed), reference(query))
        assert verdict.match is Match.MATCH, (
            f"{query} workers={workers} parallelism={parallelism} batch={batch} disorder={disorder_s} seed={seed}\n"
            f"{verdict.describe()}"
        )


def numbers(count: int, parallelism: int = 3) -> App:
    """An app whose answer is known: every number once, doubled, through two keyed shuffles."""
    app = App("numbers", parallelism=parallelism)
    keys = pa.array([i % 11 for i in range(count)], pa.int64())
    rows = pa.table({"n": pa.array(range(count), pa.int64()), "k": keys})
    stream = app.source("in", MemorySource(rows, batch_rows=5), parallelism=parallelism)
    once = stream.key_by("k").apply(Pass(), stream.schema, name="once")
    twice = once.select("n * 2 AS n", "k").key_by("n").apply(Pass(), "n bigint, k bigint", name="twice")
    twice.sink(CollectSink(), name="out")
    return app


class Pass(Function):
    """Forwards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def run_numbers(
    count: int, seed: int, workers: int = 3, timing: Timing | None = None, parts: WorkerParts | None = None
) -> SimulatedJob:
    cluster = SimulatedCluster(workers, seed, timing, steps_max=200_000, worker_parts=parts)
    job = cluster.submit(lowered(numbers(count).plan(), "numbers", 3, 5))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    return job


def assert_each_number_once(job: SimulatedJob, count: int) -> None:
    found = Counter(job.writers["out"].table().column("n").to_pylist())
    assert found == Counter(2 * n for n in range(count))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_and_nothing_comes_twice(seed: int) -> None:
    assert_each_number_once(run_numbers(500, seed), 500)


@pytest.mark.parametrize("seed", range(10))
def test_a_stream_may_reach_a_function_by_several_edges(seed: int) -> None:
    app = App("forked")
    source = app.source("in", MemorySource([{"n": i} for i in range(300)], batch_rows=7), parallelism=3)
    parts = [source.filter(f"n % 3 = {rest}") for rest in range(3)]
    parts[0].union(*parts[1:]).key_by("n").apply(Pass(), "n bigint").sink(CollectSink(), name="out")
    cluster = SimulatedCluster(3, seed)
    job = cluster.submit(lowered(app.plan(), "forked", 4, 7))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    assert Counter(job.writers["out"].table().column("n").to_pylist()) == Counter(range(300))


def test_slow_functions_hold_their_sources_back() -> None:
    """With costs far above the delays, no mailbox may hold more than its channels' credits and one run's surplus."""
    longest = 0

    class Watched(Worker):
        def handle(self, event: Event, now_ns: int) -> list[Effect]:
            nonlocal longest
            effects = super().handle(event, now_ns)
            for job in self.jobs.values():
                for seat in job.seats.values():
                    channels = max(1, len(seat.inputs))
                    longest = max(longest, len(seat.mailbox) // channels)
            return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stretto.simulator.engine.cluster.Worker", Watched)
        job = run_numbers(5_000, 1, timing=Timing(delay_ns=(1_000, 2_000), cost_ns=(1_000_000, 5_000_000)))
    assert_each_number_once(job, 5_000)
    assert 0 < longest <= CREDITS_PER_CHANNEL + 3


CREDIT_BYTES = 1_000
ROW_BYTES = 3_000


def blobs(count: int) -> App:
    """An app with large rows, of which the sink gets each once."""
    app = App("blobs", parallelism=2)
    rows = [{"n": n, "blob": b"x" * ROW_BYTES} for n in range(count)]
    stream = app.source("in", MemorySource(rows, "n bigint, blob binary", batch_rows=3))
    once = stream.key_by("n").apply(Pass(), stream.schema, name="once")
    once.select("n * 2 AS n", "blob").sink(CollectSink(), name="out")
    return app


def most_bytes_on_a_channel(parts: WorkerParts | None = None) -> int:
    """Runs the app with large rows and slow functions; returns the most bytes of one channel in a mailbox."""
    most = 0

    class Watched(Worker):
        def handle(self, event: Event, now_ns: int) -> list[Effect]:
            nonlocal most
            effects = super().handle(event, now_ns)
            for seat in (seat for job in self.jobs.values() for seat in job.seats.values()):
                held: Counter[int] = Counter()
                for message in seat.mailbox:
                    if isinstance(message, Message) and isinstance(message.payload, pa.RecordBatch):
                        held[id(message.channel)] += message.payload.nbytes
                most = max(most, *held.values(), 0)
            return effects

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stretto.simulator.engine.cluster.Worker", Watched)
        patch.setattr("stretto.actors.channel.CREDIT_BYTES", CREDIT_BYTES)
        timing = Timing(delay_ns=(1_000, 2_000), cost_ns=(1_000_000, 5_000_000))
        cluster = SimulatedCluster(3, 1, timing, steps_max=200_000, worker_parts=parts)
        job = cluster.submit(lowered(blobs(600).plan(), "blobs", 2, 3))
        cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    assert_each_number_once(job, 600)
    return most


BYTES_MAX = CREDITS_PER_CHANNEL * CREDIT_BYTES + 3 * (ROW_BYTES + 100)
"""What the credits of a channel allow, and one batch."""


def test_large_rows_hold_their_sources_back_by_their_bytes() -> None:
    assert 0 < most_bytes_on_a_channel() <= BYTES_MAX


def test_a_failing_function_fails_its_job_and_no_other() -> None:
    def explode(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("seventh") if 7 in batch.column("n").to_pylist() else TypeError("other")

    bad = App("bad")
    source = MemorySource([{"n": i} for i in range(100)], batch_rows=8)
    bad.source("in", source).map(explode, "n bigint", name="explode").sink(CollectSink(), name="out")
    cluster = SimulatedCluster(3, 5)
    failing = cluster.submit(lowered(bad.plan(), "bad", 2, 8))
    good = cluster.submit(lowered(numbers(500).plan(), "numbers", 3, 5))
    cluster.run()
    assert failing.status is JobStatus.FAILED
    assert failing.failure is not None
    assert good.status is JobStatus.FINISHED
    assert_each_number_once(good, 500)


@pytest.mark.parametrize("seed", range(10))
def test_a_job_can_be_stopped_at_any_moment(seed: int) -> None:
    cluster = SimulatedCluster(3, seed)
    stopped = cluster.submit(lowered(numbers(5_000).plan(), "numbers", 3, 5))
    cluster.stop("numbers", after_ns=random.Random(seed).randint(0, 50_000_000))
    cluster.run()
    assert stopped.status in (JobStatus.STOPPED, JobStatus.FINISHED)
    for worker in cluster.workers.values():
        assert not worker.jobs


def test_draining_an_endless_source_flushes_its_windows() -> None:
    config = NexmarkConfig(events=None, seed=SEED)
    app = build("q5", Workload(config))
    cluster = SimulatedCluster(2, 3)
    job = cluster.submit(lowered(app.plan(), "q5", 2, 1000))
    cluster.stop("q5", after_ns=300_000_000, drain=True)
    cluster.run()
    assert job.status is JobStatus.FINISHED
    assert job.writers["out"].table().num_rows > 0


# Planted bugs: each breaks one rule of the worker machine, and one of the checks above must fail.


class LosesOne(Channels):
    """Drops the fourth message of every channel."""

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        if channel.seq == 3 and isinstance(payload, pa.RecordBatch):
            return
        super().send(channel, payload, outcome)


class SendsTwice(Channels):
    """Repeats the fourth message of every channel."""

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        repeats = 2 if channel.seq == 3 and isinstance(payload, pa.RecordBatch) else 1
        for _ in range(repeats):
            super().send(channel, payload, outcome)


class KeepsCredits(Channels):
    """Never returns credits on remote channels."""

    def give_back(self, message: Message) -> None:
        if message.channel.out is not None:
            super().give_back(message)


class CountsMessages(Channels):
    """Takes one credit for a batch, whatever its size."""

    def emit(self, channel: OutChannel, *rest: Any) -> None:
        super().emit(channel, *rest[:5])


def test_credits_that_do_not_count_bytes_are_noticed() -> None:
    assert most_bytes_on_a_channel(WorkerParts(channels=CountsMessages)) > BYTES_MAX


class ForgetsToOpen(Channels):
    """Sends on a channel that it has not announced."""

    def emit(self, channel: OutChannel, *rest: Any) -> None:
        super().emit(channel, *rest)
        self._host.effects[:] = [
            effect
            for effect in self._host.effects
            if not (isinstance(effect, Send) and isinstance(effect.frame, OpenChannel))
        ]


class EndsEarly(Channels):
    """Processes the end of the input before waiting rows."""

    def _receive(self, sender: str, frame: Data | CriticalSent, payload: Payload, sync: SyncProgram | None) -> None:
        super()._receive(sender, frame, payload, sync)
        channel = self._ins.get((sender, frame.number))
        if channel is not None and isinstance(payload, EndOfInput):
            last = list(channel.seat.mailbox)[-1]
            channel.seat.mailbox.remove(last)
            channel.seat.mailbox.append(last, AT_ONCE)


@pytest.mark.parametrize("fault", [LosesOne, SendsTwice, KeepsCredits, ForgetsToOpen, EndsEarly])
def test_the_checks_notice_a_planted_fault(fault: type[Channels]) -> None:
    def sweep() -> None:
        for seed in range(20):
            assert_each_number_once(run_numbers(1_000, seed, parts=WorkerParts(channels=fault)), 1_000)

    with pytest.raises((AssertionError, InvariantError)):
        sweep()
