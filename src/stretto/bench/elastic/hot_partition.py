"""One hot partition on Spark (elasticutor.txt 5.2 and 5.4): how it scales, and what happens when hot keys shift.

*Scaling*: the shards of one calculator are spread evenly over 1, 2, 4, 8 workers, and rows come as fast as they are
taken. *Shift*: hot keys change every few seconds, at a rate that one worker cannot take and all of them together can;
static, where the calculator stays on its home, against resource-centric, where it is repartitioned while it runs, and
elastic, where controllers move shards.

A row costs the same whoever runs it, so the cost is per row: a batch that is divided over eight workers costs each of
them an eighth.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from stretto import sinks
from stretto.actors.shards import SHARDS
from stretto.actors.sink import Sink
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.bench.elastic.arrivals import Arrivals
from stretto.bench.elastic.costs import Cost, Spending
from stretto.bench.elastic.exchange import Exchange
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.orders import Orders
from stretto.bench.elastic.repartitioning import Repartitioner
from stretto.bench.elastic.tuples import Tuples
from stretto.bench.gates import Gate
from stretto.bench.verify import Match, Verdict
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.metrics import JobMetrics
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = (1, 2, 4, 8)
APPROACHES = ("static", "resource_centric", "elastic")
"""The second one repartitions the running function (`repartitioning.py`)."""
SETTLES = 0.5
"""Rates and latency are those of the rest of the run, after this share of its time."""
POLL_S = 0.02


class Workload(Protocol):
    """The micro-benchmark, or the stock exchange."""

    def app(self, sink: Callable[[], Sink] = CollectSink, name: str = "") -> App: ...

    def check(self, results: Mapping[str, pa.Table]) -> dict[str, Verdict]: ...


@dataclass(frozen=True)
class HotPartition:
    """What to measure. One worker can take `1e6 / row_us` rows per second. `load` is the rate of the shift, as a share
    of what all workers can take; hot keys change every `shift_s`."""

    workers: int = 8
    row_us: float = 250.0
    batch: int = 128
    compute: bool = False
    seconds: float = 20.0
    scaling_s: float = 4.0
    load: float = 0.6
    shift_s: float = 5.0
    exchange: bool = False

    @property
    def cost(self) -> Cost:
        return Cost(row_us=self.row_us, spending=Spending.COMPUTE if self.compute else Spending.WAIT)

    @property
    def rate_of_one(self) -> float:
        return 1e6 / self.row_us

    def scaled(self, workers: int) -> Microbenchmark:
        """Returns the workload that so many workers run at full speed, with keys of equal frequency."""
        events = round(self.rate_of_one * workers * self.scaling_s)
        tuples = Tuples(events=events, skew=0.0, shuffles_per_minute=0.0, payload_bytes=32)
        return Microbenchmark(tuples, self.cost, batch=self.batch)

    def shifting(self) -> Microbenchmark | Exchange:
        """Returns the workload whose hot keys shift."""
        rate = self.rate_of_one * self.workers * self.load
        events = round(rate * self.seconds)
        if self.exchange:
            orders = Orders(events=events, rate=rate, stocks=1_000, period_s=self.shift_s)
            return Exchange(orders, cost=self.cost, paced=True, batch=self.batch)
        tuples = Tuples(
            events=events,
            rate=rate,
            key_count=2_000,
            skew=0.8,
            shuffles_per_minute=60 / self.shift_s,
            payload_bytes=32,
        )
        return Microbenchmark(tuples, self.cost, paced=True, batch=self.batch)


@dataclass
class HotReport:
    """`throughput` and `p99_ms` are those of the shift, by approach; `scaling` has rows per second by workers."""

    scaling: dict[int, float] = field(default_factory=dict)
    throughput: dict[str, float | None] = field(default_factory=dict)
    p99_ms: dict[str, float | None] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    shards_moved: int = 0
    repartitioned: int = 0
    rate: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "throughput": self.throughput,
            "p99_ms": self.p99_ms,
            "scaling": {str(workers): rows_per_s for workers, rows_per_s in self.scaling.items()},
            "match": not self.wrong,
            "rate": round(self.rate, 1),
            "shards_moved": self.shards_moved,
            "repartitioned": self.repartitioned,
            **({"wrong": self.wrong} if self.wrong else {}),
        }


def measure(spark: SparkSession, asked: HotPartition, note: Callable[[str], None] = lambda text: None) -> HotReport:
    """Measures the scaling, and the shift by each approach."""
    report = HotReport(throughput=dict.fromkeys(APPROACHES), p99_ms=dict.fromkeys(APPROACHES))
    with Cluster.on_spark(spark, asked.workers, elasticity="off") as cluster:
        measure_scaling(cluster, asked, report, note, [count for count in WORKERS if count <= asked.workers])
        for approach in ("static", "resource_centric"):
            measure_shift(cluster, asked, approach, report)
            note(_shown(approach, report))
    with Cluster.on_spark(spark, asked.workers, elasticity="auto") as cluster:
        measure_shift(cluster, asked, "elastic", report)
        note(_shown("elastic", report))
    return report


def _shown(approach: str, report: HotReport) -> str:
    return f"{approach}: {report.throughput[approach]} rows/s, p99 {report.p99_ms[approach]} ms"


def measure_scaling(
    cluster: Cluster, asked: HotPartition, report: HotReport, note: Callable[[str], None], counts: Sequence[int]
) -> None:
    """Measures the rate with shards spread over these numbers of workers. The cluster's controllers must be off."""
    if len(cluster.workers) < max(counts):
        raise UserError(f"{max(counts)} workers are needed", f"there are {len(cluster.workers)}")
    for count in counts:
        found = _scaled(cluster, asked.scaled(count), count, report)
        report.scaling[count] = round(found, 1)
        note(f"{count} workers: {found:,.0f} rows/s")


