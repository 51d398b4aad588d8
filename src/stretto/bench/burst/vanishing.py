"""Kills transient workers while the batches of a query run there: no row may be lost, repeated or wrong.

The query has no checkpoints: what vanishes runs at home. A gate lets events through for one kill after the other, and a
worker is killed as soon as results have come back from the transient workers since.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stretto.bench.burst.queries import build, query_of
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.run import OUT, SparkAnswers
from stretto.bench.nexmark.workload import Workload
from stretto.bench.scaling.blows import wait_until
from stretto.bench.verify import Match, compare
from stretto.protocol.membership import Member, MemberRole
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 300.0
"""Ends a run that hangs."""
SHARE = 0.9


@dataclass(frozen=True)
class Vanishing:
    """What to run: so many rows of a query wait for each kill, in batches of `batch` events."""

    query: str
    kills: int = 20
    transient: int = 3
    workers: int = 2
    row_us: float = 2_000.0
    rows_per_kill: int = 400
    batch: int = 16
    seed: int = 1

    @property
    def config(self) -> NexmarkConfig:
        events = round(self.rows_per_kill * (self.kills + 1) / query_of(self.query).rows_per_event)
        return NexmarkConfig(seed=self.seed, events=events, event_rate=max(1, events // 60), in_flight_auctions=100)


@dataclass
class VanishingReport:
    query: str
    match: bool = False
    kills: int = 0
    rows: int = 0
    rows_away: int = 0
    complaint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("query", "match", "kills", "rows", "rows_away")}
        return {**found, **({"complaint": self.complaint} if self.complaint else {})}


def run(spark: SparkSession, asked: Vanishing, note: Callable[[str], None] = lambda text: None) -> VanishingReport:
    """Runs the query, kills transient workers, and compares its answer with Spark SQL's."""
    report = VanishingReport(asked.query)
    directory = scratch_directory("vanishing")
    try:
        with SparkAnswers(spark, asked.config) as answers:
            expected = answers.answer(asked.query)
        gate = Gate(directory / "gate")
        workload = Workload(asked.config, parallelism=asked.workers, batch=asked.batch, block=asked.batch)
        app = build(asked.query, replace(workload, gate=gate), asked.row_us)
        with Cluster.on_spark(spark, asked.workers, transient=asked.transient, elasticity="off") as cluster:
            job = cluster.submit(app)
            _Killing(cluster, job, gate, asked, report, note).kill_all()
            gate.open()
            job.wait(WAIT_S)
            results = job.results(OUT)
        verdict = compare(results, expected)
        report.match, report.rows = verdict.match is Match.MATCH, results.num_rows
        report.complaint = None if report.match else verdict.describe()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return report


@dataclass
class _Killing:
    """The kills of one run."""

    cluster: Cluster
    job: Job
    gate: Gate
    asked: Vanishing
    report: VanishingReport
    note: Callable[[str], None]

    def kill_all(self) -> None:
        chance = random.Random(self.asked.seed)
        for done in range(self.asked.kills):
            wait_until(lambda: len(self._warm()) == self.asked.transient, "the code on all transient workers")
            self.job.redirect(dict.fromkeys(query_of(self.asked.query).functions, SHARE))
            before = self._rows_away()
            self.gate.allow((done + 1) / (self.asked.kills + 1))
            wait_until(lambda before=before: self._rows_away() > before, "results of transient workers")  # type: ignore[misc]
            victim = chance.choice(self._warm())
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
                self.report.kills += 1
            self.note(f"{victim.name} killed after {self._rows_away():,} rows on transient workers")
            wait_until(lambda victim=victim: victim not in self._warm(), "the loss")  # type: ignore[misc]
        self.report.rows_away = self._rows_away()

    def _warm(self) -> list[Member]:
        """Returns the transient workers that have loaded the query."""
        observation = self.cluster.observation
        job = observation.jobs.get(self.job.name)
        names = job.warm if job is not None else ()
        members = [observation.workers[name].member for name in names if name in observation.workers]
        return [member for member in members if member.role is MemberRole.TRANSIENT]

    def _rows_away(self) -> int:
        return sum(total.rows_away for total in self.job.metrics().totals.values())
