"""Measures memory growth: millions of events through a sink that is slower than its sources.

Credits must throttle the sources, so that after a warm-up minute no worker's resident memory grows by more than a few
percent, however far behind the sink is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import psutil
import pyarrow as pa

from stretto.actors.sink import Sink, SinkWriter
from stretto.api.app import App
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.operators.windows import tumbling
from stretto.runtime.cluster import Cluster

WARM_UP_S = 60.0
SAMPLE_EVERY_S = 1.0


class SlowSink(Sink):
    """Takes at most `rows_per_s` rows per second and partition, on the workers."""

    takes_updates = True

    def __init__(self, rows_per_s: float) -> None:
        self.rows_per_s = rows_per_s

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SlowWriter:
        return SlowWriter(self.rows_per_s)

    def describe(self) -> str:
        return f"slow sink ({self.rows_per_s:g} rows/s per partition)"


class SlowWriter(SinkWriter):
    def __init__(self, rows_per_s: float) -> None:
        self._rows_per_s = rows_per_s
        self._free_at = time.monotonic()

    def write(self, batch: pa.RecordBatch) -> None:
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + batch.num_rows / self._rows_per_s
        time.sleep(self._free_at - now)


@dataclass(frozen=True)
class Sample:
    """Megabytes of resident memory by worker, `elapsed_s` after the start."""

    elapsed_s: float
    rss_mb: dict[str, float]


@dataclass(frozen=True)
class MemoryReport:
    """`growth_percent` is, per worker, the growth from the end of the warm-up to the maximum after it."""

    events: int
    elapsed_s: float
    warm_up_s: float
    growth_percent: dict[str, float]
    series: list[Sample]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def slow_app(events: int, seconds: float, partitions: int) -> App:
    """Returns an app with bids into a slow sink, and also a windowed count, so that it has state."""
    app = App("memory", parallelism=partitions)
    source = NexmarkSource(
        "bid", NexmarkConfig(events=events, seed=7), columns=["auction", "bidder", "price", "dateTime"]
    )
    bids = app.source("bids", source, time="dateTime")
    bids.sink(SlowSink(events / seconds / partitions), name="slow")
    counts = bids.key_by("auction").window(tumbling("10 seconds")).aggregate(n="count(*)")
    counts.sink(SlowSink(float("inf")), name="counts")
    return app


def measure(
    cluster: Cluster,
    events: int,
    seconds: float,
    progress: Callable[[float, Sample], None] = lambda share, sample: None,
) -> MemoryReport:
    """Run the slow app to its end and sample the workers' memory."""
    workers = {member.name: psutil.Process(member.pid) for member in cluster.workers}
    job = cluster.submit(slow_app(events, seconds, len(workers)), engine="actors")
    began = time.monotonic()
    series: list[Sample] = []
    while not job.status.ended:
        elapsed_s = time.monotonic() - began
        sample = Sample(elapsed_s, {name: process.memory_info().rss / 1e6 for name, process in workers.items()})
        series.append(sample)
        progress(min(1.0, elapsed_s / seconds), sample)
        try:
            job.wait(SAMPLE_EVERY_S)
        except TimeoutError:
            continue
    job.wait()
    return MemoryReport(events, time.monotonic() - began, WARM_UP_S, growth(series, WARM_UP_S), series)


def growth(series: list[Sample], warm_up_s: float) -> dict[str, float]:
    """Returns by how many percent each worker's memory rose above its value at the end of the warm-up."""
    after = [sample for sample in series if sample.elapsed_s >= warm_up_s]
    if not after:
        return {}
    first = after[0].rss_mb
    return {name: (max(s.rss_mb[name] for s in after) / rss - 1) * 100 for name, rss in first.items()}
