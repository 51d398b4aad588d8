"""Wall clocks that step while a job with checkpoints runs: nothing may change, neither the results nor the cadence.

A run is compared with a run of the same seed whose clocks do not step. Durations come from a steady clock, so the two
differ only by the tenth by which clocks are slewed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from stretto.coordinator.records import JobStatus
from stretto.protocol.membership import COORDINATOR
from stretto.simulator.checking.barriers import result_of
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.faults import BEGIN_NS, LENGTH, STEPS_MAX, Trial
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import Weather
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

INTERVAL_NS = 2_000_000
STEPS_NS = (-5_000_000_000, -5_000_000_000, -500_000_000, 500_000_000, 5_000_000_000)
"""By how much a clock steps; a run takes a quarter of a second."""
STEPS_WITHIN_NS = 20_000_000
"""Clocks step at the beginning, so that most of a run comes after."""


@dataclass(frozen=True, slots=True)
class Step:
    """A wall clock that is set while the job runs."""

    member: str
    at_ns: int
    by_ns: int


def try_clocks(seed: int, workers: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random dataflow with and without steps of clocks, and compare."""
    chance = random.Random(seed * 11 + 5)
    members = [*(f"w{i}~1" for i in range(workers)), "driver~1", COORDINATOR]
    steps = [_step(chance, member) for member in members if chance.random() < 0.5]
    steps = steps or [_step(chance, COORDINATOR)]
    plain, stepped = (_run(seed, workers, functions_max, each, parts) for each in ([], steps))
    trial = Trial(seed, [str(step) for step in steps], stepped.checkpoints, violations=stepped.violations)
    if stepped.checkpoints < plain.checkpoints // 2:
        text = f"{stepped.checkpoints} checkpoints, {plain.checkpoints} without steps"
        trial.violations.append(Violation("cadence", text))
    if stepped.took_ns > 2 * plain.took_ns:
        text = f"the run took {stepped.took_ns / 1e6:.1f} ms, {plain.took_ns / 1e6:.1f} ms without steps"
        trial.violations.append(Violation("liveness", text))
    return trial


def _step(chance: random.Random, member: str) -> Step:
    return Step(member, chance.randint(0, STEPS_WITHIN_NS), chance.choice(STEPS_NS))


@dataclass
class _Ran:
    took_ns: int
    checkpoints: int
    violations: list[Violation]


def _run(seed: int, workers: int, functions_max: int, steps: list[Step], parts: Parts | None) -> _Ran:
    scenario, reference = (Scenario(seed, functions_max, length=LENGTH) for _ in range(2))
    cluster = DurableCluster(workers, seed, SimulatedFiles(), parts=parts, steps_max=STEPS_MAX, weather=Weather())
    cluster.interval_ns = INTERVAL_NS
    cluster.write_ns = (20_000, 500_000)
    for step in steps:
        cluster.plan(step.at_ns, partial(cluster.step_clock, step.member, step.by_ns))
    cluster.submit_durable(scenario.deployment)
    cluster.run()
    violations = result_of(scenario, reference)
    if cluster.jobs[scenario.deployment.job].status is not JobStatus.FINISHED or cluster.recoveries:
        violations.append(Violation("failed", f"{cluster.recoveries} recoveries where nothing but clocks changed"))
    checkpoints = sum(1 for each in cluster.announced if each.manifest is not None)
    ran = _Ran(cluster.now_ns - BEGIN_NS, checkpoints, violations)
    cluster.close()
    return ran
