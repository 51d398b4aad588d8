"""`stretto simulate workers`: workers are added and drained at random while jobs run, by seed.

The number of lessees that actors may have is set at random, too (`lessee_numbers.py`). Spread and elastic functions,
with and without checkpoints and faults: a worker that drains may be lost, hang or be cut
off in the middle of it, the driver may die. Besides the results, who leaves is checked: nothing new comes to a worker
that drains, it is asked to leave when nothing is there, its slot is free when its task has ended, it is not replaced,
and in the end there are as many workers as are wanted.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from stretto.coordinator.events import DrainRequested, ScaleInRequested, ScaleOutRequested
from stretto.coordinator.records import JobStatus
from stretto.elasticity.decisions import AddWorkers, DrainWorker
from stretto.elasticity.records import Outcome
from stretto.errors import StrettoError
from stretto.simulator.checking import faults
from stretto.simulator.checking.barriers import STEPS_MAX, TIMINGS, result_of, weather_of
from stretto.simulator.checking.checkers import Violation, moves, once, order
from stretto.simulator.checking.elastic import plan_moves
from stretto.simulator.checking.elastic_scenarios import ElasticScenario
from stretto.simulator.checking.history import History
from stretto.simulator.checking.lessee_numbers import LesseeWatch, numbers_set, plan_numbers
from stretto.simulator.checking.row_order import rows_in_order
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.durable import DurableCluster, Moment, Parts
from stretto.simulator.engine.storage import SimulatedFiles

SPAN_NS = 300_000_000
"""Workers come and go within this time from the start; a run takes about as long."""
CHANGES_MAX = 6
LENGTH = 2
UNSTARTABLE = (0.0, 0.0, 0.3)
SLOW_WRITE_NS = (5_000_000, 60_000_000)


@dataclass
class Trial:
    """The run of one seed: what came and went, and its violations."""

    seed: int
    added: int = 0
    drained: int = 0
    refused: int = 0
    lessees_set: int = 0
    leases_ended: int = 0
    handovers: int = 0
    recoveries: int = 0
    violations: list[Violation] = field(default_factory=list)
    log: str = ""


def try_seed(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random scenario while workers come and go, and check it. Every third seed has checkpoints and faults."""
    if seed % 3 == 2:
        return _with_faults(seed, workers_max, functions_max, parts)
    return _without_faults(seed, workers_max, functions_max, parts)


def _without_faults(seed: int, workers_max: int, functions_max: int, parts: Parts | None) -> Trial:
    """Run it with the checkers of barriers and of the order of rows."""
    chance = random.Random(seed * 11 + 5)
    kind = ElasticScenario if seed % 2 else Scenario
    workers = chance.randint(2, max(2, workers_max))
    scenario, reference = (kind(seed, functions_max, length=LENGTH) for _ in range(2))
    history = History()
    weather = replace(weather_of(chance, workers), pauses={})  # One that hangs is lost, and the job with it.
    cluster = DurableCluster(
        workers,
        seed,
        SimulatedFiles(),
        parts=parts,
        timing=chance.choice(TIMINGS),
        steps_max=STEPS_MAX,
        weather=weather,
        history=history,
    )
    cluster.submit_plain(scenario.deployment)
    job = cluster.jobs[scenario.deployment.job]
    plan_changes(cluster, chance)
    if isinstance(scenario, ElasticScenario):
        plan_moves(cluster, scenario, chance)
    watch = plan_numbers(cluster, scenario.deployment, random.Random(seed * 13 + 7), SPAN_NS)
    trial = Trial(seed)
    try:
        cluster.run()
    except Exception as error:  # A machine that raises anything at all is broken.
        text = str(error) if isinstance(error, StrettoError) else traceback.format_exc(limit=-3)
        trial.violations.append(Violation("liveness" if "queue is empty" in text else "invariant", text))
    if job.failure is not None:
        text = f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}"
        trial.violations.append(Violation("failed", text))
    trial.violations += moves(history, cluster.handed_over)
    if isinstance(scenario, ElasticScenario):
        trial.violations += rows_in_order(history, scenario.deployment.functions, scenario.spread)
    else:
        trial.violations += [*order(history), *once(history)]
    if job.status is JobStatus.FINISHED:
        trial.violations += result_of(scenario, reference)
    _judge(cluster, trial)
    _judge_lessees(watch, trial)
    trial.log = history.log() if trial.violations else ""
    cluster.close()
    return trial


def _with_faults(seed: int, workers_max: int, functions_max: int, parts: Parts | None) -> Trial:
    """Run it with checkpoints, crashes, hangs, cuts and restarts."""
    watches: list[LesseeWatch] = []
    kind = ElasticScenario if seed % 2 else Scenario

    def disturb(cluster: DurableCluster, scenario: faults.Tested, chance: random.Random) -> None:
        plan_changes(cluster, chance)
        _plan_untimely(cluster, chance)
        if isinstance(scenario, ElasticScenario):
            plan_moves(cluster, scenario, chance)
            _plan_drains_of_writers(cluster, random.Random(seed * 17 + 11))
        assert isinstance(scenario, Scenario)
        watches.append(plan_numbers(cluster, scenario.deployment, random.Random(seed * 13 + 7), SPAN_NS))

    tried = _Judged(Trial(seed))
    found = faults.try_seed(seed, workers_max, functions_max, parts, False, kind, disturb, tried.judge)
    trial = tried.trial
    trial.recoveries, trial.log = found.recoveries, "; ".join(found.faults)
    trial.violations = [*found.violations, *trial.violations]
    for watch in watches:
        _judge_lessees(watch, trial)
    return trial


