"""The conditions of the dual-mode protocol, each by itself. Barriers are kept because these hold.

The simulator breaks them one by one and sees each break caught (`simulator/checking/mutations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stretto.actors.channel import InChannel, Message
from stretto.actors.critical import Last
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.protocol.elastic import Give
from stretto.protocol.leasing import Registered


class ReceivingEnds(Protocol):
    """Whoever knows the channels here."""

    def receiving(self, sender: str, number: int) -> InChannel | None: ...


class Rules:
    """What may run, begin, be sent or be answered now."""

    def __init__(self, member: str, channels: ReceivingEnds) -> None:
        self._member = member
        self._channels = channels

    # Running.

    def may_run(self, gate: LessorGate | LesseeGate) -> bool:
        """Whether ordinary messages may run."""
        return gate.state is MailboxState.RUNNABLE

    def is_pending(self, gate: LessorGate, message: Message) -> bool:
        """Whether it follows a critical message that has not run yet, on the same channel."""
        waiting = gate.waiting.get(message.channel)
        return waiting is not None and waiting.seq < message.seq

    def may_follow(self, message: Message) -> bool:
        """Whether all has run that other instances of its sender have sent before it about the same keys."""
        return message.sync is None or self.all_settled(message.sync.last)

    # Leases.

    def staying(self, gate: LessorGate, hosts: list[str], lessees: int | None) -> list[str]:
        """The lessees that may get messages and keep their leases: those on hosts, and if their number was set, no more
        than that, those with the oldest leases."""
        found = [member for member in gate.lessees if member in hosts]
        return found if lessees is None else found[:lessees]

    # Shards of elastic executors.

    def may_move(self, seat: Seat, gate: LessorGate) -> bool:
        """Whether a shard may begin to move: none moves, no barrier is due, and a new task can overtake nothing."""
        executor = seat.executor
        assert executor is not None
        calm = gate.state is MailboxState.RUNNABLE and not gate.waiting and not gate.unacked
        return executor.move is None and calm

    def may_give(self, seat: Seat, frame: Give) -> bool:
        """Whether all rows of shards that are to leave have run."""
        if seat.executor is not None:
            return not seat.executor.left_before(frame.generation)
        return all(self._settled(last.sender, last.number) >= last.seq for last in frame.last)

    def has_arrived(self, seat: Seat) -> bool:
        """Whether no shard moves, so that the state of each is with its owner."""
        return seat.executor is None or seat.executor.move is None

    # A barrier begins.

    def is_next(self, message: Message) -> bool:
        """Whether all before it on its channel has run, or is with a lessee that has taken it."""
        return message.channel.settled == message.seq - 1

    def settled_here(self, message: Message) -> bool:
        """Whether the lessor has done all before it on its channel, and all that its part of the DEPENDENCY_PAYLOAD
        names."""
        return self.is_next(message) and (message.sync is None or self.all_settled(message.sync.last))

    def all_settled(self, payload: Iterable[Last]) -> bool:
        """Whether all that a DEPENDENCY_PAYLOAD names of this worker has run."""
        mine = (last for last in payload if last.receiver == self._member)
        return all(self._settled(last.sender, last.number) >= last.seq for last in mine)

    def done(self, awaited: dict[tuple[str, int], int]) -> bool:
        """Whether a lessee has run its part of the dependency set."""
        return all(self._settled(*key) >= seq for key, seq in awaited.items())

    def _settled(self, sender: str, number: int) -> int:
        channel = self._channels.receiving(sender, number)
        return 0 if channel is None else channel.settled

    def all_answered(self, gate: LessorGate) -> bool:
        """Whether it is known of all forwarded messages who runs them."""
        return not gate.offered

    def all_upstream(self, seat: Seat, together: list[Message]) -> bool:
        """Whether each upstream actor that has not ended has sent its critical message of a joint barrier."""
        return len(together) == sum(1 for channel in seat.inputs if not channel.ended)

    def concerned(self, gate: LessorGate) -> list[str]:
        """The lessees that have a part in the barrier: all that hold a lease."""
        return list(gate.lessees)

    # A barrier ends.

    def may_complete(self, gate: LessorGate) -> bool:
        """Whether all actors downstream have acknowledged."""
        return gate.unacked == 0

    # Where messages go.

    def may_forward(self, gate: LessorGate, channel: InChannel) -> bool:
        """A message that follows a critical one of its sender must wait for it, and what a lessee sends must not
        overtake a critical message that this actor has sent and that downstream has not yet come to."""
        return gate.state is MailboxState.RUNNABLE and not gate.unexecuted[channel.sender] and not gate.unacked

    def may_register(self, gate: LessorGate, executed: int, criticals: int) -> bool:
        """Not while BLOCKED or CRITICAL, not until the critical messages that the sender has passed have run, and not
        until downstream has come to those that this actor has sent."""
        return gate.state is MailboxState.RUNNABLE and executed == criticals and not gate.unacked

    def is_current(self, seat: Seat, frame: Registered) -> bool:
        """Whether an answer is from after the last critical message of its actor, and no barrier is under way."""
        gate = seat.gate
        blocked = gate is not None and gate.state is not MailboxState.RUNNABLE
        return seat.criticals == frame.criticals and not blocked

    def must_wait(self, seat: Seat) -> bool:
        """A critical message, and a lessee's word on what it has sent, come after all that was sent before: so they
        wait until it is decided where that goes."""
        return seat.undecided > 0
