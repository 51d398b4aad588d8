"""Objectives that change while a job runs: soon every instance keeps the new one, whatever happens to the job.

Between changes, a worker crashes or the job is handed over. After each, the run is stepped until all instances of the
attempt that runs have the objective that was set last; if that does not come about, somebody has missed it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from stretto.actors.deadlines import LAX_NS
from stretto.api.slo import SLO
from stretto.coordinator.events import ObjectiveRequested
from stretto.coordinator.records import Job, JobStatus
from stretto.simulator.checking.barriers import TIMINGS
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

JOB = "scenario"
LENGTH = 60
STEPS_MAX = 400_000
RUNS_WITHIN = 40_000
KEPT_WITHIN = 6_000
"""Steps until a job runs and is not handed over, and then until all of it keeps what was set last. A recovery may lie
between."""


@dataclass
class Trial:
    """What became of one seed: how often instances were seen to keep what was set last."""

    seed: int
    kept: int = 0
    crashes: int = 0
    handovers: int = 0
    violations: list[Violation] = field(default_factory=list)


def try_promises(seed: int, parts: Parts | None = None) -> Trial:
    """Runs one random scenario whose objective changes."""
    chance = random.Random(seed * 7 + 1)
    scenario = Scenario(seed, 6, length=LENGTH)
    timing = chance.choice(TIMINGS)
    cluster = DurableCluster(3, seed, SimulatedFiles(), parts=parts, timing=timing, steps_max=STEPS_MAX)
    cluster.submit_durable(scenario.deployment)
    trial = Trial(seed)
    _Changes(cluster, scenario, chance, trial).make()
    cluster.close()
    return trial


class _Changes:
    """What happens to one job, and what is looked at after each change."""

    def __init__(self, cluster: DurableCluster, scenario: Scenario, chance: random.Random, trial: Trial) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._chance = chance
        self._trial = trial

    def make(self) -> None:
        happen: list[Callable[[], None]] = [self._set, self._crash, self._hand_over]
        for _ in range(6):
            if not self._until(self._runs, RUNS_WITHIN):
                return
            for each in self._chance.sample(happen, 2):
                each()
            if not self._until(self._runs, RUNS_WITHIN):
                return
            if not self._until(self._is_kept, KEPT_WITHIN):
                if not self._has_ended():
                    self._trial.violations.append(Violation("promise", "an instance does not keep what was set last"))
                return
            self._trial.kept += 1

    def _set(self) -> None:
        latency_ms = self._chance.choice((None, 5.0, 70.0, 900.0))
        self._cluster.ask(ObjectiveRequested(JOB, SLO(latency_ms, share=self._chance.choice((1.0, 3.0)))))

    def _crash(self) -> None:
        self._trial.crashes += 1
        self._cluster.crash_some()

    def _hand_over(self) -> None:
        self._trial.handovers += 1
        self._cluster.reshape(self._scenario.rescaled(self._chance))

    # What holds.

    def _job(self) -> Job | None:
        return self._cluster.coordinator.jobs.get(JOB)

    def _has_ended(self) -> bool:
        return self._cluster.jobs[JOB].status.ended

    def _runs(self) -> bool:
        job = self._job()
        return job is not None and job.status is JobStatus.RUNNING and job.handover is None

    def _latency_ns(self, job: Job) -> int:
        """Returns what was set last; a request that finds the job recovering is refused."""
        if job.objective is None:
            return self._scenario.deployment.latency_ns or LAX_NS
        latency_ms = job.objective.latency_ms
        return LAX_NS if latency_ms is None else int(latency_ms * 1e6)

    def _is_kept(self) -> bool:
        job = self._job()
        if job is None or job.status is not JobStatus.RUNNING:
            return False
        here = [worker.jobs.get(job.attempt) for worker in self._cluster.workers.values()]
        seats = [seat for local in here if local is not None for seat in local.all_seats()]
        if len(seats) < len(job.actors):
            return False
        promised = {seat.latency_ns for seat in seats} | {out.latency_ns for seat in seats for out in seat.outs}
        return promised == {self._latency_ns(job)}

    def _until(self, holds: Callable[[], bool], steps: int) -> bool:
        """Steps until something holds; returns whether it does before the job ends or so many steps are over."""
        for _ in range(steps):
            if holds():
                return True
            if self._has_ended() or self._cluster.next_ns is None:
                return False
            self._cluster.step()
        return False
