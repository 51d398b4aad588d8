"""Two latency-sensitive jobs and growing bulk load on the same workers, FIFO against LLF (thesis 5.6.2, figure 5.8).

Each policy has its own cluster on one Spark, and the two alternate, so that other load on the machine affects both. The
objective of the sensitive jobs is set as in the thesis: twice the p95 latency of the same job when enough copies of it
run alone to keep the workers about half busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.api.slo import SLO
from stretto.bench.tenant_jobs import (
    EPOCH_US,
    WINDOWS,
    Phase,
    Stream,
    Tenant,
    counted_ns,
    counted_rows,
    rounds_for,
)
from stretto.bench.verify import Match, compare
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.sinks import callback, collect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICIES = ("fifo", "llf")
SENSITIVE_JOBS = 2
SENSITIVE_WINDOW_US = 200_000
SENSITIVE_ROWS = 1_000
"""A source sends one batch per window, as in the thesis. Its windows are 1 s; shorter ones produce more results."""
BULK_WINDOW_US = 10_000_000
BULK_ROWS = 2_000
WARM_UP_S = 2.0
"""Warm-up before latencies and rows count: first runs are slower, and queues must fill."""
HALF_BUSY = 0.5
COPIES_MAX = 40
OVERLOAD = 1.0
"""From this load on, bulk sources are unpaced: they always have more input than the workers can process."""
TIMEOUT_S = 300.0
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Setup:
    """What runs. A load is the input rate of the bulk jobs relative to their capacity alone."""

    workers: int = 1
    seconds: float = 20.0
    repeats: int = 2
    bulk_jobs: int = 8
    bulk_ms: float = 2.0
    sensitive_ms: float = 2.0
    loads: tuple[float, ...] = (0.25, 0.5, 0.75, 2.0)


@dataclass(frozen=True)
class Objective:
    """How the objective was found: copies of the sensitive job, utilisation of the workers, p95."""

    latency_ms: float
    copies: int
    utilisation: float
    p95_ms: float


@dataclass
class TenantsRun:
    """One load under one policy, over all repeats. Latency is per window result."""

    load: float
    policy: str
    latencies_ms: list[float] = field(default_factory=list)
    bulk_rows_per_s: list[float] = field(default_factory=list)
    bulk_time_share: list[float] = field(default_factory=list)
    """The share of the workers' time spent in the bulk jobs' computation: a measure of throughput that does not depend
    on the machine's varying speed."""
    right: bool = True

    def percentile(self, percent: float) -> float:
        return round(float(np.percentile(self.latencies_ms, percent)), 3)

    def satisfied(self, objective_ms: float) -> float:
        """Returns the share of results within the objective."""
        return round(float(np.mean(np.array(self.latencies_ms) <= objective_ms)), 4)

    def as_dict(self, objective_ms: float) -> dict[str, Any]:
        return {
            "load": self.load,
            "policy": self.policy,
            "results": len(self.latencies_ms),
            "latency_ms": {f"p{p}": self.percentile(p) for p in PERCENTILES} | {"max": self.percentile(100)},
            "slo_satisfied": self.satisfied(objective_ms),
            "bulk_rows_per_s": round(float(np.mean(self.bulk_rows_per_s))),
            "bulk_rows_per_s_by_repeat": [round(rate) for rate in self.bulk_rows_per_s],
            "bulk_time_share": round(float(np.mean(self.bulk_time_share)), 3),
            "answers_right": self.right,
        }


@dataclass(frozen=True)
class Comparison:
    """The two policies at one load."""

    fifo: TenantsRun
    llf: TenantsRun

    def ratios(self) -> dict[str, float]:
        """Returns FIFO's latency divided by LLF's, by percentile, and LLF's bulk throughput divided by FIFO's."""
        found = {f"p{p}": round(self.fifo.percentile(p) / self.llf.percentile(p), 2) for p in PERCENTILES}
        found["bulk"] = round(float(np.mean(self.llf.bulk_rows_per_s) / np.mean(self.fifo.bulk_rows_per_s)), 4)
        return found


@dataclass(frozen=True)
class TenantsReport:
    """All loads, from light to overload. `capacity_rows_per_s` is the throughput of the bulk jobs alone."""

    setup: Setup
    objective: Objective
    capacity_rows_per_s: float
    comparisons: list[Comparison]

    def as_dict(self) -> dict[str, Any]:
        objective_ms = self.objective.latency_ms
        loads = [
            {
                "load": one.fifo.load,
                "fifo": one.fifo.as_dict(objective_ms),
                "llf": one.llf.as_dict(objective_ms),
                "fifo_by_llf": one.ratios(),
            }
            for one in self.comparisons
        ]
        return {
            "setup": asdict(self.setup),
            "objective": asdict(self.objective),
            "capacity_rows_per_s": round(self.capacity_rows_per_s),
            "loads": loads,
        }


