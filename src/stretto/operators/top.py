"""The top k rows of each window by rank within their keys, emitted when the window closes.

The state keeps only rows that can still be among the top of their pane: when rows are merged into a block, those that
rank behind the k-th of their group are dropped. With ties, SQL's rank() decides, so all rows that tie with the k-th
stay. Without, equal rows are ordered by all their columns in the same direction, so that the result does not depend on
the order of arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.errors import PlanError
from stretto.operators.accumulators import Scalar
from stretto.operators.accumulators.extremes import extremes
from stretto.operators.aggregation import column_index, decoded
from stretto.operators.grouping import (
    Column,
    Groups,
    Int64s,
    group,
    order_codes,
    order_within,
    plain_type,
    take_columns,
)
from stretto.operators.panes import WINDOW_TYPE, Block, PaneState, Raw, shape_of, timestamps
from stretto.operators.windowed import accepted, closing, forget
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling

BOUNDS = ("window_start", "window_end")


class Best:
    """The kernel of a pane state that keeps the top rows. Columns: hidden keys, the input's, the order's."""

    objects: tuple[int, ...] = ()

    def __init__(
        self,
        schema: pa.Schema,
        hidden: int,
        keys: list[int],
        k: int,
        descending: bool,
        ties: bool,
        grid: dict[str, int] | None,
    ) -> None:
        self._schema = schema
        self._hidden = hidden
        self._grid = grid
        self._keys = keys
        self._k = k
        self._descending = descending
        self._ties = ties

    def lift(self, buckets: Int64s, columns: list[Column], single: bool) -> Block:
        rows = self.rows(len(buckets), columns, None if single else buckets)
        return Block(buckets[rows], take_columns(columns, rows))

    def merge(self, buckets: Int64s, columns: list[Column]) -> Block:
        return self.lift(buckets, columns, False)

    @property
    def layout(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._schema)
        order = "greatest" if self._descending else "least"
        return f"the {self._k} {order} of {columns} by {self._keys}{' with ties' if self._ties else ''}"

    @property
    def types(self) -> list[pa.DataType | None]:
        return [*[pa.int64()] * self._hidden, *self._schema.types, None]

    def named(self, columns: list[Column]) -> dict[str, Column]:
        return dict(zip(self._schema.names, columns[self._hidden :], strict=False))

    def rows(self, count: int, columns: list[Column], leading: Int64s | None) -> npt.NDArray[np.intp]:
        """Returns the numbers of the rows to keep, by `leading`, group and rank."""
        groups = group([columns[place] for place in self._keys], count, leading)
        codes = self._codes(columns[-1])
        rows = self._ranked(groups, codes)
        if self._ties:
            return rows
        # Ties are rare, so all columns are compared only among the remaining rows.
        left = [self._codes(column.take(pa.array(rows))) for column in reversed(columns[:-1])]
        order = np.lexsort((*left, codes[rows], groups.index[rows]))
        sizes = np.bincount(groups.index[rows], minlength=groups.count)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return rows[order[place < self._k]]

    def _ranked(self, groups: Groups, codes: Int64s) -> npt.NDArray[np.intp]:
        """Returns the numbers of the rows whose rank is at most k, by group and rank."""
        if self._k == 1:
            best, _ = extremes(groups, codes, None, largest=False)
            rows = np.flatnonzero(codes == best[groups.index])
            return rows[np.argsort(groups.index[rows], kind="stable")]
        order = order_within(groups, codes)
        last = groups.starts[:-1] + np.minimum(groups.sizes, self._k) - 1
        ordered = codes[order]
        return order[ordered <= np.repeat(ordered[last], groups.sizes)]

    def _codes(self, column: Column) -> Int64s:
        """Returns codes that ascend from the top rank; ties are broken in the same direction."""
        codes = order_codes(column)
        return ~codes if self._descending else codes

    def describe(self) -> dict[str, Any]:
        types = self._schema.serialize().to_pybytes()
        return {"grid": self._grid, "best": [self._keys, self._k, self._descending, self._ties], "types": types}


class WindowTop(Function):
    """The rows that rank at most k per keys and window. Columns out: the input's, and the window's if it has none.

    Without a window, the input has window_start and window_end, for example from a window aggregate.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        time: EventTime | None,
        window: Tumbling | Hopping | Span | None,
        order_by: Scalar,
        k: int,
        descending: bool = True,
        ties: bool = True,
    ) -> None:
        if k < 1:
            raise PlanError("the number of top rows must be at least 1", f"it is {k}", "Give a positive k.")
        self._shape = shape_of(schema, time, Span(*BOUNDS) if window is None else window)
        self._order_by = order_by
        hidden = self._shape.hidden
        places = [*range(hidden), *(hidden + column_index(schema, name, "a key") for name in keys)]
        fields = [pa.field(field.name, plain_type(field.type)) for field in schema]
        self._kernel = Best(pa.schema(fields), hidden, places, k, descending, ties, self._shape.describe())
        self._added = [name for name in BOUNDS if name not in schema.names]
        self._width = len(fields)
        self.schema = pa.schema([*fields, *(pa.field(name, WINDOW_TYPE) for name in self._added)])
        self.panes = PaneState(self._kernel, window=window)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        placed = accepted(self._shape, batch, ctx, self.panes.emitted_us, 0)
        if placed is None:
            return
        batch = placed.batch
        columns = [decoded(column) for column in (*batch.columns, self._order_by.evaluate(batch))]
        self.panes.add(Raw(placed.bucket, batch.num_rows, [*placed.hidden, *columns]), placed.low)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us <= self.panes.emitted_us:
            return
        for windows, columns, grouped in closing(self._shape, self.panes, watermark_us):
            if not grouped:
                rows = self._kernel.rows(len(windows), columns, windows)
                windows, columns = windows[rows], take_columns(columns, rows)
            self._send(windows, columns, ctx)
        self.panes.emitted_us = watermark_us
        forget(self._shape, self.panes, watermark_us)

    def _send(self, windows: Int64s, columns: list[Column], ctx: Context) -> None:
        hidden = self._shape.hidden
        bounds = dict(zip(BOUNDS, self._shape.bounds(windows, columns), strict=True))
        arrays = [*columns[hidden : hidden + self._width], *(timestamps(bounds[name]) for name in self._added)]
        ctx.send(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
