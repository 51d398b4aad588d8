"""Measures the cost of checkpoints: a running aggregate over many keys, with a checkpoint every second and without.

The state is loaded first: each key once, in all partitions. Then rows update a hundredth of the keys in each second,
and others in the next, scattered over the whole state: at full speed for throughput, at a fixed rate for latency.
Measuring begins after the first checkpoint, which writes the whole state. Latency is from when a row was due at the
source until its update is in the sink. Runs with and without checkpoints alternate; the result is the median of the
ratios.

A separate run measures how much a checkpoint writes: it requests one checkpoint of the whole state, then one after each
second, and divides what they write by the time since the one before, which is longer on a busy machine.
"""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.app import App
from stretto.api.memory import NullSink
from stretto.errors import ClusterError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import CompleteCheckpoint, Job
from stretto.runtime.metrics import JobMetrics
from stretto.runtime.scratch import scratch_directory

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BYTES_PER_KEY = 48
"""A key and five partials of eight bytes each: a sum has two."""
HOT_SHARE = 0.01
"""The share of the keys that the rows of one second update."""
HOT_AT_ONCE = 0.1
"""The share of those that are being updated at any moment, in turn; it moves through the keys."""
BATCH = 4096
EVERY = "1 s"
SETTLE_S = 2.0
"""Time after the first checkpoint for the rows that waited for it."""
INCREMENTS = 4
LOAD_TIMEOUT_S = 300.0
POLL_NS = 10_000_000
SCATTER = 15_485_863
"""A prime: its multiples, modulo the number of keys, visit all keys in a scattered order."""


class Touches(Source):
    """Emits every key once, and when the file `begin` is there a different hundredth of the keys in each second. `rate`
    is rows per second and partition then; None means full speed."""

    def __init__(self, keys: int, rate: float | None, begin: Path) -> None:
        self.keys = keys
        self.rate = rate
        self.begin = begin
        self.schema = SCHEMA

    def reader(self, partition: int, partitions: int) -> TouchReader:
        return TouchReader(self, partition, partitions)


class TouchReader(SourceReader):
    def __init__(self, source: Touches, partition: int, partitions: int) -> None:
        self._rate = source.rate
        self._begin: Path | None = source.begin
        self._partition, self._partitions = partition, partitions
        self._own = len(range(partition, source.keys, partitions))
        self._hot = max(1, round(self._own * HOT_SHARE * HOT_AT_ONCE))
        self._keys_per_s = self._own * HOT_SHARE * (1 - HOT_AT_ONCE)
        self._due_ns: int | None = None

    def seek(self, position: int) -> None:
        self.position = position

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self.position < self._own:
            places = np.arange(self.position, min(self._own, self.position + max_rows))
            self.position += len(places)
            return Reading(self._batch(places, now_ns), now_ns)
        if self._begin is not None:
            if not self._begin.exists():
                return Reading(None, now_ns, next_ns=now_ns + POLL_NS)
            self._begin = None
        count, arrived_ns, next_ns = self._due(now_ns, max_rows)
        if not count:
            return Reading(None, now_ns, next_ns=next_ns)
        first = int(now_ns / 1e9 * self._keys_per_s)
        turns = first + np.arange(self.position, self.position + count) % self._hot
        self.position += count
        return Reading(self._batch(turns % self._own * SCATTER % self._own, now_ns), arrived_ns, next_ns=next_ns)

    def _due(self, now_ns: int, max_rows: int) -> tuple[int, int, int | None]:
        """Returns how many rows are due, when the last of them was due, and when the next one will be."""
        if self._rate is None:
            return max_rows, now_ns, None
        gap_ns = 1e9 / self._rate
        self._due_ns = now_ns if self._due_ns is None else self._due_ns
        count = min(max_rows, int((now_ns - self._due_ns) / gap_ns))
        self._due_ns += int(count * gap_ns)
        return count, self._due_ns, self._due_ns + math.ceil(gap_ns)

    def _batch(self, places: npt.NDArray[np.int64], value: int) -> pa.RecordBatch:
        keys = self._partition + places * self._partitions
        return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.full(len(keys), value % 1_000))], schema=SCHEMA)


