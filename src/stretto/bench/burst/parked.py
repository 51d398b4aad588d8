"""What transient workers cost that wait for a burst: throughput of a query with some beside it and without, and how
much of a core one of them takes.

Each run has a cluster of its own, since those that wait beside one cluster would be there for the other too. Runs with
and without alternate, and begin with either in turn; the result is the median of the ratios of the rounds. Beside
throughput there is the processor time of the ordinary workers, which varies less on a busy machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from stretto.api.memory import NullSink
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import build
from stretto.bench.nexmark.workload import Workload
from stretto.bench.processor_time import ProcessorTime
from stretto.protocol.membership import Member
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ("q5", "q7")
WORKERS = 2
POLL_S = 0.02
THROUGHPUT_LEAST, SHARE_MOST = 0.98, 0.005
"""What is allowed: two percent of the throughput, and half a percent of a core."""


@dataclass(frozen=True)
class ParkedSetup:
    """What to measure. Before each job the transient workers are watched for `rest_s` seconds."""

    queries: Sequence[str] = QUERIES
    events: int = 40_000_000
    transient: int = 4
    rounds: int = 5
    rest_s: float = 5.0
    wait_s: float = 1_800.0


@dataclass(frozen=True)
class Run:
    """One run: rows that were read per second, processor seconds of the ordinary workers, and the share of a core that
    the busiest transient worker took, without a job and beside one."""

    rows_per_s: float
    cpu_s: float
    resting_share: float | None = None
    beside_share: float | None = None


@dataclass
class ParkedCost:
    """All runs of a query, in pairs: without transient workers, and with them."""

    query: str
    rounds: list[tuple[Run, Run]] = field(default_factory=list)

    @property
    def throughput_ratio(self) -> float:
        """With transient workers, by without."""
        return statistics.median(parked.rows_per_s / alone.rows_per_s for alone, parked in self.rounds)

    @property
    def cpu_ratio(self) -> float:
        return statistics.median(parked.cpu_s / alone.cpu_s for alone, parked in self.rounds)

    @property
    def share(self) -> float:
        """The share of a core that a transient worker takes, the busiest one in the median round."""
        return statistics.median(max(run.resting_share or 0.0, run.beside_share or 0.0) for _, run in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        return {
            "throughput_ratio": round(self.throughput_ratio, 4),
            "cpu_ratio": round(self.cpu_ratio, 4),
            "parked_cpu_share": round(self.share, 5),
            "within": {
                "throughput": self.throughput_ratio >= THROUGHPUT_LEAST,
                "parked_cpu_share": self.share <= SHARE_MOST,
            },
            "rounds": [{"without": asdict(alone), "with": asdict(parked)} for alone, parked in self.rounds],
        }


def measure(
    spark: SparkSession, setup: ParkedSetup, note: Callable[[str], None] = lambda text: None
) -> dict[str, ParkedCost]:
    """Returns what the transient workers cost each query."""
    found = {}
    for query in setup.queries:
        cost = found[query] = ParkedCost(query)
        for number in range(setup.rounds):
            runs = {}
            for transient in (0, setup.transient) if number % 2 == 0 else (setup.transient, 0):
                run = runs[transient] = _run(spark, setup, query, transient)
                note(f"{query}, round {number + 1}, {transient} transient workers: {run.rows_per_s:,.0f} rows/s")
            cost.rounds.append((runs[0], runs[setup.transient]))
    return found


def _run(spark: SparkSession, setup: ParkedSetup, query: str, transient: int) -> Run:
    workload = Workload(NexmarkConfig(seed=1, events=setup.events), parallelism=WORKERS, sink=NullSink)
    with Cluster.on_spark(spark, WORKERS, transient=transient) as cluster:
        parked = cluster.transient_workers
        resting = ProcessorTime(parked)
        if parked:
            time.sleep(setup.rest_s)  # It is the time that is measured.
        resting_share = resting.share()
        ordinary = ProcessorTime(cluster.workers)
        job = cluster.submit(build(query, workload))
        beside = _beside(cluster, job, parked)
        job.wait(setup.wait_s)
        share = None if beside is None else beside.share()
        return Run(job.metrics().input_rate, ordinary.cpu_s(), resting_share, share)


def _beside(cluster: Cluster, job: Job, parked: Sequence[Member]) -> ProcessorTime | None:
    """Watches the transient workers from when all have loaded the job, which they do once; None if it ends before."""
    while not job.status.ended:
        observed = cluster.observation.jobs.get(job.name)
        if observed is not None and len(observed.warm) == len(parked):
            return ProcessorTime(parked)
        time.sleep(POLL_S)
    return None
