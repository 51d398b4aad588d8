"""`stretto simulate elastic`: tests elastic executors on random dataflows, with shards moving at random, by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial

from stretto.coordinator.events import MoveShardsRequested
from stretto.coordinator.records import JobStatus
from stretto.errors import StrettoError
from stretto.simulator.checking import faults
from stretto.simulator.checking.barriers import STEPS_MAX, TIMINGS, result_of, weather_of
from stretto.simulator.checking.checkers import Violation, barriers_of, messages_of, moves
from stretto.simulator.checking.elastic_scenarios import ElasticScenario, FirstTasks, random_moves
from stretto.simulator.checking.history import History
from stretto.simulator.checking.row_order import rows_in_order
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.worker.machine import WorkerParts

CREDIT_BYTES = (None, None, 8, 2, 1)
"""With credits for a few bytes only, rows wait at the home for those of a task's channel."""
LENGTH = 2
"""Sources are this many times longer than in the tests of barriers."""
MOVES_EVERY_NS = (500_000, 2_000_000, 8_000_000)
"""How often shards of an actor are moved, on average ..."""
MOVES_FOR_NS = 400_000_000
"""... and for how long; most runs take about as long."""
PIECES_EVERY, PIECE_BYTES = 3, 16
"""In one seed of so many, the state of shards travels in pieces of so many bytes. Their states are small."""
FIRST_TASKS_EVERY = 5
"""One seed in so many has a dataflow in which actors get their first task again and again."""


@dataclass
class Trial:
    """The run of one seed: its size and its violations."""

    seed: int
    barriers: int = 0
    messages: int = 0
    moved: int = 0
    """Shards that have moved."""
    violations: list[Violation] = field(default_factory=list)
    log: str = ""


def try_seed(seed: int, workers_max: int, functions_max: int, parts: WorkerParts | None = None) -> Trial:
    """Run one random scenario while shards move at random moments, and check it."""
    chance = random.Random(seed * 3 + 1)
    workers = chance.randint(2, max(2, workers_max))
    scenario = _scenario(seed, functions_max)
    scenario.deployment.credit_bytes = chance.choice(CREDIT_BYTES)
    history = History()
    timing, weather = chance.choice(TIMINGS), weather_of(chance, workers)
    cluster = SimulatedCluster(workers, seed, timing, STEPS_MAX, weather, history, _in_pieces(seed, parts))
    job = cluster.submit(scenario.deployment)
    plan_moves(cluster, scenario, chance)
    trial = Trial(seed)
    try:
        cluster.run()
    except StrettoError as error:
        trial.violations.append(Violation("liveness" if "queue is empty" in str(error) else "invariant", str(error)))
    if job.status is JobStatus.FAILED and job.failure is not None:
        failure = f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"
        trial.violations.append(Violation("failed", failure))
    trial.violations += [*moves(history), *rows_in_order(history, scenario.deployment.functions, scenario.spread)]
    if job.status is JobStatus.FINISHED:
        trial.violations += result_of(scenario, _scenario(seed, functions_max))
    trial.barriers, trial.messages, trial.moved = barriers_of(history), messages_of(history), cluster.shards_moved
    trial.log = history.log() if trial.violations else ""
    cluster.close()
    return trial


def _in_pieces(seed: int, parts: WorkerParts | None) -> WorkerParts | None:
    if seed % PIECES_EVERY != 1:
        return parts
    chosen = parts or WorkerParts()
    return replace(chosen, owners=type("InPieces", (chosen.owners,), {"piece_bytes": PIECE_BYTES}))


def _scenario(seed: int, functions_max: int) -> ElasticScenario:
    kind = FirstTasks if seed % FIRST_TASKS_EVERY == FIRST_TASKS_EVERY - 1 else ElasticScenario
    return kind(seed, functions_max, length=LENGTH)


def try_with_faults(
    seed: int, workers_max: int, functions_max: int, parts: Parts | None = None, rescales: bool = False
) -> faults.Trial:
    """Run one random scenario with checkpoints and random faults while shards move, and compare the results."""

    def disturb(cluster: DurableCluster, scenario: faults.Tested, chance: random.Random) -> None:
        assert isinstance(scenario, ElasticScenario)
        scenario.deployment.credit_bytes = chance.choice(CREDIT_BYTES)
        plan_moves(cluster, scenario, chance)

    return faults.try_seed(seed, workers_max, functions_max, parts, rescales, ElasticScenario, disturb)


def plan_moves(cluster: SimulatedCluster, scenario: ElasticScenario, chance: random.Random) -> None:
    """Have shards of all elastic actors moved, again and again; sometimes all of them to the home, so that the executor
    is not in use for a while."""
    for function, partition in scenario.elastic:
        away: set[int] = set()
        at_ns, every_ns, rest_ns = 0, chance.choice(MOVES_EVERY_NS), chance.choice(scenario.rests_ns)
        while at_ns < MOVES_FOR_NS:
            at_ns += int(chance.expovariate(1 / every_ns))
            if chance.random() < scenario.comes_home:
                cluster.plan(at_ns, partial(_come_home, cluster, function, partition, away))
                at_ns += int(chance.expovariate(1 / rest_ns)) if rest_ns else 0
            else:
                moved = partial(_move, cluster, function, partition, random.Random(chance.random()), away)
                cluster.plan(at_ns, moved)


def _come_home(cluster: SimulatedCluster, function: str, partition: int, away: set[int]) -> None:
    """Have all shards of an actor moved to its home that may be elsewhere."""
    job = cluster.coordinator.jobs.get("scenario")
    if job is not None and partition < len(job.placement.get(function, ())):
        home = job.placement[function][partition]
        moves = tuple((shard, home) for shard in sorted(away))
        cluster.ask(MoveShardsRequested("scenario", function, partition, moves))


def _move(cluster: SimulatedCluster, function: str, partition: int, chance: random.Random, away: set[int]) -> None:
    """Have some shards of an actor moved to other workers, or home; `away` then has them too."""
    job = cluster.coordinator.jobs.get("scenario")
    workers = sorted(name for name in cluster.workers if not name.startswith("driver"))
    if job is None or partition >= len(job.placement.get(function, ())) or not workers:
        return
    moves = random_moves(chance, workers)
    away.update(shard for shard, _ in moves)
    cluster.ask(MoveShardsRequested("scenario", function, partition, moves))