@dataclass(frozen=True)
class Setup:
    """What to measure. `rate` is rows per second over all workers in the latency runs."""

    rounds: int = 3
    seconds: float = 10.0
    rate: float = 250_000.0
    load_timeout_s: float = LOAD_TIMEOUT_S


@dataclass(frozen=True)
class Figures:
    """One run: throughput, latency, and medians over its checkpoints."""

    rows_per_s: float
    latency_ms: dict[str, float | None]
    checkpoints: int = 0
    written_bytes: int = 0
    took_s: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """The bytes that the first checkpoint writes, and those that later ones write for each second of changes."""

    full_bytes: int
    full_s: float
    increment_bytes: int

    @property
    def share(self) -> float:
        return self.increment_bytes / self.full_bytes


@dataclass
class Cost:
    """For one state size: the ratios of runs with checkpoints to runs without, and the sizes written."""

    state_mb: int
    keys: int
    sizes: Sizes
    throughput_ratio: float = math.nan
    p99_ratio: float = math.nan
    runs: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "written_share": self.sizes.share}

    def median(self, paced: bool, durable: bool, figure: Callable[[dict[str, Any]], float]) -> float:
        """Returns the median of a figure over the runs of one kind."""
        return statistics.median(figure(r) for r in self.runs if (r["paced"], r["durable"]) == (paced, durable))


def measure(cluster: Cluster, state_mb: int, setup: Setup, note: Callable[[str], None] = lambda text: None) -> Cost:
    """Alternate runs with and without checkpoints, at full speed and at the fixed rate."""
    keys = state_mb * 1_000_000 // BYTES_PER_KEY
    cost = Cost(state_mb, keys, _sizes(cluster, keys, setup))
    note(
        f"{state_mb} MB: the first checkpoint writes {cost.sizes.full_bytes:,} bytes in {cost.sizes.full_s:.2f} s, "
        f"later ones {cost.sizes.share:.2%} of that"
    )
    throughput: list[float] = []
    p99: list[float] = []
    for number in range(setup.rounds):
        for paced, ratios in ((False, throughput), (True, p99)):
            found = {}
            for durable in (False, True) if number % 2 == 0 else (True, False):
                figures = found[durable] = _run(cluster, keys, paced, durable, setup)
                cost.runs.append({"round": number, "paced": paced, "durable": durable, **asdict(figures)})
                note(f"{state_mb} MB, round {number + 1}: {_described(paced, durable, figures)}")
            ratios.append(_p99(found[True]) / _p99(found[False]) if paced else _rate(found[True]) / _rate(found[False]))
    cost.throughput_ratio, cost.p99_ratio = statistics.median(throughput), statistics.median(p99)
    return cost


def _described(paced: bool, durable: bool, figures: Figures) -> str:
    load = "at a fixed rate" if paced else "at full speed"
    taken = f"with {figures.checkpoints} checkpoints" if durable else "without checkpoints"
    return f"{load} {taken}: {figures.rows_per_s:,.0f} rows/s, p99 {_p99(figures):.1f} ms"


def _p99(figures: Figures) -> float:
    return figures.latency_ms["p99"] or math.nan


def _rate(figures: Figures) -> float:
    return figures.rows_per_s