@dataclass
class _Judged:
    trial: Trial

    def judge(self, cluster: DurableCluster) -> None:
        _judge(cluster, self.trial)


def plan_changes(cluster: SimulatedCluster, chance: random.Random) -> None:
    """Have workers added and drained at random moments."""
    cluster.unstartable = chance.choice(UNSTARTABLE)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at_ns = chance.randint(0, SPAN_NS if chance.random() < 0.5 else SPAN_NS // 6)
        cluster.plan(at_ns, partial(_change, cluster, random.Random(chance.random())))


def _change(cluster: SimulatedCluster, chance: random.Random) -> None:
    names = sorted(name for name in cluster.workers if not name.startswith("driver"))
    kind = chance.random()
    if kind < 0.45 or not names:
        cluster.ask(ScaleOutRequested(chance.choice((1, 1, 2))))
    elif kind < 0.75:
        cluster.ask(ScaleInRequested(chance.choice((1, 1, 2))))
    else:
        cluster.ask(DrainRequested(chance.choice(names)))


def _plan_untimely(cluster: DurableCluster, chance: random.Random) -> None:
    """Something happens to a worker in the middle of its drain, or to another one."""
    for _ in range(chance.randint(0, 2)):
        what: Callable[[str], None] = chance.choice(
            (cluster.crash, lambda name: cluster.hang(name, 400_000_000), lambda _: cluster.restart())
        )
        late_ns, at_ns = chance.choice((0, 500_000, 3_000_000)), chance.randint(0, SPAN_NS // 2)
        cluster.plan(at_ns, partial(_at_drain, cluster, what, late_ns, 40))


def _plan_drains_of_writers(cluster: DurableCluster, chance: random.Random) -> None:
    """Often have workers added early, which get tasks and no homes, and drained while they write a task's part of a
    checkpoint. Storage is slow then, so that shards may have left and leases ended before the part is written."""
    if chance.random() < 0.5:
        return
    cluster.write_ns = SLOW_WRITE_NS
    cluster.plan(chance.randint(0, SPAN_NS // 30), lambda: cluster.ask(ScaleOutRequested(2)))
    drained: set[str] = set()

    def happen(name: str) -> None:
        jobs = cluster.coordinator.jobs.values()
        if name not in drained and not any(name in job.homes for job in jobs):
            drained.add(name)
            cluster.plan(0, partial(cluster.ask, DrainRequested(name)))

    cluster.at_every_moment(Moment.STORING, happen)


def _at_drain(cluster: DurableCluster, what: Callable[[str], None], late_ns: int, tries: int) -> None:
    draining = [name for name in cluster.names_of_workers() if name in _drains(cluster, Outcome.PENDING)]
    if draining:
        cluster.plan(late_ns, partial(what, draining[0]))
    elif tries and not cluster.has_ended:
        cluster.plan(2_000_000, partial(_at_drain, cluster, what, late_ns, tries - 1))


def _drains(cluster: SimulatedCluster, *outcomes: Outcome) -> list[str]:
    records = cluster.decisions.values()
    return [
        each.decision.member for each in records if isinstance(each.decision, DrainWorker) and each.outcome in outcomes
    ]


def _judge_lessees(watch: LesseeWatch, trial: Trial) -> None:
    """Adds what was seen of the numbers of lessees."""
    trial.violations += watch.violations[:1]
    trial.lessees_set += numbers_set(watch.cluster)
    trial.leases_ended += watch.ended


def _judge(cluster: SimulatedCluster, trial: Trial) -> None:
    """Checks who has come and gone, at the end of a run."""
    trial.violations += [Violation("leaver", text) for text in cluster.leaver_faults]
    records = cluster.decisions.values()
    trial.added += sum(each.outcome is Outcome.DONE for each in records if isinstance(each.decision, AddWorkers))
    trial.drained += len(_drains(cluster, Outcome.DONE))
    trial.handovers += len(cluster.handed_over)
    trial.refused += len(_drains(cluster, Outcome.REFUSED))
    pending = [str(each) for each in records if not each.job and each.outcome is Outcome.PENDING]
    if pending:
        trial.violations.append(Violation("liveness", f"not settled in the end: {pending[0]}"))
    again = set(_drains(cluster, Outcome.DONE)) & set(getattr(cluster, "replaced", ()))
    if again:
        trial.violations.append(Violation("leaver", f"{sorted(again)[0]} was drained and replaced"))
    active, wanted = cluster.coordinator.active, cluster.coordinator.wanted
    if len(active) != wanted:
        trial.violations.append(Violation("count", f"{wanted} workers are wanted, and there are {', '.join(active)}"))
