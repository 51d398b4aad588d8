"""Kills in the middle of scaling: a worker while another or itself is drained, and the driver while workers are added.

The query runs with checkpoints. A blow counts only if it came in the middle: what was asked for had begun, and was not
done when the process was killed. After each blow the query must read on; in the end every row is compared with Spark
SQL's. A gate holds back the rest of the stream, so that there is something to read after each blow.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.bench.gates import Gate
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import OUT, SparkAnswers, verify
from stretto.bench.scaling.driven import Driven
from stretto.bench.verify import Match
from stretto.coordinator.records import JobStatus
from stretto.elasticity.decisions import DrainWorker
from stretto.elasticity.records import Outcome
from stretto.errors import ClusterError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.002
LOOK_S = 0.1
"""How often a driver's files are looked at."""
WAIT_S = 300.0
"""Ends a run that hangs."""
EVENTS_PER_BLOW = 10_000
LATER_S_MAX = 0.1
"""A worker is killed up to so long after its drain has begun: when homes move, have moved, or its process ends. Every
second pair is killed at once, and so is one after a blow that came too late."""
STARTS_S = 0.5
"""A driver is killed up to so long after it began to add a worker, whose process takes longer to start."""


class Victim(Enum):
    """Who is killed."""

    LEAVING = "the worker that is drained"
    STAYING = "a worker that stays"
    DRIVER = "the driver that adds workers"


@dataclass(frozen=True)
class Blows:
    """What to run: the query, how many workers and how many drivers are killed, and how fast events are sent."""

    query: str
    drains: int = 20
    drivers: int = 20
    workers: int = 3
    rate: float = 10_000.0
    every: str = "500 ms"
    seed: int = 1


@dataclass
class BlowsReport:
    """`blows` says who was killed how often, `late` how many kills came too late to count."""

    query: str
    match: dict[str, bool] = field(default_factory=dict)
    blows: Counter[str] = field(default_factory=Counter)
    late: int = 0
    recoveries: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "match": bool(self.match) and all(self.match.values()),
            "blows": dict(self.blows),
            "late": self.late,
            "recoveries": self.recoveries,
            "rows": self.rows,
            **({"complaints": self.complaints} if self.complaints else {}),
        }

    def judge(self, run: str, query: str, results: pa.Table, answers: SparkAnswers) -> None:
        verdicts = verify(query, {OUT: results}, answers)
        self.match[run] = all(verdict.match is Match.MATCH for verdict in verdicts.values())
        self.rows[run] = results.num_rows
        if not self.match[run]:
            self.complaints += [f"{run}: {verdict.describe()}" for verdict in verdicts.values()]


def workload_of(asked: Blows, blows: int) -> Workload:
    """Returns a stream with events for so many blows."""
    base = Workload()
    config = replace(base.config, events=EVENTS_PER_BLOW * (blows + 1))
    return replace(base, config=config, rate=asked.rate, parallelism=2)


