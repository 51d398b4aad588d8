"""Runs deadly functions beside good jobs: those must finish with all rows right, the bad ones must fail by name.

For each kind of deadly function, three NEXMark queries and one bad job run on the same workers, all with checkpoints.
The queries' results are compared with Spark SQL's answers. A bad job must end with an error that names it, within a
bounded number of recoveries; one that does not return must stop when it is asked to, with a warning that names it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api.app import App
from stretto.api.memory import NullSink
from stretto.bench.deadly import Bomb, Deadly
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import SparkAnswers, verify
from stretto.bench.nexmark.source import NexmarkSource
from stretto.bench.verify import Match
from stretto.coordinator.blame import STRIKES_MAX
from stretto.coordinator.records import JobStatus
from stretto.errors import StrettoError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = ("q1", "q5", "q7")
ENDS_WITHIN_S = 180.0
POLL_S = 0.02
RECOVERIES_MAX = STRIKES_MAX + len(QUERIES)
"""A bad job is suspected at the latest when each of the others was; then its deaths are counted."""


@dataclass(frozen=True)
class Neighbours:
    """What to run: the kinds of deadly functions, and the events of the good jobs."""

    kinds: tuple[Deadly, ...] = tuple(Deadly)
    events: int = 24_000
    rate: float = 3_000.0
    every: str = "500 ms"

    @property
    def workload(self) -> Workload:
        config = NexmarkConfig(events=self.events, event_rate=max(1, self.events // 20))
        return Workload(config, rate=self.rate, engine="actors")


@dataclass
class Round:
    """What one deadly function did to its own job and to the others."""

    kind: str
    ended_as: str = ""
    said: str = ""
    """The first line of the bad job's error, or of the warning."""
    named: bool = False
    recoveries: int = 0
    good: dict[str, str] = field(default_factory=dict)
    """How each good job ended: "match", or what is wrong with it."""
    good_recoveries: dict[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0

    @property
    def passed(self) -> bool:
        bounded = max(self.recoveries, *self.good_recoveries.values()) <= RECOVERIES_MAX
        return self.named and bounded and set(self.good.values()) == {Match.MATCH.value}


@dataclass
class NeighboursReport:
    """All rounds, and the bound of recoveries that they must keep to."""

    rounds: list[Round] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return bool(self.rounds) and all(each.passed for each in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "recoveries_max": RECOVERIES_MAX,
            "kinds": {each.kind: {**asdict(each), "passed": each.passed} for each in self.rounds},
        }


def run(
    spark: SparkSession, cluster: Cluster, asked: Neighbours, note: Callable[[str], None] = lambda text: None
) -> NeighboursReport:
    """Run one round for each kind."""
    report = NeighboursReport()
    directory = scratch_directory("chaos")
    try:
        with SparkAnswers(spark, asked.workload.config) as answers:
            for kind in asked.kinds:
                found = _round(cluster, asked, kind, directory / kind.name, answers)
                report.rounds.append(found)
                verdict = "passed" if found.passed else f"FAILED {found.good}"
                note(f"{kind.value}: {found.ended_as} after {found.recoveries} recoveries: {found.said}; {verdict}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return report


def _round(cluster: Cluster, asked: Neighbours, kind: Deadly, directory: Path, answers: SparkAnswers) -> Round:
    directory.mkdir()
    began = time.monotonic()
    found = Round(kind.value)
    good = {
        query: cluster.submit(build(query, asked.workload), checkpoint=directory / query, every=asked.every)
        for query in QUERIES
    }
    bad = cluster.submit(_bad_app(kind, directory / "mark"), checkpoint=directory / "bad", every=asked.every)
    _end_bad(bad, kind, directory / "mark", found)
    for query, job in good.items():
        found.good[query] = _ended_well(job, query, answers)
        found.good_recoveries[query] = job.checkpoints.recoveries
    found.recoveries = bad.checkpoints.recoveries
    found.elapsed_s = round(time.monotonic() - began, 1)
    return found


def _bad_app(kind: Deadly, mark: Path) -> App:
    app = App(f"bad-{kind.name.lower()}", engine="actors", parallelism=1, batch_rows=100)
    source = NexmarkSource("bid", NexmarkConfig(events=None), 1_000.0, ["auction", "price", "dateTime"])
    rows = app.source("bids", source, time="dateTime")
    schema = pa.schema([("auction", pa.int64()), ("price", pa.int64()), ("dateTime", pa.timestamp("us", tz="UTC"))])
    rows.apply(Bomb(kind, mark), schema, name=kind.function).sink(NullSink())
    return app


def _end_bad(job: Job, kind: Deadly, mark: Path, found: Round) -> None:
    """Wait for the end of a bad job; one that does not return is stopped."""
    try:
        if kind is Deadly.SPIN:
            deadline = time.monotonic() + ENDS_WITHIN_S
            while not mark.exists() and time.monotonic() < deadline:
                time.sleep(POLL_S)
            job.stop(timeout=ENDS_WITHIN_S)
            found.said = next((each.fact for each in job.warnings), "")
        else:
            job.wait(ENDS_WITHIN_S)
    except (StrettoError, TimeoutError) as error:
        found.said = str(error).splitlines()[0]
    found.ended_as = job.status.value
    as_expected = job.status is (JobStatus.STOPPED if kind is Deadly.SPIN else JobStatus.FAILED)
    found.named = as_expected and (f"'{kind.function}'" in found.said or f"job '{job.name}'" in found.said)


def _ended_well(job: Job, query: str, answers: SparkAnswers) -> str:
    """Returns "match", or what is wrong with a good job."""
    try:
        job.wait(ENDS_WITHIN_S)
    except (StrettoError, TimeoutError) as error:
        return str(error).splitlines()[0]
    results = {sink.name: job.results(sink.name) for sink in job.plan.sinks if sink.sink.collects}
    verdicts = verify(query, results, answers).values()
    wrong = [verdict.describe() for verdict in verdicts if verdict.match is not Match.MATCH]
    return "; ".join(wrong) or Match.MATCH.value
