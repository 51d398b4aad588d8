"""The enactor: it asks the controllers, carries out one decision per actor at a time, and keeps the record of each.

Controllers only suggest (`elasticity/`). A decision that conflicts with one under way is refused. What a lever reports
becomes the outcome of the decision, and some seconds later its effect is measured. One that made it worse is taken back
by the opposite decision (`elasticity/reverting.py`). Users read the records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from stretto.actors.address import Address, job_of
from stretto.actors.metrics import ShardTotals
from stretto.coordinator.events import (
    AnnounceDecision,
    AnnounceMisbehaviour,
    DrainRequested,
    MoveShardsRequested,
    RescaleRequested,
    ScaleInRequested,
    ScaleOutRequested,
)
from stretto.coordinator.part import Handlers, Host, Part
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
    ShardMove,
    TakeCapacity,
)
from stretto.elasticity.effects import measured_effect
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.reverting import Reverting
from stretto.elasticity.team import Team
from stretto.elasticity.view import ElasticView
from stretto.observation.model import Observation
from stretto.protocol.elastic import ShardsMoved
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Misbehaved
from stretto.rendering import error_text, traceback_of

RECORDS_MAX = 1_000
"""The number of records that are kept to measure their effects."""


class ShardLevers(Protocol):
    """Whoever has shards moved."""

    def move_shards(
        self, job: Job, function: str, partition: int, moves: tuple[tuple[int, str], ...]
    ) -> int | None: ...


class Additions(Protocol):
    """Whoever has workers started."""

    def add(self, count: int) -> str: ...


class Drains(Protocol):
    """Whoever has workers leave."""

    def refusal(self, member: str) -> str | None: ...

    def leavers(self, count: int) -> tuple[list[str], str | None]: ...

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


class Enactor(Part):
    """The decisions of all controllers."""

    def __init__(
        self,
        host: Host,
        team: Team,
        levers: ShardLevers,
        handovers: Reshaping,
        additions: Additions,
        drains: Drains,
    ) -> None:
        self._host = host
        self._team = team
        self._levers = levers
        self._handovers = handovers
        self._additions = additions
        self._drains = drains
        self._numbers = 0
        self._under_way: dict[int | str, Kept] = {}
        """By the number of the lever's order; of handovers, that of the record, negative; or by the name of the worker
        that comes or goes."""
        self._unmeasured: deque[Kept] = deque(maxlen=RECORDS_MAX)
        self._reverting = Reverting()
        self._judged: dict[int, Kept] = {}
        """The last decisions by their numbers, of which some may be taken back."""
        self._allotted: dict[Address, tuple[str, ...]] = {}
        self._reported: set[str] = set()
        """Controllers that were given up, and of which the jobs were told."""

    def connect(self, observers: Observers) -> None:
        self._observers = observers

    def events(self) -> Handlers:
        return {
            MoveShardsRequested: self._on_requested,
            RescaleRequested: self._on_rescale,
            ScaleOutRequested: self._on_scale_out,
            ScaleInRequested: self._on_scale_in,
            DrainRequested: self._on_drain,
        }

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

    # Deciding.

    def tick(self) -> None:
        now_ns = self._host.now_ns
        present = self._team.subjects_in(self._running())
        due_ns = self._team.next_ns(present)
        if due_ns is not None and now_ns >= due_ns:
            view = ElasticView.of(self._observers.last)
            for record in self._team.decide(view, now_ns, present):
                self._enact(record)
            self._report_given_up()
        self._measure(now_ns)
        self._revert(now_ns)

    def _report_given_up(self) -> None:
        """Reports controllers that raised, once, to all jobs that have what they look at."""
        for controller in self._team.controllers:
            name, error = controller.name, self._team.given_up.get(controller.name)
            if error is None or name in self._reported:
                continue
            self._reported.add(name)
            what = f"controller '{name}' raised {error_text(error)} and is given up; the others decide on"
            for job in self._host.jobs.values():
                if controller.looks_at.is_in(job):
                    said = Misbehaved(job.attempt, None, what, traceback_of(error))
                    self._host.effects.append(AnnounceMisbehaviour(job.name, COORDINATOR, said))

    def deadline_ns(self) -> int | None:
        """Returns when a controller is due, or an effect is to be measured."""
        due = [kept.record.measure_at_ns for kept in self._unmeasured if kept.record.measure_at_ns is not None]
        next_ns = self._team.next_ns(self._team.subjects_in(self._running()))
        due += [each for each in (next_ns, self._reverting.next_ns()) if each is not None]
        return min(due, default=None)

    def _running(self) -> Iterator[Job]:
        return (job for job in self._host.jobs.values() if job.status is JobStatus.RUNNING)

    def _on_requested(self, event: MoveShardsRequested) -> None:
        """A user has shards moved."""
        moves = tuple(ShardMove(shard, "", target) for shard, target in event.moves)
        decision = MoveShards(event.job, event.function, event.partition, moves)
        about = (event.job, event.function, event.partition)
        record = DecisionRecord(self._host.now_ns, "user", *about, Trigger.ASKED, "it was asked for", decision=decision)
        self._enact(record, event.token)

    def _on_scale_out(self, event: ScaleOutRequested) -> None:
        self._enact(self._asked(AddWorkers(event.count)), event.token)

    def _on_scale_in(self, event: ScaleInRequested) -> None:
        """A user has workers leave, all of them or none."""
        members, why = self._drains.leavers(event.count)
        for member in members:
            record = self._asked(DrainWorker(member))
            if why is None:
                self._enact(record, event.token)
            else:
                self._numbers += 1
                self._announce(Kept(self._numbers, record.finished(Outcome.REFUSED, why), event.token))

    def _on_drain(self, event: DrainRequested) -> None:
        self._enact(self._asked(DrainWorker(event.name)), event.token)

    def _asked(self, decision: AddWorkers | DrainWorker) -> DecisionRecord:
        """Returns the record of what a user wants of the cluster."""
        about = ("", "", None)
        return DecisionRecord(self._host.now_ns, "user", *about, Trigger.ASKED, "it was asked for", decision=decision)

    def _on_rescale(self, event: RescaleRequested) -> None:
        """A user gives functions another parallelism."""
        (function, parallelism), *others = sorted(event.parallelism.items())
        decision = Repartition(event.job, function, parallelism, tuple(others))
        about = (event.job, function, None)
        record = DecisionRecord(self._host.now_ns, "user", *about, Trigger.ASKED, "it was asked for", decision=decision)
        self._enact(record, event.token)

    def _enact(self, record: DecisionRecord, token: str = "") -> None:
        self._numbers += 1
        kept = Kept(self._numbers, replace(record, number=self._numbers), token)
        if record.decision is not None:
            self._begin(kept, record.decision)
        self._announce(kept)
        if record.reverts is not None and kept.record.outcome is Outcome.DONE:
            self._reverted(record.reverts)

    def _begin(self, kept: Kept, decision: Decision) -> None:
        now_ns, record = self._host.now_ns, kept.record
        repeated = self._reverting.refused(record, now_ns)
        if repeated is not None:
            kept.record = record.finished(Outcome.REFUSED, repeated)
            return
        kept.record = self._carried_out(kept, decision)
        if record.measure_at_ns is not None and kept.record.outcome is not Outcome.REFUSED:
            self._unmeasured.append(kept)
            self._reverting.began(kept.number, record, ElasticView.of(self._observers.last))
            self._judged[kept.number] = kept
            if len(self._judged) > RECORDS_MAX:
                del self._judged[next(iter(self._judged))]

    def _carried_out(self, kept: Kept, decision: Decision) -> DecisionRecord:
        """Begins a decision; returns its record, which says so if it was refused or is done."""
        record = kept.record
        if isinstance(decision, AddWorkers | DrainWorker):
            return self._scaled(kept, decision)
        job = self._host.jobs.get(decision.job)
        if job is None or job.status is not JobStatus.RUNNING:
            return record.finished(Outcome.REFUSED, "the job does not run")
        address = decision.address
        # Workers may be allotted while shards move: the next moves will follow.
        waits = not isinstance(decision, SetWorkers) and record.trigger is not Trigger.ASKED
        if address is not None and waits and self.is_changing(address):
            return record.finished(Outcome.REFUSED, "another decision about the actor is being carried out")
        match decision:
            case SetWorkers(workers=workers):
                assert address is not None
                self._allotted[address] = workers
                return record.finished(Outcome.DONE)
            case MoveShards(function=function, partition=partition, moves=moves):
                targets = tuple((move.shard, move.target) for move in moves)
                order = self._levers.move_shards(job, function, partition, targets)
                if order is None:
                    return record.finished(Outcome.REFUSED, "there is no such actor")
                self._under_way[order] = kept
                return record
            case Repartition(function=function, parallelism=parallelism, others=others):
                wanted = {function: parallelism, **dict(others)}
                refused = self._handovers.refusal(job, wanted)
                if refused is not None:
                    return record.finished(Outcome.REFUSED, refused)
                self._under_way[-kept.number] = kept
                self._handovers.reshape(job, -kept.number, wanted)
                return kept.record
            case SetLessees():
                return record.finished(Outcome.REFUSED, "the number of lessees cannot be set yet")
            case GiveCapacity() | TakeCapacity():
                return self._capacity_changed(kept, job, decision)

    def _capacity_changed(self, kept: Kept, job: Job, ask: Capacity) -> DecisionRecord:
        """Carries out what an ask for capacity means for its function."""
        shape = job.shapes.get(ask.function)
        if shape is None:
            return kept.record.finished(Outcome.REFUSED, "there is no such function")
        view = ElasticView.of(self._observers.last)
        actors = [
            actor for actor in view.actors if (actor.address.job, actor.address.function) == (ask.job, shape.name)
        ]
        levers = levers_for(ask, Holding(means_of(shape), shape.parallelism, actors=actors), view.workers)
        if not levers:
            return kept.record.finished(Outcome.REFUSED, "it cannot have more or fewer instances")
        for lever in levers:
            record = self._carried_out(kept, lever)
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

    # What became of decisions.

    def finished(self, order: str, spent: Mapping[str, float]) -> None:
        """Workers have joined, or one has left."""
        kept = self._under_way.pop(order, None)
        if kept is not None:
            kept.record = kept.record.finished(Outcome.DONE, spent=spent)
            self._announce(kept)

    def done(self, order: int, moved: ShardsMoved) -> None:
        """A lever reports."""
        if moved.refused is not None:
            self.failed(order, moved.refused)
            return
        kept = self._under_way.pop(order, None)
        if kept is not None:
            waited_ms = moved.waited_ns / 1e6 / moved.moved if moved.moved else 0.0
            spent = {"shards": float(moved.moved), "bytes": float(moved.bytes), "wait_ms": waited_ms}
            kept.record = kept.record.finished(Outcome.DONE, spent=spent)
            self._announce(kept)
            if kept.record.reverts is not None:
                self._reverted(kept.record.reverts)

    def handed_over(self, order: int, spent: Mapping[str, float]) -> None:
        """The next attempt of a job runs."""
        kept = self._under_way.pop(order, None)
        if kept is not None:
            kept.record = kept.record.finished(Outcome.DONE, spent=dict(spent))
            self._announce(kept)

    def failed(self, order: int | str, reason: str) -> None:
        """A lever reports that nothing was changed, or that the attempt has ended."""
        kept = self._under_way.pop(order, None)
        if kept is not None:
            kept.record = kept.record.finished(Outcome.FAILED, reason)
            self._reverting.forget(kept.number)
            self._announce(kept)

    def _measure(self, now_ns: int) -> None:
        """Measures the effects of decisions whose time has come."""
        due = [kept for kept in self._unmeasured if (kept.record.measure_at_ns or 0) <= now_ns]
        if not due:
            return
        view = ElasticView.of(self._observers.last)
        for kept in due:
            self._unmeasured.remove(kept)
            effect = measured_effect(view, kept.record)
            if effect is not None:
                kept.record = kept.record.measured(effect)
                self._announce(kept)
            self._reverting.measured(kept.number, view, now_ns)

    def _revert(self, now_ns: int) -> None:
        """Takes decisions back that have made it worse."""
        again_ns = self._reverting.next_ns()
        if again_ns is not None and again_ns <= now_ns:
            for record in self._reverting.due(ElasticView.of(self._observers.last), now_ns):
                self._enact(record)

    def _reverted(self, number: int) -> None:
        """A decision has been taken back: its record says so."""
        kept = self._judged.get(number)
        if kept is not None:
            kept.record = replace(kept.record, reverted_ns=self._host.now_ns)
            self._announce(kept)

    def member_lost(self, member: str) -> None:
        """Takes a lost worker from all actors; jobs that it had a part of resume with all shards at home."""
        self._allotted = {actor: workers for actor, workers in self._allotted.items() if member not in workers}

    def _announce(self, kept: Kept) -> None:
        self._host.effects.append(AnnounceDecision(kept.number, kept.record, kept.token))
