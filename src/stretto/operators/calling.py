"""`stream.call`: each row calls an entity, and goes on with the reply.

Rows wait in a queue, in their order, with the watermarks between them. In a job with checkpoints a row may be called
when a complete checkpoint has it, with its name: the client and its number. Until then, a failure may lead to other
rows with the same numbers. docs/design/transactions.md ("Streams call entities") says why each row's transaction takes
place once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.calling import CallingFunction, EntityAnswer, EntityCall
from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.operators.replying import Replies

AHEAD_MAX = 1_000
"""The most rows of an instance that have been called and have not gone on: under way, or answered out of turn."""
WAITING_MAX = 10_000
"""An instance with so many rows that may be called and have not gone on gets no more."""
UNSEALED = 2**63 - 1
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True)
class Called:
    """What a row calls: a method of the class of entities `kind`, with the columns of the key and of each argument."""

    kind: str
    method: str
    key: int
    arguments: tuple[tuple[str, int], ...]
    only_reads: bool = False


@dataclass
class _Rows:
    """Rows that came together. Their numbers of this client are consecutive. `sealed` is the first mark after them."""

    batch: pa.RecordBatch
    client: str
    first: int
    sealed: int = UNSEALED
    arrived_ns: int = 0
    sent: int = 0
    """How many of them have gone on."""
    answers: dict[int, EntityAnswer] = field(default_factory=dict)
    """By the place of the row."""


class _Remembered(msgspec.Struct, array_like=True):
    """What a checkpoint has besides the rows: the last mark, and the last checkpoint that is known to be complete; the
    next number of each client, the present one last; watermarks and rows in their order."""

    checkpoint: int
    published: int
    sent_watermark_us: int
    clients: list[tuple[str, int]]
    queue: list[int | tuple[str, int, int, Any]]
    """Watermarks; rows as client, first number, mark and table."""

    @property
    def last_watermark_us(self) -> int:
        return max((each for each in self.queue if isinstance(each, int)), default=self.sent_watermark_us)


class EntityCalls(CallingFunction):
    """Calls an entity for each row, and sends the row with the reply. `schema` is that of the rows in, `replies` makes
    the rows out."""

    def __init__(self, called: Called, schema: pa.Schema, replies: Replies) -> None:
        self.called = called
        self.schema = schema
        self.replies = replies
        self._durable = False
        self._own = ""
        """The name of a client that begins here."""
        self._clients: dict[str, int] = {}
        """The next number of each client that may have replies; the present one is last."""
        self._client = ""
        self._queue: deque[_Rows | int] = deque()
        self._callable: deque[tuple[_Rows, int]] = deque()
        """Rows that may be called and were not."""
        self._ahead = 0
        self._waiting = 0
        """Rows that may be called and have not gone on."""
        self._made: list[EntityCall] = []
        self._open: dict[tuple[str, int], tuple[_Rows, int]] = {}
        """Where the rows are that have been called and are not answered."""
        self._published = 0
        self._checkpoint = 0
        self._at_marks: dict[int, dict[str, int]] = {}
        """Up to which number the rows of each client had gone on, at marks."""
        self._settled: dict[str, int] = {}
        self._unsettled = False
        self._unnoted = 0
        """Rows that have gone on since the last settlement, where there are no checkpoints."""

    # Rows in.

    def open(self, ctx: Context) -> None:
        self._durable = ctx.durable
        made = "" if ctx.attempt is None else ".".join(map(str, ctx.attempt))
        self._own = f"={ctx.function}/{ctx.partition}@{made}"
        self._become(self._own)

    def _become(self, client: str) -> None:
        self._client = client
        self._clients[client] = self._clients.pop(client, 0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        first = self._clients[self._client]
        self._clients[self._client] = first + batch.num_rows
        rows = _Rows(batch, self._client, first, arrived_ns=ctx.arrived_ns)
        self._queue.append(rows)
        if self._may_be_called(rows):
            self._let_call(rows)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us != EVENT_TIME_MAX_US:
            self._queue.append(watermark_us)

    def _may_be_called(self, rows: _Rows) -> bool:
        return not self._durable or self.called.only_reads or rows.sealed <= self._published

    def _let_call(self, rows: _Rows) -> None:
        self._callable.extend((rows, place) for place in range(rows.sent, rows.batch.num_rows))
        self._waiting += rows.batch.num_rows - rows.sent

    # Marks, and complete checkpoints.

    def seal(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        for rows in self._rows():
            rows.sealed = min(rows.sealed, checkpoint)
        self._at_marks[checkpoint] = self._gone_on()

    def _gone_on(self) -> dict[str, int]:
        """Returns for each client the last number up to which all rows have gone on."""
        found = {client: number - 1 for client, number in self._clients.items()}
        for rows in self._rows():
            found[rows.client] = min(found[rows.client], rows.first + rows.sent - 1)
        return found

    def publish(self, checkpoint: int) -> None:
        before, self._published = self._published, max(self._published, checkpoint)
        if self._durable and not self.called.only_reads:
            for rows in self._rows():
                if before < rows.sealed <= checkpoint:
                    self._let_call(rows)
        settled = self._at_marks.get(checkpoint)
        if settled is not None:
            self._settled, self._unsettled = settled, not self.called.only_reads
            self._clients = {
                client: number
                for client, number in self._clients.items()
                if client == self._client or settled[client] < number - 1
            }
        self._at_marks = {mark: each for mark, each in self._at_marks.items() if mark > checkpoint}

    # Calls and answers.

    def call_again(self) -> None:
        self._callable.clear()
        self._open.clear()
        self._made.clear()
        self._ahead = self._waiting = 0
        for rows in self._rows():
            if self._may_be_called(rows):
                self._let_call(rows)
                rows.answers.clear()

    def answer(self, answers: list[EntityAnswer]) -> None:
        for each in answers:
            rows, place = self._open.pop((each.client, each.number), (None, 0))
            if rows is not None:
                rows.answers[place] = each

    def proceed(self, ctx: Context) -> int | None:
        arrived_ns = None
        while True:
            self._make_calls()
            sent_ns = self._send(ctx)
            if sent_ns is None:
                return arrived_ns
            arrived_ns = max(sent_ns, arrived_ns or 0)

    def _make_calls(self) -> None:
        while self._callable and self._ahead < AHEAD_MAX:
            rows, place = self._callable.popleft()
            self._ahead += 1
            made = self._call(rows, place)
            if isinstance(made, EntityCall):
                self._open[made.client, made.number] = rows, place
                self._made.append(made)
            else:
                rows.answers[place] = made

    def _call(self, rows: _Rows, place: int) -> EntityCall | EntityAnswer:
        """Returns the call of a row; the answer, if there can be no call."""
        called, columns = self.called, rows.batch.columns
        name = rows.client, rows.first + place
        key = columns[called.key][place].as_py()
        if key is None:
            column = rows.batch.schema.names[called.key]
            return EntityAnswer(*name, None, "UserError", f"column '{column}' has the key, and is null")
        try:
            given = {argument: columns[column][place].as_py() for argument, column in called.arguments}
            encoded = _ENCODER.encode(given)
        except (TypeError, ValueError, OverflowError) as error:
            return EntityAnswer(*name, None, "UserError", f"the arguments cannot be sent: {error}")
        return EntityCall(*name, called.kind, str(key), called.method, encoded, called.only_reads)

    def _send(self, ctx: Context) -> int | None:
        """Sends what is first in the queue and ready. Returns when the last event of it had arrived."""
        arrived_ns = None
        while self._queue:
            first = self._queue[0]
            if isinstance(first, int):
                self.sent_watermark_us = max(self.sent_watermark_us, first)
                ctx.send_watermark(first)
            else:
                if self._send_rows(first, ctx):
                    arrived_ns = max(first.arrived_ns, arrived_ns or 0)
                if first.sent < first.batch.num_rows:
                    break
            self._queue.popleft()
        return arrived_ns

    def _send_rows(self, rows: _Rows, ctx: Context) -> bool:
        """Sends the answered rows up to the first that is not. Returns whether there were any."""
        answers: list[EntityAnswer] = []
        while (answer := rows.answers.pop(rows.sent + len(answers), None)) is not None:
            answers.append(answer)
        if answers:
            ctx.send(self.replies.rows(rows.batch.slice(rows.sent, len(answers)), answers))
            rows.sent += len(answers)
            self._unnoted += len(answers)
            self._ahead -= len(answers)
            self._waiting -= len(answers)
        return bool(answers)

    def take_calls(self) -> list[EntityCall]:
        made, self._made = self._made, []
        return made

    def take_settled(self) -> dict[str, int]:
        if not self._durable and self._unnoted and (self._unnoted >= AHEAD_MAX or not self._queue):
            # What has gone on is never called again.
            self._settled, self._unnoted = self._gone_on(), 0
            self._unsettled = not self.called.only_reads
        changed, self._unsettled = self._unsettled, False
        return self._settled if changed else {}

    @property
    def is_full(self) -> bool:
        return self._waiting >= WAITING_MAX

    @property
    def is_done(self) -> bool:
        """In a job with checkpoints the replies must be settled too: nobody would do it later."""
        if self._queue or not self._durable or self.called.only_reads:
            return not self._queue
        return all(self._settled.get(client, -1) >= number - 1 for client, number in self._clients.items())

    def _rows(self) -> Iterator[_Rows]:
        return (each for each in self._queue if isinstance(each, _Rows))

    # Checkpoints.

    def remember(self) -> Any:
        queue: list[Any] = []
        for each in self._queue:
            queue.append(each if isinstance(each, int) else _kept(each))
        clients = list(self._clients.items())
        kept = _Remembered(self._checkpoint, self._published, self.sent_watermark_us, clients, _joined(queue))
        return msgspec.structs.astuple(kept)

    def recall(self, remembered: Any) -> None:
        kept = msgspec.convert(remembered, type=_Remembered)
        self._checkpoint, self._published = kept.checkpoint, kept.published
        self.sent_watermark_us = kept.sent_watermark_us
        self._clients = dict(kept.clients)
        self._become(kept.clients[-1][0] if kept.clients else self._own)
        self._queue = deque(chain.from_iterable(self._recalled(each) for each in kept.queue))
        self._at_marks = {self._checkpoint: self._gone_on()}

    def _recalled(self, each: int | tuple[str, int, int, Any]) -> Iterator[_Rows | int]:
        if isinstance(each, int):
            yield each
            return
        client, first, sealed, table = each
        if not isinstance(table, pa.Table) or not table.schema.equals(self.schema):
            raise ValueError(f"rows that wait for replies are not of the schema {self.schema}")
        for batch in table.to_batches():
            yield _Rows(batch, client, first, sealed)
            first += batch.num_rows

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        """Returns the rows of the partitions that this one follows, under their names; it begins a client of its own.
        Watermarks between rows are not kept, since those of several partitions have no common order."""
        formers = [msgspec.convert(each, type=_Remembered) for each in remembered.values() if each is not None]
        clients = {client: number for each in formers for client, number in each.clients}
        own = f"{self._own}.{checkpoint}"
        queue: list[Any] = [entry for each in formers for entry in each.queue if not isinstance(entry, int)]
        sent_us = min((each.sent_watermark_us for each in formers), default=EVENT_TIME_MIN_US)
        last_us = min((each.last_watermark_us for each in formers), default=EVENT_TIME_MIN_US)
        if last_us > sent_us:
            queue.append(last_us)
        published = min((each.published for each in formers), default=0)
        named = [*clients.items(), (own, 0)]
        return msgspec.structs.astuple(_Remembered(checkpoint, published, sent_us, named, queue))

    def layouts(self) -> dict[str, str]:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
        return {"calls": f"of {self.called.kind}.{self.called.method} by {columns}"}


def _kept(rows: _Rows) -> tuple[str, int, int, pa.Table]:
    table = pa.Table.from_batches([rows.batch.slice(rows.sent)])
    return rows.client, rows.first + rows.sent, rows.sealed, table


def _joined(queue: list[Any]) -> list[Any]:
    """Returns the queue with rows that follow each other in one table."""
    found: list[Any] = []
    for each in queue:
        last = found[-1] if found else None
        if not isinstance(each, int) and isinstance(last, list) and _follows(last, each):
            last[3].append(each[3])
        else:
            found.append(each if isinstance(each, int) else [*each[:3], [each[3]]])
    return [each if isinstance(each, int) else (*each[:3], pa.concat_tables(each[3])) for each in found]


def _follows(last: list[Any], each: tuple[str, int, int, pa.Table]) -> bool:
    client, first, sealed, tables = last
    return (client, first + sum(table.num_rows for table in tables), sealed) == each[:3]