def measure(clusters: dict[str, Cluster], setup: Setup, say: Callable[[str], None]) -> TenantsReport:
    """Measures the objective and the capacity, then for each load FIFO and LLF alternately, `setup.repeats` times."""
    bench = TenantsBench(setup)
    objective = bench.find_objective(clusters["llf"], say)
    capacity = bench.find_capacity(clusters["fifo"], say)
    comparisons = []
    for load in setup.loads:
        runs = {policy: TenantsRun(load, policy) for policy in POLICIES}
        for repeat in range(setup.repeats):
            for policy in POLICIES:
                say(f"load {load:g}, {policy}, {repeat + 1} of {setup.repeats} ...")
                bench.run(clusters[policy], runs[policy], objective.latency_ms)
        comparisons.append(Comparison(runs["fifo"], runs["llf"]))
    return TenantsReport(setup, objective, capacity, comparisons)


class TenantsBench:
    """Makes the jobs of a setup and runs them. Calibrates the computation once, so that all runs do the same work."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._sensitive_rounds = rounds_for(setup.sensitive_ms)
        self._bulk_rounds = rounds_for(setup.bulk_ms)
        self._capacity_rows_per_s = 0.0
        self._answers: dict[int, pa.Table] = {}

    def find_objective(self, cluster: Cluster, say: Callable[[str], None]) -> Objective:
        """Returns twice the p95 latency of the sensitive job when copies of it keep the workers about half busy."""
        say("measuring the utilisation by one sensitive job ...")
        _, alone = self._sensitive_only(cluster, SENSITIVE_JOBS)
        copies = round(HALF_BUSY / (alone / SENSITIVE_JOBS)) if alone else COPIES_MAX
        copies = min(COPIES_MAX, max(SENSITIVE_JOBS, copies))
        say(f"measuring the objective with {copies} copies of it ...")
        latencies, utilisation = self._sensitive_only(cluster, copies)
        p95 = float(np.percentile(latencies, 95))
        return Objective(round(2 * p95, 3), copies, round(utilisation, 3), round(p95, 3))

    def find_capacity(self, cluster: Cluster, say: Callable[[str], None]) -> float:
        """Returns the rows per second of the bulk jobs alone."""
        say("measuring the capacity of the bulk jobs alone ...")
        outcome = _run(cluster, [], list(self._bulk(OVERLOAD, begin_ns_of(self._setup.bulk_jobs))))
        self._capacity_rows_per_s = self._rows_per_s(outcome)
        return self._capacity_rows_per_s

    def _rows_per_s(self, outcome: _Outcome) -> float:
        return outcome.bulk_rows / (self._setup.seconds - WARM_UP_S)

    def _sensitive_only(self, cluster: Cluster, copies: int) -> tuple[list[float], float]:
        begin_ns = begin_ns_of(copies)
        tenants = list(self._sensitive(copies, begin_ns, None))
        outcome = _run(cluster, tenants, [])
        return outcome.latencies_ms, outcome.utilisation(self._setup)

    def run(self, cluster: Cluster, into: TenantsRun, objective_ms: float) -> None:
        """Run one repeat of a load, and add its results to `into`."""
        setup = self._setup
        begin_ns = begin_ns_of(SENSITIVE_JOBS + setup.bulk_jobs)
        sensitive = list(self._sensitive(SENSITIVE_JOBS, begin_ns, SLO(latency_ms=objective_ms)))
        bulk = list(self._bulk(into.load, begin_ns))
        outcome = _run(cluster, sensitive, bulk)
        into.latencies_ms += outcome.latencies_ms
        into.bulk_rows_per_s.append(self._rows_per_s(outcome))
        into.bulk_time_share.append(outcome.bulk_ns / 1e9 / setup.workers / (setup.seconds - WARM_UP_S))
        right = self._right_answer(cluster.spark, sensitive[0].stream)
        found = [compare(table, right).match is Match.MATCH for table in outcome.answers]
        into.right = into.right and all(found) and outcome.bulk_complete

    def _sensitive(self, count: int, begin_ns: int, slo: SLO | None) -> Iterator[Tenant]:
        """Yields the sensitive jobs. Their batches are due at different times, spread over the gap between two."""
        for number in range(count):
            start_ns = begin_ns + number * SENSITIVE_WINDOW_US * 1_000 // count
            stream = Stream(SENSITIVE_ROWS, SENSITIVE_WINDOW_US, start_ns, self._end_ns(start_ns), self._setup.workers)
            yield self._tenant(f"sensitive-{number}", stream, self._sensitive_rounds, SENSITIVE_WINDOW_US, slo)

    def _bulk(self, load: float, begin_ns: int) -> Iterator[Tenant]:
        setup = self._setup
        paced = load < OVERLOAD
        batches_per_s = load * self._capacity_rows_per_s / BULK_ROWS if paced else 1e3 * setup.workers / setup.bulk_ms
        gap_us = round(1e6 * setup.bulk_jobs * setup.workers / batches_per_s)
        for number in range(setup.bulk_jobs):
            start_ns = begin_ns + number * gap_us * 1_000 // setup.bulk_jobs
            stream = Stream(BULK_ROWS, gap_us, start_ns, self._end_ns(begin_ns), setup.workers, paced)
            yield self._tenant(f"bulk-{number}", stream, self._bulk_rounds, BULK_WINDOW_US, None)

    def _tenant(self, name: str, stream: Stream, rounds: int, window_us: int, slo: SLO | None) -> Tenant:
        measured = Phase("measured", stream.start_ns + round(WARM_UP_S * 1e9), stream.end_ns)
        return Tenant(name, stream, rounds, window_us, (measured,), slo)

    def _end_ns(self, start_ns: int) -> int:
        return start_ns + round(self._setup.seconds * 1e9)

    def _right_answer(self, spark: SparkSession, stream: Stream) -> pa.Table:
        """Returns Spark SQL's windows; all sensitive jobs have the same rows."""
        if stream.batches not in self._answers:
            self._answers[stream.batches] = right_answer(spark, stream)
        return self._answers[stream.batches]


