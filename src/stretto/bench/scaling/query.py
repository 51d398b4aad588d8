"""Scales a running NEXMark query from 2 to 4 to 1 workers at full input, and compares every row with Spark SQL's.

Two workers are added, and at once the query's keyed functions get a partition for each worker; a function whose state
combines has lessees there instead. Then three workers are drained. The sources read as fast as events are taken all
the time. The query has no checkpoints: its rows are at the driver as soon as they are made, and nothing but its own
handovers keeps them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.shape import shapes_of
from stretto.api.app import App
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, CollectWriter
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import SparkAnswers, verify
from stretto.bench.scaling.output import Change, Figures, figures
from stretto.bench.scaling.taps import Flowing, Tap
from stretto.bench.verify import Match
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory
from stretto.scheduling.spreading import ForwardAll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, MOST, LAST = 2, 4, 1
"""The numbers of workers."""
POLL_S = 0.01
RESULTS_FIRST = 20
"""So many results come before the first stretch begins: then all functions run, and their windows close."""
WAIT_S = 300.0
"""Ends a run that hangs."""


@dataclass(frozen=True)
class Scaled:
    """What to run. Events follow each other slowly in event time, so that windows close, and results come, all the
    time. `stretch_s` is the time before, between and after the changes; `rate` is in events per second, None for as
    fast as they are taken."""

    query: str
    stretch_s: float = 3.0
    batch: int = 250
    event_rate: int = 200
    rate: float | None = None
    seed: int = 7

    @property
    def config(self) -> NexmarkConfig:
        return NexmarkConfig(seed=self.seed, event_rate=self.event_rate)


class NotedSink(CollectSink):
    """Collects rows and notes when they came."""

    def __init__(self) -> None:
        self.results_s: list[float] = []

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> CollectWriter:
        return NotedWriter(schema, self.results_s)


class NotedWriter(CollectWriter):
    def __init__(self, schema: pa.Schema, results_s: list[float]) -> None:
        super().__init__(schema)
        self._results_s = results_s

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._results_s.append(time.monotonic())
        super().write(batch)


@dataclass
class ScaledReport:
    """`out` and `into` are what the two changes did to the output. `paused_ms` is the time from the beginning of the
    barrier to the start of the new partitions; None if the query has no function with keys."""

    query: str
    match: bool = False
    rows: int = 0
    events: int = 0
    events_per_s: float = 0.0
    out: Figures | None = None
    into: Figures | None = None
    paused_ms: float | None = None
    complaint: str | None = None
    spark: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        changes = {"out": self.out, "in": self.into}
        found = {name: each for name, each in changes.items() if each is not None}
        return {
            "query": self.query,
            "match": self.match,
            "gap_ms": {name: round(each.gap_ms, 1) for name, each in found.items()},
            "dip": round(max((each.dip for each in found.values()), default=0.0), 3),
            "converged_s": {
                name: None if each.converged_s is None else round(each.converged_s, 2) for name, each in found.items()
            },
            "spark": self.spark,
            "normal_ms": {name: round(each.normal_ms, 2) for name, each in found.items()},
            "dips": {name: round(each.dip, 3) for name, each in found.items()},
            "paused_ms": None if self.paused_ms is None else round(self.paused_ms, 1),
            "workers": [FIRST, MOST, LAST],
            "rows": self.rows,
            "events": self.events,
            "events_per_s": round(self.events_per_s),
            **({"complaint": self.complaint} if self.complaint else {}),
        }


def run(spark: SparkSession, asked: Scaled, note: Callable[[str], None] = lambda text: None) -> ScaledReport:
    """Runs and scales the query, and checks its answer."""
    report = ScaledReport(asked.query)
    directory = scratch_directory("scaling")
    try:
        tap, sink = Tap(directory / "tap"), NotedSink()
        with Cluster.on_spark(spark, workers=FIRST, elasticity="off") as cluster:
            app, keyed = _app(asked, tap, sink)
            job = cluster.submit(app)
            with Flowing(tap) as flowing:
                scaler = _Scaler(cluster, job, keyed, asked, sink, note)
                changes = scaler.scale()
            note(f"the stream ends after {tap.allowed:,} events")
            job.wait(WAIT_S)
            results = job.results("out")
            note(f"all {results.num_rows:,} results are here; they are compared with Spark SQL's")
        report.out, report.into = (figures(sink.results_s, flowing.samples, change) for change in changes)
        report.paused_ms = scaler.paused_ms
        report.rows, report.events = results.num_rows, tap.allowed
        first, last = flowing.samples[0], flowing.samples[-1]
        report.events_per_s = (last[1] - first[1]) / (last[0] - first[0])
        with SparkAnswers(spark, replace(asked.config, events=tap.allowed)) as answers:
            verdicts = verify(asked.query, {"out": results}, answers)
        report.match = all(verdict.match is Match.MATCH for verdict in verdicts.values())
        report.complaint = None if report.match else "; ".join(each.describe() for each in verdicts.values())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return report


def _app(asked: Scaled, tap: Tap, sink: NotedSink) -> tuple[App, list[str]]:
    """Returns the query with a partition per worker, and its functions with keys. If there are none, functions have
    lessees on all workers, if they can."""
    workload = Workload(
        asked.config, rate=asked.rate, parallelism=FIRST, batch=asked.batch, sink=lambda: sink, gate=tap
    )
    app = build(asked.query, workload)
    shapes = shapes_of(lowered(app.plan(), asked.query, FIRST, asked.batch))
    keyed = sorted(name for name, shape in shapes.items() if shape.partitioned_by and not shape.is_sink)
    return (app, keyed) if keyed else (app.spread(lessees=MOST - 1, strategy=ForwardAll()), keyed)


class _Scaler:
    """Changes the number of workers of one running job, with stretches in between."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        keyed: list[str],
        asked: Scaled,
        sink: NotedSink,
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._keyed = keyed
        self._asked = asked
        self._sink = sink
        self._note = note
        self.paused_ms: float | None = None

    def scale(self) -> list[Change]:
        """Carries out both changes, and returns when each was."""
        self._wait_until(lambda: len(self._sink.results_s) >= RESULTS_FIRST)
        changes = []
        for name, act in ((f"{FIRST} to {MOST}", self._out), (f"{MOST} to {LAST}", self._in)):
            steady_s = self._stretch()
            asked_s = time.monotonic()
            act()
            done_s = time.monotonic()
            self._note(f"{name} workers in {done_s - asked_s:.1f} s")
            changes.append((steady_s, asked_s, done_s))
        self._stretch()
        ends_s = [changes[1][1], time.monotonic()]
        return [Change(*times, until_s) for times, until_s in zip(changes, ends_s, strict=True)]

    def _stretch(self) -> float:
        """Lets the job run for a stretch in which results come, and returns when it began."""
        began_s, known = time.monotonic(), len(self._sink.results_s)
        end_s = began_s + self._asked.stretch_s
        self._wait_until(lambda: time.monotonic() >= end_s and len(self._sink.results_s) >= known + RESULTS_FIRST)
        return began_s

    def _out(self) -> None:
        self._cluster.scale_out(MOST - FIRST, timeout=WAIT_S)
        if self._keyed:
            record = self._job.rescale(dict.fromkeys(self._keyed, MOST), timeout=WAIT_S)
            self.paused_ms = (record.spent or {}).get("paused_ms")

    def _in(self) -> None:
        self._cluster.scale_in(MOST - LAST, timeout=WAIT_S)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            if self._job.error is not None:
                raise self._job.error
            if time.monotonic() >= deadline_s:
                raise UserError(f"{self._asked.query} has no results", f"for {WAIT_S:g} s; it is {self._job.progress}")
            time.sleep(POLL_S)
