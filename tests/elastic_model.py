"""A small model of a cluster with elastic actors, for controllers in a closed loop: queues of fluid, in virtual time.

Each shard receives work at a rate and has a backlog. In each step a worker divides its time fairly among the tasks on
it. An actor whose backlog is full receives no more than it works off, as with credits. Decisions are carried out at
once, and taken back by the same rule as in the coordinator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from stretto.actors.address import Address
from stretto.elasticity import (
    ActorView,
    DecisionRecord,
    ElasticView,
    JobView,
    MoveShards,
    Outcome,
    Repartition,
    SetWorkers,
    Team,
    WorkerView,
)
from stretto.elasticity.reverting import Reverting
from stretto.observation.shards import ShardsObserved

STEP_S = 0.25
PER_SECOND = round(1 / STEP_S)
WAITING_MAX = 64
SECOND_NS = 1_000_000_000


@dataclass
class ModelActor:
    """`work` is what each shard receives, in core-seconds per second; `service_s` one message's cost; `routing` what
    the home spends per second of work."""

    address: Address
    home: str
    work: npt.NDArray[np.float64]
    service_s: float = 0.001
    routing: float = 0.0
    bytes_per_s: float = 0.0
    state_bytes: int = 32_768
    workers_max: int = 64
    parallelism: int = 1
    workers: tuple[str, ...] = ()
    owners: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = self.workers or (self.home,)
        self.owners = self.owners or [self.home] * len(self.work)
        self.backlog = np.zeros(len(self.work))
        self.done = [np.zeros(len(self.work))] * PER_SECOND
        self.received = [0.0] * PER_SECOND

    @property
    def waiting(self) -> int:
        return round(float(self.backlog.sum()) / self.service_s)

    def receive(self, factor: float) -> None:
        room = max(0.0, WAITING_MAX * self.service_s * len(self.workers) - float(self.backlog.sum()))
        # Sources hold back what finds no room; what was worked off in the last step made some.
        coming = self.work * (factor * STEP_S)
        accepted = min(1.0, (room + float(self.done[-1].sum())) / max(1e-12, float(coming.sum())))
        self.backlog += coming * accepted
        self.received = [*self.received[1:], float(coming.sum()) * accepted]

    def view(self) -> ActorView:
        costs = sum(self.done[1:], self.done[0])
        shards = ShardsObserved(
            tuple(range(len(self.work))),
            tuple(self.owners),
            tuple((costs * 1e9).astype(int).tolist()),
            (self.state_bytes,) * len(self.work),
        )
        rate = sum(self.received) / self.service_s
        return ActorView(
            self.address,
            self.home,
            self.workers,
            shards,
            self.workers_max,
            self.parallelism,
            rows_per_s=rate * 100,
            batches_per_s=rate,
            service_ns=self.service_s * 1e9,
            bytes_per_s=self.bytes_per_s,
            waiting=self.waiting,
            routing_ns=int(self.routing * float(costs.sum()) * 1e9),
        )


class ElasticModel:
    """Workers named `w000` and so on, `per_node` of them on each node; actors; and a controller."""

    def __init__(
        self,
        workers: int,
        actors: Sequence[ModelActor],
        controller: Team,
        jobs: Sequence[JobView] = (),
        per_node: int = 4,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.names = [f"w{number:03}" for number in range(workers)]
        self.nodes = {name: f"n{number // per_node:02}" for number, name in enumerate(self.names)}
        self.actors = {actor.address: actor for actor in sorted(actors, key=lambda actor: actor.address)}
        self.controller = controller
        self.jobs = {job.name: job for job in jobs}
        self.now_ns = 0
        self.records: list[DecisionRecord] = []
        self.reverting = Reverting()
        self._unmeasured: list[DecisionRecord] = []
        self._noise = noise
        self._random = random.Random(seed)
        self._busy = {name: [0.0] * PER_SECOND for name in self.names}
        self._routing = {name: [0.0] * PER_SECOND for name in self.names}

    @property
    def decisions(self) -> list[DecisionRecord]:
        return [record for record in self.records if record.decision is not None]

    def since(self, from_s: float) -> list[DecisionRecord]:
        return [record for record in self.decisions if record.at_ns >= from_s * SECOND_NS]

    def run(self, seconds: float, change: Callable[[ElasticModel], None] | None = None) -> None:
        """Runs for so long; `change` is called before each step."""
        for _ in range(round(seconds / STEP_S)):
            if change is not None:
                change(self)
            self._step()
            self.now_ns += round(STEP_S * SECOND_NS)
            if self.now_ns >= (self.controller.next_ns() or 0):
                for record in self.controller.decide(self.view(), self.now_ns):
                    self._decided(record)
            self._judge()

    def _decided(self, record: DecisionRecord) -> None:
        record = replace(record, number=len(self.records))
        if record.decision is not None:
            repeated = self.reverting.refused(record, self.now_ns)
            if repeated is not None:
                self.records.append(record.finished(Outcome.REFUSED, repeated))
                return
            self.reverting.began(record.number, record, self.view())
            self._unmeasured.append(record)
            self._enact(record)
        self.records.append(record)

    def _judge(self) -> None:
        due = [record for record in self._unmeasured if (record.measure_at_ns or 0) <= self.now_ns]
        for record in due:
            self._unmeasured.remove(record)
            self.reverting.measured(record.number, self.view(), self.now_ns)
        for record in self.reverting.due(self.view(), self.now_ns):
            assert record.reverts is not None
            self._decided(record)
            self.records[record.reverts] = replace(self.records[record.reverts], reverted_ns=self.now_ns)

    def view(self) -> ElasticView:
        workers = {
            name: WorkerView(name, self.nodes[name], 1.0, min(1.0, sum(self._busy[name])), sum(self._routing[name]))
            for name in self.names
        }
        actors = tuple(actor.view() for actor in self.actors.values())
        rows: dict[str, float] = {}
        for actor in actors:
            rows[actor.address.job] = rows.get(actor.address.job, 0.0) + actor.rows_per_s
        jobs = {
            name: JobView(name, job.objective_ns, job.percentile, job.priority, rows.get(name, 0.0))
            for name, job in self.jobs.items()
        }
        return ElasticView(self.now_ns, actors, workers, jobs)

    def _step(self) -> None:
        """Receives, and lets each worker divide its time fairly among the tasks that have work."""
        places = {name: place for place, name in enumerate(self.names)}
        left_s = np.full(len(self.names), STEP_S)
        owners, asked = [], []
        for actor in self.actors.values():
            actor.receive(1 + self._noise * self._random.uniform(-1, 1))
            left_s[places[actor.home]] -= actor.routing * actor.received[-1]
            owners.append(np.array([places[owner] for owner in actor.owners]))
            asked.append(np.bincount(owners[-1], actor.backlog, minlength=len(self.names)))
        given = _fair(np.maximum(left_s, 0.0), np.array(asked))
        for place, actor in enumerate(self.actors.values()):
            share = given[place] / np.maximum(asked[place], 1e-12)
            worked = actor.backlog * share[owners[place]]
            actor.backlog = actor.backlog - worked
            actor.done = [*actor.done[1:], worked]
        routed = STEP_S - np.maximum(left_s, 0.0)
        for name, routing, ran in zip(self.names, routed, given.sum(axis=0), strict=True):
            self._routing[name] = [*self._routing[name][1:], float(routing)]
            self._busy[name] = [*self._busy[name][1:], float(routing + ran)]

    def _enact(self, record: DecisionRecord) -> None:
        match record.decision:
            case MoveShards(moves=moves) as decision:
                actor = self.actors[decision.address]
                for shard, source, target in moves:
                    assert actor.owners[shard] == source
                    assert target in actor.workers
                    actor.owners[shard] = target
            case SetWorkers(workers=workers) as decision:
                actor = self.actors[decision.address]
                assert workers[0] == actor.home
                assert len(set(workers)) == len(workers) <= actor.workers_max
                assert set(workers) <= set(self.names)
                actor.workers = workers
            case Repartition(job=job, function=function, parallelism=parallelism):
                for actor in self.actors.values():
                    if actor.address[:2] == (job, function):
                        actor.parallelism = parallelism


def _fair(left_s: npt.NDArray[np.float64], asked: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns what each actor gets of each worker: the least demanding ones all that they ask for."""
    given = np.zeros_like(asked)
    order = np.argsort(asked, axis=0, kind="stable")
    columns = np.arange(asked.shape[1])
    for place in range(len(asked)):
        rows = order[place]
        part = np.minimum(asked[rows, columns], left_s / (len(asked) - place))
        given[rows, columns] = part
        left_s = left_s - part
    return given