@dataclass
class _Outcome:
    """The results of a run: latencies and answers of the sensitive jobs, rows of the bulk jobs, time of all jobs."""

    latencies_ms: list[float]
    answers: list[pa.Table]
    bulk_rows: int
    bulk_ns: int
    bulk_complete: bool
    busy_s: float

    def utilisation(self, setup: Setup) -> float:
        return self.busy_s / (setup.workers * setup.seconds)


def _run(cluster: Cluster, sensitive: Sequence[Tenant], bulk: Sequence[Tenant]) -> _Outcome:
    arrivals: list[list[tuple[int, pa.RecordBatch]]] = [[] for _ in sensitive]
    jobs = [cluster.submit(tenant.app(collect)) for tenant in bulk]
    watched = [
        cluster.submit(tenant.app(partial(_into, kept))) for tenant, kept in zip(sensitive, arrivals, strict=True)
    ]
    for job in (*jobs, *watched):
        job.wait(TIMEOUT_S)
    latencies = [
        latency
        for tenant, kept in zip(sensitive, arrivals, strict=True)
        for latency in window_latencies_ms(tenant, kept)
    ]
    return _Outcome(
        latencies_ms=latencies,
        answers=[pa.Table.from_batches([batch for _, batch in kept], schema=WINDOWS) for kept in arrivals],
        bulk_rows=sum(counted_rows(job, tenant.phases[0]) for job, tenant in zip(jobs, bulk, strict=True)),
        bulk_ns=sum(sum(counted_ns(job, tenant.phases[0]).values()) for job, tenant in zip(jobs, bulk, strict=True)),
        bulk_complete=all(_counted(job) == job.metrics().rows_in for job in jobs),
        busy_s=sum(busy_s(job) for job in (*jobs, *watched)),
    )


def _into(kept: list[tuple[int, pa.RecordBatch]]) -> Sink:
    """Returns a sink that keeps each batch with its arrival time."""
    return callback(lambda batch: kept.append((time.time_ns(), batch)))


def begin_ns_of(jobs: int) -> int:
    """Returns when streams begin: deploying `jobs` jobs takes some time."""
    return time.time_ns() + round((2.0 + 0.15 * jobs) * 1e9)


def _counted(job: Job) -> int:
    """Returns the number of rows counted in the windows of a job."""
    return sum(job.results("answers").column("rows").to_pylist())


def busy_s(job: Job) -> float:
    """Returns the workers' time used by a job, without its sink, which is in the driver."""
    metrics = job.metrics()
    shares = (f.busy_share * f.instances for name, f in metrics.functions.items() if name != "answers")
    return sum(shares) * metrics.elapsed_s


def window_latencies_ms(tenant: Tenant, arrivals: list[tuple[int, pa.RecordBatch]]) -> list[float]:
    """Returns the latency of each window that closed by time after the warm-up: from its due end to its last row."""
    stream = tenant.stream
    last_ns: dict[int, int] = {}
    for at_ns, batch in arrivals:
        for start_us in batch.column("window_start").cast(pa.int64()).unique().to_pylist():
            last_ns[start_us] = max(at_ns, last_ns.get(start_us, 0))
    found = []
    for start_us, at_ns in sorted(last_ns.items()):
        end_us = start_us + tenant.window_us - EPOCH_US
        due_ns = stream.start_ns + end_us * 1_000
        if end_us <= stream.batches * stream.gap_us and due_ns >= tenant.phases[0].begin_ns:
            found.append((at_ns - due_ns) / 1e6)
    return found


def right_answer(spark: SparkSession, stream: Stream) -> pa.Table:
    """Returns Spark SQL's sums over the same rows."""
    from pyspark.sql import functions as F

    batches = [stream.batch(n, partition) for n in range(stream.batches) for partition in range(stream.partitions)]
    rows = spark.createDataFrame(pa.Table.from_batches(batches).to_pandas())
    window = F.window("t", f"{SENSITIVE_WINDOW_US} microseconds").start.alias("window_start")
    sums = rows.groupBy(window, "key").agg(F.sum("value").alias("total"), F.count("*").alias("rows"))
    return sums.toArrow().select(WINDOWS.names).cast(WINDOWS)
