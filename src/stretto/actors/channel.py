"""Channels: an upstream instance to a downstream instance, with numbered messages and credits.

A sender spends a credit per message, and one more for every `CREDIT_BYTES` of a large one, and stops running when any
of its channels has none left; the receiver returns credits as it consumes. So a mailbox holds at most the credits of
its channels, in messages and in bytes, plus what one run sends at once, and a slow sink slows its sources. One message
can always travel, whatever its size. Critical messages are numbered like all others, because their position in the
order matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.critical import Critical, Last, SyncProgram
from stretto.actors.deadlines import AT_ONCE, LAX_NS, NEVER_NS
from stretto.actors.function import EVENT_TIME_MIN_US

if TYPE_CHECKING:
    from stretto.actors.seat import Seat

CREDITS_PER_CHANNEL = 32
"""The maximum number of messages in flight on one channel ..."""
CREDIT_BYTES = 2 * 1024 * 1024
"""... of this size; larger ones cost more credits, so that 64 MiB are in flight."""

GRANT_AT = CREDITS_PER_CHANNEL // 2
"""The number of credits that are returned at once ..."""
GRANT_EXTRA_AT = 4
"""... and on channels where credits also show a lessor the progress of its lessee. The first credit is returned alone,
then two, and so on, because credits also carry the cost of messages, which a new sender does not know yet. When nothing
waits at a lessee any more, it returns all that it has: it would seem to be busy otherwise, for as long as nobody sends
to it because of that."""
GRANT_TASK_AT = 2
"""... and on those from the home of an elastic executor to a task: half of what may be on its way there, so that the
home, which may be in the middle of a run, has the time of the other half to send more."""

Payload: TypeAlias = pa.RecordBatch | Critical


class Message(msgspec.Struct, gc=False):
    """One numbered message in a mailbox: a batch of rows, or a critical one. Lean, because it is on the hot path.

    A batch has a SYNC program in `sync` if it must not run before what another instance of its actor has sent.

    The garbage collector does not track messages, so that long queues cost it nothing; the cycle through channel and
    mailbox is broken when a job is dropped."""

    channel: InChannel
    seq: int
    payload: Any
    arrived_ns: int
    sync: SyncProgram | None = None
    progress_us: int | None = None
    deadline_ns: int = NEVER_NS
    ticket: int = 0
    """Its number in the worker's laxity queue, if the strategy has one."""
    credits: int = 1
    """What it has cost."""
    routed: Any = None
    """The `Routed` message that it is a part of, if its rows went several ways."""


class InChannel:
    """The receiving end. A local one has the sending end (`out`), a remote one the peer and the peer's channel number.

    `consumed` counts messages processed since credits were last returned. All messages up to the number `settled` were
    run or forwarded, and so were those in `ahead`; `executed` counts the critical ones. Critical messages travel only
    on the channels between lessors. The others (from an upstream lessee, to a lessee, or from a lessor to its lessee)
    are extra channels, opened when first used; the last kind has `forwards` set. `urgency` is that of its last message:
    a more urgent message raises the urgency of those before it."""

    __slots__ = (
        "ahead",
        "consumed",
        "ended",
        "executed",
        "forwards",
        "grant_at",
        "grant_at_most",
        "input",
        "number",
        "out",
        "peer",
        "received",
        "seat",
        "sender",
        "settled",
        "urgency",
        "watermark_us",
    )

    def __init__(self, sender: Address, seat: Seat, input_name: str) -> None:
        self.sender = sender
        self.seat = seat
        self.input = input_name
        self.peer: str | None = None
        self.number = -1
        self.out: OutChannel | None = None
        self.received = 0
        self.consumed = 0
        self.settled = 0
        self.ahead: set[int] | None = None
        self.executed = 0
        self.forwards = False
        self.urgency = AT_ONCE
        self.grant_at = 1
        self.grant_at_most = GRANT_AT
        self.watermark_us = EVENT_TIME_MIN_US
        self.ended = False

    def settle(self, seq: int) -> None:
        """Records that a message was run or forwarded. One that is forwarded on arrival may overtake others that wait
        here."""
        if seq != self.settled + 1:
            self.ahead = self.ahead or set()
            self.ahead.add(seq)
            return
        self.settled = seq
        while self.ahead and self.settled + 1 in self.ahead:
            self.settled += 1
            self.ahead.discard(self.settled)


