"""`stretto simulate barriers`: tests the dual-mode protocol on random dataflows and disturbances, by seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stretto.actors.deployment import Deployment
from stretto.coordinator.events import AnnounceMisbehaviour
from stretto.coordinator.records import JobStatus
from stretto.errors import StrettoError
from stretto.scheduling.policies import LLF, Policy
from stretto.scheduling.strategy import Strategy
from stretto.simulator.checking.checkers import Violation, barriers_of, check, messages_of
from stretto.simulator.checking.history import History
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.checking.sequential import run_sequentially
from stretto.simulator.engine.cluster import SimulatedCluster, Timing, Weather
from stretto.worker.machine import WorkerParts

STEPS_MAX = 200_000
TIMINGS = (
    Timing(delay_ns=(20_000, 2_000_000), cost_ns=(1_000, 500_000)),
    Timing(delay_ns=(1_000, 20_000_000), cost_ns=(1_000, 100_000)),
    Timing(delay_ns=(10_000, 50_000), cost_ns=(100_000, 3_000_000)),
)


@dataclass
class Trial:
    """The run of one seed: its size and its violations."""

    seed: int
    barriers: int
    messages: int
    violations: list[Violation] = field(default_factory=list)
    log: str = ""
    given_up: list[AnnounceMisbehaviour] = field(default_factory=list)


def try_seed(
    seed: int,
    workers_max: int,
    functions_max: int,
    parts: WorkerParts | None = None,
    strategy: Callable[[], Strategy] | None = None,
    own: Callable[[], Strategy] | None = None,
    policy: Callable[[], Policy] = LLF,
) -> Trial:
    """Run one random scenario and check it; if given, `strategy` applies to all its functions. `own` is the
    workers'."""
    chance = random.Random(seed)
    workers = chance.randint(2, max(2, workers_max))
    scenario = Scenario(seed, functions_max, strategy)
    history = History()
    found: list[Violation] = []
    cluster = SimulatedCluster(
        workers,
        seed,
        chance.choice(TIMINGS),
        STEPS_MAX,
        weather_of(chance, workers),
        history,
        parts,
        policy=policy,
        strategy=own,
    )
    job = cluster.submit(scenario.deployment)
    _come_and_go(cluster, chance, workers)
    try:
        cluster.run()
    except StrettoError as error:
        found.append(Violation("liveness" if "queue is empty" in str(error) else "invariant", str(error)))
    if job.status is JobStatus.FAILED and job.failure is not None:
        found.append(Violation("failed", f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"))
    found += check(history)
    if job.status is JobStatus.FINISHED:
        found += result_of(scenario, Scenario(seed, functions_max))
    cluster.close()
    log = history.log() if found else ""
    return Trial(seed, barriers_of(history), messages_of(history), found, log, job.given_up)


class Answering(Protocol):
    """A deployment, and the rows that it has produced."""

    deployment: Deployment

    @property
    def rows(self) -> Sequence[tuple[Any, ...]]: ...


def result_of(scenario: Answering, reference: Answering) -> list[Violation]:
    """Compares the results with those of the same scenario run sequentially."""
    run_sequentially(reference.deployment)
    right, got = Counter(reference.rows), Counter(scenario.rows)
    if right == got:
        return []
    missing, extra = right - got, got - right
    return [
        Violation("result", f"{missing.total()} rows are missing, such as {_some(missing)}; extra rows: {_some(extra)}")
    ]


def _some(rows: Counter[tuple[Any, ...]]) -> str:
    return ", ".join(map(str, list(rows)[:3])) or "none"


def weather_of(chance: random.Random, workers: int) -> Weather:
    """Returns random disturbances of a cluster with so many workers."""
    names = [f"w{i}~1" for i in range(workers)]
    slow = {name: chance.choice((3.0, 20.0)) for name in names if chance.random() < 0.1}
    skew_ns = {name: chance.randint(-50_000_000, 50_000_000) for name in names if chance.random() < 0.2}
    pauses = {}
    for name in names:
        if chance.random() < 0.1:
            start_ns = 1_000_000_000 + chance.randint(0, 40_000_000)
            pauses[name] = [(start_ns, start_ns + chance.randint(1_000_000, 200_000_000))]
    return Weather(chance.choice((0.0, 0.2)), slow, skew_ns, pauses)


def _come_and_go(cluster: SimulatedCluster, chance: random.Random, workers: int) -> None:
    """Let workers join and leave at random moments; a worker that is home to actors stays."""
    for number in range(chance.randint(0, 2)):
        cluster.join(f"j{number}~1", chance.randint(0, 40_000_000))
    for _ in range(chance.randint(0, 2)):
        cluster.retire(f"{chance.choice('wj')}{chance.randrange(workers)}~1", chance.randint(0, 60_000_000))
