"""Checks savepoints: NEXMark queries are stopped midway and resumed with other numbers of workers and partitions.

A trip consists of legs, each with its own cluster. All queries run concurrently on a leg, are stopped with a savepoint
when they have read their share of the events, and resume from it on the next leg. A gate keeps them from
ending before the last leg. The final results are compared with Spark SQL's answer, row by row.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import Answers, Running, SparkAnswers, rows_expected, verify
from stretto.bench.verify import Match
from stretto.errors import StrettoError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.01
LEG_S = 600.0
"""Timeout of a leg; it only ends one that hangs."""


@dataclass(frozen=True)
class Leg:
    """The number of workers, and the partitions per function."""

    workers: int
    parallelism: int


@dataclass(frozen=True)
class Trip:
    """The queries, the legs, the number of events and their rate."""

    queries: tuple[str, ...]
    legs: tuple[Leg, ...]
    events: int = 20_000
    rate: float = 8_000.0
    seed: int = 7

    @property
    def workload(self) -> Workload:
        # Twenty seconds of event time, for any number of events.
        config = NexmarkConfig(seed=self.seed, events=self.events, event_rate=self.events // 20, disorder_s=2.0)
        return Workload(config, rate=self.rate, engine="actors")


@dataclass
class TripReport:
    """The outcome of one query: the rows read on each leg, and whether all final rows equal Spark SQL's."""

    query: str
    rows_read: list[int] = field(default_factory=list)
    match: bool = False
    rows: int = 0
    complaint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "match": self.match,
            "rows": self.rows,
            "rows_read": self.rows_read,
            **({"complaint": self.complaint} if self.complaint else {}),
        }


def legs_of(text: str) -> tuple[Leg, ...]:
    """Parses legs such as '2x1,5x4,1x1': workers x partitions."""
    try:
        legs = tuple(Leg(*map(int, leg.split("x"))) for leg in text.split(","))
    except (TypeError, ValueError) as error:
        raise UserError(f"cannot parse the legs '{text}'", None, "Write them as 2x1,5x4,1x1.") from error
    if min(min(leg.workers, leg.parallelism) for leg in legs) < 1:
        raise UserError(f"a leg has no workers or no partitions: '{text}'", None, "Use 1 or more of each.")
    return legs


def run(spark: SparkSession, trip: Trip, note: Callable[[str], None] = lambda text: None) -> list[TripReport]:
    """Run all queries through all legs, and check their answers."""
    reports = {query: TripReport(query) for query in trip.queries}
    directory = scratch_directory("savepoints")
    gate = Gate(directory / "gate")
    try:
        with SparkAnswers(spark, trip.workload.config) as answers:
            for number, leg in enumerate(trip.legs):
                _let(gate, number, len(trip.legs))
                note(f"leg {number + 1} of {len(trip.legs)}: {leg.workers} workers, {leg.parallelism} partitions")
                with Cluster.on_spark(spark, workers=leg.workers) as cluster:
                    _run_leg(cluster, trip, gate, number, directory, reports, answers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return list(reports.values())


def _let(gate: Gate, number: int, legs: int) -> None:
    """Allow more than the share at which a query is stopped, so that it is stopped while it reads, if it is fast."""
    if number + 1 < legs:
        gate.allow((number + 1) / legs)
    else:
        gate.open()


def _run_leg(
    cluster: Cluster,
    trip: Trip,
    gate: Gate,
    number: int,
    directory: Path,
    reports: dict[str, TripReport],
    answers: Answers,
) -> None:
    workload = replace(trip.workload, parallelism=trip.legs[number].parallelism, gate=gate)
    jobs: dict[str, Job] = {}
    for query, report in reports.items():
        if report.complaint is None:
            with _complaint(report):
                jobs[query] = _start(cluster, workload, query, number, directory)
    if number + 1 < len(trip.legs):
        with ThreadPoolExecutor(max(1, len(jobs))) as pool:
            for query, job in jobs.items():
                pool.submit(_save, job, reports[query], len(trip.legs), number)
    else:
        for query, job in jobs.items():
            _judge(job, reports[query], answers)
    for query, job in jobs.items():
        reports[query].rows_read.append(job.metrics().rows_in)


@contextmanager
def _complaint(report: TripReport) -> Iterator[None]:
    """Record an error as the complaint of its query, and continue with the others."""
    try:
        yield
    except (StrettoError, TimeoutError) as error:
        report.complaint = str(error)


def _start(cluster: Cluster, workload: Workload, query: str, number: int, directory: Path) -> Job:
    start = f"leg-{number}" if number else None
    return cluster.submit(build(query, workload), checkpoint=directory / query, every="500 ms", start=start)


def _save(job: Job, report: TripReport, legs: int, number: int) -> None:
    """Stop a query when it has read its share of the rows."""
    share = (rows_expected(Running(job.name, job)) or 0) / (legs + 1)
    deadline = time.monotonic() + LEG_S
    while job.metrics().rows_in < share and not job.status.ended and time.monotonic() < deadline:
        time.sleep(POLL_S)
    with _complaint(report):
        job.stop(savepoint=f"leg-{number + 1}", timeout=LEG_S)
        if job.error is not None:
            raise job.error


def _judge(job: Job, report: TripReport, answers: Answers) -> None:
    with _complaint(report):
        job.wait(LEG_S)
    if report.complaint is not None:
        return
    results = {sink.name: job.results(sink.name) for sink in job.plan.sinks if sink.sink.collects}
    verdicts = verify(report.query, results, answers)
    report.rows = results["out"].num_rows
    report.match = all(verdict.match is Match.MATCH for verdict in verdicts.values())
    if not report.match:
        report.complaint = "; ".join(verdict.describe() for verdict in verdicts.values())
