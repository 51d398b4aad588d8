"""What a lessor may run: ordinary messages while RUNNABLE, a barrier when its dependency set is done."""

from __future__ import annotations

from typing import Protocol

from pyarrow import RecordBatch

from stretto.actors.channel import Message
from stretto.actors.gate import LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.actors.work import Barrier, Work
from stretto.worker.leasing.rules import Rules


class LessorBarriers(Protocol):
    """The lessor's side of a barrier."""

    def begin(self, seat: Seat, gate: LessorGate) -> Work | None: ...

    def ready_messages(self, seat: Seat, gate: LessorGate) -> list[Message]: ...

    def note(self, seat: Seat, gate: LessorGate, message: Message) -> None: ...


class VoidMarks(Protocol):
    """Whoever knows which marks count for nothing."""

    def crossed(self, gate: LessorGate) -> bool: ...

    def uncross(self, seat: Seat, gate: LessorGate) -> None: ...

    def is_void(self, seat: Seat, message: Message) -> bool: ...


class Lessors:
    """The keeper of all lessors here that have a gate."""

    def __init__(self, rules: Rules, barriers: LessorBarriers, marks: VoidMarks) -> None:
        self._rules = rules
        self._barriers = barriers
        self._marks = marks

    def has_work(self, seat: Seat) -> bool:
        gate = _gate(seat)
        if gate.state is MailboxState.CRITICAL and not gate.ran:
            return True
        if not self._rules.may_run(gate):
            return False
        if seat.mailbox:
            return True
        if not gate.waiting:
            return False
        return self._marks.crossed(gate) or bool(self._barriers.ready_messages(seat, gate))

    def urgent(self, seat: Seat) -> list[Message] | None:
        gate = _gate(seat)
        return gate.messages if gate.state is MailboxState.CRITICAL else None

    def next_work(self, seat: Seat) -> Work | None:
        """The next piece of work that the state of the mailbox lets run, or None."""
        gate = _gate(seat)
        if gate.state is MailboxState.CRITICAL and not gate.ran:
            gate.ran = True
            return Barrier(gate.messages, gate.parts)
        if not self._rules.may_run(gate):
            return None
        ready = self._begin(seat, gate) if gate.waiting else None
        if ready is not None or not self._rules.may_run(gate):
            return ready
        while seat.mailbox:
            entry = seat.mailbox.pop_entry()
            work: Work = entry[2]
            if not isinstance(work, Message):
                return work
            if self._rules.is_pending(gate, work):
                gate.held.append(entry)
            elif isinstance(work.payload, RecordBatch):
                return work
            else:
                if self._marks.is_void(seat, work) or self._changes_nothing(seat, work):
                    self._barriers.note(seat, gate, work)  # An end may be what a joint barrier has waited for.
                else:
                    gate.waiting[work.channel] = work
                ready = self._begin(seat, gate)
                if ready is not None or not self._rules.may_run(gate):
                    return ready
        return None

    def _begin(self, seat: Seat, gate: LessorGate) -> Work | None:
        if gate.waiting and self._marks.crossed(gate):
            self._marks.uncross(seat, gate)
        return self._barriers.begin(seat, gate)

    def _changes_nothing(self, seat: Seat, message: Message) -> bool:
        """Whether it is a critical message that needs no barrier, and it is its turn."""
        return self._rules.is_next(message) and seat.instance.needs_no_barrier(message.channel, message.payload)


def _gate(seat: Seat) -> LessorGate:
    assert isinstance(seat.gate, LessorGate)
    return seat.gate
