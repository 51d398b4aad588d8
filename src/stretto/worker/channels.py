"""The channels of a worker: numbered messages with credits, to and from its instances."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.address import Address
from stretto.actors.channel import (
    CREDITS_PER_CHANNEL,
    GRANT_AT,
    GRANT_TASK_AT,
    InChannel,
    Message,
    OutChannel,
    Payload,
)
from stretto.actors.critical import Granularity, SyncProgram, Watermark, granularity
from stretto.actors.deadlines import AT_ONCE, YIELDS_NS, frontier, start_deadline_ns
from stretto.actors.seat import Seat
from stretto.actors.wiring import extra_input, join_local
from stretto.actors.work import Outcome
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.checkpointing import Broken
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.scheduling.strategy import Pending
from stretto.worker.interfaces import Figures
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part


class Arrivals(Protocol):
    """Whoever may take an arriving message away from its instance."""

    def forwarded(self, seat: Seat, message: Message) -> bool:
        """Whether it was sent on to a lessee."""

    def is_refused(self, channel: InChannel, message: Message) -> bool:
        """Whether a lessee here does not take what was forwarded to it."""


class Directions(Protocol):
    """Whoever knows of lessees that a sender may send to directly."""

    def direct(self, channel: OutChannel, strategy: Any) -> list[OutChannel] | None: ...

    def ask_again(self, channel: OutChannel) -> None: ...


class CriticalPrograms(Protocol):
    """Whoever knows what rides with a critical message."""

    def program(self, channel: OutChannel) -> SyncProgram | None: ...


class Instances(Protocol):
    """Whoever makes instances and guards them."""

    def lessee(self, address: Address) -> Seat | None: ...

    def guard(self, seat: Seat) -> None: ...


class Waiting(Protocol):
    """Whoever follows messages while they wait."""

    tracks: bool

    def track(self, message: Message) -> None: ...


class Decisions(Protocol):
    """Whoever waits for batches without a place."""

    def undecided(self, sender: Seat) -> None: ...


class RoutedRows(Protocol):
    """Whoever routes the rows of elastic executors."""

    def ran(self, seat: Seat, message: Message) -> None: ...

    def credits_back(self, out: OutChannel) -> None: ...


class Channels(Part):
    """The sending ends by their number, and the receiving ends by the peer and the peer's number for them."""

    def __init__(self, host: Host, figures: Figures) -> None:
        self._host = host
        self._touch = figures.touch
        self._by_deadline = host.policy.by_deadline
        self.made = 0
        self._outs: dict[int, OutChannel] = {}
        self._ins: dict[tuple[str, int], InChannel] = {}

    def connect(
        self,
        arrivals: Arrivals,
        directions: Directions,
        programs: CriticalPrograms,
        instances: Instances,
        waiting: Waiting,
        decisions: Decisions,
        routing: RoutedRows,
    ) -> None:
        self._arrivals = arrivals
        self._directions = directions
        self._programs = programs
        self._instances = instances
        self._waiting = waiting
        self._decisions = decisions
        self._routing = routing

    def frames(self) -> FrameHandlers:
        return {
            Data: self._on_data,
            CriticalSent: self._on_critical,
            Grant: self._on_grant,
            OpenChannel: self._on_open_channel,
        }

    def add(self, outs: dict[int, OutChannel]) -> None:
        """Take in the sending ends of new instances."""
        self._outs.update(outs)
        self.made += len(outs)

    def dropped(self, job: LocalJob) -> None:
        for seat in job.all_seats():
            for out in (*seat.outs, *seat.extra_outs):
                self._outs.pop(out.number, None)
        self._ins = {key: channel for key, channel in self._ins.items() if not channel.seat.dropped}

    def sending(self, number: int) -> OutChannel | None:
        """The sending end here of a channel."""
        return self._outs.get(number)

    def receiving(self, sender: str, number: int) -> InChannel | None:
        """The receiving end here of a channel, by its sender and the sender's number for it."""
        if sender == self._host.member:
            out = self._outs.get(number)
            return None if out is None else out.local
        return self._ins.get((sender, number))

    def extra_channel(
        self, seat: Seat, receiver: Address, member: str, like: InChannel | OutChannel, schema: pa.Schema
    ) -> OutChannel:
        """A channel to a lessee of the receiver, to carry what would go, or has come, by another channel."""
        self.made += 1
        channel = OutChannel(seat, receiver, like.input, member, self.made, schema)
        channel.sender = like.sender
        channel.extra = True
        if isinstance(like, OutChannel):
            channel.index = like.index
        if member == self._host.member:
            lessee = self._instances.lessee(receiver)
            assert lessee is not None
            join_local(channel, extra_input(like.sender, lessee, like.input))
        self._outs[channel.number] = channel
        seat.extra_outs.append(channel)
        return channel

    # Sending.

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        """Send what a run gave: a batch perhaps to a lessee, a critical message with its SYNC program."""
        if isinstance(payload, RecordBatch):
            sender = channel.seat
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
            if channel.yields:
                deadline_ns = max(deadline_ns, self._host.now_ns + YIELDS_NS)
            chosen: OutChannel | None = channel
            strategy = channel.strategy
            if strategy is not None and (direct := self._directions.direct(channel, strategy)):
                pending = Pending(channel, payload, arrived_ns, progress_us, deadline_ns)
                chosen = strategy.prepare_send(channel, direct, pending)
            if chosen is not None:
                credits = 1 if rows <= channel.light_rows else channel.weigh(payload)
                sync = None
                if channel.after is not None:
                    sync, channel.after = SyncProgram(tuple(channel.after.values())), None
                self.emit(chosen, payload, arrived_ns, sync, progress_us, deadline_ns, credits)
            else:
                self._decisions.undecided(sender)
            return
        self._send_critical(channel, payload, outcome)

    def _send_critical(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        if channel.index == 0:
            channel.seat.criticals += 1
        concerned = channel.seat.gate is not None or channel.extras is not None or channel.direct is not None
        sync = self._programs.program(channel) if concerned else None
        progress_us = payload.time_us if isinstance(payload, Watermark) else outcome.progress_us
        # A watermark is itself what its window waits for.
        deadline_ns = outcome.arrived_ns + channel.budget_ns
        if channel.yields:
            deadline_ns = max(deadline_ns, self._host.now_ns + YIELDS_NS)
        self.emit(channel, payload, outcome.arrived_ns, sync, progress_us, deadline_ns)
        if channel.extras is not None:
            self._directions.ask_again(channel)

    def emit(
        self,
        channel: OutChannel,
        payload: Payload,
        arrived_ns: int,
        sync: SyncProgram | None,
        progress_us: int | None,
        deadline_ns: int,
        credits: int = 1,
    ) -> None:
        """Put a message on a channel, which costs a credit, or more if it is large."""
        channel.seq += 1
        before = channel.credits
        channel.credits = before - credits
        if before > 0 >= channel.credits and not channel.extra:
            channel.seat.starved += 1
            channel.empty_since_ns = self._host.now_ns
        receiving = channel.local
        if receiving is not None:
            receiving.received = channel.seq
            message = Message(receiving, channel.seq, payload, arrived_ns, sync, progress_us, deadline_ns, 0, credits)
            self._put(receiving, message)
            return
        assert channel.peer is not None
        if channel.seq == 1:
            # Announced here and not at the start of the job: a worker that started sooner may have fed us already.
            self._host.effects.append(Send(channel.peer, _opening(channel)))
        frame: Frame
        if isinstance(payload, RecordBatch):
            frame = Data(channel.number, channel.seq, arrived_ns, payload, progress_us, deadline_ns, credits, sync)
        else:
            frame = CriticalSent(channel.number, channel.seq, arrived_ns, payload, sync, progress_us, deadline_ns)
        self._host.effects.append(Send(channel.peer, frame))

    # Receiving.

    def _put(self, channel: InChannel, message: Message) -> None:
        seat = channel.seat
        plain = message.sync is None and type(message.payload) is RecordBatch
        if seat.gate is None and not plain and needs_gate(message):
            self._instances.guard(seat)
        if seat.gate is not None:
            if self._arrivals.forwarded(seat, message):
                self._touch(seat)
                self._host.offer(seat)  # Perhaps a barrier has waited for just this one.
                return
            if channel.forwards and not seat.spec.tasks_max and self._arrivals.is_refused(channel, message):
                return
        self.wait_in(seat, message)

    def wait_in(self, seat: Seat, message: Message) -> None:
        """Put a message into a mailbox, to run when its turn comes."""
        if seat.gate is not None and _comes_first(message):
            urgency = AT_ONCE
        else:
            urgency = message.deadline_ns if self._by_deadline else 0
        first = seat.mailbox.append_message(message, urgency)
        if self._waiting.tracks:
            self._waiting.track(message)
        if seat.starved:
            self._touch(seat)  # It does not run now, and its queue grows: that should be seen.
        elif not seat.queued:
            self._host.offer(seat)
        elif first:
            self._host.ready.hurry(seat)

    def _on_data(self, sender: str, frame: Data) -> None:
        self._receive(sender, frame, frame.batch, frame.sync)

    def _on_critical(self, sender: str, frame: CriticalSent) -> None:
        self._receive(sender, frame, frame.critical, frame.sync)

    def _receive(self, sender: str, frame: Data | CriticalSent, payload: Payload, sync: SyncProgram | None) -> None:
        number, seq = frame.number, frame.seq
        channel = self._ins.get((sender, number))
        if channel is None:
            self._host.stale += 1  # A dropped job's frames may still be under way; they have nowhere to go.
            return
        if seq != channel.received + 1:
            self._lost_order(sender, channel, seq)
            return
        channel.received = seq
        progress_us, deadline_ns = frame.progress_us, frame.deadline_ns
        message = Message(channel, seq, payload, frame.arrived_ns, sync, progress_us, deadline_ns, 0, frame.credits)
        self._put(channel, message)

    def _lost_order(self, sender: str, channel: InChannel, seq: int) -> None:
        """Messages are missing; a job with checkpoints can resume from the last one."""
        address = channel.seat.address
        reason = f"message {seq} after {channel.received}"
        fact = f"channel {channel.sender} -> {address} lost its order"
        if channel.seat.instance.durable:
            self._host.effects.append(Send(COORDINATOR, Broken(address.job, sender, f"{fact}: {reason}")))
        else:
            self._host.fail(address.job, Failure("InvariantError", fact, reason))

    def _on_open_channel(self, sender: str, frame: OpenChannel) -> None:
        if frame.sender.job != frame.receiver.job:
            self._host.refuse(f"a channel of {frame.sender} to {frame.receiver}, which is of another job")
            return
        job = self._host.jobs.get(frame.receiver.job)
        seat = job.seats.get(frame.receiver) if job is not None else None
        channel: InChannel | None = None
        if job is not None and seat is not None:
            function, partition = frame.sender[1:]
            home = job.placement.get(function, [])
            if partition >= len(home):
                self._host.refuse(f"a channel of {frame.sender} from {sender}: there is no such actor")
                return
            if home[partition] == sender:
                # A stream may reach an input by several edges: each announcement takes a channel that is still free.
                free = (c for c in seat.inputs if c.number < 0 and c.out is None)
                channel = next((c for c in free if c.sender == frame.sender and c.input == frame.input), None)
            elif not job.may_have_lessees(function):
                self._host.refuse(f"a channel of {frame.sender} from {sender}, which does not host it")
                return
            elif any(c.sender == frame.sender and c.input == frame.input for c in seat.inputs):
                self._instances.guard(seat)
                channel = extra_input(frame.sender, seat, frame.input)
        elif job is not None and job.may_have_lessees(frame.receiver.function):
            lessee = self._instances.lessee(frame.receiver)
            channel = extra_input(frame.sender, lessee, frame.input) if lessee is not None else None
            if channel is not None:
                channel.forwards = frame.forwards
                if frame.forwards and channel.seat.spec.tasks_max:
                    channel.grant_at_most = GRANT_TASK_AT
        if channel is None:
            self._host.stale += 1
            return
        channel.peer, channel.number = sender, frame.number
        self._ins[sender, frame.number] = channel

    # Messages that have run, and credits.

    def ran(self, seat: Seat, message: Message, outcome: Outcome) -> None:
        """A message has run."""
        channel = message.channel
        seat.metrics.messages_in += 1
        if outcome.rows_in:
            self.count_rows(seat, message, outcome.rows_in)
        else:
            channel.executed += 1
        if message.routed is None:
            channel.settle(message.seq)
            self.give_back(message)
        else:
            self._routing.ran(seat, message)

    def count_rows(self, seat: Seat, message: Message, rows: int) -> None:
        """Rows of a message have run: all of them, or a piece."""
        metrics = seat.metrics
        metrics.rows_in += rows
        sender = message.channel.sender.function
        metrics.executed_from[sender] = metrics.executed_from.get(sender, 0) + rows
        if seat.latency is not None:
            seat.latency.add(self._host.now_ns - message.arrived_ns, rows)

    def give_back(self, message: Message) -> None:
        """Return the credits of a consumed message: at once on a local channel, by the half window on a remote one."""
        channel = message.channel
        receiver = channel.seat
        channel.consumed += message.credits
        if channel.consumed >= channel.grant_at:
            if channel.out is not None:
                learn_reply(channel.out, receiver.cost_ns, receiver.path_ns)
                channel.consumed = 0
            else:
                self._grant(channel)
            channel.grant_at = min(2 * channel.grant_at, channel.grant_at_most)
        elif channel.grant_at_most != GRANT_AT and channel.out is None and channel not in receiver.owing:
            receiver.owing.append(channel)
        if channel.out is not None:
            self._restore_credits(channel.out, message.credits)
        if receiver.owing and not receiver.mailbox:
            for owing in receiver.owing:
                if owing.consumed:
                    self._grant(owing)
            receiver.owing.clear()

    def _grant(self, channel: InChannel) -> None:
        """Returns the credits of a remote channel."""
        assert channel.peer is not None
        receiver = channel.seat
        grant = Grant(channel.number, channel.consumed, receiver.cost_ns, receiver.path_ns)
        self._host.effects.append(Send(channel.peer, grant))
        channel.consumed = 0

    def _restore_credits(self, channel: OutChannel, amount: int) -> None:
        before = channel.credits
        channel.credits = before + amount
        if before <= 0 < channel.credits and not channel.extra:
            sender = channel.seat
            sender.starved -= 1
            channel.count_wait(self._host.now_ns)
            channel.empty_since_ns = None
            self._host.offer(sender)
        elif channel.extra and channel.seat.executor is not None:
            self._routing.credits_back(channel)

    def _on_grant(self, sender: str, frame: Grant) -> None:
        channel = self._outs.get(frame.number)
        if channel is None:
            self._host.stale += 1
            return
        if channel.peer != sender or not 0 < frame.credits <= CREDITS_PER_CHANNEL - channel.credits:
            fact = f"{frame.credits} credits from {sender} for channel {frame.number}, which are not its to give"
            self._host.refuse(fact)
            return
        learn_reply(channel, frame.cost_ns, frame.path_ns)
        self._restore_credits(channel, frame.credits)


def needs_gate(message: Message) -> bool:
    """Whether it waits for other channels or instances, or is a critical message whose barrier does, which only an
    instance with a gate can do."""
    if message.sync is not None:
        return True
    return not isinstance(message.payload, RecordBatch) and granularity(message.payload) is Granularity.ONE


def find_frontier(channel: OutChannel, progress_us: int) -> None:
    """When a batch to a windowed function counts: how far the stream is then, and when it will be there.

    All batches of a window have the same: it is worked out once per window, and the next one has a better line."""
    channel.frontier_us = frontier(progress_us, channel.slide_us, channel.slide_above_us)
    late = channel.frontier_us <= progress_us
    progress = channel.seat.progress
    expected_ns = None if late or progress is None else progress.arrival_ns(channel.frontier_us)
    channel.expected_ns = expected_ns or 0


def learn_reply(channel: OutChannel, cost_ns: float, path_ns: float) -> None:
    """A reply context: what the receiver and the way below it cost. The sender's own way is the longest of all."""
    if channel.extra:
        return  # It stands in for another one; and a lessor's own lessee is not on the way below it.
    sender, before = channel.seat, channel.cost_ns + channel.path_ns
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
    return critical and channel.received - channel.settled == 1 and not channel.seat.opening


def _opening(channel: OutChannel) -> OpenChannel:
    schema = channel.schema.serialize().to_pybytes()
    forwards = channel.seat.address == channel.receiver
    return OpenChannel(channel.number, channel.sender, channel.receiver, channel.input, schema, forwards)