class OutChannel:
    """The sending end. A local channel holds the receiving end itself, so nothing is serialised.

    `after` is what others have sent that must run before the next batch on it, by channel (`worker/elastic/`).
    `index` is its position in the outs of its seat; an extra channel has the index of the channel that it stands in
    for. `synced` is the last message that a barrier has reported. `extras` are the channels to lessees of the receiver
    by member, and `direct` those of them that may be used now. While it `waits` for the list of lessees, its seat does
    not run. The `strategy` of the receiver (a `scheduling.Strategy`, which this room does not import) chooses among
    them, and may depend on whether the receiver is `stateless`.

    For deadlines: `latency_ns` is the job's objective or the default; the channel `yields` if the job has none.
    `slide_us` is how often the receiver emits and `slide_above_us` how often the sender does; `cost_ns` and `path_ns`
    are the reply context, the recent cost of the receiver and of the longest path below it. `budget_ns` is the latency
    less both: how long after its arrival a message may begin. `frontier_us` is the end of the receiver's current
    window, and `expected_ns` when the stream will reach it; 0 if unknown.

    For the size of messages: batches of at most `light_rows` rows cost one credit; the others are weighed.

    `empty_since_ns` is since when the time without credits is not counted yet; None while there are some."""

    __slots__ = (
        "after",
        "budget_ns",
        "cost_ns",
        "credits",
        "direct",
        "empty_since_ns",
        "expected_ns",
        "extra",
        "extras",
        "frontier_us",
        "index",
        "input",
        "latency_ns",
        "light_rows",
        "local",
        "number",
        "path_ns",
        "peer",
        "receiver",
        "schema",
        "seat",
        "sender",
        "seq",
        "slide_above_us",
        "slide_us",
        "stateless",
        "strategy",
        "synced",
        "waits",
        "weighed",
        "yields",
    )

    def __init__(
        self, seat: Seat, receiver: Address, input_name: str, peer: str | None, number: int, schema: pa.Schema
    ) -> None:
        self.seat = seat
        self.sender = seat.address
        self.receiver = receiver
        self.input = input_name
        self.peer = peer
        self.number = number
        self.schema = schema
        self.local: InChannel | None = None
        self.seq = 0
        self.credits = CREDITS_PER_CHANNEL
        self.empty_since_ns: int | None = None
        self.index = -1
        self.after: dict[tuple[str, str, int], Last] | None = None
        self.extra = False
        self.synced = 0
        self.extras: dict[str, OutChannel] | None = None
        self.direct: list[OutChannel] | None = None
        self.strategy: Any = None
        self.stateless = False
        self.waits = False
        self.latency_ns = LAX_NS
        self.yields = True
        self.slide_us: int | None = None
        self.slide_above_us: int | None = None
        self.cost_ns = 0.0
        self.path_ns = 0.0
        self.budget_ns = LAX_NS
        self.frontier_us = 0
        self.expected_ns = 0
        self.light_rows = light_rows(schema) if seat.credit_bytes is None else 0
        self.weighed: tuple[int, int, int] = (0, 0, 1)

    def count_wait(self, now_ns: int) -> None:
        """Adds the time without credits so far to the figures of the sender."""
        if self.empty_since_ns is not None:
            waited_ns, receiver = self.seat.metrics.waited_ns, self.receiver.function
            waited_ns[receiver] = waited_ns.get(receiver, 0) + now_ns - self.empty_since_ns
            self.empty_since_ns = now_ns

    @property
    def unsettled(self) -> int:
        """Messages in flight, as far as the sender knows; a large one counts as several."""
        return CREDITS_PER_CHANNEL - self.credits

    def weigh(self, batch: pa.RecordBatch) -> int:
        """Returns the credits that a batch costs.

        Rows of a fixed length need only be counted. For others, the size of the buffers is quickly known, but a slice
        has those of the whole. The exact size takes long, so it is determined once for the slices of equal length of
        one whole. If they differ, they still are not more than the whole together, which the sender has in memory
        anyway."""
        rows: int = batch.num_rows
        if self.light_rows:
            return 1 + rows // (self.light_rows + 1)
        held_bytes, credit_bytes = batch.get_total_buffer_size(), self.seat.credit_bytes or CREDIT_BYTES
        if held_bytes < credit_bytes:
            return 1
        if self.weighed[:2] != (held_bytes, rows):
            self.weighed = (held_bytes, rows, 1 + int(batch.nbytes) // credit_bytes)
        return self.weighed[2]


def light_rows(schema: pa.Schema) -> int:
    """Returns the number of rows that cost one credit: at least one; 0 if rows may have any length."""
    if not all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in schema.types):
        return 0
    row_bits: int = sum(kind.bit_width + 1 for kind in schema.types)  # One more for whether it is null.
    return max(8 * CREDIT_BYTES // max(row_bits, 1) - 8, 1)
