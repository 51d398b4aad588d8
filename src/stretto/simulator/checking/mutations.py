"""The protocol with one fault each, to see the checkers catch it: one that never caught any checks nothing."""

from __future__ import annotations

from msgspec.structs import replace

from stretto.actors.channel import InChannel, Message, OutChannel
from stretto.actors.critical import Last
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.instance import Instance, Outcome
from stretto.actors.mailbox_states import MailboxState
from stretto.leasing import Leasing
from stretto.protocol.leasing import Ack, Registered, SyncReply, Told, Unsync


class NoDependencyPayload(Leasing):
    """Critical messages do not say what was sent on the other channels."""

    def _dependencies(self, channel: OutChannel) -> list[Last]:
        super()._dependencies(channel)
        return []


class UnsyncBeforeAck(Leasing):
    """Lessees go on before downstream has come to the barrier."""

    def _may_complete(self, gate: LessorGate) -> bool:
        gate.unacked = 0
        return True


class AckOnReceipt(Leasing):
    """Upstream gets its ACK when its critical message arrives, not when the barrier stands."""

    def forwarded(self, instance: Instance, channel: InChannel, message: Message) -> bool:
        if message.sync is not None and message.sync.ack:
            self._tell(self._worker.home(channel.sender), Ack(channel.sender))
        return super().forwarded(instance, channel, message)

    def _acknowledge(self, gate: LessorGate) -> None:
        pass


class AckNever(Leasing):
    """Upstream never gets its ACK."""

    def _acknowledge(self, gate: LessorGate) -> None:
        pass


class RegisterWhileBlocked(Leasing):
    """New direct channels are allowed in the middle of a barrier."""

    def _may_register(self, gate: LessorGate, executed: int, criticals: int) -> bool:
        return True


class StaleRegistration(Leasing):
    """An upstream instance uses a registration from before its actor's last critical message."""

    def _is_current(self, instance: Instance, frame: Registered) -> bool:
        return True


class ReplyEarly(Leasing):
    """A lessee replies before its dependency set is done."""

    def _dependency(self, instance: Instance, gate: LesseeGate) -> Message | None:
        return None

    def _done(self, awaited: dict[tuple[str, int], int]) -> bool:
        return True


class CriticalOvertakesUndecided(Leasing):
    """A critical message does not wait for batches that are still without a place."""

    def must_wait(self, instance: Instance) -> bool:
        return False


class OffersForgotten(Leasing):
    """A barrier begins before lessees have said whether they take what was forwarded to them."""

    def _all_answered(self, gate: LessorGate) -> bool:
        return True

    def _is_next(self, message: Message) -> bool:
        return True


class RefusedLost(Leasing):
    """What a lessee refuses counts as taken."""

    def answered(self, instance: Instance, number: int, seq: int, taken: bool) -> None:
        super().answered(instance, number, seq, True)


class ForwardsUncounted(Leasing):
    """What the lessor has forwarded is not in the dependency set."""

    def _forwarded(self, member: str, gate: LessorGate) -> list[Last]:
        return []


class ForwardPastCritical(Leasing):
    """The lessor forwards messages that follow a critical one, or overtake one downstream."""

    def _may_forward(self, gate: LessorGate, channel: InChannel) -> bool:
        return gate.state is MailboxState.RUNNABLE


class LeaseForgotten(Leasing):
    """One of the lessees is not asked to take part in the barrier."""

    def _concerned(self, gate: LessorGate) -> list[str]:
        return list(gate.lessees)[1:]


class PendingReleased(Leasing):
    """What follows a critical message on its channel is not held back."""

    def _is_pending(self, gate: LessorGate, message: Message) -> bool:
        return False


class RunWhileBlocked(Leasing):
    """The lessor goes on with its mailbox while it waits for its lessees."""

    def may_run(self, gate: LessorGate | LesseeGate) -> bool:
        return isinstance(gate, LessorGate) or super().may_run(gate)


class JointAtFirst(Leasing):
    """A barrier over all upstream actors begins when the first of them has come to it."""

    def all_upstream(self, instance: Instance, together: list[Message]) -> bool:
        return True


class StateLost(Leasing):
    """Partial states are not merged."""

    def _on_sync_reply(self, sender: str, frame: SyncReply, now_ns: int) -> None:
        super()._on_sync_reply(sender, replace(frame, states=None), now_ns)


class StateKept(Leasing):
    """A lessee keeps the state that it has given away."""

    def after_surrender(self, instance: Instance, outcome: Outcome) -> None:
        if outcome.states is not None:
            instance._consolidate(outcome.states)
        super().after_surrender(instance, outcome)


class NothingTold(Leasing):
    """A lessee does not say how far it has sent downstream."""

    def _told(self, instance: Instance) -> tuple[Told, ...]:
        super()._told(instance)
        return ()


class ToldForgotten(Leasing):
    """What a lessee told is forgotten when the barrier sends no critical message on."""

    def _complete(self, instance: Instance, gate: LessorGate) -> None:
        gate.told = {}
        super()._complete(instance, gate)


class OwedForgotten(Leasing):
    """What was sent before a watermark that others held back is in no dependency set."""

    def _owe(self, gate: LessorGate, message: Message) -> None:
        if message in gate.messages:
            super()._owe(gate, message)


class StateNotShared(Leasing):
    """UNSYNC does not bring the consolidated state to the lessees that read it."""

    def _unsync(self, instance: Instance, gate: LessorGate, keep: bool) -> Unsync:
        return replace(super()._unsync(instance, gate, keep), states=None)


def mutation_name(mutation: type) -> str:
    """`AckNever` is `ack-never` on the command line."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in mutation.__name__).lstrip("-")


MUTATIONS: dict[str, type[Leasing]] = {mutation_name(mutation): mutation for mutation in Leasing.__subclasses__()}