def wait_until(condition: Callable[[], bool], what: str, look_s: float = POLL_S) -> None:
    """Waits for a condition; raises an error that says what was awaited if it does not come about."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() >= deadline_s:
            raise UserError(f"{what} did not come about", f"in {WAIT_S:g} s")
        time.sleep(look_s)


# Workers.


def kill_workers(
    spark: SparkSession, asked: Blows, report: BlowsReport, note: Callable[[str], None] = lambda text: None
) -> None:
    """Kills a worker in the middle of each drain."""
    workload = workload_of(asked, asked.drains)
    directory = scratch_directory("blows")
    gate = Gate(directory / "gate")
    try:
        with SparkAnswers(spark, workload.config) as answers:
            with Cluster.on_spark(spark, asked.workers, lost_after="1500 ms", elasticity="off") as cluster:
                app = build(asked.query, replace(workload, gate=gate))
                job = cluster.submit(app, checkpoint=directory / "checkpoints", every=asked.every)
                _Drains(cluster, job, asked, gate, report, note).kill_all()
                gate.open()
                job.wait(WAIT_S)
                report.recoveries += job.checkpoints.recoveries
                results = job.results(OUT)
            report.judge("drains", asked.query, results, answers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass
class _Drains:
    """The drains of one job's workers, each with a blow."""

    cluster: Cluster
    job: Job
    asked: Blows
    gate: Gate
    report: BlowsReport
    note: Callable[[str], None]

    def kill_all(self) -> None:
        chance, done, in_time = random.Random(self.asked.seed), 0, True
        while done < self.asked.drains:
            self.gate.allow((done + 1) / (self.asked.drains + 1))
            self._await_progress()
            victim = (Victim.LEAVING, Victim.STAYING)[done % 2]
            at_once = done % 4 < 2 or not in_time
            in_time = self._drain(chance, victim, 0.0 if at_once else chance.uniform(0.0, LATER_S_MAX))
            if in_time:
                done += 1
                self.report.blows[victim.value] += 1
            else:
                self.report.late += 1

    def _await_progress(self) -> None:
        """Waits until the job runs on all workers and has taken another checkpoint."""
        missing = self.asked.workers - len(self.cluster.workers)
        if missing > 0 and self.cluster.workers_wanted < self.asked.workers:
            self.cluster.scale_out(self.asked.workers - self.cluster.workers_wanted, timeout=WAIT_S)
        wait_until(lambda: len(self.cluster.workers) >= self.asked.workers, "the return of all workers")
        wait_until(lambda: self.job.status is JobStatus.RUNNING, "the recovery")
        known = len(self.job.checkpoints.complete)
        wait_until(lambda: len(self.job.checkpoints.complete) > known or self.job.status.ended, "a checkpoint")

    def _drain(self, chance: random.Random, victim: Victim, later_s: float) -> bool:
        """Drains a worker that is home to actors, and kills one meanwhile; returns whether that was in the middle."""
        members = {member.name: member for member in self.cluster.workers}
        placement = self.cluster.observation.jobs[self.job.name].placement
        homes = {home for homes in placement.values() for home in homes if home in members}
        leaving = members[chance.choice(sorted(homes))]
        staying = [members[name] for name in sorted(members) if name != leaving.name]
        killed = leaving if victim is Victim.LEAVING else chance.choice(staying)
        drain = threading.Thread(target=self._drained, args=(leaving.name,), name="stretto-drain", daemon=True)
        drain.start()
        wait_until(lambda: self._outcome(leaving.name) is not None, "the drain")
        time.sleep(later_s)
        in_time = self._outcome(leaving.name) is Outcome.PENDING and _kill(killed.pid)
        if in_time:
            self.note(f"{killed.name} killed {later_s * 1e3:.0f} ms after the drain of {leaving.name} began")
        drain.join(WAIT_S)
        return in_time

    def _drained(self, member: str) -> None:
        """Has a worker leave; that it was killed before is no fault."""
        try:
            self.cluster.drain(member, timeout=WAIT_S)
        except ClusterError as error:
            self.note(f"{member} was not drained: {error}")

    def _outcome(self, member: str) -> Outcome | None:
        found = [each.outcome for each in self.cluster.decisions() if each.decision == DrainWorker(member)]
        return found[-1] if found else None


def _kill(pid: int) -> bool:
    """Kills a process; returns whether it was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


# Drivers.


def kill_drivers(
    spark: SparkSession, asked: Blows, report: BlowsReport, note: Callable[[str], None] = lambda text: None
) -> None:
    """Kills the driver in the middle of each scale-out; another one resumes from its checkpoints."""
    workload = workload_of(asked, asked.drivers)
    directory = scratch_directory("blows")
    gate = Gate(directory / "gate")
    chance, done = random.Random(asked.seed), 0
    try:
        with (
            SparkAnswers(spark, workload.config) as answers,
            Driven(asked.query, workload, directory, asked.every) as driven,
        ):
            while done < asked.drivers:
                gate.allow((done + 1) / (asked.drivers + 1))
                in_time = _scaled_and_killed(driven, chance, note)
                done += in_time
                report.blows[Victim.DRIVER.value] += in_time
                report.late += not in_time
            gate.open()
            results = driven.finish(WAIT_S)
            report.judge("drivers", asked.query, results, answers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _scaled_and_killed(driven: Driven, chance: random.Random, note: Callable[[str], None]) -> bool:
    """Starts a driver, has it add a worker, and kills it meanwhile; returns whether that was in the middle."""
    before = driven.last_checkpoint()
    driven.start()

    def took_another() -> bool:
        driven.check_runs()
        return driven.last_checkpoint() != before

    wait_until(took_another, "a checkpoint of the driver", LOOK_S)
    added = driven.add_worker()
    time.sleep(chance.uniform(0.0, STARTS_S))
    in_time = not added.is_set()
    driven.kill()
    note(f"the driver was killed {'while' if in_time else 'after'} it added a worker")
    return in_time
