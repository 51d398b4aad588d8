"""The channels of a worker: numbered messages with credits, to and from its instances. A part of the worker machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.address import Address
from stretto.actors.channel import CREDITS_PER_CHANNEL, InChannel, Message, OutChannel, Payload
from stretto.actors.critical import SyncProgram, Watermark
from stretto.actors.deadlines import AT_ONCE, LAX_NS, YIELDS_NS, frontier, start_deadline_ns
from stretto.actors.instance import Instance, Outcome
from stretto.actors.wiring import extra_input, join_local
from stretto.machine import Send
from stretto.marks import needs_gate
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.checkpointing import Broken
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Failure
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.scheduling import Offered
from stretto.scheduling.strategy import Pending

if TYPE_CHECKING:
    from stretto.worker import Worker


class Channels:
    """The sending ends by their number, and the receiving ends by the peer and the peer's number for them."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._by_deadline = worker.policy.by_deadline
        self.made = 0
        self._outs: dict[int, OutChannel] = {}
        self._ins: dict[tuple[str, int], InChannel] = {}
        self.frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Data: self._on_data,
            CriticalSent: self._on_critical,
            Grant: self._on_grant,
            OpenChannel: self._on_open_channel,
        }

    def add(self, outs: dict[int, OutChannel]) -> None:
        """Take in the sending ends of new instances."""
        self._outs.update(outs)
        self.made += len(outs)

    def drop(self, instances: list[Instance]) -> None:
        """Forget the channels of dropped instances."""
        for instance in instances:
            for out in (*instance.outs, *instance.extra_outs):
                self._outs.pop(out.number, None)
        self._ins = {key: channel for key, channel in self._ins.items() if not channel.instance.dropped}

    def sending(self, number: int) -> OutChannel | None:
        """The sending end here of a channel."""
        return self._outs.get(number)

    def receiving(self, sender: str, number: int) -> InChannel | None:
        """The receiving end here of a channel, by its sender and the sender's number for it."""
        if sender == self._worker.member:
            out = self._outs.get(number)
            return None if out is None else out.local
        return self._ins.get((sender, number))

    def extra_channel(
        self, instance: Instance, receiver: Address, member: str, like: InChannel | OutChannel, schema: pa.Schema
    ) -> OutChannel:
        """A channel to a lessee of the receiver, to carry what would go, or has come, by another channel."""
        self.made += 1
        channel = OutChannel(instance, receiver, like.input, member, self.made, schema)
        channel.sender = like.sender
        channel.extra = True
        if isinstance(like, OutChannel):
            channel.index = like.index
        if member == self._worker.member:
            lessee = self._worker.lessee(receiver)
            assert lessee is not None
            join_local(channel, extra_input(like.sender, lessee, like.input))
        self._outs[channel.number] = channel
        instance.extra_outs.append(channel)
        return channel

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        """Send what a run gave: a batch perhaps to a lessee, a critical message with its SYNC program."""
        if isinstance(payload, RecordBatch):
            sender = channel.instance
            rows = payload.num_rows
            sent_to = sender.metrics.sent_to
            sender.metrics.rows_out += rows
            sent_to[channel.receiver.function] = sent_to.get(channel.receiver.function, 0) + rows
            arrived_ns, progress_us = outcome.arrived_ns, outcome.progress_us
            deadline_ns = arrived_ns + channel.budget_ns
            if channel.slide_us is not None and progress_us is not None:
                if not 0 < channel.frontier_us - progress_us <= channel.slide_us or not channel.expected_ns:
                    find_frontier(channel, progress_us)
                if channel.expected_ns > arrived_ns:
                    progress_us, deadline_ns = channel.frontier_us, channel.expected_ns + channel.budget_ns
            if channel.latency_ns == LAX_NS:
                deadline_ns = max(deadline_ns, self._worker.now_ns + YIELDS_NS)
            chosen: OutChannel | None = channel
            strategy = channel.strategy
            if strategy is not None and (direct := self._worker.leasing.direct(channel, strategy)):
                pending = Pending(channel, payload, arrived_ns, progress_us, deadline_ns)
                chosen = strategy.prepare_send(channel, direct, pending)
            if chosen is not None:
                self.emit(chosen, payload, arrived_ns, None, progress_us, deadline_ns)
            else:
                self._worker.undecided(sender)
            return
        if channel.index == 0:
            channel.instance.criticals += 1
        concerned = channel.instance.gate is not None or channel.extras is not None or channel.direct is not None
        sync = self._worker.leasing.program(channel) if concerned else None
        progress_us = payload.time_us if isinstance(payload, Watermark) else outcome.progress_us
        # A watermark is itself what its window waits for.
        deadline_ns = outcome.arrived_ns + channel.budget_ns
        if channel.latency_ns == LAX_NS:
            deadline_ns = max(deadline_ns, self._worker.now_ns + YIELDS_NS)
        self.emit(channel, payload, outcome.arrived_ns, sync, progress_us, deadline_ns)
        if channel.extras is not None:
            self._worker.leasing.ask_again(channel)

    def emit(
        self,
        channel: OutChannel,
        payload: Payload,
        arrived_ns: int,
        sync: SyncProgram | None,
        progress_us: int | None,
        deadline_ns: int,
    ) -> None:
        """Put a message on a channel, which costs a credit."""
        channel.seq += 1
        channel.credits -= 1
        if channel.credits == 0 and not channel.extra:
            channel.instance.starved += 1
        receiving = channel.local
        if receiving is not None:
            receiving.received = channel.seq
            self._put(receiving, Message(receiving, channel.seq, payload, arrived_ns, sync, progress_us, deadline_ns))
            return
        assert channel.peer is not None
        if channel.seq == 1:
            # Announced here and not at the start of the job: a worker that started sooner may have fed us already.
            self._worker.effects.append(Send(channel.peer, _opening(channel)))
        frame: Frame
        if isinstance(payload, RecordBatch):
            frame = Data(channel.number, channel.seq, arrived_ns, payload, progress_us, deadline_ns)
        else:
            frame = CriticalSent(channel.number, channel.seq, arrived_ns, payload, sync, progress_us, deadline_ns)
        self._worker.effects.append(Send(channel.peer, frame))

    def _put(self, channel: InChannel, message: Message) -> None:
        instance = channel.instance
        if instance.gate is None and type(message.payload) is not RecordBatch and needs_gate(message):
            self._worker.guard(instance)
        if instance.gate is not None:
            if self._worker.leasing.forwarded(instance, channel, message):
                self._worker.mark(instance)
                self._worker.offer(instance)  # Perhaps a barrier has waited for just this one.
                return
            if channel.forwards and self._is_refused(channel, message):
                return
        self.wait_in(instance, message)

    def wait_in(self, instance: Instance, message: Message) -> None:
        """Put a message into a mailbox, to run when its turn comes."""
        if instance.gate is not None and _comes_first(message):
            urgency = AT_ONCE
        else:
            urgency = message.deadline_ns if self._by_deadline else 0
        first = instance.mailbox.append_message(message, urgency)
        worker = self._worker
        if worker.tracks:
            worker.desk.track(message)
        if instance.starved:
            worker.mark(instance)  # It does not run now, and its queue grows: that should be seen.
        elif not instance.queued:
            worker.offer(instance)
        elif first:
            worker.ready.hurry(instance)

    def _is_refused(self, channel: InChannel, message: Message) -> bool:
        """A lessee that may refuse says whether it takes what was forwarded to it."""
        lessee = channel.instance
        strategy = lessee.strategy
        if strategy is None or strategy.force_migrate:
            return False
        taken = strategy.accept(lessee, message)
        assert channel.peer is not None
        self._worker.effects.append(Send(channel.peer, Offered(channel.number, message.seq, taken)))
        if not taken:
            channel.settle(message.seq)
            self.give_back(channel)
        return not taken

    def give_back(self, channel: InChannel) -> None:
        """Return credits for a consumed message: at once on a local channel, by the half window on a remote one."""
        receiver = channel.instance
        channel.consumed += 1
        if channel.consumed >= channel.grant_at:
            if channel.out is not None:
                learn_reply(channel.out, receiver.cost_ns, receiver.path_ns)
            else:
                assert channel.peer is not None
                grant = Grant(channel.number, channel.consumed, receiver.cost_ns, receiver.path_ns)
                self._worker.effects.append(Send(channel.peer, grant))
            channel.consumed = 0
            channel.grant_at = min(2 * channel.grant_at, channel.grant_at_most)
        if channel.out is not None:
            self._restore_credits(channel.out, 1)

    def _restore_credits(self, channel: OutChannel, amount: int) -> None:
        before = channel.credits
        channel.credits = before + amount
        if before <= 0 < channel.credits and not channel.extra:
            sender = channel.instance
            sender.starved -= 1
            self._worker.offer(sender)

    def _on_data(self, sender: str, frame: Data, now_ns: int) -> None:
        self._receive(sender, frame, frame.batch, None)

    def _on_critical(self, sender: str, frame: CriticalSent, now_ns: int) -> None:
        self._receive(sender, frame, frame.critical, frame.sync)

    def _receive(self, sender: str, frame: Data | CriticalSent, payload: Payload, sync: SyncProgram | None) -> None:
        number, seq = frame.number, frame.seq
        channel = self._ins.get((sender, number))
        if channel is None:
            self._worker.stale += 1  # A dropped job's frames may still be under way; they have nowhere to go.
            return
        if seq != channel.received + 1:
            self._lost_order(sender, channel, seq)
            return
        channel.received = seq
        message = Message(channel, seq, payload, frame.arrived_ns, sync, frame.progress_us, frame.deadline_ns)
        self._put(channel, message)

    def _lost_order(self, sender: str, channel: InChannel, seq: int) -> None:
        """Messages are missing; a job with checkpoints can go on from the last one."""
        address = channel.instance.address
        reason = f"message {seq} after {channel.received}"
        fact = f"channel {channel.sender} -> {address} lost its order"
        if channel.instance.durable:
            self._worker.effects.append(Send(COORDINATOR, Broken(address.job, sender, f"{fact}: {reason}")))
        else:
            self._worker.fail(address.job, Failure("InvariantError", fact, reason))

    def _on_grant(self, sender: str, frame: Grant, now_ns: int) -> None:
        channel = self._outs.get(frame.number)
        if channel is None:
            self._worker.stale += 1
            return
        if channel.peer != sender or not 0 < frame.credits <= CREDITS_PER_CHANNEL - channel.credits:
            fact = f"{frame.credits} credits from {sender} for channel {frame.number}, which are not its to give"
            self._worker.refuse(fact)
            return
        learn_reply(channel, frame.cost_ns, frame.path_ns)
        self._restore_credits(channel, frame.credits)

    def _on_open_channel(self, sender: str, frame: OpenChannel, now_ns: int) -> None:
        if frame.sender.job != frame.receiver.job:
            self._worker.refuse(f"a channel of {frame.sender} to {frame.receiver}, which is of another job")
            return
        job = self._worker.jobs.get(frame.receiver.job)
        instance = job.instances.get(frame.receiver) if job else None
        channel: InChannel | None = None
        if job is not None and instance is not None:
            function, partition = frame.sender[1:]
            home = job.placement.get(function, [])
            if partition >= len(home):
                self._worker.refuse(f"a channel of {frame.sender} from {sender}: there is no such actor")
                return
            if home[partition] == sender:
                # A stream may reach an input by several edges: each announcement takes a channel that is still free.
                free = (c for c in instance.inputs if c.number < 0 and c.out is None)
                channel = next((c for c in free if c.sender == frame.sender and c.input == frame.input), None)
            elif not job.may_have_lessees(function):
                self._worker.refuse(f"a channel of {frame.sender} from {sender}, which does not host it")
                return
            elif any(c.sender == frame.sender and c.input == frame.input for c in instance.inputs):
                self._worker.guard(instance)
                channel = extra_input(frame.sender, instance, frame.input)
        elif job is not None and job.may_have_lessees(frame.receiver.function):
            lessee = self._worker.lessee(frame.receiver)
            channel = extra_input(frame.sender, lessee, frame.input) if lessee is not None else None
            if channel is not None:
                channel.forwards = frame.forwards
        if channel is None:
            self._worker.stale += 1
            return
        channel.peer, channel.number = sender, frame.number
        self._ins[sender, frame.number] = channel


