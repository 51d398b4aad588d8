"""The jobs of `stretto bench tenants`: sparse latency-sensitive jobs and bulk jobs (thesis 5.6).

All have the same shape: a source per worker, a function that computes for a known time, windowed sums by key. Batches
are due at fixed times. A bulk stream may also be unpaced: it always has more input than the workers can process.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.actors.sink import Sink
from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.app import App
from stretto.api.slo import SLO
from stretto.operators.windows import tumbling
from stretto.runtime.job import Job

EPOCH_US = 1_750_000_000_000_000
KEYS = 8
TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("t", TIME), ("key", pa.int64()), ("value", pa.int64())])
WINDOWS = pa.schema([("window_start", TIME), ("key", pa.int64()), ("total", pa.int64()), ("rows", pa.int64())])
REST_NS = 10_000_000
"""How often a stream that rests looks whether it still does."""
HASHED_BYTES = 16_384
"""The bytes that one round of the computation hashes."""


@dataclass(frozen=True)
class Stream:
    """Each of `partitions` sends a batch of `rows` rows every `gap_us`, from `start_ns` until `end_ns`.

    Batch n has the events after n * gap up to (n + 1) * gap and is due with the last of them, so that the batch that
    ends a window also closes it. Unpaced, a batch is due when it is requested. While the file `rests` exists, there is
    none."""

    rows: int
    gap_us: int
    start_ns: int
    end_ns: int
    partitions: int
    paced: bool = True
    rests: Path | None = None

    @property
    def batches(self) -> int:
        return (self.end_ns - self.start_ns) // (self.gap_us * 1_000)

    def due_ns(self, number: int) -> int:
        return self.start_ns + (number + 1) * self.gap_us * 1_000 if self.paced else self.start_ns

    def batch(self, number: int, partition: int) -> pa.RecordBatch:
        first = EPOCH_US + number * self.gap_us
        index = np.arange(1, self.rows + 1, dtype=np.int64)
        times = first + index * self.gap_us // self.rows
        values = (index * 7_919 + number * 104_729 + partition) % 10_007
        columns = [pa.array(times).cast(TIME), pa.array(index % KEYS), pa.array(values)]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class StreamSource(Source):
    """The stream as a source of an app."""

    schema = SCHEMA

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.parallelism = stream.partitions

    def reader(self, partition: int, partitions: int) -> StreamReader:
        return StreamReader(self.stream, partition)

    def describe(self) -> str:
        pace = f"every {self.stream.gap_us / 1000:g} ms" if self.stream.paced else "at full speed"
        return f"batches of {self.stream.rows} rows, {pace}"


class StreamReader(SourceReader):
    def __init__(self, stream: Stream, partition: int) -> None:
        self._stream = stream
        self._partition = partition

    def read(self, now_ns: int, max_rows: int) -> Reading:
        stream, number = self._stream, self.position
        if number == stream.batches if stream.paced else now_ns >= stream.end_ns:
            return Reading(None, now_ns, done=True)
        due_ns = stream.due_ns(number)
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        if stream.rests is not None and stream.rests.exists():
            return Reading(None, now_ns, next_ns=now_ns + REST_NS)
        self.position = number + 1
        batch = stream.batch(number, self._partition)
        return Reading(batch, due_ns, next_ns=stream.due_ns(number + 1)) if stream.paced else Reading(batch, now_ns)

    def seek(self, position: int) -> None:
        self.position = position


@dataclass(frozen=True)
class Phase:
    """An interval in which rows are counted."""

    name: str
    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


class Work(Function):
    """Computes for a known time per batch and forwards it. Counts rows and their time by phase."""

    def __init__(self, rounds: int, phases: tuple[Phase, ...]) -> None:
        self._rounds = rounds
        self._phases = phases

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        began_ns = time.perf_counter_ns()
        compute(self._rounds)
        for phase in self._phases:
            if phase.begin_ns <= ctx.now_ns < phase.end_ns:
                ctx.count(f"{phase.name}: rows", batch.num_rows)
                ctx.count(f"{phase.name}: ns in process {os.getpid()}", time.perf_counter_ns() - began_ns)
        ctx.send(batch)


def counted_rows(job: Job, phase: Phase) -> int:
    """Returns the rows that a job processed during a phase."""
    return job.metrics().functions["work"].counts.get(f"{phase.name}: rows", 0)


def counted_ns(job: Job, phase: Phase) -> dict[str, int]:
    """Returns the time that they took, by worker process."""
    return ns_by_process(job.metrics().functions["work"].counts, phase)


def ns_by_process(counts: dict[str, int], phase: Phase) -> dict[str, int]:
    """Returns the time that was counted during a phase, by worker process."""
    start = f"{phase.name}: ns in "
    return {name.removeprefix(start): ns for name, ns in counts.items() if name.startswith(start)}


def compute(rounds: int) -> str:
    """Computes for a time that is proportional to the number of rounds."""
    digest = hashlib.sha256(bytes(HASHED_BYTES))
    for _ in range(rounds - 1):
        digest.update(bytes(HASHED_BYTES))
    return digest.hexdigest()


def rounds_for(cost_ms: float) -> int:
    """Returns how many rounds take `cost_ms` on this machine, by the minimum of several timings."""
    trial = 50
    timings = []
    for _ in range(20):
        began_ns = time.thread_time_ns()
        compute(trial)
        timings.append(time.thread_time_ns() - began_ns)
    return max(1, round(cost_ms * 1e6 / (min(timings) / trial)))


@dataclass(frozen=True)
class Tenant:
    """A job: its stream, rounds per batch, windows, objective, and the phases in which rows count."""

    name: str
    stream: Stream
    rounds: int
    window_us: int
    phases: tuple[Phase, ...]
    slo: SLO | None = None

    def app(self, sink: Callable[[], Sink]) -> App:
        app = App(
            self.name,
            slo=self.slo,
            engine="actors",
            parallelism=self.stream.partitions,
            batch_rows=self.stream.rows,
            batch_delay="0 ms",
        )
        work = Work(self.rounds, self.phases)
        batches = app.source("events", StreamSource(self.stream), time="t")
        done = batches.apply(work, SCHEMA, name="work", parallelism=self.stream.partitions)
        windows = done.key_by("key").window(tumbling(f"{self.window_us} us"))
        sums = windows.aggregate(total="sum(value)", rows="count(*)", name="sums")
        sums.select("window_start", "key", "total", "rows").sink(sink(), name="answers")
        return app
