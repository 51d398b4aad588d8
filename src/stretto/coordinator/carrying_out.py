"""How decisions are carried out: each kind becomes orders to whoever has its lever.

Who is asked and what became of a decision is not known here (`enacting.py`); only which orders are under way, so that
a decision that conflicts with one of them is refused, and which workers elastic actors were allotted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stretto.actors.address import Address, job_of
from stretto.actors.metrics import ShardTotals
from stretto.actors.shards import ShardMap
from stretto.api.slo import SLO
from stretto.coordinator.dealing import EVEN
from stretto.coordinator.interfaces import Observers
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.elasticity.capacity import Holding, Means, levers_for, means_of
from stretto.elasticity.decisions import (
    AddWorkers,
    Capacity,
    Decision,
    DrainWorker,
    EndBurst,
    GiveCapacity,
    MoveCopies,
    MoveHomes,
    MoveShards,
    RedirectBurst,
    Repartition,
    SetLessees,
    SetObjective,
    SetWorkers,
    TakeCapacity,
)
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.view import ElasticView
from stretto.observation.model import Observation
from stretto.protocol.bursts import To
from stretto.protocol.jobs import Promised

FIXED = "it cannot have more or fewer instances"


class ShardLevers(Protocol):
    """Whoever has shards moved."""

    def move_shards(
        self, job: Job, function: str, partition: int, moves: tuple[tuple[int, str], ...]
    ) -> int | None: ...


class Lessees(Protocol):
    """Whoever decides how many lessees actors have."""

    def set_lessees(self, job: Job, function: str, lessees: int) -> str | None: ...

    def workers(self) -> list[str]: ...


class Additions(Protocol):
    """Whoever has workers started."""

    def add(self, count: int, transient: bool = ...) -> str: ...


class Drains(Protocol):
    """Whoever has workers leave."""

    def refusal(self, member: str) -> str | None: ...

    def drain(self, member: str) -> None: ...


class Reshaping(Protocol):
    """Whoever hands running jobs over to another attempt."""

    def refusal(
        self,
        job: Job,
        parallelism: Mapping[str, int],
        avoid: frozenset[str] = ...,
        shards: Mapping[str, ShardMap] = ...,
    ) -> str | None: ...

    def reshape(
        self,
        job: Job,
        order: int,
        parallelism: Mapping[str, int],
        avoid: frozenset[str] = ...,
        shards: Mapping[str, ShardMap] = ...,
    ) -> None: ...


class Bursts(Protocol):
    """Whoever has batches go to transient workers."""

    def redirect(self, job: Job, to: Mapping[str, To]) -> str | None: ...


@dataclass(slots=True)
class Kept:
    """A record with its number, as it is now.

    `together` are others that are carried out by the same order, and `since` is what was observed when it was done: its
    effect is measured from there on."""

    number: int
    record: DecisionRecord
    token: str = ""
    together: tuple[Kept, ...] = ()
    since: Observation | None = None


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
        bursts: Bursts,
    ) -> None:
        self._host = host
        self._bursts = bursts
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

    def together(self, decisions: Sequence[Decision | None]) -> list[list[int]]:
        """Returns the places of decisions that are carried out by one order: a job is handed over once for all of its
        functions that get another parallelism."""
        found: list[list[int]] = []
        reshaped: dict[str, list[int]] = {}
        for place, decision in enumerate(decisions):
            if not isinstance(decision, GiveCapacity | TakeCapacity) or not self._reshapes(decision):
                found.append([place])
            elif decision.job in reshaped:
                reshaped[decision.job].append(place)
            else:
                reshaped[decision.job] = [place]
                found.append(reshaped[decision.job])
        return found

    def _reshapes(self, ask: Capacity) -> bool:
        job = self._host.jobs.get(ask.job)
        shape = job.shapes.get(ask.function) if job is not None else None
        return shape is not None and means_of(shape) is Means.PARALLELISM

    def begin_together(self, group: Sequence[Kept]) -> None:
        """Begins decisions that are carried out by one order; their records say so if they were refused or are
        done."""
        able: list[tuple[Kept, Repartition]] = []
        for kept in group:
            decision = kept.record.decision
            assert decision is not None
            if len(group) == 1:
                kept.record = self.begin(kept, decision)
                return
            lever = next(iter(self._meaning_of(decision)), None)
            if isinstance(lever, Repartition):
                able.append((kept, lever))
            else:
                kept.record = kept.record.finished(Outcome.REFUSED, FIXED)
        if able:
            self._begin_jointly(able)

    def _begin_jointly(self, group: Sequence[tuple[Kept, Repartition]]) -> None:
        """Has a job handed over once for several of its functions. The first record stands for the others, too."""
        (first, lever), *others = group
        first.together = tuple(kept for kept, _ in others)
        others_wanted = tuple((each.function, each.parallelism) for _, each in others)
        first.record = self.begin(first, replace(lever, others=others_wanted))
        if first.record.outcome is Outcome.REFUSED:
            for kept in first.together:
                kept.record = kept.record.finished(Outcome.REFUSED, first.record.outcome_reason)

    def begin(self, kept: Kept, decision: Decision) -> DecisionRecord:
        """Begins a decision; returns its record, which says so if it was refused or is done."""
        record = kept.record
        if isinstance(decision, AddWorkers | DrainWorker):
            return self._scaled(kept, decision)
        if isinstance(decision, MoveCopies):
            return record.finished(Outcome.REFUSED, "copies are moved by the driver's worker, which decides about them")
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
            case MoveHomes(avoid=avoid):
                return self._handed_over(kept, job, {}, frozenset(avoid))
            case SetLessees(function=function, lessees=lessees):
                refused = self._hosts.set_lessees(job, function, lessees)
                return record.finished(Outcome.DONE if refused is None else Outcome.REFUSED, refused)
            case SetObjective(objective=objective):
                self._promise(job, objective)
                return record.finished(Outcome.DONE)
            case GiveCapacity() | TakeCapacity():
                return self._capacity_changed(kept, decision)
            case RedirectBurst() | EndBurst():
                return self._redirected(record, job, decision)

    def _promise(self, job: Job, objective: SLO) -> None:
        """Has a job promise something else. Whoever has a part of it hears of it, also of an attempt that is to take
        over; later attempts are deployed with it."""
        promise = job.change_objective(objective)
        loading = self._hosts.workers() if job.spreads else []
        for member in sorted({*job.members, *loading}):
            self._host.send(member, Promised(job.attempt, promise))
        if job.handover is not None and job.handover.attempt:
            for member in job.handover.members:
                self._host.send(member, Promised(job.handover.attempt, promise))
        self._observers.observe()

    def _redirected(self, record: DecisionRecord, job: Job, decision: RedirectBurst | EndBurst) -> DecisionRecord:
        """Has batches go to transient workers, or come back: homes hear of it at once, and nobody waits for them."""
        wanted = decision.redirections if isinstance(decision, RedirectBurst) else ()
        refused = self._bursts.redirect(job, {each.function: To(each.members, each.share) for each in wanted})
        return record.finished(Outcome.DONE if refused is None else Outcome.REFUSED, refused)

    def _shards_move(self, kept: Kept, job: Job, decision: MoveShards) -> DecisionRecord:
        targets = tuple((move.shard, move.target) for move in decision.moves)
        order = self._levers.move_shards(job, decision.function, decision.partition, targets)
        if order is None:
            return kept.record.finished(Outcome.REFUSED, "there is no such actor")
        self._under_way[order] = kept
        return kept.record

    def _reshaped(self, kept: Kept, job: Job, decision: Repartition) -> DecisionRecord:
        wanted = {decision.function: decision.parallelism, **dict(decision.others)}
        shards = {} if decision.shards is None else {decision.function: decision.shards}
        return self._handed_over(kept, job, wanted, frozenset(), shards)

    def _handed_over(
        self,
        kept: Kept,
        job: Job,
        parallelism: Mapping[str, int],
        avoid: frozenset[str],
        shards: Mapping[str, ShardMap] = EVEN,
    ) -> DecisionRecord:
        refused = self._handovers.refusal(job, parallelism, avoid, shards)
        if refused is not None:
            return kept.record.finished(Outcome.REFUSED, refused)
        self._under_way[-kept.number] = kept
        self._handovers.reshape(job, -kept.number, parallelism, avoid, shards)
        return kept.record

    def _capacity_changed(self, kept: Kept, ask: Capacity) -> DecisionRecord:
        """Carries out what an ask for capacity means for its function."""
        levers = self._meaning_of(ask)
        if not levers:
            return kept.record.finished(Outcome.REFUSED, FIXED)
        for lever in levers:
            record = self.begin(kept, lever)
            if record.outcome is Outcome.REFUSED:
                break
        return record

    def _meaning_of(self, ask: Decision) -> list[Decision]:
        """Returns what an ask for capacity means for its function; nothing where it cannot have more or fewer."""
        assert isinstance(ask, GiveCapacity | TakeCapacity)
        job = self._host.jobs.get(ask.job)
        shape = job.shapes.get(ask.function) if job is not None else None
        if job is None or shape is None:
            return []
        view = ElasticView.of(self._observers.last)
        actors = [
            actor for actor in view.actors if (actor.address.job, actor.address.function) == (ask.job, shape.name)
        ]
        holding = Holding(means_of(shape), shape.parallelism, job.lessees_of(shape), shape.lessees_max, actors)
        return levers_for(ask, holding, view.workers)

    def _scaled(self, kept: Kept, decision: AddWorkers | DrainWorker) -> DecisionRecord:
        """Begins to add or drain workers."""
        if isinstance(decision, AddWorkers):
            if decision.count < 1:
                return kept.record.finished(Outcome.REFUSED, "there is no worker to add")
            self._under_way[self._additions.add(decision.count, decision.transient)] = kept
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