def find_frontier(channel: OutChannel, progress_us: int) -> None:
    """When a batch to a windowed function counts: how far the stream is then, and when it will be there.

    All batches of a window have the same: it is worked out once per window, and the next one has a better line."""
    channel.frontier_us = frontier(progress_us, channel.slide_us, channel.slide_above_us)
    late = channel.frontier_us <= progress_us
    channel.expected_ns = 0 if late else channel.instance.progress.arrival_ns(channel.frontier_us) or 0


def learn_reply(channel: OutChannel, cost_ns: float, path_ns: float) -> None:
    """A reply context: what the receiver and the way below it cost. The sender's own way is the longest of all."""
    if channel.extra:
        return  # It stands in for another one; and a lessor's own lessee is not on the way below it.
    sender, before = channel.instance, channel.cost_ns + channel.path_ns
    channel.cost_ns, channel.path_ns = cost_ns, path_ns
    channel.budget_ns = start_deadline_ns(0, channel.latency_ns, cost_ns, path_ns)
    after = cost_ns + path_ns
    if after >= sender.path_ns:
        sender.path_ns = after
    elif before >= sender.path_ns:
        sender.path_ns = max((out.cost_ns + out.path_ns for out in sender.outs), default=0.0)


def _comes_first(message: Message) -> bool:
    """A critical message that has nothing before it on its channel need not wait for the messages of others."""
    channel = message.channel
    critical = not isinstance(message.payload, RecordBatch)
    return critical and channel.received - channel.settled == 1 and not channel.instance.opening


def _opening(channel: OutChannel) -> OpenChannel:
    schema = channel.schema.serialize().to_pybytes()
    forwards = channel.instance.address == channel.receiver
    return OpenChannel(channel.number, channel.sender, channel.receiver, channel.input, schema, forwards)
