"""`stretto simulate scaling`: tests handovers of running jobs on random dataflows, by seed.

A random dataflow gets other numbers of partitions and other homes while it runs, at random moments: during barriers,
checkpoints, moves of shards and other handovers, and with faults. Its results must equal those of a sequential run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from stretto.coordinator.records import Job, JobStatus
from stretto.errors import StrettoError
from stretto.simulator.checking import faults
from stretto.simulator.checking.barriers import TIMINGS, result_of
from stretto.simulator.checking.checkers import Violation, barriers_of, messages_of, moves, once, order
from stretto.simulator.checking.elastic import CREDIT_BYTES, LENGTH, plan_moves
from stretto.simulator.checking.elastic_scenarios import ElasticScenario
from stretto.simulator.checking.history import History
from stretto.simulator.checking.row_order import rows_in_order
from stretto.simulator.checking.scenarios import Gathering, Scenario
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles

SPAN_NS = 100_000_000
"""Handovers are asked for within this time from the start; most runs take longer."""
LOOK_NS = 1_000_000
STEPS_MAX = 60_000
"""A run without faults takes a few thousand."""
JOB = "scenario"
GATHERING_EVERY = 8
"""One seed in so many has windows over two sources with two partitions each."""


@dataclass
class Trial:
    """The run of one seed: its size and its violations."""

    seed: int
    handovers: int = 0
    called_off: int = 0
    barriers: int = 0
    messages: int = 0
    checkpoints: int = 0
    recoveries: int = 0
    violations: list[Violation] = field(default_factory=list)
    log: str = ""


def try_seed(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> list[Trial]:
    """Run one random scenario without checkpoints and without faults, and one with both, and check them."""
    return [
        try_plain(seed, workers_max, functions_max, parts),
        try_with_faults(seed, workers_max, functions_max, parts),
    ]


def _kind(seed: int) -> type[Scenario]:
    """Elastic functions, or lessees, some of them after several sources."""
    return ElasticScenario if seed % 2 else Gathering if seed % GATHERING_EVERY == 2 else Scenario


def try_plain(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random scenario without checkpoints: a handover that fails must leave the job as it was."""
    chance = random.Random(seed * 11 + 5)
    workers = chance.randint(2, max(2, workers_max))
    scenario, reference = (_kind(seed)(seed, functions_max, length=LENGTH) for _ in range(2))
    scenario.deployment.credit_bytes = chance.choice(CREDIT_BYTES)
    history = History()
    timing = chance.choice(TIMINGS)
    cluster = DurableCluster(
        workers, seed, SimulatedFiles(), parts=parts, timing=timing, steps_max=STEPS_MAX, history=history
    )
    cluster.submit_plain(scenario.deployment)
    job = cluster.jobs[JOB]
    trial = Trial(seed)
    plan_handovers(cluster, scenario, chance)
    if isinstance(scenario, ElasticScenario):
        plan_moves(cluster, scenario, chance)
    try:
        cluster.run()
    except StrettoError as error:
        trial.violations.append(Violation("liveness" if "queue is empty" in str(error) else "invariant", str(error)))
    if job.status is JobStatus.FAILED and job.failure is not None:
        failure = f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"
        trial.violations.append(Violation("failed", failure))
    trial.violations += moves(history, cluster.handed_over)
    if isinstance(scenario, ElasticScenario):
        trial.violations += rows_in_order(history, scenario.deployment.functions, scenario.spread)
    else:
        trial.violations += [*order(history), *once(history)]
    if job.status is JobStatus.FINISHED:
        trial.violations += result_of(scenario, reference)
    trial.barriers, trial.messages = barriers_of(history), messages_of(history)
    _count(trial, [cluster])
    trial.log = history.log() if trial.violations else ""
    cluster.close()
    return trial


def try_with_faults(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random scenario with checkpoints and random faults, and compare the results."""
    trial = Trial(seed)
    clusters: list[DurableCluster] = []

    def disturb(cluster: DurableCluster, scenario: faults.Tested, chance: random.Random) -> None:
        clusters.append(cluster)
        assert isinstance(scenario, Scenario)
        scenario.deployment.credit_bytes = chance.choice(CREDIT_BYTES)
        plan_handovers(cluster, scenario, chance)
        _plan_crashes(cluster, chance)
        if isinstance(scenario, ElasticScenario):
            plan_moves(cluster, scenario, chance)

    found = faults.try_seed(seed, workers_max, functions_max, parts, False, _kind(seed), disturb)
    trial.checkpoints, trial.recoveries, trial.violations = found.checkpoints, found.recoveries, found.violations
    trial.log = "\n".join(found.faults)
    _count(trial, clusters)
    return trial


def _count(trial: Trial, clusters: list[DurableCluster]) -> None:
    trial.handovers = sum(len(cluster.handed_over) for cluster in clusters)
    trial.called_off = sum(cluster.handovers_called_off for cluster in clusters)


def plan_handovers(cluster: SimulatedCluster, scenario: Scenario, chance: random.Random) -> None:
    """Have the job handed over several times, mostly with another parallelism, sometimes off one of the workers; often
    also when the input of some actors has ended and that of others has not."""
    for _ in range(chance.randint(2, 5)):
        at_ns = chance.randint(0, SPAN_NS if chance.random() < 0.5 else SPAN_NS // 4)
        cluster.plan(at_ns, partial(_hand_over, cluster, scenario, random.Random(chance.random())))
    if chance.random() < 0.5:
        happen = partial(_hand_over, cluster, scenario, random.Random(chance.random()))
        _once(cluster, lambda job: 0 < len(job.unfinished) < len(job.actors), happen)


def _hand_over(cluster: SimulatedCluster, scenario: Scenario, chance: random.Random) -> None:
    workers = sorted(name for name in cluster.workers if not name.startswith("driver"))
    avoid = frozenset(chance.sample(workers, 1)) if len(workers) > 1 and chance.random() < 0.4 else frozenset()
    deployment = scenario.rescaled(chance)
    scenario.deal(deployment, random.Random(chance.random()))
    cluster.reshape(deployment, avoid)


def _plan_crashes(cluster: DurableCluster, chance: random.Random) -> None:
    """Have a worker crash in the middle of a handover."""
    if chance.random() < 0.6:
        later_ns, after_ns = chance.randint(0, 3_000_000), chance.randint(0, SPAN_NS)
        _once(cluster, _is_marked, lambda: cluster.plan(later_ns, cluster.crash_some), after_ns)


def _is_marked(job: Job) -> bool:
    return job.handover is not None and job.handover.number > 0


def _once(
    cluster: SimulatedCluster, condition: Callable[[Job], bool], happen: Callable[[], None], after_ns: int = 0
) -> None:
    """Look at the job every millisecond for a while, and let something happen when the condition holds first."""

    def look(left: int) -> None:
        job = cluster.coordinator.jobs.get(JOB)
        if job is not None and job.status is JobStatus.RUNNING and condition(job):
            happen()
        elif left and (job is None or not job.status.ended):
            cluster.plan(LOOK_NS, partial(look, left - 1))

    cluster.plan(after_ns, partial(look, 4 * SPAN_NS // LOOK_NS))
