"""The dual-mode protocol: actors run in parallel between barriers and sequentially at them (dirigo.txt 4, appendix A).

A part of the worker machine. The worker asks it what an instance may run, where a message goes, and what rides with a
critical message; it moves the mailbox states along and exchanges control frames with the instances elsewhere. Like the
worker it knows no clock and no socket.

A watermark that other upstream actors still hold back needs no barrier: it is noted, and the next barrier waits for
what was sent before it. Critical messages that have come to their turn together share one barrier.

A barrier at the actor D for a critical message of the actor U:

1. The lessor of D comes to the critical message and holds back what follows it on that channel, until all that the
   DEPENDENCY_PAYLOAD names has run here. Then it is BLOCKED and sends SYNC_REQUEST to its lessees.
2. A lessee acknowledges, runs its part of the dependency set and nothing else, is BLOCKED, and replies with its partial
   state and with how far it has sent to the actors downstream.
3. Once all have acknowledged, nothing of U that follows the critical message can run anywhere in D, so U gets its ACK.
4. With all replies, the lessor is CRITICAL: it merges the states and runs the critical message in one run. Whatever
   critical messages that sends carry what the lessees told as their own DEPENDENCY_PAYLOAD.
5. When the ACKs of all actors downstream are there, UNSYNC lets the lessees go on. An actor without lessees goes on at
   once, and may have some when the ACKs are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message, OutChannel
from stretto.actors.critical import Granularity, Last, SyncProgram, granularity
from stretto.actors.gate import Lessee, LesseeGate, LessorGate
from stretto.actors.instance import Adoption, Barrier, Errand, Instance, Outcome, Work
from stretto.actors.mailbox_states import MailboxState, Trigger
from stretto.actors.metrics import LatencySketch
from stretto.marks import Marks, is_void
from stretto.protocol.leasing import Ack, Lease, Register, Registered, SyncAck, SyncReply, SyncRequest, Told, Unsync

if TYPE_CHECKING:
    from stretto.scheduling.strategy import Strategy
    from stretto.worker import Worker


class Leasing:
    """The leases of one worker: those that its lessors have given, and those that its lessees hold."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.marks = Marks(worker)
        self.frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Lease: self._on_lease,
            SyncRequest: self._on_sync_request,
            SyncAck: self._on_sync_ack,
            SyncReply: self._on_sync_reply,
            Ack: self._on_ack,
            Unsync: self._on_unsync,
            Register: self._on_register,
            Registered: self._on_registered,
        }

    # What an instance may run.

    def has_work(self, instance: Instance) -> bool:
        """Whether `next_work` would find something, or move a barrier along."""
        gate = instance.gate
        if isinstance(gate, LesseeGate):
            return self._lessee_has_work(instance, gate)
        assert gate is not None
        if gate.state is MailboxState.CRITICAL and not gate.ran:
            return True
        if not self.may_run(gate):
            return False
        if instance.mailbox:
            return True
        return bool(gate.waiting) and (self.marks.crossed(instance, gate) or bool(self._ready_messages(instance, gate)))

    def _lessee_has_work(self, instance: Instance, gate: LesseeGate) -> bool:
        if instance.opening or gate.surrendering or gate.adoption is not None:
            return True
        if gate.state is not MailboxState.RUNNABLE:
            return False
        if gate.awaited is None:
            return bool(instance.mailbox)
        return self._dependency(instance, gate) is not None or self._done(gate.awaited)

    def next_work(self, instance: Instance) -> Work | None:
        """The next piece of work that the state of the mailbox lets run, or None."""
        gate = instance.gate
        if isinstance(gate, LesseeGate):
            return self._next_of_lessee(instance, gate)
        assert gate is not None
        if gate.state is MailboxState.CRITICAL and not gate.ran:
            gate.ran = True
            return Barrier(gate.messages, gate.parts)
        if not self.may_run(gate):
            return None
        ready = self._begin_barrier(instance, gate) if gate.waiting else None
        if ready is not None or not self.may_run(gate):
            return ready
        while instance.mailbox:
            entry = instance.mailbox.pop_entry()
            work: Work = entry[2]
            if not isinstance(work, Message):
                return work
            if self._is_pending(gate, work):
                gate.held.append(entry)
            elif isinstance(work.payload, pa.RecordBatch):
                return work
            else:
                if is_void(instance, work) or self._changes_nothing(instance, work):
                    self.note(instance, gate, work)  # An end may be what a joint barrier has waited for.
                else:
                    gate.waiting[work.channel] = work
                ready = self._begin_barrier(instance, gate)
                if ready is not None or not self.may_run(gate):
                    return ready
        return None

    def _changes_nothing(self, instance: Instance, message: Message) -> bool:
        """Whether it is a critical message that needs no barrier, and it is its turn."""
        return self._is_next(message) and instance.needs_no_barrier(message.channel, message.payload)

    def _is_pending(self, gate: LessorGate, message: Message) -> bool:
        """Whether it follows a critical message that has not run yet, on the same channel."""
        waiting = gate.waiting.get(message.channel)
        return waiting is not None and waiting.seq < message.seq

    def may_run(self, gate: LessorGate | LesseeGate) -> bool:
        """Whether ordinary messages may run."""
        return gate.state is MailboxState.RUNNABLE

    def _next_of_lessee(self, instance: Instance, gate: LesseeGate) -> Work | None:
        mailbox = instance.mailbox
        if instance.opening:
            return mailbox.popleft() if mailbox and mailbox.first[2] is Errand.OPEN else None
        if gate.adoption is not None:
            states, gate.adoption = gate.adoption, None
            return Adoption(states)
        if gate.awaited is not None and gate.state is MailboxState.RUNNABLE:
            dependency = self._dependency(instance, gate)
            if dependency is not None:
                mailbox.remove(dependency)
                return dependency
            self._block_lessee_if_done(gate)
        if gate.surrendering:
            gate.surrendering = False
            return Errand.SURRENDER
        if gate.awaited is None and self.may_run(gate) and mailbox:
            return mailbox.popleft()
        return None

    def _dependency(self, instance: Instance, gate: LesseeGate) -> Message | None:
        """The next message in the mailbox that belongs to the dependency set."""
        assert gate.awaited is not None
        for work in instance.mailbox:
            if isinstance(work, Message) and work.seq <= gate.awaited.get(self._key(work.channel), 0):
                return work
        return None

    # The lessor's side of a barrier.

    def _begin_barrier(self, instance: Instance, gate: LessorGate) -> Work | None:
        """Block when some critical message has its dependency set done here; its run, if no lessee is concerned."""
        if gate.waiting and self.marks.crossed(instance, gate):
            self.marks.uncross(instance, gate)
        messages = self._ready_messages(instance, gate) if gate.state is MailboxState.RUNNABLE else []
        if not messages:
            return None
        gate.move(Trigger.DEPENDENCIES_DONE)
        gate.barriers += 1
        gate.blocked_ns = self._worker.now_ns
        gate.messages = messages
        for message in messages:
            self._owe(gate, message)
        gate.parts, gate.ran = [], False
        gate.members = self._concerned(gate)
        gate.unreplied, gate.unacknowledged = set(gate.members), set(gate.members)
        for member in gate.members:
            last = self._payload_for(member, gate)
            self._tell(member, SyncRequest(instance.address, gate.barriers, last))
        gate.owed = {}
        if gate.members:
            return None
        self._acknowledge(gate)
        gate.move(Trigger.CONSOLIDATED)
        gate.ran = True
        return Barrier(messages, [])

    def note(self, instance: Instance, gate: LessorGate, message: Message) -> None:
        """A watermark that others hold back: nothing runs, so nothing needs to stop. What was sent before it must have
        run when time does advance, so the next barrier waits for that as well."""
        channel = message.channel
        instance.note(channel, message.payload)
        self._owe(gate, message)
        self._executed_one(instance, gate, message)
        self._acknowledge_one(message)
        self._worker.channels.give_back(channel)
        if gate.observer is not None:
            gate.observer.noted(message)
        if gate.registrations and not gate.unacked:
            self._answer_registrations(gate)

    def _owe(self, gate: LessorGate, message: Message) -> None:
        for last in message.sync.last if message.sync is not None else ():
            gate.owed[last.receiver, last.sender, last.number] = last

    def _ready_messages(self, instance: Instance, gate: LessorGate) -> list[Message]:
        """The critical messages of the next barrier that can begin: those that have come to their turn, each by itself,
        share one; else it is one of every upstream actor."""
        if not self._all_answered(gate) or not self._all_settled(gate.owed.values()):
            return []
        single = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.CHANNEL]
        ready = [message for message in single if self._settled_here(message)]
        if ready:
            return ready
        together = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        if together and self.all_upstream(instance, together) and all(map(self._settled_here, together)):
            return together
        return []

    def _all_answered(self, gate: LessorGate) -> bool:
        """Whether it is known of all forwarded messages who runs them."""
        return not gate.offered

    def all_upstream(self, instance: Instance, together: list[Message]) -> bool:
        return len(together) == sum(1 for channel in instance.inputs if not channel.ended)

    def _settled_here(self, message: Message) -> bool:
        """Whether the lessor has done all before it on its channel, and all that its part of the DEPENDENCY_PAYLOAD
        names."""
        return self._is_next(message) and (message.sync is None or self._all_settled(message.sync.last))

    def _is_next(self, message: Message) -> bool:
        """Whether all before it on its channel has run, or is with a lessee that has taken it."""
        return message.channel.settled == message.seq - 1

    def _all_settled(self, payload: Iterable[Last]) -> bool:
        mine = (last for last in payload if last.receiver == self._worker.member)
        return all(self._settled(last.sender, last.number) >= last.seq for last in mine)

    def _settled(self, sender: str, number: int) -> int:
        channel = self._worker.channels.receiving(sender, number)
        return 0 if channel is None else channel.settled

    def _concerned(self, gate: LessorGate) -> list[str]:
        """The lessees that have a part in the barrier: all that hold a lease."""
        return list(gate.lessees)

    def _payload_for(self, member: str, gate: LessorGate) -> tuple[Last, ...]:
        """A lessee's part of the dependency set: what upstream instances sent to it, and what was forwarded to it."""
        direct = [last for last in gate.owed.values() if last.receiver == member]
        return (*direct, *self._forwarded(member, gate))

    def _forwarded(self, member: str, gate: LessorGate) -> list[Last]:
        channels = gate.lessees[member].channels.values()
        return [Last(member, self._worker.member, channel.number, channel.seq) for channel in channels if channel.seq]

    def _on_sync_ack(self, sender: str, frame: SyncAck, now_ns: int) -> None:
        _, gate = self._lessor(frame)
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
            self._tell(self._worker.home(message.channel.sender), Ack(message.channel.sender))

    def _on_sync_reply(self, sender: str, frame: SyncReply, now_ns: int) -> None:
        instance, gate = self._lessor(frame)
        if instance is None or gate is None or frame.barrier != gate.barriers or sender not in gate.unreplied:
            return
        gate.unreplied.discard(sender)
        self._acknowledged_by(sender, gate)
        if frame.states is not None:
            gate.parts.append(frame.states)
        for told in frame.told:
            last = told.last
            gate.told.setdefault(told.index, {})[last.receiver, last.sender, last.number] = last
        if not gate.unreplied:
            gate.move(Trigger.CONSOLIDATED)
            self._worker.offer(instance)

    def after_barrier(self, instance: Instance, barrier: Barrier, outcome: Outcome) -> None:
        """The critical messages have run, and what they sent is on its way."""
        gate = instance.gate
        assert isinstance(gate, LessorGate)
        gate.shared = instance.shared
        for message in barrier.messages:
            gate.waiting.pop(message.channel, None)
            self._executed_one(instance, gate, message)
        if outcome.finished or not gate.members or self._may_complete(gate):
            self._complete(instance, gate)

    def _executed_one(self, instance: Instance, gate: LessorGate, message: Message) -> None:
        channel = message.channel
        channel.settle(message.seq)
        channel.executed += 1
        gate.unexecuted[channel.sender] -= 1
        if channel.executed == self._executed(instance, channel.sender):
            for lessee in gate.lessees.values():
                lessee.senders.discard(channel.sender)

    def _executed(self, instance: Instance, upstream: Address) -> int:
        """How many critical messages of an upstream actor have run; it may feed this one by several channels."""
        return min(channel.executed for channel in instance.inputs if channel.sender == upstream)

    def _may_complete(self, gate: LessorGate) -> bool:
        return gate.unacked == 0

    def _on_ack(self, sender: str, frame: Ack, now_ns: int) -> None:
        instance, gate = self._lessor(frame)
        if instance is None or gate is None or not gate.unacked:
            return
        gate.unacked -= 1
        if gate.unacked:
            return
        under_way = instance is self._worker.running or instance.interrupted is not None
        if gate.state is MailboxState.CRITICAL and gate.ran and not under_way:
            self._complete(instance, gate)
        elif gate.state is MailboxState.RUNNABLE:
            self._go_parallel(instance, gate)

    def _complete(self, instance: Instance, gate: LessorGate) -> None:
        if gate.state is not MailboxState.CRITICAL:
            return
        hosts = self._worker.hosts(instance) if gate.members else []
        for member in gate.members:
            lessee = gate.lessees[member]
            keep = bool(lessee.senders) or (lessee.used and member in hosts)
            lessee.used = False
            if not keep:
                gate.former[member] = gate.lessees.pop(member)
                gate.candidates = None
            self._tell(member, self._unsync(instance, gate, keep))
        if gate.members:
            gate.durations = gate.durations or LatencySketch()
            gate.durations.add(self._worker.now_ns - gate.blocked_ns, 1)
        gate.messages, gate.parts, gate.members = [], [], []
        gate.move(Trigger.COMPLETED)
        if gate.held:
            instance.mailbox.put_back(gate.held)
            gate.held.clear()
        self.marks.release(instance, gate)
        self._go_parallel(instance, gate)
        self._worker.leases_changed(instance)
        self.marks.unguard(instance, gate)
        self._worker.offer(instance)

    def _go_parallel(self, instance: Instance, gate: LessorGate) -> None:
        """The actor may have lessees again, unless ACKs are still awaited."""
        if not gate.unacked:
            self._answer_registrations(gate)
            self._shed(instance, gate)

    def _answer_registrations(self, gate: LessorGate) -> None:
        registrations, gate.registrations = gate.registrations, []
        for sender, frame in registrations:
            self._on_register(sender, frame, 0)

    def _unsync(self, instance: Instance, gate: LessorGate, keep: bool) -> Unsync:
        return Unsync(
            instance.address,
            gate.barriers,
            instance.watermark_us,
            instance.criticals,
            keep,
            gate.shared if keep else None,
        )

    # The lessee's side.

    def _on_lease(self, sender: str, frame: Lease, now_ns: int) -> None:
        instance = self._worker.lessee(frame.actor)
        gate = instance.gate if instance is not None else None
        if instance is None or not isinstance(gate, LesseeGate) or gate.lessor != sender:
            return
        gate.move(Trigger.LEASED)
        instance.cost_ns = instance.cost_ns or frame.cost_ns
        self._go_on(instance, gate, frame.watermark_us, frame.criticals, frame.states)

    def _on_sync_request(self, sender: str, frame: SyncRequest, now_ns: int) -> None:
        instance, gate = self._lessee(sender, frame)
        if instance is None or gate is None or frame.barrier <= gate.barrier:
            return
        gate.barrier = frame.barrier
        gate.awaited = {(last.sender, last.number): last.seq for last in frame.last}
        if not self._done(gate.awaited):
            # Else the reply follows at once, and says as much.
            self._tell(gate.lessor, SyncAck(instance.address, frame.barrier))
        self._worker.offer(instance)

    def _block_lessee_if_done(self, gate: LesseeGate) -> None:
        assert gate.awaited is not None
        if self._done(gate.awaited):
            gate.move(Trigger.DEPENDENCIES_DONE)
            gate.surrendering = True

    def _done(self, awaited: dict[tuple[str, int], int]) -> bool:
        return all(self._settled(*key) >= seq for key, seq in awaited.items())

    def after_surrender(self, instance: Instance, outcome: Outcome) -> None:
        gate = instance.gate
        assert isinstance(gate, LesseeGate)
        self._tell(gate.lessor, SyncReply(instance.address, gate.barrier, outcome.states, self._told(instance)))

    def _told(self, instance: Instance) -> tuple[Told, ...]:
        """How far this instance has sent on every channel that it has used since its last barrier."""
        told = []
        for out in instance.outs:
            for channel in (out, *(out.extras or {}).values()):
                if channel.seq > channel.synced:
                    channel.synced = channel.seq
                    told.append(Told(out.index, self._last(channel)))
            out.direct = None
        return tuple(told)

    def _on_unsync(self, sender: str, frame: Unsync, now_ns: int) -> None:
        instance, gate = self._lessee(sender, frame)
        if instance is None or gate is None or frame.barrier != gate.barrier or gate.awaited is None:
            return
        gate.move(Trigger.UNSYNC if frame.keep else Trigger.RELEASED)
        self._go_on(instance, gate, frame.watermark_us, frame.criticals, frame.states)

    def _go_on(
        self, instance: Instance, gate: LesseeGate, watermark_us: int, criticals: int, states: bytes | None
    ) -> None:
        gate.awaited = None
        gate.adoption = states
        instance.criticals = criticals
        instance.at_watermark(watermark_us)
        for out in instance.outs:
            out.direct = None
        self._worker.offer(instance)

    # Where messages go.

    def forwarded(self, instance: Instance, channel: InChannel, message: Message) -> bool:
        """REJECTSEND: whether the lessor has sent an arriving message on to a lessee instead of queueing it."""
        gate = instance.gate
        if not isinstance(gate, LessorGate):
            return False
        if not isinstance(message.payload, pa.RecordBatch):
            gate.unexecuted[channel.sender] += 1
        return self._is_forwarded(instance, gate, message)

    def _is_forwarded(self, instance: Instance, gate: LessorGate, message: Message) -> bool:
        strategy = instance.strategy
        is_batch = isinstance(message.payload, pa.RecordBatch)
        if strategy is None or not instance.spec.lessees_max or not is_batch:
            return False
        if not self._may_forward(gate, message.channel):
            return False
        chosen = strategy.enqueue(instance, message, self.candidates(instance, gate))
        return chosen is not None and self.forward(instance, gate, message, chosen)

    def forward(self, instance: Instance, gate: LessorGate, message: Message, to: str) -> bool:
        """Send a message of this lessor on to a lessee, if the protocol allows it now; the lessee may have to say first
        whether it takes it."""
        channel = message.channel
        if not isinstance(message.payload, pa.RecordBatch) or not self._may_forward(gate, channel):
            return False
        lessee = gate.lessees.get(to) or self._grant_lease(instance, gate, to)
        out = lessee.channels.get((channel.sender, channel.input))
        if out is None:
            schema = message.payload.schema
            out = self._worker.channels.extra_channel(instance, instance.address, to, channel, schema)
            lessee.channels[channel.sender, channel.input] = out
        elif out.credits <= 0:
            return False
        lessee.used = True
        self._worker.channels.emit(
            out, message.payload, message.arrived_ns, None, message.progress_us, message.deadline_ns
        )
        if instance.strategy is not None and not instance.strategy.force_migrate:
            gate.offered[out.number, out.seq] = message
        else:
            self._is_away(instance, message)
        return True

    def _is_away(self, instance: Instance, message: Message) -> None:
        instance.metrics.messages_forwarded += 1
        message.channel.settle(message.seq)
        self._worker.channels.give_back(message.channel)

    def answered(self, instance: Instance, number: int, seq: int, taken: bool) -> None:
        """A lessee has said whether it takes a message; what it refuses runs here."""
        gate = instance.gate
        message = gate.offered.pop((number, seq), None) if isinstance(gate, LessorGate) else None
        if message is None or instance.dropped:
            return
        if taken:
            self._is_away(instance, message)
            self._worker.mark(instance)
            self._worker.offer(instance)  # Perhaps a barrier has waited for just this one.
        else:
            self._worker.channels.wait_in(instance, message)

    def _shed(self, instance: Instance, gate: LessorGate) -> None:
        """What had to wait here during a barrier is offered to the lessees like what comes anew, up to the sender's
        next critical message, which may be here already: an actor that is late by a window could not catch up
        otherwise."""
        if not instance.spec.lessees_max or not instance.mailbox:
            return
        waiting = list(instance.mailbox)
        gate.unexecuted.subtract([work.channel.sender for work in waiting if _is_critical(work)])
        for work in waiting:
            if _is_critical(work):
                gate.unexecuted[work.channel.sender] += 1
            if isinstance(work, Message) and self._is_forwarded(instance, gate, work):
                instance.mailbox.remove(work)
                self._worker.desk.untrack(work)

    def _may_forward(self, gate: LessorGate, channel: InChannel) -> bool:
        """A message that follows a critical one of its sender must wait for it, and what a lessee sends must not
        overtake a critical message that this actor has sent and that downstream has not yet come to."""
        return gate.state is MailboxState.RUNNABLE and not gate.unexecuted[channel.sender] and not gate.unacked

    def candidates(self, instance: Instance, gate: LessorGate) -> list[str]:
        """The workers that may hold a lease: those that do, and while there are too few, others."""
        if gate.candidates is None:
            hosts = self._worker.hosts(instance)
            current = [member for member in gate.lessees if member in hosts]
            missing = max(0, instance.spec.lessees_max - len(gate.lessees))
            gate.candidates = current + [member for member in hosts if member not in gate.lessees][:missing]
        return gate.candidates

    def _grant_lease(self, instance: Instance, gate: LessorGate, member: str) -> Lessee:
        lessee = gate.lessees[member] = gate.former.pop(member) if member in gate.former else Lessee(member)
        gate.candidates = None
        lease = Lease(instance.address, instance.watermark_us, instance.criticals, gate.shared, instance.cost_ns)
        self._tell(member, lease)
        return lessee

    def direct(self, channel: OutChannel, strategy: Strategy) -> list[OutChannel] | None:
        """DIRECTSEND: the channels to lessees of the receiver that the next batch may take instead, if any."""
        if channel.direct is None and strategy.wants_direct(channel):
            self._ask(channel, strategy)
        return channel.direct

    def _ask(self, channel: OutChannel, strategy: Strategy) -> None:
        """Send a LESSEE_REGISTRATION. What is sent before the answer goes to the lessor."""
        channel.direct = []
        sender = channel.instance
        if strategy.waits and not channel.waits:
            # Else all senders would pile on the lessor after each barrier, before they may go past it.
            channel.waits = True
            sender.starved += 1
        frame = Register(channel.receiver, sender.address, channel.index, sender.criticals, strategy.near)
        self._tell(self._worker.home(channel.receiver), frame)

    def ask_again(self, channel: OutChannel) -> None:
        """After a critical message, who sent directly before it wants to go on so."""
        gate, strategy = channel.instance.gate, channel.strategy
        goes_on = gate is None or gate.state is MailboxState.RUNNABLE
        if strategy is not None and channel.extras and goes_on and strategy.wants_direct(channel):
            self._ask(channel, strategy)

    def _on_register(self, sender: str, frame: Register, now_ns: int) -> None:
        instance, gate = self._lessor(frame)
        if instance is None or gate is None or not instance.spec.lessees_max:
            return
        upstream = frame.sender
        if not any(channel.sender == upstream for channel in instance.inputs):
            self._worker.refuse(f"a registration of {upstream} with {instance.address}, which it does not feed")
            return
        executed = self._executed(instance, upstream)
        if executed > frame.criticals:
            # Its actor has passed a barrier since: it may ask again when it knows of that.
            self._tell(sender, Registered(upstream, frame.index, frame.criticals, []))
            return
        if not self._may_register(gate, executed, frame.criticals):
            gate.registrations.append((sender, frame))
            return
        if frame.near:
            lessees = [sender] if sender in self._worker.hosts(instance) else []
        else:
            lessees = list(self.candidates(instance, gate))
        for member in lessees:
            lessee = gate.lessees.get(member) or self._grant_lease(instance, gate, member)
            lessee.senders.add(upstream)
            lessee.used = True
        self._tell(sender, Registered(upstream, frame.index, frame.criticals, lessees))

    def _may_register(self, gate: LessorGate, executed: int, criticals: int) -> bool:
        """Held back while BLOCKED or CRITICAL, until the critical messages that the sender has passed have run, and
        until downstream has come to those that this actor has sent."""
        return gate.state is MailboxState.RUNNABLE and executed == criticals and not gate.unacked

    def _on_registered(self, sender: str, frame: Registered, now_ns: int) -> None:
        instance = self._instance(frame)
        if instance is None or not 0 <= frame.index < len(instance.outs):
            return
        out = instance.outs[frame.index]
        if out.waits:
            out.waits = False
            instance.starved -= 1
            self._worker.offer(instance)
        if out.direct is None or not self._is_current(instance, frame):
            return
        for member in frame.lessees:
            extras = out.extras = out.extras or {}
            if member not in extras:
                extras[member] = self._worker.channels.extra_channel(instance, out.receiver, member, out, out.schema)
            out.direct.append(extras[member])

    def _is_current(self, instance: Instance, frame: Registered) -> bool:
        gate = instance.gate
        blocked = gate is not None and gate.state is not MailboxState.RUNNABLE
        return instance.criticals == frame.criticals and not blocked

    # What rides with a critical message.

    def must_wait(self, instance: Instance) -> bool:
        """A critical message, and a lessee's word on what it has sent, come after all that was sent before: so they
        wait until it is decided where that goes."""
        return instance.undecided > 0

    def program(self, channel: OutChannel) -> SyncProgram | None:
        """The SYNC program for a critical message on a channel between lessors; None when nobody else is concerned."""
        gate = channel.instance.gate
        last = self._dependencies(channel)
        ack = False
        if isinstance(gate, LessorGate) and channel.instance.spec.lessees_max:
            ack = True
            gate.unacked += 1
        return SyncProgram(tuple(last), ack) if last or ack else None

    def _dependencies(self, channel: OutChannel) -> list[Last]:
        """DEPENDENCY_PAYLOAD: what the lessees have told, and what the lessor itself has sent directly to lessees."""
        gate = channel.instance.gate
        last = list(gate.told.pop(channel.index, {}).values()) if isinstance(gate, LessorGate) else []
        for extra in (channel.extras or {}).values():
            if extra.seq > extra.synced:
                extra.synced = extra.seq
                last.append(self._last(extra))
        channel.direct = None
        return last

    # Small things.

    def _last(self, channel: OutChannel) -> Last:
        return Last(channel.peer or self._worker.member, self._worker.member, channel.number, channel.seq)

    def _key(self, channel: InChannel) -> tuple[str, int]:
        """The sending end of a channel: the member, and its number for the channel."""
        if channel.out is not None:
            return self._worker.member, channel.out.number
        assert channel.peer is not None
        return channel.peer, channel.number

    def _tell(self, member: str, frame: Any) -> None:
        self._worker.tell(member, frame)

    def _instance(self, frame: Any) -> Instance | None:
        """The instance here that a frame speaks of."""
        return self._worker.instance_of(frame.actor)

    def _lessor(self, frame: Any) -> tuple[Instance | None, LessorGate | None]:
        instance = self._instance(frame)
        gate = instance.gate if instance is not None else None
        return (instance, gate) if isinstance(gate, LessorGate) else (None, None)

    def _lessee(self, sender: str, frame: Any) -> tuple[Instance | None, LesseeGate | None]:
        instance = self._instance(frame)
        gate = instance.gate if instance is not None else None
        return (instance, gate) if isinstance(gate, LesseeGate) and gate.lessor == sender else (None, None)


def _is_critical(work: Work) -> TypeGuard[Message]:
    return isinstance(work, Message) and not isinstance(work.payload, pa.RecordBatch)
