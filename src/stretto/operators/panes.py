"""Panes: where rows belong in event time, and the columnar state that keeps partials by pane until windows close.

The length of a pane is the greatest common divisor of a window's size and slide, so that each row is kept once and
windows are made of whole panes. A window that is given by columns of its rows is one pane. A bucket is the number of a
pane, or the end of such a window. Windows are also numbered in the order of their ends.

The state is a buffer of raw rows, grouped a few thousand at a time, and blocks of partials sorted by bucket. Each block
is at least twice as long as the next, as in a log-structured merge tree. The memory per group is bounded by a constant,
the time per row by a logarithm, and a window is found by binary search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.snapshot import Int64
from stretto.errors import PlanError
from stretto.operators.aggregation import column_index, columns_of, table_of
from stretto.operators.grouping import (
    INT64_MAX,
    INT64_MIN,
    Bools,
    Column,
    Int64s,
    concat_columns,
    fixed_array,
    fixed_values,
    slice_column,
    take_columns,
)
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling
from stretto.state import Fragment, KeyedPart, State, Surveyed
from stretto.state.packing import packed, unpacked
from stretto.state.weighing import Weighed, evenly, weights_of

WINDOW_TYPE = pa.timestamp("us", tz="UTC")
BUFFER_ROWS_MAX = 16_384
SMALL_BLOCK_ROWS_MAX = 8_192

_INT64 = np.dtype(np.int64)
_US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def times_us(array: pa.Array) -> Int64s:
    """Returns microseconds since the epoch, without a copy if the column has that unit; rows must not be null."""
    kind = array.type
    if pa.types.is_date32(kind):
        return fixed_values(array, np.dtype(np.int32)).astype(np.int64) * 86_400_000_000
    values = fixed_values(array, _INT64)
    if kind.unit == "us":
        return values
    if kind.unit == "ns":
        return values // 1_000
    return values * _US_PER_UNIT[kind.unit]


def timestamps(values: Int64s) -> pa.Array:
    return fixed_array(values, WINDOW_TYPE)


def time_index(schema: pa.Schema, name: str) -> int:
    index = column_index(schema, name, "the time column")
    kind = schema.field(index).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        raise PlanError("the time column is not a timestamp", f"'{name}' is {kind}", "CAST it to TIMESTAMP first.")
    return index


class Placed(NamedTuple):
    """A batch with its buckets. Rows without a time are removed; `bucket` is one number if all rows have it."""

    batch: pa.RecordBatch
    bucket: int | Int64s
    low: int
    high: int
    hidden: list[Column]
    dropped: int


class Shape(Protocol):
    """How rows are assigned to buckets, and windows are made of buckets."""

    hidden: int
    whole: bool  # each window is one bucket

    def place(self, batch: pa.RecordBatch) -> Placed | None:
        """Returns a batch with its buckets; None if no row has a time."""

    def closed(self, watermark_us: int) -> int:
        """Returns the last window that ends at or before the watermark."""

    def windows(self, buckets: Any) -> tuple[Any, Any]:
        """Returns the first and the last window that each bucket belongs to."""

    def buckets(self, first: int, last: int) -> tuple[int, int]:
        """Returns the least bucket of the first window, and the greatest of the last."""

    def bounds(self, windows: Int64s, columns: Sequence[Column]) -> tuple[Int64s, Int64s]:
        """Returns the starts and ends of the windows; `columns` are those of the same rows."""

    def describe(self) -> dict[str, int] | None:
        """Returns the grid of the buckets; None if a bucket is the end of a window, with its start as a hidden key."""


def _without_null(batch: pa.RecordBatch, indices: Sequence[int]) -> pa.RecordBatch:
    for index in indices:
        if batch.column(index).null_count:
            batch = batch.filter(batch.column(index).is_valid())
    return batch


class Paned:
    """Tumbling and hopping windows over a time column."""

    hidden = 0

    def __init__(self, schema: pa.Schema, time: EventTime, window: Tumbling | Hopping) -> None:
        self._column = time_index(schema, time.column)
        self._size, self._slide, self._origin = window.size_us, window.slide_us, window.origin_us
        self._pane = math.gcd(self._size, self._slide)
        self._shift = time.offset_us + self._origin
        self._panes_per_slide = self._slide // self._pane
        self._panes_per_window = self._size // self._pane
        self.whole = self._size == self._slide

    def place(self, batch: pa.RecordBatch) -> Placed | None:
        rows = batch.num_rows
        batch = _without_null(batch, (self._column,))
        if not batch.num_rows:
            return None
        times = times_us(batch.column(self._column))
        low = (int(times.min()) - self._shift) // self._pane
        high = (int(times.max()) - self._shift) // self._pane
        if low == high:
            return Placed(batch, low, low, high, [], rows - batch.num_rows)
        buckets = (times - self._shift if self._shift else times) // self._pane
        return Placed(batch, buckets, low, high, [], rows - batch.num_rows)

    def closed(self, watermark_us: int) -> int:
        return (watermark_us - self._origin - self._size) // self._slide

    def windows(self, buckets: Any) -> tuple[Any, Any]:
        if self.whole:
            return buckets, buckets
        first = (buckets - self._panes_per_window) // self._panes_per_slide + 1
        return first, buckets // self._panes_per_slide

    def buckets(self, first: int, last: int) -> tuple[int, int]:
        return first * self._panes_per_slide, last * self._panes_per_slide + self._panes_per_window - 1

    def bounds(self, windows: Int64s, columns: Sequence[Column]) -> tuple[Int64s, Int64s]:
        starts = windows * self._slide + self._origin
        return starts, starts + self._size

    def describe(self) -> dict[str, int] | None:
        return {"pane_us": self._pane, "origin_us": self._origin, "whole": self.whole}


class Spanned:
    """Windows given by two columns of the rows. The bucket is the end; the start is a hidden key."""

    hidden = 1
    whole = True

    def __init__(self, schema: pa.Schema, window: Span) -> None:
        self._start = time_index(schema, window.start)
        self._end = time_index(schema, window.end)

    def place(self, batch: pa.RecordBatch) -> Placed | None:
        rows = batch.num_rows
        batch = _without_null(batch, (self._start, self._end))
        if not batch.num_rows:
            return None
        ends = times_us(batch.column(self._end))
        starts = fixed_array(times_us(batch.column(self._start)), pa.int64())
        low, high = int(ends.min()), int(ends.max())
        return Placed(batch, low if low == high else ends, low, high, [starts], rows - batch.num_rows)

    def closed(self, watermark_us: int) -> int:
        return watermark_us

    def windows(self, buckets: Any) -> tuple[Any, Any]:
        return buckets, buckets

    def buckets(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def bounds(self, windows: Int64s, columns: Sequence[Column]) -> tuple[Int64s, Int64s]:
        return fixed_values(columns[0], _INT64), windows

    def describe(self) -> dict[str, int] | None:
        return None


def shape_of(schema: pa.Schema, time: EventTime | None, window: Tumbling | Hopping | Span) -> Shape:
    if isinstance(window, Span):
        return Spanned(schema, window)
    if time is None:
        raise PlanError("the stream has no event time", None, "Name the time column at the source, with time=.")
    return Paned(schema, time, window)


class Block(NamedTuple):
    """A table sorted by bucket. If it is a slice, `held` is the number of rows that it keeps in memory."""

    buckets: Int64s
    columns: list[Column]
    held: int = 0

    def slice(self, low: int, high: int) -> Block:
        """Returns the rows of the buckets from `low` to `high`, both included."""
        start = (
            int(np.searchsorted(self.buckets, max(low, INT64_MIN), "left")) if low <= INT64_MAX else len(self.buckets)
        )
        stop = int(np.searchsorted(self.buckets, min(high, INT64_MAX), "right")) if high >= INT64_MIN else 0
        if start == 0 and stop == len(self.buckets):
            return self
        stop = max(start, stop)
        columns = [slice_column(column, start, stop) for column in self.columns]
        return Block(self.buckets[start:stop], columns, max(self.held, len(self.buckets)))


class Raw(NamedTuple):
    """Rows as they arrived: their bucket or buckets, their number, and their columns."""

    bucket: int | Int64s
    rows: int
    columns: list[Column]


class Kernel(Protocol):
    """What a state does with the rows of a bucket: aggregate them, or keep the top rows."""

    @property
    def objects(self) -> Sequence[int]:
        """The columns of a block that hold Python objects."""

    def lift(self, buckets: Int64s, columns: list[Column], single: bool) -> Block:
        """Returns a block of raw rows; `single` is true if all are in one bucket."""

    def merge(self, buckets: Int64s, columns: list[Column]) -> Block:
        """Returns a block of the rows of several blocks."""

    def describe(self) -> dict[str, Any]:
        """Returns the operation and the grid of its buckets as plain data."""

    @property
    def layout(self) -> str:
        """The columns of a block, described in words."""

    @property
    def types(self) -> Sequence[pa.DataType | None]:
        """The types of the columns of a block; None for any."""

    def named(self, columns: list[Column]) -> dict[str, Column]:
        """Returns at least the columns of a block by which rows are partitioned, by their names in the input."""


def joined(blocks: Sequence[Block]) -> Block:
    """Returns the rows of several blocks, one after the other, not sorted."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [concat_columns(parts) for parts in zip(*(block.columns for block in blocks), strict=True)]
    return Block(np.concatenate([block.buckets for block in blocks]), columns)


