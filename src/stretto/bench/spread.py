"""Measures a hot key on one actor, with and without lessees: whether it falls behind, and how soon a lessee starts.

The function waits for some milliseconds per message, like a call to a service, so that the number of cores is not the
limit. Messages are due at fixed times, and latency counts from then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.app import App
from stretto.bench.verify import Match, compare
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.sinks import callback, collect
from stretto.state import MapState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH_US = 1_750_000_000_000_000
WINDOW_US = 100_000
HOT = "hot"
HEAD_START_S = 2.0
"""Time from the submission to the first message, for deployment."""
TIMEOUT_S = 300.0

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("t", TIME), ("key", pa.string()), ("value", pa.int64())])
WINDOWS = pa.schema([("window_start", TIME), ("key", pa.string()), ("greatest", pa.int64())])
RUNS = pa.schema([("process", pa.int64()), ("began_ns", pa.int64()), ("due_ns", pa.int64())])


@dataclass(frozen=True)
class Load:
    """`rate` messages per second, of one row each, each due at its own time."""

    rate: float
    messages: int
    start_ns: int

    def due_ns(self, number: int) -> int:
        return self.start_ns + round(number * 1e9 / self.rate)

    def time_us(self, number: int) -> int:
        return EPOCH_US + round(number * 1e6 / self.rate)

    def rows(self, first: int, last: int) -> pa.RecordBatch:
        numbers = range(first, last)
        columns = [
            pa.array([self.time_us(number) for number in numbers], TIME),
            pa.array([HOT] * len(numbers)),
            pa.array([(number * 7_919) % 10_007 for number in numbers], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class HotSource(Source):
    """The load as a source with one partition and one message per row."""

    schema = SCHEMA
    parallelism = 1

    def __init__(self, load: Load) -> None:
        self.load = load

    def reader(self, partition: int, partitions: int) -> HotReader:
        return HotReader(self.load)

    def describe(self) -> str:
        return f"{self.load.rate:g} messages/s on one key"


class HotReader(SourceReader):
    def __init__(self, load: Load) -> None:
        self._load = load

    def read(self, now_ns: int, max_rows: int) -> Reading:
        load, number = self._load, self.position
        if number == load.messages:
            return Reading(None, now_ns, done=True)
        due_ns = load.due_ns(number)
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        self.position = number + 1
        return Reading(load.rows(number, number + 1), due_ns, next_ns=load.due_ns(number + 1))

    def seek(self, position: int) -> None:
        self.position = position


class SlowMax(Function):
    """The greatest value per key and window; waits for each message. Partial states merge by `max`."""

    def __init__(self, cost_s: float, load: Load) -> None:
        self._cost_s = cost_s
        self._load = load
        self.greatest: Any = MapState(combine=max)
        self.first_runs: Any = MapState(combine=min)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        times = batch.column("t").cast(pa.int64()).to_pylist()
        due_ns = self._load.start_ns + (times[0] - EPOCH_US) * 1_000
        if os.getpid() not in self.first_runs:
            self.first_runs[os.getpid()] = (ctx.now_ns, due_ns)
        time.sleep(self._cost_s)
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        for t, key, value in zip(times, keys, values, strict=True):
            place = (t - t % WINDOW_US, key)
            self.greatest[place] = max(value, self.greatest.get(place, value))

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = sorted(place for place in self.greatest if place[0] + WINDOW_US <= watermark_us)
        if closed:
            columns = [
                pa.array([start for start, _ in closed], TIME),
                pa.array([key for _, key in closed]),
                pa.array([self.greatest[place] for place in closed], pa.int64()),
            ]
            ctx.send(pa.RecordBatch.from_arrays(columns, schema=WINDOWS))
        for place in closed:
            del self.greatest[place]
        if watermark_us == EVENT_TIME_MAX_US:
            runs = [(process, *when) for process, when in sorted(self.first_runs.items())]
            columns = [pa.array(list(column), pa.int64()) for column in zip(*runs, strict=True)]
            ctx.send(pa.RecordBatch.from_arrays(columns, schema=RUNS), "runs")


@dataclass(frozen=True)
class SpreadRun:
    """One run. `growth_ms_per_s` is the growth of latency per second of the stream; a run that falls behind grows.

    `first_lessee_ms` is the time from when the first message on a lessee was due until it ran."""

    lessees: int
    messages: int
    match: bool
    latency_ms: dict[str, float]
    growth_ms_per_s: float
    instances: int
    forwarded: int
    first_lessee_ms: float | None
    barrier_ms: dict[str, float | None]
    series: list[tuple[float, float]] = field(default_factory=list)

    @property
    def keeps_up(self) -> bool:
        return self.growth_ms_per_s < 50.0


@dataclass(frozen=True)
class SpreadReport:
    """The same load on one instance and on several."""

    rate: float
    cost_ms: float
    alone: SpreadRun
    spread: SpreadRun

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        for name in ("alone", "spread"):
            found[name]["keeps_up"] = getattr(self, name).keeps_up
        return found


def measure(
    cluster: Cluster, rate: float, cost_s: float, lessees: int, seconds: float, say: Callable[[str], None]
) -> SpreadReport:
    """Runs both. The run on one instance has a shorter stream, because it takes several times as long as that."""
    if rate * cost_s <= 1:
        raise UserError(
            "one instance keeps up with this load", f"{rate:g} messages/s, {cost_s * 1e3:g} ms each", "Raise the rate."
        )
    say("one instance ...")
    alone = run(cluster, rate, cost_s, 0, seconds / 3)
    say(f"up to {lessees} lessees ...")
    spread = run(cluster, rate, cost_s, lessees, seconds)
    return SpreadReport(rate, cost_s * 1e3, alone, spread)


def run(cluster: Cluster, rate: float, cost_s: float, lessees: int, seconds: float) -> SpreadRun:
    """Run to the end, and check the answer against Spark SQL."""
    load = Load(rate, round(rate * seconds), time.time_ns() + round(HEAD_START_S * 1e9))
    arrivals: list[tuple[int, pa.RecordBatch]] = []
    app = App("spread", engine="actors", parallelism=1)
    stream = app.source("messages", HotSource(load), time="t")
    slow = stream.apply(SlowMax(cost_s, load), WINDOWS, outputs={"runs": RUNS}, name="slow", parallelism=1)
    slow.sink(callback(lambda batch: arrivals.append((time.time_ns(), batch))), name="windows")
    slow.output("runs").sink(collect(), name="runs")
    if lessees:
        app.spread("slow", lessees=lessees)
    job = cluster.submit(app).wait(TIMEOUT_S)
    figures = job.metrics().functions["slow"]
    windows = pa.Table.from_batches([batch for _, batch in arrivals], schema=WINDOWS)
    series = _latencies(load, arrivals)
    latencies = np.array([latency for _, latency in series])
    slope = float(np.polyfit([at for at, _ in series], latencies, 1)[0]) if len(series) > 1 else 0.0
    names, shares = ("p50", "p95", "p99", "max"), (0.5, 0.95, 0.99, 1.0)
    return SpreadRun(
        lessees=lessees,
        messages=load.messages,
        match=compare(windows, right_answer(cluster.spark, load)).match is Match.MATCH,
        latency_ms={name: _digits(np.quantile(latencies, share)) for name, share in zip(names, shares, strict=True)},
        growth_ms_per_s=round(slope, 3),
        instances=figures.instances,
        forwarded=figures.messages_forwarded,
        first_lessee_ms=_first_lessee_ms(job.results("runs")),
        barrier_ms=figures.barrier_ms,
        series=[(round(at, 3), round(latency, 3)) for at, latency in series],
    )


def right_answer(spark: SparkSession, load: Load) -> pa.Table:
    """Returns Spark SQL's windows over the same rows."""
    from pyspark.sql import functions as F

    rows = spark.createDataFrame(pa.Table.from_batches([load.rows(0, load.messages)]).to_pandas())
    windows = rows.groupBy(F.window("t", f"{WINDOW_US} microseconds").start.alias("window_start"), "key")
    found = windows.agg(F.max("value").alias("greatest")).toArrow()
    return found.cast(WINDOWS)


def _latencies(load: Load, arrivals: list[tuple[int, pa.RecordBatch]]) -> list[tuple[float, float]]:
    """Returns for each window its end in seconds of the stream, and its latency in milliseconds."""
    found = []
    for at_ns, batch in arrivals:
        for start_us in batch.column("window_start").cast(pa.int64()).to_pylist():
            end_ns = (start_us + WINDOW_US - EPOCH_US) * 1_000
            found.append((end_ns / 1e9, (at_ns - load.start_ns - end_ns) / 1e6))
    # The last window closes with the end of the stream, not by time.
    return sorted(found)[:-1]


def _first_lessee_ms(runs: pa.Table) -> float | None:
    """Returns how long after its due time the first message on a lessee ran; the first run is the lessor's."""
    began = sorted(zip(*(runs.column(name).to_pylist() for name in ("began_ns", "due_ns")), strict=True))
    return round((began[1][0] - began[1][1]) / 1e6, 3) if len(began) > 1 else None


def _digits(value: Any) -> float:
    return round(float(value), 3)
