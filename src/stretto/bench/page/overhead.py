"""What the page costs the jobs: throughput of a query with the page open in a browser, and without any page.

Each run has a cluster of its own. Runs with and without alternate, and begin with either in turn; the result is the
median of the ratios of the rounds. The browser shows the job, which is more than the overview. Beside throughput there
is the processor time of the workers: the browser and the server take theirs in other processes, so where all cores are
busy the throughput says what they take, and the processor time what the workers themselves have to do more.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from stretto.api.memory import NullSink
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import build
from stretto.bench.nexmark.workload import Workload
from stretto.bench.page.browser import browser
from stretto.bench.processor_time import ProcessorTime
from stretto.runtime.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ("q5", "q7")
WORKERS = 2
THROUGHPUT_LEAST = 0.98
"""What is allowed: two percent of the throughput."""


@dataclass(frozen=True)
class OverheadSetup:
    """What to measure."""

    queries: Sequence[str] = QUERIES
    events: int = 20_000_000
    rounds: int = 5
    wait_s: float = 1_800.0


@dataclass(frozen=True)
class Run:
    """Rows that were read per second, and processor seconds of the workers."""

    rows_per_s: float
    cpu_s: float


@dataclass
class Overhead:
    """All runs of a query, in pairs: without the page, and with it open."""

    rounds: list[tuple[Run, Run]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        throughput = statistics.median(shown.rows_per_s / alone.rows_per_s for alone, shown in self.rounds)
        cpu = statistics.median(shown.cpu_s / alone.cpu_s for alone, shown in self.rounds)
        return {
            "throughput_ratio": round(throughput, 4),
            "cpu_ratio": round(cpu, 4),
            "within": {"throughput": throughput >= THROUGHPUT_LEAST},
            "rounds": [{"without": asdict(alone), "with": asdict(shown)} for alone, shown in self.rounds],
        }


def measure_overhead(
    spark: SparkSession, setup: OverheadSetup, note: Callable[[str], None] = lambda text: None
) -> dict[str, Overhead]:
    """Returns what the page costs each query."""
    found: dict[str, Overhead] = {}
    for query in setup.queries:
        cost = found[query] = Overhead()
        for number in range(setup.rounds):
            runs = {}
            for shows in (False, True) if number % 2 == 0 else (True, False):
                run = runs[shows] = _run(spark, setup, query, shows)
                said = "with the page open" if shows else "without the page"
                note(f"{query}, round {number + 1}, {said}: {run.rows_per_s:,.0f} rows/s")
            cost.rounds.append((runs[False], runs[True]))
    return found


def _run(spark: SparkSession, setup: OverheadSetup, query: str, shows: bool) -> Run:
    workload = Workload(NexmarkConfig(seed=1, events=setup.events), parallelism=WORKERS, sink=NullSink)
    with (
        Cluster.on_spark(spark, WORKERS, page="127.0.0.1:0" if shows else False) as cluster,
        _open(cluster, query, shows),
    ):
        took = ProcessorTime(cluster.workers)
        job = cluster.submit(build(query, workload))
        job.wait(setup.wait_s)
        return Run(job.metrics().input_rate, took.cpu_s())


@contextmanager
def _open(cluster: Cluster, query: str, shows: bool) -> Iterator[None]:
    """Has the page of the job open in a browser, which waits until the job is there."""
    if not shows:
        yield
        return
    with browser() as opened:
        opened.open(f"{cluster.page.address}#/job/{query}")
        opened.until("stretto.store.overview")
        yield
