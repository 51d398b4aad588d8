"""What one worker has of published tables, and how it answers: in pieces of a bounded number of rows, by deadline.

The worker's part (`worker/answering.py`) hands frames in and lets the steps run when it is their turn; `Shelf` decides
what they read. What a partition has is taken at once when the question comes, so that no row is counted twice or missed
while the partition publishes. Pieces that are not in memory are loaded, which is an effect.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from stretto.errors import StrettoError
from stretto.operators.publishing import Live
from stretto.protocol.jobs import Failure
from stretto.protocol.queries import Ask, Held, Hold, LiveAnswer, Part, Piece, Waits
from stretto.queries.answers import too_large
from stretto.queries.clauses import clauses
from stretto.queries.moments import how_far_behind, is_behind
from stretto.queries.pruning import Span
from stretto.queries.select import Compiled, TableShape, compiled
from stretto.rendering import error_text
from stretto.state.packing import unpacked

ROWS_AT_ONCE = 16_384
"""The rows of one run: about a millisecond, so that nobody else waits for long."""
MERGED_AT = 8
"""So many partial results are merged into one."""
COMPILED_MAX = 128
PART_BYTES_MAX = 128 << 20
LOOK_AGAIN_NS = 2_000_000
"""How often a question that waits for an event time looks whether it has come."""
_UNREAD = "it has not published its last checkpoint yet"
SAY_AGAIN_NS = 500_000_000
"""How often it says what it waits for."""


class Published(Protocol):
    """The rows of a partition that is here."""

    @property
    def unread(self) -> int: ...
    def after(self, version: int) -> Live | None: ...
    def rows_of(self, piece: str) -> list[pa.RecordBatch] | None: ...
    def drop(self, piece: str) -> None: ...


class Partition(Protocol):
    """A partition of a table on this worker, with how far it is in event time."""

    @property
    def rows(self) -> Published: ...
    @property
    def watermark_us(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LoadPieces:
    """Effect: read the files of pieces, then say `PiecesLoaded`."""

    table: str
    directory: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class PiecesLoaded:
    """Pieces were read, or not: the reason is that of the first that could not be."""

    table: str
    rows: Mapping[str, list[pa.RecordBatch]]
    failed: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(eq=False)
class Waiting:
    """A question that waits for partitions, and when it says so again."""

    asker: str
    ask: Ask
    deadline_ns: int
    says_ns: int = 0

    @property
    def has_said(self) -> bool:
        return self.says_ns > 0


@dataclass(eq=False)
class Task:
    """A question under way: the batches that are still to be read, and what there is so far."""

    asker: str
    ask: Ask
    deadline_ns: int
    question: Compiled
    schema: pa.Schema
    left: list[pa.RecordBatch] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    parts: list[Any] = field(default_factory=list)
    live: list[LiveAnswer] = field(default_factory=list)
    rows: int = 0
    failure: Failure | None = None
    stale: str | None = None

    def add(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            fitted = batch if batch.schema.equals(self.schema) else _fitted(batch, self.schema)
            for begin in range(0, fitted.num_rows, ROWS_AT_ONCE):
                self.left.append(fitted.slice(begin, ROWS_AT_ONCE))

    @property
    def is_done(self) -> bool:
        return self.failure is not None or self.stale is not None or not (self.left or self.awaited)

    def step(self) -> None:
        """Reads some rows: what goes wrong is the answer."""
        evaluation = self.question.evaluation
        batches: list[pa.RecordBatch] = []
        rows = 0
        while self.left and (not rows or rows + self.left[-1].num_rows <= ROWS_AT_ONCE):
            batches.append(self.left.pop())
            rows += batches[-1].num_rows
        try:
            self.parts.append(evaluation.part([pa.concat_batches(batches)]))
            if len(self.parts) >= MERGED_AT:
                self.parts = [evaluation.merged(self.parts)]
            if evaluation.is_full(self.parts[-1]):
                self.left, self.awaited = [], set()
        except Exception as error:
            self.failure = failure_of(error)
        self.rows += rows

    def answer(self) -> Part:
        """Returns the part of the answer."""
        number = self.ask.number
        if self.failure is None and self.stale is None:
            evaluation = self.question.evaluation
            try:
                data = evaluation.packed(evaluation.merged(self.parts))
            except Exception as error:
                self.failure = failure_of(error)
            else:
                if len(data) <= PART_BYTES_MAX:
                    return Part(number, data, self.live, self.rows)
                self.failure = too_large(len(data), PART_BYTES_MAX, "a worker's part of it has")
        return Part(number, None, [], self.rows, self.failure, self.stale)


class Shelf:
    """The partitions and the copies of pieces on one worker. What it wants sent and done is in `sends` and `loads`."""

    def __init__(self, known: OrderedDict[tuple[Any, ...], Compiled] | None = None) -> None:
        self.partitions: dict[tuple[str, str, int], Partition] = {}
        """By table, run of the job and number."""
        self.copies: dict[tuple[str, str], list[pa.RecordBatch]] = {}
        """Pieces of which a copy is here, by table and name."""
        self.sends: list[tuple[str, Any]] = []
        self.loads: list[LoadPieces] = []
        self._tasks: list[tuple[int, int, Task]] = []
        self._waiting: list[Waiting] = []
        self._orders: list[tuple[str, Hold, set[str]]] = []
        self._loading: dict[tuple[str, str], list[Task]] = {}
        self._kept: set[tuple[str, str]] = set()
        self._compiled = OrderedDict() if known is None else known
        self._made = 0

    # Questions.

    def ask(self, sender: str, ask: Ask, now_ns: int) -> None:
        """Begins to answer; a question that wants more than partitions have waits for them."""
        self._waiting.append(Waiting(sender, ask, now_ns + ask.within_ns))
        self.look(now_ns)

    @property
    def waits(self) -> bool:
        """Whether some question waits for a partition."""
        return bool(self._waiting)

    def look(self, now_ns: int) -> None:
        """Begins with the questions that need not wait any more. Nobody waits any more for those whose time is over."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not self._must_wait(each.ask):
                if each.has_said:
                    self.sends.append((each.asker, Waits(each.ask.number, [])))
                self._begin(each.asker, each.ask, each.deadline_ns)
            elif now_ns < each.deadline_ns:
                self._say(each, now_ns)
                self._waiting.append(each)

    def _must_wait(self, ask: Ask) -> bool:
        found = self._asked(ask)
        if None in found:
            return False  # It will be refused.
        return any(each is not None and _why_awaited(each, ask) is not None for each in found)

    def _asked(self, ask: Ask) -> list[Partition | None]:
        return [self.partitions.get((ask.table, part.job, part.partition)) for part in ask.live]

    def _say(self, waiting: Waiting, now_ns: int) -> None:
        """Says which partitions a question waits for, so that whoever asks can be told when its time is over."""
        if now_ns < waiting.says_ns:
            return
        waiting.says_ns = now_ns + SAY_AGAIN_NS
        ask = waiting.ask
        reasons = [
            (part.partition, reason)
            for part, each in zip(ask.live, self._asked(ask), strict=True)
            if each is not None and (reason := _why_awaited(each, ask)) is not None
        ]
        self.sends.append((waiting.asker, Waits(ask.number, reasons)))

    def _begin(self, sender: str, ask: Ask, deadline_ns: int) -> None:
        try:
            schema, question = self._question(ask)
        except Exception as error:
            self.sends.append((sender, Part(ask.number, None, [], failure=failure_of(error))))
            return
        task = Task(sender, ask, deadline_ns, question, schema)
        self._gather(task)
        if task.is_done and not task.parts:
            self.sends.append((sender, task.answer()))
        elif task.left:
            self._put(task)

    def _question(self, ask: Ask) -> tuple[pa.Schema, Compiled]:
        key = (ask.text, ask.zone, ask.time, ask.schema, ask.small)
        schema = pa.ipc.read_schema(pa.py_buffer(ask.schema))
        found = self._compiled.get(key)
        if found is None:
            small = None if ask.small is None else unpacked(ask.small)
            found = compiled(clauses(ask.text), TableShape(schema, ask.time), ask.zone, small)
            self._compiled[key] = found
            while len(self._compiled) > COMPILED_MAX:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return schema, found

    def _gather(self, task: Task) -> None:
        """Takes what the partitions have at this moment, and the pieces, of which some may have to be loaded."""
        ask, span = task.ask, Span(task.ask.first_us, task.ask.last_us)
        for part in ask.live:
            partition = self.partitions.get((ask.table, part.job, part.partition))
            live = None if partition is None else partition.rows.after(part.after)
            if partition is None or live is None:
                task.stale = f"partition {part.partition} is not here any more"
                return
            if partition.rows.unread:
                task.stale = f"partition {part.partition}: {_UNREAD}"
                return
            task.live.append(LiveAnswer(part.partition, partition.watermark_us))
            for start_us, batches in sorted(live.items()):
                if span.meets_segment(start_us, ask.segment_us):
                    task.add(batches)
        missing = [piece for piece in ask.pieces if not self._take(task, piece.name)]
        for piece in missing:
            task.awaited.add(piece.name)
            self._loading.setdefault((ask.table, piece.name), []).append(task)
        if missing:
            assert ask.directory is not None
            self.loads.append(LoadPieces(ask.table, ask.directory, tuple(missing)))

    def _take(self, task: Task, piece: str) -> bool:
        rows = self.rows_of(task.ask.table, piece)
        if rows is not None:
            task.add(rows)
        return rows is not None

    def rows_of(self, table: str, piece: str) -> list[pa.RecordBatch] | None:
        """Returns the rows of a piece, if they are in memory."""
        found = self.copies.get((table, piece))
        if found is not None:
            return found
        for (name, _, _), partition in self.partitions.items():
            if name == table and (rows := partition.rows.rows_of(piece)) is not None:
                return rows
        return None

    # Runs.

    def _put(self, task: Task) -> None:
        self._made += 1
        heapq.heappush(self._tasks, (task.deadline_ns, self._made, task))

    @property
    def has_work(self) -> bool:
        return bool(self._tasks)

    @property
    def urgency_ns(self) -> int:
        """The deadline of the most urgent question; only asked if there is work."""
        return self._tasks[0][0]

    def next_task(self, now_ns: int) -> Task | None:
        """Returns the question whose turn it is; those that nobody waits for any more are given up."""
        while self._tasks:
            deadline_ns, _, task = heapq.heappop(self._tasks)
            if now_ns < deadline_ns:
                return task
            task.stale = "it was not answered in time: the worker was busy"
            self.sends.append((task.asker, task.answer()))
        return None

    def ran(self, task: Task) -> None:
        """A step of a question is over."""
        if task.is_done:
            self.sends.append((task.asker, task.answer()))
        elif task.left:
            self._put(task)

    # Loads.

    def loaded(self, event: PiecesLoaded) -> None:
        """Pieces were read."""
        for name in (*event.rows, *event.failed):
            rows = event.rows.get(name)
            for task in self._loading.pop((event.table, name), []):
                self._deliver(task, name, rows, event.reason)
            if rows is not None and (event.table, name) in self._kept:
                self.copies[event.table, name] = rows
        for order in list(self._orders):
            sender, hold, left = order
            if hold.table == event.table:
                left -= {*event.rows, *event.failed}
                if not left:
                    self._orders.remove(order)
                    self._report(sender, hold, event.reason)

    def _deliver(self, task: Task, name: str, rows: list[pa.RecordBatch] | None, reason: str | None) -> None:
        idle = not task.left
        if task.is_done or name not in task.awaited:
            return
        task.awaited.discard(name)
        if rows is None:
            task.stale = reason or f"{name} could not be read"
        else:
            task.add(rows)
        if task.is_done:
            if idle:
                self.sends.append((task.asker, task.answer()))
        elif idle and task.left:
            self._put(task)

    def hold(self, sender: str, hold: Hold) -> None:
        """Loads copies and drops others."""
        for name in hold.drop:
            self._kept.discard((hold.table, name))
            self.copies.pop((hold.table, name), None)
            for (table, _, _), partition in self.partitions.items():
                if table == hold.table:
                    partition.rows.drop(name)
        wanted = [piece for piece in hold.load if self.rows_of(hold.table, piece.name) is None]
        self._kept |= {(hold.table, piece.name) for piece in hold.load}
        if wanted:
            self._orders.append((sender, hold, {piece.name for piece in wanted}))
            self.loads.append(LoadPieces(hold.table, hold.directory, tuple(wanted)))
        else:
            self._report(sender, hold, None)

    def _report(self, sender: str, hold: Hold, reason: str | None) -> None:
        names = [piece.name for piece in hold.load]
        here = [name for name in names if self.rows_of(hold.table, name) is not None]
        failed = [name for name in names if name not in here]
        self.sends.append((sender, Held(hold.table, here, hold.drop, failed, reason if failed else None)))


def _why_awaited(partition: Partition, ask: Ask) -> str | None:
    """Returns why a question must wait for a partition; None if it need not."""
    if partition.rows.unread:
        return _UNREAD
    least_us = ask.at_least_us
    if least_us is None or not is_behind(partition.watermark_us, least_us):
        return None
    return how_far_behind(partition.watermark_us, least_us)


def failure_of(error: Exception) -> Failure:
    """Returns an error as plain data."""
    if isinstance(error, StrettoError):
        return Failure(type(error).__name__, error.fact, error.detail, error.fix)
    return Failure("ExpressionError", "the question failed while it was computed", error_text(error))


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column.cast(field.type) if column.type != field.type else column
        for column, field in zip(batch.select(schema.names).columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