def _scaled(cluster: Cluster, workload: Microbenchmark, count: int, report: HotReport) -> float:
    """Returns the rate with all shards spread over so many workers, the home among them."""
    directory = scratch_directory("elastic")
    gate, arrivals = Gate(directory / "gate"), Arrivals()
    try:
        app = replace(workload, gate=gate).app(lambda: sinks.callback(arrivals.take), f"scaling-{count}")
        job = cluster.submit(app.elastic("calculator", workers_max=max(2, count)))
        if count > 1:
            _spread(cluster, job, count)
        gate.open()
        job.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _check(f"{count} workers", workload, {"results": arrivals.table()}, report)
    return arrivals.rows_per_s


def _spread(cluster: Cluster, job: Job, count: int) -> None:
    """Spreads the shards evenly over the home and further workers."""
    _wait_until(job, lambda: job.status.value == "running")
    home = cluster.observation.jobs[job.name].placement["calculator"][0]
    members = [home, *(member.name for member in cluster.workers if member.name != home)][:count]
    targets = {shard: members[shard % count] for shard in range(SHARDS) if shard % count}
    job.move_shards("calculator", targets)


def measure_shift(cluster: Cluster, asked: HotPartition, approach: str, report: HotReport) -> None:
    """Runs the workload whose hot keys shift to its end, by one of the approaches."""
    workload = asked.shifting()
    app = workload.app(name=f"shift-{approach}")
    job = cluster.submit(app.elastic(workers_max=asked.workers) if approach == "elastic" else app)
    if approach == "resource_centric":
        with Repartitioner(cluster, job, asked.workers) as repartitioner:
            _measure_run(job, asked, approach, report)
        report.repartitioned = repartitioner.done
    else:
        _measure_run(job, asked, approach, report)
    if approach == "elastic":
        report.shards_moved = round(sum((record.spent or {}).get("shards", 0.0) for record in job.decisions()))
    _check(approach, workload, {sink.name: job.results(sink.name) for sink in job.plan.sinks}, report)


def _measure_run(job: Job, asked: HotPartition, approach: str, report: HotReport) -> None:
    """Lets a job run to its end, and takes the figures of the later part of it."""
    settled = _metrics_at(job, asked.seconds * SETTLES)
    end = _metrics_at(job, asked.seconds)
    # On a slow machine all rows may have been read before the first look: then the whole run is what was measured.
    found = end.since(settled) if end.rows_in > settled.rows_in else end
    report.rate = asked.rate_of_one * asked.workers * asked.load
    report.throughput[approach] = round(found.input_rate, 1)
    latency = found.latency_ms.get("p99")
    report.p99_ms[approach] = None if latency is None else round(latency, 1)
    job.wait()


def _metrics_at(job: Job, elapsed_s: float) -> JobMetrics:
    """Returns the figures of a job after so many seconds, or at its end."""
    _wait_until(job, lambda: job.status.ended or job.metrics().elapsed_s >= elapsed_s)
    return job.metrics()


def _check(run: str, workload: Workload, results: Mapping[str, pa.Table], report: HotReport) -> None:
    for name, verdict in workload.check(results).items():
        if verdict.match is not Match.MATCH:
            report.wrong.append(f"{run}: sink '{name}': {verdict.describe()}")


def _wait_until(job: Job, condition: Callable[[], bool]) -> None:
    """Waits for a condition; raises the job's error if it fails before."""
    while not condition():
        if job.error is not None:
            raise job.error
        time.sleep(POLL_S)
