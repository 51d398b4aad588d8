"""Functions of streams here that call entities: their calls go out, and replies come back to them.

What may be called, and when, the function knows (`actors/calling.py`, `operators/calling.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stretto.actors.address import Address, job_of
from stretto.actors.calling import Answering, EntityAnswer
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.seat import Phase, Seat
from stretto.protocol.entities import EntitiesAt, RowRepliesSent, WhereEntities, entities_of
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.transactions import Reply
from stretto.transactions.outbox import Outbox, request_of
from stretto.transactions.placement import place_names
from stretto.worker.doors import AGAIN_NS, AGAIN_NS_MAX, in_frames
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part


class Marks(Protocol):
    """Whoever takes checkpoints."""

    def inputs_ended(self, seat: Seat) -> None: ...


class OfEntities(Protocol):
    """Whoever else needs to know where the entities are."""

    def moved(self, frame: EntitiesAt) -> None: ...


class Calling(Part):
    """The calls of functions here, by the job with the entities."""

    outbox: type[Outbox] = Outbox

    def __init__(self, host: Host, marks: Marks, others: OfEntities) -> None:
        self._host = host
        self._marks = marks
        self._others = others
        self._outboxes: dict[str, Outbox] = {}
        self._members: dict[str, list[str]] = {}
        """The workers with the entities of a job, by their places."""
        self._ended: set[Address] = set()
        """Instances whose input has ended, while they have calls to make."""

    def frames(self) -> FrameHandlers:
        return {EntitiesAt: self._on_at, RowRepliesSent: self._on_replies}

    def after_run(self, seat: Seat) -> None:
        """An instance that calls entities has run."""
        function = seat.instance.function
        entities = entities_of(job_of(seat.address.job))
        calls, settled = function.take_calls(), function.take_settled()
        if calls or settled:
            outbox = self._outbox(entities)
            sends = outbox.settle(settled.items())
            for each in calls:
                request = request_of(each.kind, each.key, each.method, each.arguments)
                sends += outbox.call(seat.address, each[:2], request, each.only_reads, self._host.now_ns)
            self._send(entities, sends)
        if seat.holds is not function.is_full:
            seat.holds = function.is_full
            self._host.offer(seat)
        if seat.phase is Phase.OPEN and seat.instance.inputs_ended and seat.address not in self._ended:
            self._ended.add(seat.address)
            if seat.instance.durable:
                self._marks.inputs_ended(seat)

    def _outbox(self, entities: str) -> Outbox:
        outbox = self._outboxes.get(entities)
        if outbox is None:
            outbox = self._outboxes[entities] = self.outbox(AGAIN_NS, AGAIN_NS_MAX)
            self._host.send(COORDINATOR, WhereEntities(entities))
        return outbox

    def _on_at(self, sender: str, frame: EntitiesAt) -> None:
        self._others.moved(frame)
        outbox = self._outboxes.get(frame.job)
        if outbox is None:
            return
        self._members[frame.job] = frame.members
        if frame.again:
            self._send(frame.job, outbox.move(place_names(len(frame.members)), self._host.now_ns))

    def _on_replies(self, sender: str, frame: RowRepliesSent) -> None:
        outbox = self._outboxes.get(frame.job)
        if outbox is None:
            return
        found: dict[Seat, list[EntityAnswer]] = {}
        for reply in frame.replies:
            owner = outbox.replied(reply)
            seat = self._host.seat_of(owner) if isinstance(owner, Address) else None
            if seat is not None:
                found.setdefault(seat, []).append(_answer(reply))
        for seat, answers in found.items():
            seat.mailbox.append(Answering(answers))
            self._host.offer(seat)
        self._set_alarm()

    def wake(self) -> None:
        for entities, outbox in self._outboxes.items():
            self._send(entities, outbox.again(self._host.now_ns))

    def dropped(self, job: LocalJob) -> None:
        outbox = self._outboxes.get(entities_of(job_of(job.job)))
        if outbox is not None:
            for address in job.seats:
                outbox.forget(address)
        self._ended = {address for address in self._ended if address.job != job.job}
        if not any(job_of(other) == job_of(job.job) for other in self._host.jobs):
            self._outboxes.pop(entities_of(job_of(job.job)), None)
            self._members.pop(entities_of(job_of(job.job)), None)
        self._set_alarm()

    def _send(self, entities: str, sends: Iterable[Send]) -> None:
        for member, frame in in_frames(entities, sends, self._members.get(entities, [])):
            self._host.send(member, frame)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = (outbox.next_deadline() for outbox in self._outboxes.values())
        self.due_ns = min((each for each in due if each is not None), default=NEVER_NS)


def _answer(reply: Reply) -> EntityAnswer:
    failure = reply.failure
    if failure is None:
        return EntityAnswer(reply.client, reply.number, reply.value)
    return EntityAnswer(reply.client, reply.number, None, failure.kind, failure.text)
