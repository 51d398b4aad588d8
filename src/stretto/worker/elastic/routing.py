"""What the home of an elastic executor does with rows: it divides messages among the owners of their shards.

Rows of shards on the move wait here, and so do those for which a task's channel has no room; the others run here or are
on their way. Parts that wait are put together again, so that tasks get batches as large as those that came; but no
batch for a task, and no run of the home's own rows, takes longer than `PIECE_NS`: a shard leaves when what its owner
has received has run, so what is on its way to a task must be little.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message, OutChannel
from stretto.actors.executor import HELD, Executor, OwnPart, Routed
from stretto.actors.gate import LessorGate
from stretto.actors.partitioning import divided
from stretto.actors.seat import Seat
from stretto.actors.tasks import Route
from stretto.actors.work import Errand, Outcome, Work
from stretto.worker.interfaces import Emitting
from stretto.worker.part import AfterRun, Host, Part

TASK_WINDOW = 4
"""So many batches are on their way to a task at most. What waits at the home is put together to larger batches, and
need not run before a shard can leave."""
PIECE_NS = 10_000_000
"""What the rows of one batch for a task may cost; large beside what a batch costs in itself."""


Waiting = deque[tuple[Routed, pa.RecordBatch]]
"""Parts of messages in their order."""


class HomeChannels(Emitting, Protocol):
    """The channels, for who routes."""

    def extra_channel(
        self, seat: Seat, receiver: Address, member: str, like: InChannel | OutChannel, schema: pa.Schema
    ) -> OutChannel: ...

    def give_back(self, message: Message) -> None: ...


class Tracking(Protocol):
    """Whoever follows messages while they wait."""

    def untrack(self, message: Message) -> None: ...


class Routing(Part):
    """The rows of all elastic executors whose home is here."""

    def __init__(self, host: Host, channels: HomeChannels, tracking: Tracking) -> None:
        self._host = host
        self._channels = channels
        self._tracking = tracking

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {Route: AfterRun(settles=self._routed)}

    def work(self, seat: Seat, message: Message) -> Work:
        """What the home runs for a message: it divides it, if that was not done yet."""
        executor = seat.executor
        if executor is None:
            return message
        executor.dividing += 1
        self._tracking.untrack(message)
        return Route(message, executor.routes.copy(), executor.version)

    def _routed(self, seat: Seat, errand: Route, outcome: Outcome) -> None:
        """A message was divided: its parts go their ways."""
        executor = seat.executor
        assert executor is not None
        executor.dividing -= 1
        message, parts = errand.message, outcome.parts
        if executor.version != errand.version:
            parts = self._divided(seat, executor, message, message.payload)  # A move has begun or ended meanwhile.
        executor.batch_rows = max(executor.batch_rows, message.payload.num_rows)
        routed = Routed(message, len(parts))
        for place, batch in parts:
            self._go(seat, executor, routed, place, batch)

    def _divided(
        self, seat: Seat, executor: Executor, message: Message, batch: pa.RecordBatch
    ) -> list[tuple[int, pa.RecordBatch]]:
        counted = seat.instance.shard_rows
        assert counted is not None
        return divided(batch, executor.routes[counted.shards(batch, message.channel.input)])

    def _go(self, seat: Seat, executor: Executor, routed: Routed, place: int, batch: pa.RecordBatch) -> None:
        if place == HELD:
            executor.held.append((routed, batch))
        elif place == 0:
            executor.own.append((routed, batch))
        else:
            self._forward(seat, executor, routed, executor.members[place], batch)

    def _forward(self, seat: Seat, executor: Executor, routed: Routed, member: str, batch: pa.RecordBatch) -> None:
        gate, channel = seat.gate, routed.message.channel
        assert isinstance(gate, LessorGate)
        lessee = gate.lessees[member]
        out = lessee.channels.get((channel.sender, channel.input))
        if out is None:
            out = self._channels.extra_channel(seat, seat.address, member, channel, batch.schema)
            lessee.channels[channel.sender, channel.input] = out
        waiting = executor.sending.setdefault(out, deque())
        waiting.append((routed, batch))
        self._send(seat, executor, out, waiting)

    def _send(self, seat: Seat, executor: Executor, out: OutChannel, waiting: Waiting) -> None:
        """Send what waits for a task, as far as there is room."""
        rows_max = executor.rows_within(PIECE_NS)
        while waiting and _has_room(out):
            self._emit(seat, out, _taken(waiting, rows_max))
        if not waiting:
            del executor.sending[out]

    def _emit(self, seat: Seat, out: OutChannel, parts: list[tuple[Routed, pa.RecordBatch]]) -> None:
        """Send rows to a task, as one batch."""
        batch = _together(parts)
        credits = 1 if batch.num_rows <= out.light_rows else out.weigh(batch)
        self._channels.emit(out, batch, *_urgency(parts), credits)
        seat.metrics.messages_forwarded += 1
        for routed, _ in parts:
            self._done(routed)

    def credits_back(self, out: OutChannel) -> None:
        """A task's channel has credits again."""
        seat = out.seat
        executor = seat.executor
        waiting = executor.sending.get(out) if executor is not None else None
        if executor is None or waiting is None:
            return
        self._send(seat, executor, out, waiting)
        self._host.offer(seat)  # Perhaps a barrier has waited for just this.

    def recall(self, seat: Seat, executor: Executor, source: str) -> None:
        """Rows of shards that begin to move wait with those that come later, if they have not left the queue of their
        old owner yet. The label could not speak for them."""
        if source == executor.home:
            executor.own = deque(self._without_held(seat, executor, list(executor.own)))
            return
        for out, waiting in [(out, waiting) for out, waiting in executor.sending.items() if out.peer == source]:
            kept = self._without_held(seat, executor, list(waiting))
            executor.sending[out] = deque(kept)
            if not kept:
                del executor.sending[out]

    def _without_held(
        self, seat: Seat, executor: Executor, parts: list[tuple[Routed, pa.RecordBatch]]
    ) -> list[tuple[Routed, pa.RecordBatch]]:
        """Lets rows of moving shards wait; returns the others."""
        kept = []
        for routed, batch in parts:
            parted = self._divided(seat, executor, routed.message, batch)
            held = [rows for place, rows in parted if place == HELD]
            if not held:
                kept.append((routed, batch))
                continue
            routed.left += len(parted) - 1
            executor.held += [(routed, rows) for rows in held]
            kept += [(routed, rows) for place, rows in parted if place != HELD]
        return kept

    def next_own(self, seat: Seat) -> Message | None:
        """The next part of a message that runs at the home, if there is one."""
        executor = seat.executor
        if executor is None or not executor.own:
            return None
        message = _own_message(_taken(executor.own, executor.rows_within(PIECE_NS)))
        message.routed.generation = executor.generation
        executor.outstanding[executor.generation] += 1
        return message

    def release(self, seat: Seat, executor: Executor) -> None:
        """Rows of shards that have arrived go on; those that still move stay, in their order."""
        held, executor.held = executor.held, []
        for routed, batch in held:
            parts = self._divided(seat, executor, routed.message, batch)
            routed.left += len(parts) - 1
            for place, rows in parts:
                self._go(seat, executor, routed, place, rows)

    def ran(self, seat: Seat, message: Message) -> None:
        """A part of a message has run here."""
        executor, part = seat.executor, message.routed
        assert executor is not None
        executor.outstanding[part.generation] -= 1
        if not executor.outstanding[part.generation]:
            del executor.outstanding[part.generation]
        for routed in part.routed:
            self._done(routed)
        if executor.is_idle:
            seat.executor = None

    def _done(self, routed: Routed) -> None:
        routed.left -= 1
        if not routed.left:
            message = routed.message
            message.channel.settle(message.seq)
            self._channels.give_back(message)


