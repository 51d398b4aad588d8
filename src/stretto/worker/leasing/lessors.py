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


class Dividing(Protocol):
    """Whoever divides the messages of elastic executors."""

    def work(self, seat: Seat, message: Message) -> Work: ...

    def next_own(self, seat: Seat) -> Message | None: ...


class Lessors:
    """The keeper of all lessors here that have a gate."""

    def __init__(self, rules: Rules, barriers: LessorBarriers, marks: VoidMarks, routing: Dividing) -> None:
        self._rules = rules
        self._barriers = barriers
        self._marks = marks
        self._routing = routing

    def has_work(self, seat: Seat) -> bool:
        gate = _gate(seat)
        if gate.state is MailboxState.CRITICAL and not gate.ran:
            return True
        if not self._rules.may_run(gate):
            return False
        if seat.mailbox or (seat.executor is not None and seat.executor.own):
            return True
        if gate.following and self._followed(gate):
            return True
        if not gate.waiting:
            return False
        return self._marks.crossed(gate) or bool(self._barriers.ready_messages(seat, gate))

    def urgent(self, seat: Seat) -> list[Message] | None:
        gate = _gate(seat)
        if gate.state is MailboxState.CRITICAL:
            return gate.messages
        if seat.executor is not None and seat.executor.own and not seat.mailbox:
            return [seat.executor.own[0][0].message]
        return None

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
        if gate.following:
            self._let_follow(seat, gate)
        while seat.mailbox:
            entry = seat.mailbox.pop_entry()
            work: Work = entry[2]
            if not isinstance(work, Message):
                return work
            if self._rules.is_pending(gate, work) or self._is_behind(gate, work):
                gate.held.append(entry)
            elif isinstance(work.payload, RecordBatch):
                if self._rules.may_follow(work):
                    return work if seat.executor is None else self._routing.work(seat, work)
                gate.following[work.channel] = work
                gate.held.append(entry)
            else:
                if self._marks.is_void(seat, work) or self._changes_nothing(seat, work):
                    self._barriers.note(seat, gate, work)  # An end may be what a joint barrier has waited for.
                else:
                    gate.waiting[work.channel] = work
                ready = self._begin(seat, gate)
                if ready is not None or not self._rules.may_run(gate):
                    return ready
        # Routing comes first, so that other workers do not wait for what runs here.
        return self._routing.next_own(seat)

    def _is_behind(self, gate: LessorGate, message: Message) -> bool:
        """Whether a batch before it on its channel waits for what another instance of the sender has sent."""
        first = gate.following.get(message.channel)
        return first is not None and first.seq < message.seq

    def _followed(self, gate: LessorGate) -> list[Message]:
        return [message for message in gate.following.values() if self._rules.may_follow(message)]

    def _let_follow(self, seat: Seat, gate: LessorGate) -> None:
        """Put batches back whose turn it is now, with those behind them."""
        followed = self._followed(gate)
        for message in followed:
            del gate.following[message.channel]
        if followed:
            seat.mailbox.put_back(gate.held)
            gate.held.clear()

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
