"""`stretto simulate bursts`: batches go to transient workers and come back at random moments, transient workers vanish,
and in two of five runs others come and leave, by seed. Every third seed has checkpoints and faults of ordinary workers
and of the driver too.

The answers must be those of a sequential run: redirecting is invisible, whatever happens to who runs the batches.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

from stretto.actors.deployment import Deployment
from stretto.actors.keyed_twins import Survey
from stretto.coordinator.events import DrainRequested, MoveShardsRequested, RedirectRequested, ScaleOutRequested
from stretto.coordinator.records import JobStatus
from stretto.elasticity.decisions import AddWorkers, DrainWorker
from stretto.elasticity.records import Outcome
from stretto.protocol.bursts import AskBack, GivenBack, StepsSent, To, TwinBegins
from stretto.protocol.frames import Frame
from stretto.simulator.checking import faults
from stretto.simulator.checking.barriers import TIMINGS, result_of, weather_of
from stretto.simulator.checking.burst_scenarios import BurstScenario, MergedScenario
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.elastic_scenarios import random_moves
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import STARTED_NS, is_transient
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.worker.bursts.by_key import ByKey
from stretto.worker.machine import WorkerParts

STEPS_MAX = 400_000
LENGTH = 3
BEATS_NS = (500_000, 8_000_000)
"""Bounds of the time between two changes."""
TRANSIENT_MAX = 4
VANISH_MAX = 12
"""So many transient workers vanish in a run at most."""
SHARES = (0.2, 0.5, 0.9, 1.0)
COLD_MAX = 3
"""So many transient workers are asked for at once at most, and so many there may be beside those at the start."""
COLD = ((0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.3, 0.5))
"""The share of those that cannot be started, and of those that come late, perhaps when all is over."""
SLOW_SURVEY = 20.0
"""In every fourth seed surveys take so many times as long, as they do with much state: keys come home meanwhile."""
WATCHED = (TwinBegins, StepsSent, AskBack, GivenBack)


@dataclass
class Trial:
    """The run of one seed: batches that ran elsewhere, transient workers that vanished, and its violations."""

    seed: int
    redirected: int = 0
    vanished: int = 0
    came: int = 0
    """Transient workers that were asked for and came."""
    left: int = 0
    """Those that were asked to leave."""
    twins: int = 0
    """Twins of keyed functions that began."""
    steps: int = 0
    """Barriers whose steps twins of keyed functions have run."""
    given_back: int = 0
    """How often twins have given their state back, or a copy of it."""
    recoveries: int = 0
    violations: list[Violation] = field(default_factory=list)
    log: str = ""


def try_seed(seed: int, workers_max: int, functions_max: int, parts: Parts | None = None) -> Trial:
    """Run one random scenario under bursts, and check it."""
    parts = parts or PARTS
    if seed % 3 == 2:
        return _with_faults(seed, workers_max, functions_max, parts)
    return _without_faults(seed, workers_max, functions_max, parts)


def _kind(seed: int) -> type[Scenario]:
    return BurstScenario if seed % 2 else Scenario if seed % 4 else MergedScenario


def _slow_work(seed: int) -> dict[type, float]:
    return {Survey: SLOW_SURVEY} if seed % 4 == 3 else {}


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
        weather=replace(weather_of(chance, workers), pauses={}, slow_work=_slow_work(seed)),
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


class Impatient(ByKey):
    """Asks for copies of the state of twins often, and makes surveys often."""

    log_bytes_max = 150
    survey_costs = 0


PARTS = Parts(worker=WorkerParts(by_key=Impatient))


class Watch:
    """Sees all frames of bursts, counts them, and has transient workers vanish when they are asked for something."""

    def __init__(self, cluster: DurableCluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._vanishing, self._untimely = chance.choice(((0.0, 0.0), (0.05, 0.1), (0.1, 0.5), (0.3, 0.1)))
        self._left = chance.randint(1, VANISH_MAX)
        self.sent: Counter[type] = Counter()

    def __call__(self, to: str, frame: Frame) -> None:
        kind = type(frame)
        if kind in WATCHED:
            self.sent[kind] += 1
            if kind is not GivenBack and self._chance.random() < self._untimely:
                after_ns = self._chance.choice((0, self._chance.randint(0, 3_000_000)))
                self._cluster.plan(after_ns, partial(self._vanish, to))

    def beat(self) -> None:
        """Have some transient worker vanish, perhaps."""
        names = [name for name in self._cluster.names_of_workers() if is_transient(name)]
        if names and self._chance.random() < self._vanishing:
            self._vanish(self._chance.choice(names))

    def vanish_newest(self) -> None:
        """Have the one vanish that has started last."""
        newest = [name for name in self._cluster.workers if is_transient(name)][-1:]
        for name in newest:
            self._vanish(name)

    def _vanish(self, name: str) -> None:
        """Not for ever: who waits for what no transient worker has must not be saved by the loss of one."""
        if name in self._cluster.workers and self._left:
            self._left -= 1
            self._cluster.crash(name)
            self._cluster.vanished += 1


def plan_bursts(cluster: DurableCluster, deployment: Deployment, chance: random.Random) -> None:
    """Have batches of random functions redirected, or not any more, at random moments; and transient workers vanish,
    often while others wait for them."""
    watch = cluster.on_frame = Watch(cluster, random.Random(chance.random()))
    cold = copy.deepcopy(chance)  # What it decides changes nothing of the others' choices.
    if cold.random() < 0.4:
        cluster.unstartable, cluster.cold_late = cold.choice(COLD)
        cluster.plan(cold.randint(*BEATS_NS), partial(_come_or_leave, cluster, cold, watch))
    cluster.plan(chance.randint(*BEATS_NS), partial(_beat, cluster, deployment, random.Random(chance.random()), watch))


def _beat(cluster: DurableCluster, deployment: Deployment, chance: random.Random, watch: Watch) -> None:
    if cluster.has_ended:
        return
    watch.beat()
    if chance.random() < 0.2:
        _move(cluster, deployment, chance)
    if chance.random() < 0.5:
        _redirect(cluster, deployment, chance)
    cluster.plan(chance.randint(*BEATS_NS), partial(_beat, cluster, deployment, chance, watch))


def _redirect(cluster: DurableCluster, deployment: Deployment, chance: random.Random) -> None:
    job = cluster.coordinator.jobs.get(deployment.job)
    warm = cluster.coordinator.transients.warm(job) if job is not None else []
    functions = {}
    for name, shape in sorted(job.shapes.items()) if job is not None and warm else ():
        if shape.redirects and chance.random() < 0.7:
            members = chance.sample(warm, max(chance.randint(1, len(warm)), chance.randint(1, len(warm))))
            functions[name] = To(tuple(members), chance.choice(SHARES))
    cluster.ask(RedirectRequested(deployment.job, functions if chance.random() < 0.8 else {}))


def _come_or_leave(cluster: DurableCluster, chance: random.Random, watch: Watch) -> None:
    """Have cold transient workers come, of which one may vanish as it joins, or have one leave, whatever it has."""
    if cluster.has_ended:
        return
    cluster.plan(5 * chance.randint(*BEATS_NS), partial(_come_or_leave, cluster, chance, watch))
    names = [name for name in cluster.names_of_workers() if is_transient(name)]
    if chance.random() < 0.5 and len(names) < TRANSIENT_MAX + COLD_MAX:
        cluster.ask(ScaleOutRequested(chance.randint(1, COLD_MAX), transient=True))
        if chance.random() < 0.3:
            cluster.plan(chance.randint(*STARTED_NS), watch.vanish_newest)
    elif names:
        cluster.ask(DrainRequested(chance.choice(names)))


def _move(cluster: DurableCluster, deployment: Deployment, chance: random.Random) -> None:
    """Have shards of an elastic function move among the ordinary workers, or come home."""
    job = cluster.coordinator.jobs.get(deployment.job)
    elastic = sorted(name for name, spec in deployment.functions.items() if spec.tasks_max)
    workers = sorted(name for name in cluster.names_of_workers() if not is_transient(name))
    if job is None or not elastic or not workers or not job.placement.get(elastic[0]):
        return
    function = chance.choice(elastic)
    home = job.placement[function][0]
    moves = random_moves(chance, workers if chance.random() < 0.4 else [home])
    cluster.ask(MoveShardsRequested(deployment.job, function, 0, moves))


def _judge(cluster: DurableCluster, trial: Trial) -> None:
    trial.redirected += cluster.redirected
    trial.vanished += cluster.vanished
    trial.violations += [Violation("leaver", text) for text in cluster.leaver_faults]
    for record in cluster.decisions.values():
        if record.outcome is Outcome.DONE:
            trial.came += record.decision.count if isinstance(record.decision, AddWorkers) else 0
            trial.left += isinstance(record.decision, DrainWorker)
    if isinstance(cluster.on_frame, Watch):
        sent = cluster.on_frame.sent
        trial.twins += sent[TwinBegins]
        trial.steps += sent[StepsSent]
        trial.given_back += sent[GivenBack]
