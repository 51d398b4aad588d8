"""Variants of handovers with one bug each. The checkers must catch every one, or they check nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stretto.actors.address import Address
from stretto.actors.gate import LesseeGate
from stretto.actors.seat import Seat
from stretto.actors.work import Bequeath, Outcome
from stretto.checkpoints.manifest import ActorRecord
from stretto.checkpoints.resuming import Resumption
from stretto.coordinator.events import CodeMade
from stretto.coordinator.handovers import Handovers
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Handover, Job
from stretto.protocol.handover import CallOff, Received
from stretto.protocol.jobs import Deploy, Ready
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.simulator.checking.mutations import mutation_name, worker_with
from stretto.simulator.engine.durable import Parts
from stretto.worker.handover.givers import Givers
from stretto.worker.handover.inheritance import Former, Inheritance
from stretto.worker.handover.takers import Takers
from stretto.worker.local_job import LocalJob


class SourceReadsOn(Givers):
    """A source goes on reading after its mark."""

    def _pause(self, seat: Seat) -> None:
        if not seat.instance.is_source:
            super()._pause(seat)

    def _give(self, seat: Seat, handover: Any) -> None:
        paused = seat.paused is not None
        seat.paused = seat.paused if paused else []
        super()._give(seat, handover)
        if not paused and not seat.paused:
            seat.paused = None
            seat.poll_due = True

    def _gave(self, seat: Seat, errand: Bequeath, outcome: Outcome) -> None:
        super()._gave(seat, errand, outcome)
        if seat.instance.is_source:
            seat.paused = None
            seat.poll_due = True


class PausedForEver(Givers):
    """An actor that has paused does not go on when the handover is called off."""

    def _on_call_off(self, sender: str, frame: CallOff) -> None:
        job = self._host.jobs.get(frame.job)
        paused = [seat for seat in job.all_seats() if seat.paused is not None] if job is not None else []
        super()._on_call_off(sender, frame)
        for seat in paused:
            seat.paused = []


class TasksForgotten(Givers):
    """What the tasks of an elastic executor have is not handed over."""

    def _gave(self, seat: Seat, errand: Bequeath, outcome: Outcome) -> None:
        if not isinstance(seat.gate, LesseeGate):
            self._tasks[seat.address] = ()
            super()._gave(seat, errand, outcome)


class OpenedEarly(Takers):
    """An actor is opened before all that it follows is there."""

    def _inherit(self, job: LocalJob, number: int, actor: tuple[str, int], former: Former) -> None:
        self._inheritances[job.job].take(number, actor, former)
        self._host.effects.append(Send(COORDINATOR, Received(job.job, number)))

    def _let_follow(
        self, seat: Seat, who: Resumption, inheritance: Inheritance, number: int, before: Seat | None
    ) -> None:
        for former in who.follows(*seat.address[1:]):
            inheritance.formers.setdefault((seat.address.function, former), Former(number, finished=True))
        super()._let_follow(seat, who, inheritance, number, before)


class PartTwice(Takers):
    """What an actor gave is taken in by two of its followers."""

    def _let_follow(
        self, seat: Seat, who: Resumption, inheritance: Inheritance, number: int, before: Seat | None
    ) -> None:
        super()._let_follow(seat, who, inheritance, number, before)
        origin = seat.instance.origin
        if origin is not None and origin.bequests and not seat.instance.is_source and not origin.whole:
            twice = {former: (*given, given[0]) for former, given in origin.bequests.items()}
            seat.instance.origin = replace(origin, bequests=twice)


class PositionLost(Takers):
    """A source on another worker begins again: its worker was left before its position had moved."""

    def _let_follow(
        self, seat: Seat, who: Resumption, inheritance: Inheritance, number: int, before: Seat | None
    ) -> None:
        super()._let_follow(seat, who, inheritance, number, before)
        if seat.instance.is_source and seat.instance.origin is not None and seat.instance.origin.adopts is None:
            seat.instance.origin = None


class SealedLost(Takers):
    """A sink on another worker does not get what was sealed and not published where it was."""

    def _let_follow(
        self, seat: Seat, who: Resumption, inheritance: Inheritance, number: int, before: Seat | None
    ) -> None:
        super()._let_follow(seat, who, inheritance, number, before)
        if seat.instance.is_sink and seat.instance.origin is not None and seat.instance.origin.adopts is None:
            seat.instance.origin = None


class StateLeftBehind(Takers):
    """An actor that could take over a function as it is begins with an empty one."""

    def adopt(self, successor: str, number: int, seat: Seat) -> bool:
        if not super().adopt(successor, number, seat):
            return False
        job = self._host.jobs[successor]
        actor = Address(successor, *seat.address[1:])[1:]
        if not seat.instance.is_source and not seat.instance.is_sink:
            self._inheritances[job.job].take(number, actor, Former(number, finished=True))
        return True


class TimeAhead(Handovers):
    """All partitions of a function count as having sent the greatest watermark that one of them has sent."""

    def _records(self, job: Job, handover: Handover) -> dict[str, list[ActorRecord]]:
        found = super()._records(job, handover)
        for name, known in found.items():
            greatest = max((each.watermark_us for each in known if not each.finished), default=0)
            found[name] = [
                each if each.finished else msgspec.structs.replace(each, watermark_us=greatest) for each in known
            ]
        return found


class EndLost(Handovers):
    """It is forgotten that an actor had finished."""

    def _records(self, job: Job, handover: Handover) -> dict[str, list[ActorRecord]]:
        found = super()._records(job, handover)
        return {name: [ActorRecord() if each.finished else each for each in known] for name, known in found.items()}


class SplitAnew(Handovers):
    """The input of a source is split by its new parallelism, so that positions mean something else."""

    def _on_code_made(self, event: CodeMade) -> None:
        job = self._host.jobs.get(event.job)
        if job is not None:
            job.shapes = {
                name: event.shapes[name].__class__(**{**_fields(shape), "splits": event.shapes[name].splits})
                for name, shape in job.shapes.items()
            }
            if job.durability is not None:
                job.durability.shapes = job.shapes
        super()._on_code_made(event)


class ChannelNotReaddressed(Handovers):
    """One member of the next attempt sends to actors where they were in the running one."""

    def _deploy(self, job: Job, handover: Handover) -> None:
        sent = len(self._host.effects)
        super()._deploy(job, handover)
        stale = {
            name: job.placement[name] if len(job.placement[name]) == len(homes) else homes
            for name, homes in handover.placement.items()
        }
        for place, effect in enumerate(self._host.effects[sent:], sent):
            if isinstance(effect, Send) and isinstance(effect.frame, Deploy):
                # What is at home there it must know, or it would have nothing to open.
                member, frame = effect.to, effect.frame
                known = {name: homes if member in homes else stale[name] for name, homes in frame.placement.items()}
                self._host.effects[place] = Send(member, msgspec.structs.replace(frame, placement=known))
                break


class StartedEarly(Handovers):
    """The next attempt is started when one of its members has opened its actors."""

    def ready(self, sender: str, frame: Ready) -> None:
        _, handover = self._next(frame.job)
        if handover is not None:
            handover.awaited &= {sender}
        super().ready(sender, frame)


def _fields(shape: Any) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in shape.__struct_fields__}


def _parts(mutation: type[Any]) -> Parts:
    if issubclass(mutation, Handovers):
        return Parts(coordinator=CoordinatorParts(handovers=mutation))
    return Parts(worker=worker_with(mutation))


_ALL = (
    SourceReadsOn,
    PausedForEver,
    TasksForgotten,
    OpenedEarly,
    PartTwice,
    PositionLost,
    SealedLost,
    StateLeftBehind,
    TimeAhead,
    EndLost,
    SplitAnew,
    ChannelNotReaddressed,
    StartedEarly,
)
SCALING_MUTATIONS: dict[str, Parts] = {mutation_name(each): _parts(each) for each in _ALL}
