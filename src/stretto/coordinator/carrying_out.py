"""How decisions are carried out: each kind becomes orders to whoever has its lever.

Who is asked and what became of a decision is not known here (`enacting.py`); only which orders are under way, so that
a decision that conflicts with one of them is refused, and which workers elastic actors were allotted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from stretto.actors.address import Address, job_of
from stretto.actors.metrics import ShardTotals
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.elasticity.capacity import Holding, levers_for, means_of
from stretto.elasticity.decisions import (
    AddWorkers,
    Capacity,
    Decision,
    DrainWorker,
    GiveCapacity,
    MoveShards,
    Repartition,
    SetLessees,
    SetWorkers,
    TakeCapacity,
)
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.view import ElasticView
from stretto.observation.model import Observation


class ShardLevers(Protocol):
    """Whoever has shards moved."""

    def move_shards(
        self, job: Job, function: str, partition: int, moves: tuple[tuple[int, str], ...]
    ) -> int | None: ...


class Lessees(Protocol):
    """Whoever decides how many lessees actors have."""

    def set_lessees(self, job: Job, function: str, lessees: int) -> str | None: ...


class Additions(Protocol):
    """Whoever has workers started."""

    def add(self, count: int) -> str: ...


class Drains(Protocol):
    """Whoever has workers leave."""

    def refusal(self, member: str) -> str | None: ...

    def drain(self, member: str) -> None: ...


class Reshaping(Protocol):
    """Whoever hands running jobs over to another attempt."""

    def refusal(self, job: Job, parallelism: Mapping[str, int], avoid: frozenset[str] = ...) -> str | None: ...

    def reshape(self, job: Job, order: int, parallelism: Mapping[str, int], avoid: frozenset[str] = ...) -> None: ...


class Observers(Protocol):
    """Whoever observes the cluster."""

    last: Observation


@dataclass(slots=True)
class Kept:
    """A record with its number, as it is now."""

    number: int
    record: DecisionRecord
    token: str = ""


class CarryingOut(Part):
    """Decisions that are under way, and the workers that elastic actors were allotted."""

    def __init__(
        self,
        host: Host,
        levers: ShardLevers,
        hosts: Lessees,
        handovers: Reshaping,
        additions: Additions,
        drains: Drains,
    ) -> None:
        self._host = host
        self._hosts = hosts
        self._levers = levers
        self._handovers = handovers
        self._additions = additions
        self._drains = drains
        self._under_way: dict[int | str, Kept] = {}
        """By the number of the lever's order; of handovers, that of the record, negative; or by the name of the worker
        that comes or goes."""
        self._allotted: dict[Address, tuple[str, ...]] = {}

    def connect(self, observers: Observers) -> None:
        self._observers = observers

    # What elastic actors may use.

    def workers_of(self, actor: Address, home: str, shards: ShardTotals) -> tuple[str, ...]:
        """Returns the workers that an actor may use, its home first: those that it was allotted, or that have
        shards."""
        allotted = self._allotted.get(actor)
        if allotted is not None and allotted[0] == home:
            return allotted
        owners = {shards.members[place] for place in shards.owners}
        return home, *sorted(owners - {home})

    def is_changing(self, actor: Address) -> bool:
        """Whether a decision about an actor is being carried out, or about all of its job."""
        job = self._host.jobs.get(job_of(actor.job))
        if job is not None and job.handover is not None:
            return True
        return any(kept.record.decision and kept.record.decision.address == actor for kept in self._under_way.values())

    def begin(self, kept: Kept, decision: Decision) -> DecisionRecord:
        """Begins a decision; returns its record, which says so if it was refused or is done."""
        record = kept.record
        if isinstance(decision, AddWorkers | DrainWorker):
            return self._scaled(kept, decision)
        job = self._host.jobs.get(decision.job)
        if job is None or job.status is not JobStatus.RUNNING:
            return record.finished(Outcome.REFUSED, "the job does not run")
        # Workers may be allotted while shards move: the next moves will follow.
        waits = not isinstance(decision, SetWorkers) and record.trigger is not Trigger.ASKED
        if decision.address is not None and waits and self.is_changing(decision.address):
            return record.finished(Outcome.REFUSED, "another decision about the actor is being carried out")
        match decision:
            case SetWorkers(workers=workers):
                self._allotted[decision.address] = workers
                return record.finished(Outcome.DONE)
            case MoveShards():
                return self._shards_move(kept, job, decision)
            case Repartition():
                return self._reshaped(kept, job, decision)
            case SetLessees(function=function, lessees=lessees):
                refused = self._hosts.set_lessees(job, function, lessees)
                return record.finished(Outcome.DONE if refused is None else Outcome.REFUSED, refused)
            case GiveCapacity() | TakeCapacity():
                return self._capacity_changed(kept, job, decision)

    def _shards_move(self, kept: Kept, job: Job, decision: MoveShards) -> DecisionRecord:
        targets = tuple((move.shard, move.target) for move in decision.moves)
        order = self._levers.move_shards(job, decision.function, decision.partition, targets)
        if order is None:
            return kept.record.finished(Outcome.REFUSED, "there is no such actor")
        self._under_way[order] = kept
        return kept.record

    def _reshaped(self, kept: Kept, job: Job, decision: Repartition) -> DecisionRecord:
        wanted = {decision.function: decision.parallelism, **dict(decision.others)}
        refused = self._handovers.refusal(job, wanted)
        if refused is not None:
            return kept.record.finished(Outcome.REFUSED, refused)
        self._under_way[-kept.number] = kept
        self._handovers.reshape(job, -kept.number, wanted)
        return kept.record

    def _capacity_changed(self, kept: Kept, job: Job, ask: Capacity) -> DecisionRecord:
        """Carries out what an ask for capacity means for its function."""
        shape = job.shapes.get(ask.function)
        if shape is None:
            return kept.record.finished(Outcome.REFUSED, "there is no such function")
        view = ElasticView.of(self._observers.last)
        actors = [
            actor for actor in view.actors if (actor.address.job, actor.address.function) == (ask.job, shape.name)
        ]
        holding = Holding(means_of(shape), shape.parallelism, job.lessees_of(shape), shape.lessees_max, actors)
        levers = levers_for(ask, holding, view.workers)
        if not levers:
            return kept.record.finished(Outcome.REFUSED, "it cannot have more or fewer instances")
        for lever in levers:
            record = self.begin(kept, lever)
            if record.outcome is Outcome.REFUSED:
                break
        return record

    def _scaled(self, kept: Kept, decision: AddWorkers | DrainWorker) -> DecisionRecord:
        """Begins to add or drain workers."""
        if isinstance(decision, AddWorkers):
            if decision.count < 1:
                return kept.record.finished(Outcome.REFUSED, "there is no worker to add")
            self._under_way[self._additions.add(decision.count)] = kept
            return kept.record
        refusal = self._drains.refusal(decision.member)
        if refusal is not None:
            return kept.record.finished(Outcome.REFUSED, refusal)
        self._under_way[decision.member] = kept
        # No actor is to use it any more, also if it was allotted.
        self.member_lost(decision.member)
        self._drains.drain(decision.member)
        return kept.record

    def ended(self, order: int | str) -> Kept | None:
        """Returns the decision that an order was for, which is not under way any more; None if there is none."""
        return self._under_way.pop(order, None)

    def member_lost(self, member: str) -> None:
        """Takes a lost worker from all actors; jobs that it had a part of resume with all shards at home."""
        self._allotted = {actor: workers for actor, workers in self._allotted.items() if member not in workers}
