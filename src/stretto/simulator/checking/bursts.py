"""`stretto simulate bursts`: batches go to transient workers and come back at random moments, and transient workers
vanish, by seed. Every third seed has checkpoints and faults of ordinary workers and of the driver too.

The answers must be those of a sequential run: redirecting is invisible, whatever happens to who runs the batches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial

from stretto.actors.deployment import Deployment
from stretto.coordinator.events import RedirectRequested
from stretto.coordinator.records import JobStatus
from stretto.protocol.bursts import To
from stretto.simulator.checking import faults
from stretto.simulator.checking.barriers import TIMINGS, result_of, weather_of
from stretto.simulator.checking.burst_scenarios import BurstScenario
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import is_transient
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

STEPS_MAX = 400_000
LENGTH = 3
BEATS_NS = (500_000, 8_000_000)
"""Bounds of the time between two changes."""
TRANSIENT_MAX = 4
SHARES = (0.2, 0.5, 0.9, 1.0)


@dataclass
class Trial:
    """The run of one seed: batches that ran elsewhere, transient workers that vanished, and its violations."""

    seed: int
    redirected: int = 0
    vanished: int = 0
    recoveries: int = 0
    violations: list[Violation] = field(default_factory=list)
    log: str = ""


def try_seed(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random scenario under bursts, and check it."""
    if seed % 3 == 2:
        return _with_faults(seed, workers_max, functions_max, parts)
    return _without_faults(seed, workers_max, functions_max, parts)


def _kind(seed: int) -> type[Scenario]:
    return BurstScenario if seed % 2 else Scenario


def _without_faults(seed: int, workers_max: int, functions_max: int, parts: Parts | None) -> Trial:
    """Run it without checkpoints: transient workers vanish, and nothing may notice."""
    chance = random.Random(seed * 17 + 9)
    workers = chance.randint(1, max(1, workers_max))
    scenario, reference = (_kind(seed)(seed, functions_max, length=LENGTH) for _ in range(2))
    cluster = DurableCluster(
        workers,
        seed,
        SimulatedFiles(),
        parts=parts,
        timing=chance.choice(TIMINGS),
        steps_max=STEPS_MAX,
        weather=replace(weather_of(chance, workers), pauses={}),
        transient=chance.randint(1, TRANSIENT_MAX),
    )
    cluster.submit_plain(scenario.deployment)
    plan_bursts(cluster, scenario.deployment, chance)
    trial = Trial(seed)
    trial.violations += faults.run_watched(cluster.run)
    job = cluster.jobs[scenario.deployment.job]
    if job.failure is not None:
        text = f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"
        trial.violations.append(Violation("failed", text))
    if job.recoveries:
        trial.violations.append(Violation("recovered", "a job without checkpoints began again"))
    if job.status is JobStatus.FINISHED:
        trial.violations += result_of(scenario, reference)
    _judge(cluster, trial)
    cluster.close()
    return trial


def _with_faults(seed: int, workers_max: int, functions_max: int, parts: Parts | None) -> Trial:
    """Run it with checkpoints, crashes, hangs, cuts and restarts."""
    trial = Trial(seed)

    def disturb(cluster: DurableCluster, scenario: faults.Tested, chance: random.Random) -> None:
        plan_bursts(cluster, scenario.deployment, chance)

    found = faults.try_seed(
        seed,
        workers_max,
        functions_max,
        parts,
        kind=_kind(seed),
        disturb=disturb,
        judge=lambda cluster: _judge(cluster, trial),
        transient=random.Random(seed).randint(1, TRANSIENT_MAX),
    )
    trial.recoveries, trial.log = found.recoveries, "; ".join(found.faults)
    trial.violations = [*found.violations, *trial.violations]
    return trial


def plan_bursts(cluster: DurableCluster, deployment: Deployment, chance: random.Random) -> None:
    """Have batches of random functions redirected, or not any more, at random moments; and transient workers vanish."""
    often = chance.choice((0.0, 0.05, 0.3))
    cluster.plan(chance.randint(*BEATS_NS), partial(_beat, cluster, deployment, random.Random(chance.random()), often))


def _beat(cluster: DurableCluster, deployment: Deployment, chance: random.Random, vanishing: float) -> None:
    if cluster.has_ended:
        return
    if chance.random() < vanishing:
        _vanish(cluster, chance)
    if chance.random() < 0.5:
        _redirect(cluster, deployment, chance)
    cluster.plan(chance.randint(*BEATS_NS), partial(_beat, cluster, deployment, chance, vanishing))


def _redirect(cluster: DurableCluster, deployment: Deployment, chance: random.Random) -> None:
    job = cluster.coordinator.jobs.get(deployment.job)
    warm = cluster.coordinator.transients.warm(job) if job is not None else []
    functions = {}
    for name, shape in sorted(job.shapes.items()) if job is not None and warm else ():
        if shape.redirects and chance.random() < 0.7:
            members = chance.sample(warm, chance.randint(1, len(warm)))
            functions[name] = To(tuple(members), chance.choice(SHARES))
    cluster.ask(RedirectRequested(deployment.job, functions if chance.random() < 0.8 else {}))


def _vanish(cluster: DurableCluster, chance: random.Random) -> None:
    names = [name for name in cluster.names_of_workers() if is_transient(name)]
    if names:
        cluster.crash(chance.choice(names))
        cluster.vanished += 1


def _judge(cluster: DurableCluster, trial: Trial) -> None:
    trial.redirected += cluster.redirected
    trial.vanished += cluster.vanished
