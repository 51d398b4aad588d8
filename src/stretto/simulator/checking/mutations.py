"""Variants of the protocol with one bug each. The checkers must catch every one, or they check nothing."""

from __future__ import annotations

from dataclasses import fields

from msgspec.structs import replace

from stretto.actors.channel import InChannel, Message, OutChannel
from stretto.actors.critical import Last
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.actors.tasks import TaskBarrier
from stretto.actors.work import Outcome, Surrender
from stretto.protocol.leasing import Ack, Registered, SyncReply, Told, Unsync
from stretto.worker.leasing.barriers import Barriers
from stretto.worker.leasing.forwarding import Forwarding
from stretto.worker.leasing.lessees import Lessees
from stretto.worker.leasing.programs import Programs
from stretto.worker.leasing.rules import Rules
from stretto.worker.machine import WorkerParts


class NoDependencyPayload(Programs):
    """Critical messages do not list what was sent on the other channels."""

    def dependencies(self, channel: OutChannel) -> list[Last]:
        super().dependencies(channel)
        return []


class UnsyncBeforeAck(Rules):
    """Lessees continue before downstream has reached the barrier."""

    def may_complete(self, gate: LessorGate) -> bool:
        gate.unacked = 0
        return True


class AckNever(Barriers):
    """Upstream never gets its ACK."""

    def _acknowledge(self, gate: LessorGate) -> None:
        pass


class AckOnReceipt(Forwarding):
    """Upstream gets its ACK when its critical message arrives, before the barrier is established."""

    def forwarded(self, seat: Seat, message: Message) -> bool:
        if message.sync is not None and message.sync.ack:
            sender = message.channel.sender
            self._host.send(self._host.home(sender), Ack(sender))
        return super().forwarded(seat, message)


class RegisterWhileBlocked(Rules):
    """New direct channels are allowed in the middle of a barrier."""

    def may_register(self, gate: LessorGate, executed: int, criticals: int) -> bool:
        return True


class StaleRegistration(Rules):
    """An upstream instance uses a registration from before its actor's last critical message."""

    def is_current(self, seat: Seat, frame: Registered) -> bool:
        return True


class ReplyEarly(Lessees):
    """A lessee replies before its dependency set has run."""

    def _dependency(self, seat: Seat, gate: LesseeGate) -> Message | None:
        return None


class DoneEarly(Rules):
    """The dependency set of a lessee counts as done immediately."""

    def done(self, awaited: dict[tuple[str, int], int]) -> bool:
        return True


class CriticalOvertakesUndecided(Rules):
    """A critical message does not wait for batches that are not placed yet."""

    def must_wait(self, seat: Seat) -> bool:
        return False


class OffersForgotten(Rules):
    """A barrier begins before lessees have accepted or refused the messages forwarded to them."""

    def all_answered(self, gate: LessorGate) -> bool:
        return True

    def is_next(self, message: Message) -> bool:
        return True


class RefusedLost(Forwarding):
    """A message that a lessee refuses counts as accepted."""

    def answered(self, seat: Seat, number: int, seq: int, taken: bool) -> None:
        super().answered(seat, number, seq, True)


class ForwardsUncounted(Programs):
    """Messages that the lessor has forwarded are not in the dependency set."""

    def forwarded(self, member: str, gate: LessorGate) -> list[Last]:
        return []


class ForwardPastCritical(Rules):
    """The lessor forwards messages that follow a critical one, or overtake one downstream."""

    def may_forward(self, gate: LessorGate, channel: InChannel) -> bool:
        return gate.state is MailboxState.RUNNABLE


class LeaseForgotten(Rules):
    """One of the lessees is not asked to take part in the barrier."""

    def concerned(self, gate: LessorGate) -> list[str]:
        return list(gate.lessees)[1:]


class PendingReleased(Rules):
    """Messages after a critical message on its channel are not held back."""

    def is_pending(self, gate: LessorGate, message: Message) -> bool:
        return False


class RunWhileBlocked(Rules):
    """The lessor keeps running messages while it waits for its lessees."""

    def may_run(self, gate: LessorGate | LesseeGate) -> bool:
        return isinstance(gate, LessorGate) or super().may_run(gate)


class JointAtFirst(Rules):
    """A barrier over all upstream actors begins when the first of them reaches it."""

    def all_upstream(self, seat: Seat, together: list[Message]) -> bool:
        return True


class StateLost(Barriers):
    """Partial states are not merged."""

    def _on_sync_reply(self, sender: str, frame: SyncReply) -> None:
        super()._on_sync_reply(sender, replace(frame, states=None))


class StateKept(Lessees):
    """A lessee keeps the state that it has handed over."""

    def _surrendered(self, seat: Seat, errand: Surrender | TaskBarrier, outcome: Outcome) -> None:
        if outcome.states is not None:
            seat.instance.discipline.consolidate(seat.instance.function, outcome.states)
        super()._surrendered(seat, errand, outcome)


class NothingTold(Programs):
    """A lessee does not report how far it has sent downstream."""

    def told(self, lessee: Seat) -> tuple[Told, ...]:
        super().told(lessee)
        return ()


class ToldForgotten(Barriers):
    """A lessee's report is lost when the barrier forwards no critical message."""

    def _complete(self, seat: Seat, gate: LessorGate) -> None:
        gate.told = {}
        super()._complete(seat, gate)


class OwedForgotten(Barriers):
    """Messages sent before a watermark that other channels held back are in no dependency set."""

    def _owe(self, gate: LessorGate, message: Message) -> None:
        if message in gate.messages:
            super()._owe(gate, message)


class StateNotShared(Barriers):
    """UNSYNC does not carry the consolidated state to the lessees that read it."""

    def _unsync(self, seat: Seat, gate: LessorGate, keep: bool) -> Unsync:
        return replace(super()._unsync(seat, gate, keep), states=None)


def mutation_name(mutation: type) -> str:
    """`AckNever` is `ack-never` on the command line."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in mutation.__name__).lstrip("-")


def worker_with(*mutations: type) -> WorkerParts:
    """Returns the parts of a worker, with some replaced by mutations."""
    defaults = {field.name: field.default for field in fields(WorkerParts)}
    replaced = {
        name: mutation
        for mutation in mutations
        for name, kind in defaults.items()
        if issubclass(mutation, kind)  # type: ignore[arg-type]
    }
    return WorkerParts(**replaced)


_TOGETHER = {"ack-on-receipt": (AckOnReceipt, AckNever), "reply-early": (ReplyEarly, DoneEarly)}
"""Bugs that change more than one part."""

MUTATIONS: dict[str, WorkerParts] = {
    name: worker_with(*_TOGETHER.get(name, (mutation,)))
    for base in (Rules, Programs, Barriers, Lessees, Forwarding)
    for mutation in base.__subclasses__()
    if (name := mutation_name(mutation)) != "done-early" and mutation.__module__ == __name__
}
