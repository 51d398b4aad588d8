"""`stretto simulate neighbours`: a job with a deadly function beside good ones, by seed.

The good jobs must finish with all rows right, after a bounded number of recoveries. The bad job must fail by name after
a bounded number of deaths; one that spins must stop when it is asked to.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field, replace

from stretto.coordinator.blame import STRIKES_MAX, UNNOTED_PER_STRIKE
from stretto.coordinator.records import JobStatus
from stretto.errors import StrettoError
from stretto.simulator.checking.barriers import result_of
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import Timing
from stretto.simulator.engine.durable import Deadly, DeadlyKind, DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

STEPS_MAX = 50_000
GOOD_MAX = 3
BAD = "bad"
LENGTH = 2
TIMING = Timing(cost_ns=(1_000_000, 60_000_000))
"""Slow enough for the good jobs to run for seconds, as long as the bad one takes to fail."""
INTERVAL_NS = 200_000_000
NEEDS_NOTHING_ELSE = (DeadlyKind.CRASH, DeadlyKind.KILL)
"""Kinds whose note is right, so that the first death is enough to find the culprit."""


@dataclass
class Trial:
    """The run of one seed."""

    seed: int
    kind: DeadlyKind
    workers: int
    good: int
    deaths: int = 0
    recoveries: int = 0
    """The greatest number of recoveries of a good job."""
    violations: list[Violation] = field(default_factory=list)


def try_seed(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run good jobs and a bad one on one cluster, and check how they end."""
    chance = random.Random(seed * 11 + 5)
    kind = chance.choice(list(DeadlyKind))
    trial = Trial(seed, kind, chance.randint(1, max(1, workers_max)), chance.randint(1, GOOD_MAX))
    cluster = DurableCluster(
        trial.workers,
        seed,
        SimulatedFiles(),
        parts=parts,
        timing=TIMING,
        steps_max=STEPS_MAX,
        parked=chance.choice((0, 1)),
    )
    cluster.interval_ns = INTERVAL_NS
    good = {f"good{number}": Scenario(seed * 10 + number, functions_max, length=LENGTH) for number in range(trial.good)}
    for name, scenario in good.items():
        cluster.submit_durable(replace(scenario.deployment, job=name), SimulatedFiles())
    _submit_bad(cluster, seed, functions_max, kind, chance)
    try:
        cluster.run()
    except Exception as error:  # A machine that raises anything at all is broken.
        text = str(error) if isinstance(error, StrettoError) else traceback.format_exc(limit=-3)
        trial.violations.append(Violation("liveness" if "does not end" in text else "invariant", text))
    trial.deaths = cluster.deaths
    trial.recoveries = max(cluster.jobs[name].recoveries for name in good)
    trial.violations += _bad_violations(cluster, trial)
    for name, scenario in good.items():
        reference = Scenario(int(seed * 10 + int(name.removeprefix("good"))), functions_max, length=LENGTH)
        trial.violations += _good_violations(cluster, name, scenario, reference)
    trial.violations += _unbounded(trial)
    cluster.close()
    return trial


def _submit_bad(
    cluster: DurableCluster, seed: int, functions_max: int, kind: DeadlyKind, chance: random.Random
) -> None:
    deployment = replace(Scenario(seed * 10 + 9, functions_max, length=LENGTH).deployment, job=BAD)
    function = chance.choice(sorted(deployment.functions))
    after_runs = 1 if kind is not DeadlyKind.THREAD else chance.randint(1, 3)
    cluster.make_deadly(BAD, function, Deadly(kind, after_runs, chance.randint(1_000_000, 300_000_000)))
    cluster.submit_durable(deployment, SimulatedFiles())


def _bad_violations(cluster: DurableCluster, trial: Trial) -> list[Violation]:
    job = cluster.jobs[BAD]
    if trial.kind is DeadlyKind.SPIN:
        said = [each for each in job.given_up if "had not returned" in each.said.what]
        if job.status is JobStatus.STOPPED and said:
            return []
        return [
            Violation("bad", f"a job that spins is {job.status.value} after it was to stop, warnings {job.given_up}")
        ]
    if job.status is not JobStatus.FAILED or job.failure is None:
        return [Violation("bad", f"the bad job is {job.status.value}")]
    return [] if f"job '{BAD}'" in job.failure.fact else [Violation("bad", f"it is not named: {job.failure.fact}")]


def _good_violations(cluster: DurableCluster, name: str, scenario: Scenario, reference: Scenario) -> list[Violation]:
    job = cluster.jobs[name]
    if job.status is not JobStatus.FINISHED:
        reason = job.failure.fact if job.failure is not None else ""
        return [Violation("good", f"{name} is {job.status.value}: {reason}")]
    return result_of(scenario, reference)


def _unbounded(trial: Trial) -> list[Violation]:
    """Where a worker can be spared and the note is right, the others lose the workers that ran the function at first;
    else a few."""
    notes_enough = trial.kind in NEEDS_NOTHING_ELSE and trial.workers > 1
    at_first = trial.workers if notes_enough else (trial.good + 1) * UNNOTED_PER_STRIKE * STRIKES_MAX
    deaths_max = at_first + STRIKES_MAX
    recoveries_max = at_first
    if trial.deaths <= deaths_max and trial.recoveries <= recoveries_max:
        return []
    return [Violation("bound", f"{trial.deaths} workers died, and a good job recovered {trial.recoveries} times")]
