"""Jobs that are submitted while workers are lost and replaced, by seed: each must run to its end, with its results.

The workers crash before the submission, which comes before or after the coordinator has noticed, and before or after
replacements have joined.
"""

from __future__ import annotations

import random
from functools import partial

from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Job, JobStatus
from stretto.coordinator.submissions import Submissions
from stretto.errors import StrettoError
from stretto.simulator.checking.barriers import STEPS_MAX, TIMINGS, result_of
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

CRASHES_NS = 30_000_000
SUBMITTED_NS = 80_000_000
"""The last moments of a crash and of the submission; a loss is noticed within 40 ms, and replaced within 60 more."""


def try_seed(seed: int, parts: CoordinatorParts | None = None) -> list[Violation]:
    """Run one random scenario that is submitted late, and compare its results."""
    chance = random.Random(seed)
    workers, durable = chance.randint(1, 3), chance.random() < 0.3
    parked, timing = chance.choice((0, 0, 1)), chance.choice(TIMINGS)
    cluster = DurableCluster(
        workers,
        seed,
        SimulatedFiles(),
        parts=Parts(coordinator=parts),
        parked=parked,
        timing=timing,
        steps_max=STEPS_MAX,
    )
    crashes_ns = [chance.randint(0, CRASHES_NS) for _ in range(chance.randint(1, workers + 1))]
    for at_ns in crashes_ns:
        cluster.plan(at_ns, cluster.crash_some)
    scenario = Scenario(seed, 5)
    submit = cluster.submit_durable if durable else cluster.submit_plain
    cluster.plan(chance.randint(max(crashes_ns), SUBMITTED_NS), partial(submit, scenario.deployment))
    violations: list[Violation] = []
    try:
        cluster.run()
    except StrettoError as error:
        violations.append(Violation("liveness" if "queue is empty" in str(error) else "invariant", str(error)))
    job = cluster.jobs[scenario.deployment.job]
    if job.failure is not None:
        violations.append(Violation("failed", f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"))
    if job.status is JobStatus.FINISHED:
        violations += result_of(scenario, Scenario(seed, 5))
    cluster.close()
    return violations


class NotAwaited(Submissions):
    """A job is placed on the workers that are there, and fails if there are none."""

    def submit(self, job: Job) -> None:
        self._jobs.begin(job)


class AwaitedForEver(Submissions):
    """A waiting job is not placed when a worker joins."""

    def tick(self) -> None:
        """Does nothing."""


MUTATIONS = {
    mutation_name(mutation): CoordinatorParts(submissions=mutation) for mutation in (NotAwaited, AwaitedForEver)
}
