"""The marks of checkpoints that will not be: they are void, and nobody waits for them.

The coordinator calls a checkpoint off when it cannot be stored, or when an actor cannot come to its mark. The latter
happens where a user's joint barrier reaches the actor too: if one of its upstream actors sends the mark first and
another one the user's message, each of the two barriers waits for what the other holds back. The checkpoint yields,
since it can be taken again. Two such barriers can also wait for each other at different actors, where those between
them have no credits left; then only time shows it.

Where nobody has lessees, an actor has its gate for joint barriers alone, and gives it back after each.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.channel import Message
from stretto.actors.critical import Granularity, Mark, granularity
from stretto.actors.gate import LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.worker.channels import needs_gate
from stretto.worker.part import Host


class Noting(Protocol):
    """Whoever takes in a critical message that needs no barrier."""

    def note(self, seat: Seat, gate: LessorGate, message: Message) -> None: ...


class Declining(Protocol):
    """Whoever reports that an actor has no part in a checkpoint."""

    def decline(self, seat: Seat, checkpoint: int, reason: str) -> None: ...


class Guarding(Protocol):
    """Whoever gives and takes gates."""

    def unguard(self, seat: Seat) -> None: ...


class Marks:
    """What becomes of marks at the actors of one worker."""

    def __init__(self, host: Host, barriers: Noting, snapshots: Declining, hosting: Guarding) -> None:
        self._host = host
        self._barriers = barriers
        self._snapshots = snapshots
        self._hosting = hosting

    def is_void(self, seat: Seat, message: Message) -> bool:
        """Whether it is the mark of a checkpoint that the actor has passed or that was called off."""
        return isinstance(message.payload, Mark) and message.payload.checkpoint <= seat.marked

    def crossed(self, gate: LessorGate) -> bool:
        """Whether joint critical messages have come in different orders on the channels of an actor, so that none of
        their barriers could ever begin: a mark here and a user's own there, or the marks of two checkpoints."""
        together = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        checkpoints = {m.payload.checkpoint for m in together if isinstance(m.payload, Mark)}
        if len(checkpoints) > 1:
            return True
        return bool(checkpoints) and any(not isinstance(m.payload, Mark) for m in together)

    def uncross(self, seat: Seat, gate: LessorGate) -> None:
        """Of two checkpoints the earlier one was called off, or the later one would not have begun."""
        checkpoints = {m.payload.checkpoint for m in gate.waiting.values() if isinstance(m.payload, Mark)}
        last = max(checkpoints)
        if len(checkpoints) > 1:
            seat.marked = max(seat.marked, last - 1)
        else:
            seat.marked = last
            self._snapshots.decline(seat, last, "a joint barrier of the app's own came across it")
        self.release(seat, gate)

    def called_off(self, seat: Seat, checkpoint: int) -> None:
        """Checkpoints up to this one will not be."""
        seat.marked = max(seat.marked, checkpoint)
        if isinstance(seat.gate, LessorGate):
            self.release(seat, seat.gate)
            self._host.offer(seat)

    def overdue(self, seat: Seat, checkpoint: int) -> None:
        """A checkpoint takes long. If since the last time this was said an actor waits for the same joint messages of
        the app's own, and not for its mark, the mark may be what keeps these from coming."""
        gate = seat.gate
        if seat.marked >= checkpoint or not isinstance(gate, LessorGate):
            return
        own = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        waits = {m.seq for m in own if not isinstance(m.payload, Mark)}
        if waits and gate.overdue == (checkpoint, waits):
            self._snapshots.decline(seat, checkpoint, "a joint barrier of the app's own waits for too long")
        gate.overdue = (checkpoint, waits)

    def release(self, seat: Seat, gate: LessorGate) -> None:
        """Let go what waits for marks that have become void. Those of a barrier that has begun will be passed."""
        void = [message for message in gate.waiting.values() if self.is_void(seat, message)]
        if not void or gate.state is not MailboxState.RUNNABLE:
            return
        for message in void:
            del gate.waiting[message.channel]
            self._barriers.note(seat, gate, message)
        seat.mailbox.put_back(gate.held)
        gate.held.clear()

    def unguard(self, seat: Seat, gate: LessorGate) -> None:
        """A barrier is over. A gate that nothing needs goes."""
        deployment = self._host.jobs[seat.address.job].deployment
        assert deployment is not None
        if gate.waiting or gate.held or gate.following or gate.registrations or gate.asking or deployment.has_lessees:
            return
        if seat.shared or seat.executor is not None or gate.lessees or gate.former or gate.unacked:
            return  # It has tasks, or had some, which know the number of its last barrier.
        if not any(isinstance(work, Message) and needs_gate(work) for work in seat.mailbox):
            self._hosting.unguard(seat)