def _has_room(out: OutChannel) -> bool:
    """Whether a batch may be sent to a task now."""
    return out.credits > 0 and out.unsettled < TASK_WINDOW


def _taken(waiting: Waiting, rows_max: int) -> list[tuple[Routed, pa.RecordBatch]]:
    """Takes the next rows of one channel, at most so many: of several parts if they fit, else of the next part alone,
    of which the rest stays."""
    routed, batch = waiting[0]
    if batch.num_rows > rows_max:
        routed.left += 1
        waiting[0] = routed, batch.slice(rows_max)
        return [(routed, batch.slice(0, rows_max))]
    parts = [waiting.popleft()]
    channel, rows = parts[0][0].message.channel, parts[0][1].num_rows
    while waiting and waiting[0][0].message.channel is channel and rows + waiting[0][1].num_rows <= rows_max:
        parts.append(waiting.popleft())
        rows += parts[-1][1].num_rows
    return parts


def _together(parts: list[tuple[Routed, pa.RecordBatch]]) -> pa.RecordBatch:
    return parts[0][1] if len(parts) == 1 else pa.concat_batches([batch for _, batch in parts])


def _urgency(parts: list[tuple[Routed, pa.RecordBatch]]) -> tuple[int, None, int | None, int]:
    """Returns the arrival, the SYNC program, the progress and the deadline of parts that run together: the earliest
    arrival and deadline, so that no row is later than it seems."""
    messages = [routed.message for routed, _ in parts]
    arrived_ns = min(message.arrived_ns for message in messages)
    return arrived_ns, None, messages[-1].progress_us, min(message.deadline_ns for message in messages)


def _own_message(parts: list[tuple[Routed, pa.RecordBatch]]) -> Message:
    """Returns rows that run at the home, as one message."""
    last = parts[-1][0].message
    arrived_ns, _, progress_us, deadline_ns = _urgency(parts)
    message = Message(last.channel, last.seq, _together(parts), arrived_ns)
    message.progress_us, message.deadline_ns = progress_us, deadline_ns
    message.routed = OwnPart(*(routed for routed, _ in parts))
    return message