@contextmanager
def _loaded(
    cluster: Cluster, keys: int, rate: float | None, durable: bool, every: str | None, timeout_s: float
) -> Iterator[Job]:
    """Has a job whose state is loaded, and whose updates begin."""
    workers = len(cluster.workers)
    app = App("checkpoint-cost", parallelism=workers, batch_rows=BATCH)
    directory = scratch_directory("checkpoint")
    begin = directory / "begin"
    rows = app.source("rows", Touches(keys, None if rate is None else rate / workers, begin))
    totals = rows.key_by("k").aggregate(n="count(*)", total="sum(v)", least="min(v)", most="max(v)", name="totals")
    totals.sink(NullSink(), name="out")
    kept = directory / "kept" if durable else None
    try:
        job = cluster.submit(app, engine="actors", checkpoint=kept, every=every)
        try:
            _load(job, keys, timeout_s)
            begin.touch()
            yield job
        finally:
            job.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _load(job: Job, keys: int, timeout_s: float) -> None:
    """Wait until all keys are in the state."""
    deadline = time.monotonic() + timeout_s
    while _totalled(job.metrics()) < keys:
        if job.error is not None:
            raise job.error
        if time.monotonic() >= deadline:
            raise ClusterError("the state was not loaded in time", f"{_totalled(job.metrics()):,} of {keys:,} rows")
        time.sleep(0.05)


def _totalled(metrics: JobMetrics) -> int:
    return metrics.functions["totals"].rows_in if "totals" in metrics.functions else 0


def _sizes(cluster: Cluster, keys: int, setup: Setup) -> Sizes:
    with _loaded(cluster, keys, setup.rate, True, None, setup.load_timeout_s) as job:
        full = _checkpoint(job, setup)
        time.sleep(SETTLE_S)
        _checkpoint(job, setup)
        written = []
        for _ in range(INCREMENTS):
            began = time.monotonic()
            time.sleep(1.0)
            written.append(_checkpoint(job, setup).bytes_written / (time.monotonic() - began))
    return Sizes(full.bytes_written, full.took_s, round(statistics.median(written)))


def _checkpoint(job: Job, setup: Setup) -> CompleteCheckpoint:
    return job.checkpoints.complete[job.checkpoint(setup.load_timeout_s)]


def _run(cluster: Cluster, keys: int, paced: bool, durable: bool, setup: Setup) -> Figures:
    rate, every = setup.rate if paced else None, EVERY if durable else None
    with _loaded(cluster, keys, rate, durable, every, setup.load_timeout_s) as job:
        if durable:
            _checkpoint(job, setup)
        time.sleep(SETTLE_S)
        known = set(job.checkpoints.complete)
        before, began = _fresh_metrics(job)
        time.sleep(setup.seconds)
        if durable:
            _wait_for_checkpoint(job, known, setup.load_timeout_s)
        after, ended = _fresh_metrics(job)
        if job.error is not None:
            raise job.error
        if job.checkpoints.failed or job.checkpoints.recoveries:
            # The measurement is then not of the steady state.
            raise ClusterError(
                "the run was disturbed",
                f"{job.checkpoints.recoveries} recoveries, failed checkpoints: {job.checkpoints.failed or 'none'}",
            )
        new = [taken for checkpoint, taken in job.checkpoints.complete.items() if checkpoint not in known]
    return Figures(
        (_totalled(after) - _totalled(before)) / (ended - began),
        after.since(before).latency_ms,
        len(new),
        round(statistics.median(taken.bytes_written for taken in new)) if new else 0,
        statistics.median(taken.took_s for taken in new) if new else 0.0,
    )


def _wait_for_checkpoint(job: Job, known: set[int], timeout_s: float) -> None:
    """Wait for a checkpoint that was complete during the run: on a busy machine one takes longer than the run."""
    deadline = time.monotonic() + timeout_s
    while not job.status.ended and set(job.checkpoints.complete) <= known and time.monotonic() < deadline:
        time.sleep(0.05)


def _fresh_metrics(job: Job) -> tuple[JobMetrics, float]:
    """Returns fresh metrics and their time: workers report a few times a second, which must not distort a rate."""
    first = _totalled(job.metrics())
    while True:
        found = job.metrics()
        if _totalled(found) != first:
            return found, time.monotonic()
        if job.error is not None:
            raise job.error
        time.sleep(0.005)
