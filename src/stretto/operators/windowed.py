"""Aggregates over event-time windows, emitted when the watermark closes them.

Call order: `process` keeps rows by pane and drops late ones; `on_watermark` emits every window that ends at or before
the watermark, once, in the order of ends, then drops the panes that no window needs any more. With an allowed lateness,
a window stays until the watermark has passed its end by that much, and a late row emits the updated row of its key and
window again at once. Such a function must get all rows of a key, so it cannot run in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.accumulators import Call
from stretto.operators.aggregation import Aggregation
from stretto.operators.grouping import (
    INT64_MAX,
    INT64_MIN,
    Column,
    Int64s,
    concat_columns,
    group,
    slice_column,
    take_columns,
)
from stretto.operators.panes import (
    WINDOW_TYPE,
    Block,
    PaneState,
    Placed,
    Raw,
    Shape,
    expanded,
    mask_rows,
    shape_of,
    timestamps,
)
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling

# Windows are emitted from about this many partials at a time, to limit memory.
EMIT_ROWS_MAX = 262_144


class Grouped:
    """The kernel of a pane state that aggregates: groups are (bucket, keys)."""

    def __init__(self, aggregation: Aggregation, grid: dict[str, int] | None) -> None:
        self._aggregation = aggregation
        self._grid = grid
        self.objects = aggregation.objects

    def lift(self, buckets: Int64s, columns: list[Column], single: bool) -> Block:
        groups = self._aggregation.group(len(buckets), columns, None if single else buckets)
        table = self._aggregation.lift(groups, columns)
        return Block(buckets[: groups.count] if single else buckets[groups.sample], table)

    def merge(self, buckets: Int64s, columns: list[Column]) -> Block:
        groups = self._aggregation.group(len(buckets), columns, buckets)
        return Block(buckets[groups.sample], self._aggregation.merge(groups, columns))

    def describe(self) -> dict[str, Any]:
        return {"grid": self._grid, "grouped": self._aggregation.describe()}

    @property
    def layout(self) -> str:
        return self._aggregation.layout

    @property
    def types(self) -> list[pa.DataType]:
        return self._aggregation.types

    def named(self, columns: list[Column]) -> dict[str, Column]:
        return self._aggregation.named_keys(columns)


class WindowAggregate(Function):
    """Aggregates per key and window. Columns out: keys, window_start, window_end, one per call."""

    order_matters = False

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        time: EventTime | None,
        window: Tumbling | Hopping | Span,
        calls: tuple[Call | UserAggregate, ...],
        lateness_us: int = 0,
    ) -> None:
        self._shape = shape_of(schema, time, window)
        self._aggregation = Aggregation(schema, keys, calls, self._shape.hidden)
        self._lateness_us = lateness_us
        self._kernel = Grouped(self._aggregation, self._shape.describe())
        bounds = [pa.field("window_start", WINDOW_TYPE), pa.field("window_end", WINDOW_TYPE)]
        self.schema = pa.schema([*self._aggregation.key_fields, *bounds, *self._aggregation.result_fields])
        self.panes = PaneState(self._kernel, combinable=lateness_us == 0, window=window)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        shape, panes = self._shape, self.panes
        placed = accepted(shape, batch, ctx, panes.emitted_us, self._lateness_us)
        if placed is None:
            return
        columns = [*placed.hidden, *self._aggregation.rows(placed.batch)]
        panes.add(Raw(placed.bucket, placed.batch.num_rows, columns), placed.low)
        if self._lateness_us:
            closed = shape.closed(max(ctx.watermark_us, panes.emitted_us))
            if shape.windows(placed.low)[0] <= closed:
                self._emit_again(placed, columns[: self._aggregation.keys], closed, ctx)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        shape, panes = self._shape, self.panes
        if watermark_us <= panes.emitted_us:
            return
        for windows, columns, grouped in closing(shape, panes, watermark_us):
            if grouped:
                self._send(windows, columns, ctx)
            else:
                self._send_merged(windows, columns, ctx)
        panes.emitted_us = watermark_us
        forget(shape, panes, watermark_us - self._lateness_us)

    def _emit_again(self, placed: Placed, keys: Sequence[Column], closed: int, ctx: Context) -> None:
        """Emit again the rows of the closed windows and keys that a late batch has changed."""
        gone = self._shape.closed(max(ctx.watermark_us, self.panes.emitted_us) - self._lateness_us)
        buckets = np.broadcast_to(np.asarray(placed.bucket, np.int64), placed.batch.num_rows)
        late, late_windows = self._within(buckets, gone + 1, closed)
        if not len(late):
            return
        least, greatest = self._shape.buckets(int(late_windows.min()), int(late_windows.max()))
        kept = self.panes.select(least, greatest)
        assert kept is not None
        rows, windows = self._within(kept.buckets, gone + 1, closed)
        columns = take_columns(kept.columns, rows)
        pairs = zip(columns[: self._aggregation.keys], take_columns(keys, late), strict=True)
        both = group(
            [concat_columns(pair) for pair in pairs], len(rows) + len(late), np.concatenate([windows, late_windows])
        )
        touched = np.zeros(both.count, np.bool_)
        touched[both.index[len(rows) :]] = True
        chosen = np.flatnonzero(touched[both.index[: len(rows)]])
        self._send_merged(windows[chosen], take_columns(columns, chosen), ctx)

    def _within(self, buckets: Int64s, first: int, last: int) -> tuple[Int64s, Int64s]:
        """Returns row numbers and windows of the buckets, for the windows from `first` to `last`."""
        begin, end = self._shape.windows(buckets)
        return expanded(np.maximum(begin, max(first, INT64_MIN)), np.minimum(end, last))

    def _send_merged(self, windows: Int64s, columns: list[Column], ctx: Context) -> None:
        groups = self._aggregation.group(len(windows), columns, windows)
        self._send(windows[groups.sample], self._aggregation.merge(groups, columns), ctx)

    def _send(self, windows: Int64s, columns: list[Column], ctx: Context) -> None:
        starts, ends = self._shape.bounds(windows, columns)
        keys = columns[self._aggregation.hidden : self._aggregation.keys]
        arrays = [*keys, timestamps(starts), timestamps(ends), *self._aggregation.finish(columns)]
        ctx.send(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def accepted(shape: Shape, batch: pa.RecordBatch, ctx: Context, emitted_us: int, lateness_us: int) -> Placed | None:
    """Returns the rows of a batch that have a time and an open window; the others are counted."""
    placed = shape.place(batch)
    if placed is None:
        if batch.num_rows:
            ctx.count("null_time_rows", batch.num_rows)
        return None
    if placed.dropped:
        ctx.count("null_time_rows", placed.dropped)
    gone = shape.closed(max(ctx.watermark_us, emitted_us) - lateness_us)
    if shape.windows(placed.low)[1] > gone:
        return placed
    return _without_late(shape, placed, gone, ctx)


def _without_late(shape: Shape, placed: Placed, gone: int, ctx: Context) -> Placed | None:
    if isinstance(placed.bucket, int):
        ctx.count("late_rows", placed.batch.num_rows)
        return None
    keep = shape.windows(placed.bucket)[1] > gone
    rows = int(np.count_nonzero(keep))
    ctx.count("late_rows", len(keep) - rows)
    if not rows:
        return None
    buckets = placed.bucket[keep]
    hidden = [column.filter(pa.array(keep)) for column in placed.hidden]
    return Placed(mask_rows(placed.batch, keep), buckets, int(buckets.min()), placed.high, hidden, 0)


def closing(shape: Shape, panes: PaneState, watermark_us: int) -> Iterator[tuple[Int64s, list[Column], bool]]:
    """Yields the partials of the windows that this watermark closes, with the window of each, in order.

    Every window is whole in one of the parts. The partials of a pane in several windows are repeated for each. The last
    value is true if each window is one pane, so that its groups are merged already.
    """
    if panes.low is None:
        return
    last = min(shape.closed(watermark_us), INT64_MAX)
    first = max(shape.closed(panes.emitted_us) + 1, shape.windows(panes.low)[0])
    if first > last:
        return
    block = panes.select(*shape.buckets(first, last))
    if block is None:
        return
    begin, end = shape.windows(block.buckets)
    begin, end = np.maximum(begin, first), np.minimum(end, last)
    for low, high in _parts(begin, end):
        rows = slice(int(np.searchsorted(end, low, "left")), int(np.searchsorted(begin, high, "right")))
        part = [slice_column(column, rows.start, rows.stop) for column in block.columns]
        if shape.whole:
            yield begin[rows], part, True
        else:
            numbers, windows = expanded(np.maximum(begin[rows], low), np.minimum(end[rows], high))
            yield windows, take_columns(part, numbers), False


def _parts(begin: Int64s, end: Int64s) -> Iterator[tuple[int, int]]:
    """Yields ranges of windows with at most EMIT_ROWS_MAX rows each, unless one window has more."""
    total = int((end - begin + 1).sum())
    if total <= EMIT_ROWS_MAX:
        yield int(begin.min()), int(end.max())
        return
    _, windows = expanded(begin, end)
    numbers, counts = np.unique(windows, return_counts=True)
    part = (np.cumsum(counts) - counts) // EMIT_ROWS_MAX
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    stops = np.append(starts[1:], len(numbers)) - 1
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield int(numbers[start]), int(numbers[stop])


def forget(shape: Shape, panes: PaneState, watermark_us: int) -> None:
    """Drop the buckets whose last window ended at or before the watermark."""
    if panes.low is None or shape.windows(panes.low)[1] > (gone := shape.closed(watermark_us)):
        return
    panes.drop_below(shape.buckets(gone + 1, gone + 1)[0])
