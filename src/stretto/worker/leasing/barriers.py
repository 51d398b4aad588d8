"""The lessor's side of a barrier: it begins, lessees reply, critical messages run, ACKs come, it is over."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.critical import Granularity, Last, granularity
from stretto.actors.gate import Lessee, LessorGate
from stretto.actors.mailbox_states import MailboxState, Trigger
from stretto.actors.metrics import LatencySketch
from stretto.actors.seat import Seat
from stretto.actors.tasks import steps_of
from stretto.actors.work import Barrier, Bequeath, Errand, Outcome, Work
from stretto.protocol.leasing import Ack, SyncAck, SyncReply, SyncRequest, Unsync
from stretto.worker.leasing.programs import Programs
from stretto.worker.leasing.rules import Rules
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part


class Credits(Protocol):
    """Whoever gives credits back."""

    def give_back(self, message: Message) -> None: ...


class Shedding(Protocol):
    """Whoever can send on what waited here during a barrier."""

    def shed(self, seat: Seat, gate: LessorGate) -> None: ...


class Registrations(Protocol):
    """Whoever answers registrations that had to wait."""

    def answer_waiting(self, gate: LessorGate) -> None: ...


class Hostings(Protocol):
    """Whoever knows where lessees may be."""

    def hosts(self, lessor: Seat) -> list[str]: ...

    def lessees_set(self, lessor: Seat) -> int | None: ...

    def leases_changed(self, lessor: Seat) -> None: ...


class MarksReleased(Protocol):
    """Whoever lets go what waits for void marks."""

    def release(self, seat: Seat, gate: LessorGate) -> None: ...

    def unguard(self, seat: Seat, gate: LessorGate) -> None: ...


class Moving(Protocol):
    """Whoever moves the shards of elastic executors."""

    def go_on(self, seat: Seat) -> None: ...


class Answering(Protocol):
    """Whoever answers actors upstream that want tasks."""

    def answer_waiting(self, gate: LessorGate) -> None: ...


class Barriers(Part):
    """The barriers of all lessors here."""

    def __init__(
        self,
        host: Host,
        channels: Credits,
        rules: Rules,
        programs: Programs,
        forwarding: Shedding,
        registration: Registrations,
        hosting: Hostings,
    ) -> None:
        self._host = host
        self._channels = channels
        self._rules = rules
        self._programs = programs
        self._forwarding = forwarding
        self._registration = registration
        self._hosting = hosting

    def connect(self, marks: MarksReleased, homes: Moving, activation: Answering) -> None:
        self._marks = marks
        self._homes = homes
        self._activation = activation

    def frames(self) -> FrameHandlers:
        return {SyncAck: self._on_sync_ack, SyncReply: self._on_sync_reply, Ack: self._on_ack}

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {
            Barrier: AfterRun(settles=self._ran, completes=self._sent, last_word=True),
            Bequeath: AfterRun(completes=self._bequeathed),
        }

    # It begins.

    def begin(self, seat: Seat, gate: LessorGate) -> Work | None:
        """Block when some critical message has its dependency set done here; its run, if no lessee is concerned."""
        messages = self.ready_messages(seat, gate) if gate.state is MailboxState.RUNNABLE else []
        if not messages:
            return None
        gate.move(Trigger.DEPENDENCIES_DONE)
        gate.barriers += 1
        gate.blocked_ns = self._host.now_ns
        gate.messages = messages
        for message in messages:
            self._owe(gate, message)
        gate.parts, gate.ran, gate.sent = [], False, False
        gate.members = self._rules.concerned(gate)
        gate.unreplied, gate.unacknowledged = set(gate.members), set(gate.members)
        steps = steps_of(seat.instance, messages) if seat.spec.tasks_max and gate.members else ()
        for member in gate.members:
            self._host.send(member, SyncRequest(seat.address, gate.barriers, self._payload_for(member, gate), steps))
        gate.owed = {}
        if gate.members:
            return None
        self._acknowledge(gate)
        seat.instance.count_of_others(gate.counts.values())
        gate.move(Trigger.CONSOLIDATED)
        gate.ran = True
        return Barrier(messages, [])

    def ready_messages(self, seat: Seat, gate: LessorGate) -> list[Message]:
        """The critical messages of the next barrier that can begin: those that have come to their turn, each by itself,
        share one; else it is one of every upstream actor."""
        if not self._rules.all_answered(gate) or not self._rules.all_settled(gate.owed.values()):
            return []
        if not self._rules.has_arrived(seat):
            return []
        single = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.CHANNEL]
        ready = [message for message in single if self._rules.settled_here(message)]
        if ready:
            return ready
        together = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        if together and self._rules.all_upstream(seat, together) and all(map(self._rules.settled_here, together)):
            return together
        return []

    def note(self, seat: Seat, gate: LessorGate, message: Message) -> None:
        """A watermark that others hold back: nothing runs, so nothing needs to stop. What was sent before it must have
        run when time does advance, so the next barrier waits for that as well."""
        channel = message.channel
        seat.instance.note(channel, message.payload)
        self._owe(gate, message)
        self._executed_one(seat, gate, message)
        self._acknowledge_one(message)
        self._channels.give_back(message)
        if gate.observer is not None:
            gate.observer.noted(message)
        self._activation.answer_waiting(gate)
        if gate.registrations and not gate.unacked:
            self._registration.answer_waiting(gate)

    def _owe(self, gate: LessorGate, message: Message) -> None:
        for last in message.sync.last if message.sync is not None else ():
            gate.owed[last.receiver, last.sender, last.number] = last

    def _payload_for(self, member: str, gate: LessorGate) -> tuple[Last, ...]:
        """A lessee's part of the dependency set: what upstream instances sent to it, and what was forwarded to it."""
        direct = [last for last in gate.owed.values() if last.receiver == member]
        return (*direct, *self._programs.forwarded(member, gate))

    # It stands.

    def _on_sync_ack(self, sender: str, frame: SyncAck) -> None:
        _, gate = self._lessor(frame.actor)
        if gate is not None and frame.barrier == gate.barriers:
            self._acknowledged_by(sender, gate)

    def _acknowledged_by(self, member: str, gate: LessorGate) -> None:
        if member in gate.unacknowledged:
            gate.unacknowledged.discard(member)
            if not gate.unacknowledged:
                self._acknowledge(gate)

    def _acknowledge(self, gate: LessorGate) -> None:
        """The barrier stands in all instances of this actor: what upstream sends from now on cannot overtake it."""
        for message in gate.messages:
            self._acknowledge_one(message)

    def _acknowledge_one(self, message: Message) -> None:
        if message.sync is not None and message.sync.ack:
            self._host.send(self._host.home(message.channel.sender), Ack(message.channel.sender))

    def _on_sync_reply(self, sender: str, frame: SyncReply) -> None:
        seat, gate = self._lessor(frame.actor)
        if seat is None or gate is None or frame.barrier != gate.barriers or sender not in gate.unreplied:
            return
        gate.unreplied.discard(sender)
        self._acknowledged_by(sender, gate)
        if frame.states is not None:
            gate.parts.append(frame.states)
        if frame.counts is not None:
            gate.counts[sender] = frame.counts
        for told in frame.told:
            last = told.last
            gate.told.setdefault(told.index, {})[last.receiver, last.sender, last.number] = last
        if not gate.unreplied:
            # A task that takes part writes its counters into its own part of a checkpoint.
            apart = gate.members if seat.spec.tasks_max else ()
            seat.instance.count_of_others(counts for name, counts in gate.counts.items() if name not in apart)
            gate.move(Trigger.CONSOLIDATED)
            self._host.offer(seat)

    # The critical messages have run.

    def _ran(self, seat: Seat, barrier: Barrier, outcome: Outcome) -> None:
        seat.metrics.messages_in += len(barrier.messages)
        for message in barrier.messages:
            self._channels.give_back(message)

    def _sent(self, seat: Seat, barrier: Barrier, outcome: Outcome) -> None:
        """What they sent is on its way."""
        gate = seat.gate
        assert isinstance(gate, LessorGate)
        gate.consolidated, gate.sent = seat.instance.consolidated, True
        for message in barrier.messages:
            gate.waiting.pop(message.channel, None)
            self._executed_one(seat, gate, message)
        if outcome.finished or not gate.members or self._rules.may_complete(gate):
            self._complete(seat, gate)

    def _bequeathed(self, seat: Seat, errand: Bequeath, outcome: Outcome) -> None:
        """The last ACK of the barrier before a handover may have come while the actor gave what it has."""
        gate = seat.gate
        if isinstance(gate, LessorGate) and gate.sent and self._rules.may_complete(gate):
            self._complete(seat, gate)

    def _executed_one(self, seat: Seat, gate: LessorGate, message: Message) -> None:
        channel = message.channel
        channel.settle(message.seq)
        channel.executed += 1
        gate.unexecuted[channel.sender] -= 1
        if channel.executed == executed_of(seat, channel.sender):
            for lessee in gate.lessees.values():
                lessee.senders.discard(channel.sender)

    # It is over.

    def _on_ack(self, sender: str, frame: Ack) -> None:
        seat, gate = self._lessor(frame.actor)
        if seat is None or gate is None or not gate.unacked:
            return
        gate.unacked -= 1
        if gate.unacked:
            return
        # It may run something else meanwhile; but what it gives to another attempt must stay as it is.
        giving = seat is self._host.running and seat.paused is not None
        if gate.state is MailboxState.CRITICAL and gate.sent and not giving:
            self._complete(seat, gate)
        elif gate.state is MailboxState.RUNNABLE:
            self._go_parallel(seat, gate)

    def _complete(self, seat: Seat, gate: LessorGate) -> None:
        if gate.state is not MailboxState.CRITICAL:
            return
        staying = self._staying(seat, gate) if gate.members else []
        for member in gate.members:
            lessee = gate.lessees[member]
            keep = self._keeps(seat, lessee, staying)
            lessee.used = False
            if not keep:
                gate.former[member] = gate.lessees.pop(member)
                gate.candidates = None
            self._host.send(member, self._unsync(seat, gate, keep))
        if gate.members:
            gate.durations = gate.durations or LatencySketch()
            gate.durations.add(self._host.now_ns - gate.blocked_ns, 1)
        gate.messages, gate.parts, gate.members = [], [], []
        gate.move(Trigger.COMPLETED)
        if gate.held:
            seat.mailbox.put_back(gate.held)
            gate.held.clear()
        self._marks.release(seat, gate)
        self._go_parallel(seat, gate)
        self._hosting.leases_changed(seat)
        self._marks.unguard(seat, gate)
        self._host.offer(seat)

    def _staying(self, seat: Seat, gate: LessorGate) -> list[str]:
        return self._rules.staying(gate, self._hosting.hosts(seat), self._hosting.lessees_set(seat))

    def _keeps(self, seat: Seat, lessee: Lessee, staying: list[str]) -> bool:
        """Whether a lease continues after a barrier."""
        if seat.spec.tasks_max:
            return seat.executor is not None and seat.executor.owns_any(lessee.member)
        return bool(lessee.senders) or (lessee.used and lessee.member in staying)

    def _unsync(self, seat: Seat, gate: LessorGate, keep: bool) -> Unsync:
        states = gate.consolidated if keep else None
        return Unsync(seat.address, gate.barriers, seat.instance.watermark_us, seat.criticals, keep, states)

    def _go_parallel(self, seat: Seat, gate: LessorGate) -> None:
        """The actor may have lessees again, unless ACKs are still awaited."""
        self._activation.answer_waiting(gate)
        if not gate.unacked:
            self._registration.answer_waiting(gate)
            self._forwarding.shed(seat, gate)
            self._homes.go_on(seat)

    def _lessor(self, actor: Address) -> tuple[Seat | None, LessorGate | None]:
        """The lessor here that a frame is for."""
        seat = self._host.seat_of(actor)
        gate = seat.gate if seat is not None else None
        return (seat, gate) if isinstance(gate, LessorGate) else (None, None)


def executed_of(seat: Seat, upstream: Address) -> int:
    """How many critical messages of an upstream actor have run; it may feed this one by several channels."""
    return min(channel.executed for channel in seat.inputs if channel.sender == upstream)