class _Exported(msgspec.Struct):
    emitted_us: Int64
    columns: dict[str, Any] | None


class PaneState(State):
    """Partials by bucket, and the watermark up to which windows were emitted. Partial states are appended."""

    indivisible = None

    def __init__(self, kernel: Kernel, combinable: bool = True, window: object = None) -> None:
        self._kernel = kernel
        self._combinable = combinable
        self._window = window
        self.emitted_us = EVENT_TIME_MIN_US
        self.low: int | None = None
        self._buffer: list[Raw] = []
        self._buffered = 0
        self._small: list[Block] = []
        self._small_rows = 0
        self._blocks: list[Block] = []
        self._numbers: dict[int, tuple[Block, int]] = {}
        """Blocks that are in a checkpoint, by their id(), with their fragment numbers."""

    @property
    def combinable(self) -> bool:
        return self._combinable

    def fresh(self) -> PaneState:
        return PaneState(self._kernel, self._combinable, self._window)

    @property
    def rows(self) -> int:
        """The number of rows that the state holds: raw rows and partials."""
        return self._buffered + self._small_rows + sum(len(block.buckets) for block in self._blocks)

    def add(self, raw: Raw, low: int) -> None:
        """Add rows; the least of their buckets is `low`."""
        if self.low is None or low < self.low:
            self.low = low
        self._buffer.append(raw)
        self._buffered += raw.rows
        if self._buffered >= BUFFER_ROWS_MAX:
            self.flush()

    def flush(self) -> None:
        """Group the buffered rows."""
        if not self._buffer:
            return
        buffer, self._buffer, self._buffered = self._buffer, [], 0
        columns = [concat_columns(parts) for parts in zip(*(raw.columns for raw in buffer), strict=True)]
        first = buffer[0].bucket
        single = all(isinstance(raw.bucket, int) and raw.bucket == first for raw in buffer)
        rows = sum(raw.rows for raw in buffer)
        if single:
            buckets = np.full(rows, first, np.int64)
        else:
            buckets = np.empty(rows, np.int64)
            place = 0
            for raw in buffer:
                buckets[place : place + raw.rows] = raw.bucket
                place += raw.rows
        self._keep(self._kernel.lift(buckets, columns, single))

    def _keep(self, block: Block) -> None:
        self._small.append(block)
        self._small_rows += len(block.buckets)
        if self._small_rows < SMALL_BLOCK_ROWS_MAX:
            return
        self._blocks.append(self._merged(self._small))
        self._small, self._small_rows = [], 0
        while len(self._blocks) > 1 and len(self._blocks[-2].buckets) < 2 * len(self._blocks[-1].buckets):
            newest = self._blocks.pop()
            self._blocks[-1] = self._merged([self._blocks[-1], newest])

    def _merged(self, blocks: Sequence[Block]) -> Block:
        return blocks[0] if len(blocks) == 1 else self._kernel.merge(*joined(blocks)[:2])

    def select(self, low: int, high: int) -> Block | None:
        """Returns all partials of the buckets from `low` to `high`, merged; None if there are none."""
        self.flush()
        parts = [part for block in (*self._blocks, *self._small) if len((part := block.slice(low, high)).buckets)]
        return self._merged(parts) if parts else None

    def drop_below(self, bucket: int) -> None:
        """Drop the buckets below `bucket`."""
        self.flush()
        self._blocks = self._above(self._blocks, bucket)
        self._small = self._above(self._small, bucket)
        self._small_rows = sum(len(block.buckets) for block in self._small)
        self.low = min((int(block.buckets[0]) for block in (*self._blocks, *self._small)), default=None)

    def _above(self, blocks: Sequence[Block], bucket: int) -> list[Block]:
        """Returns the blocks without the buckets below; a rest of less than half is copied, to free memory."""
        kept = []
        for block in blocks:
            rest = block.slice(bucket, INT64_MAX)
            rows = len(rest.buckets)
            if 2 * rows < rest.held:
                numbers = np.arange(rows)
                rest = Block(rest.buckets.copy(), [_copy(column, numbers) for column in rest.columns])
            elif rest is not block and (known := self._numbers.get(id(block))) is not None:
                # The checkpoint has the whole block, and `rebuild` skips the buckets that were dropped.
                self._numbers[id(rest)] = (rest, known[1])
            if rows:
                kept.append(rest)
        return kept

    def merge(self, other: PaneState) -> None:
        for raw in other._buffer:
            self.add(raw, int(np.min(raw.bucket)))
        for block in (*other._blocks, *other._small):
            self._absorb(block)
        self.emitted_us = max(self.emitted_us, other.emitted_us)

    def _absorb(self, block: Block) -> None:
        low = int(block.buckets[0])
        self.low = low if self.low is None else min(low, self.low)
        self._keep(block)

    def export(self) -> dict[str, Any]:
        content = self.select(INT64_MIN, INT64_MAX)
        columns = None
        if content is not None:
            columns = table_of(
                [pa.array(content.buckets), *content.columns], [place + 1 for place in self._kernel.objects]
            )
        return {"emitted_us": self.emitted_us, "columns": columns}

    def restore(self, content: dict[str, Any]) -> None:
        found = msgspec.convert(content, type=_Exported)
        self.__dict__.update(self.fresh().__dict__)
        self.emitted_us = found.emitted_us
        if found.columns is not None:
            self._absorb(self._block(found.columns))

    def _block(self, content: dict[str, Any]) -> Block:
        """Returns a block as read back."""
        objects = [place + 1 for place in self._kernel.objects]
        buckets, *columns = columns_of(content, [pa.int64(), *self._kernel.types], objects)
        return Block(fixed_values(buckets, _INT64), columns)

    def fragments(self) -> list[Fragment]:
        """Blocks never change, so each is written once. The first fragment has `emitted_us` and `low`."""
        if self._kernel.objects:
            return super().fragments()
        self.flush()
        numbers = {}
        for block in (*self._blocks, *self._small):
            known, number = self._numbers.get(id(block), (None, 0))
            if known is not block:
                number = self._next_number()
            numbers[id(block)] = (block, number)
        self._numbers = numbers
        head = Fragment(self._next_number(), packed([self.emitted_us, self.low]))
        return [head, *(Fragment(number, _table(block)) for block, number in numbers.values())]

    @property
    def layout(self) -> str:
        return f"{self._kernel.layout} in {self._window}"

    def keep(self, part: KeyedPart) -> None:
        self.flush()
        blocks, low = (*self._blocks, *self._small), self.low
        self._blocks, self._small, self._small_rows, self._numbers = [], [], 0, {}
        for block in blocks:
            rows = np.flatnonzero(part.mine(self._kernel.named(block.columns)))
            if len(rows):
                self._keep(Block(block.buckets[rows], take_columns(block.columns, rows)))
        self.low = low

    def survey(self, keys: pa.Schema) -> Surveyed:
        self.flush()
        columns = [self._kernel.named(block.columns) for block in (*self._blocks, *self._small)]
        return Surveyed(columns, {"emitted_us": self.emitted_us, "columns": None})

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        self.flush()
        for block in (*self._blocks, *self._small):
            rows = evenly(len(block.buckets))
            columns = take_columns(block.columns, rows)
            each = weights_of([block.buckets[rows], *columns], len(rows))
            yield Weighed(self._kernel.named(columns), each * (len(block.buckets) / max(1, len(rows))))

    def _next_number(self) -> int:
        self._fragments_given += 1
        return self._fragments_given

    def rebuild(self, fragments: list[Fragment]) -> None:
        if self._kernel.objects:
            super().rebuild(fragments)
            return
        head, *blocks = fragments
        self.__dict__.update(self.fresh().__dict__)
        self._fragments_given = max(fragment.number for fragment in fragments)
        assert isinstance(head.content, bytes)
        self.emitted_us, low = msgspec.convert(unpacked(head.content), type=tuple[Int64, Int64 | None])
        for fragment in blocks:
            block = self._block({"table": fragment.content, "objects": {}})
            block = block if low is None else block.slice(low, INT64_MAX)
            if len(block.buckets) >= SMALL_BLOCK_ROWS_MAX:
                self._blocks.append(block)
                self._numbers[id(block)] = (block, fragment.number)
                self.low = min(int(block.buckets[0]), INT64_MAX if self.low is None else self.low)
            elif len(block.buckets):
                self._absorb(block)

    def describe(self) -> dict[str, Any]:
        return {"kind": "panes", **self._kernel.describe()}


def _table(block: Block) -> pa.Table:
    table: pa.Table = table_of([pa.array(block.buckets), *block.columns], ())["table"]
    return table


def _copy(column: Column, rows: npt.NDArray[Any]) -> Column:
    return column.copy() if isinstance(column, np.ndarray) else column.take(pa.array(rows))


def expanded(first: Int64s, last: Int64s) -> tuple[npt.NDArray[np.intp], Int64s]:
    """Returns row numbers and windows, for rows in the windows from `first` to `last` (none if that is less)."""
    counts = np.maximum(last - first + 1, 0)
    rows = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return rows, first[rows] + (np.arange(len(rows)) - starts[rows])


def mask_rows(batch: pa.RecordBatch, keep: Bools) -> pa.RecordBatch:
    return batch.filter(pa.array(keep))
