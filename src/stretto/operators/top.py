"""The top k rows of each window by rank within their keys, emitted when the window closes.

The state keeps only rows that can still be among the top of their pane: when rows are merged into a block, those that
rank behind the k-th of their group are dropped. With ties, SQL's rank() decides, so all rows that tie with the k-th
stay. How ties are ordered without: `ranking.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.accumulators.extremes import extremes
from stretto.operators.aggregation import column_index, decoded
from stretto.operators.grouping import (
    Column,
    Groups,
    Int64s,
    fixed_array,
    group,
    order_within,
    plain_type,
    take_columns,
)
from stretto.operators.panes import WINDOW_TYPE, Block, PaneState, Raw, shape_of, timestamps
from stretto.operators.ranking import RANK_TYPE, Ranking, RankKind, directed_codes, ordered_codes, ranks_of, top
from stretto.operators.windowed import accepted, closing, forget
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling

BOUNDS = ("window_start", "window_end")


class Best:
    """The kernel of a pane state that keeps the top rows. Columns: hidden keys, the input's, those to order by."""

    objects: tuple[int, ...] = ()

    def __init__(
        self, schema: pa.Schema, hidden: int, keys: list[int], ranking: Ranking, grid: dict[str, int] | None
    ) -> None:
        self._schema = schema
        self._hidden = hidden
        self._grid = grid
        self._keys = keys
        self._ranking = ranking
        self._k = ranking.k
        self._orders = len(ranking.orders)

    def lift(self, buckets: Int64s, columns: list[Column], single: bool) -> Block:
        rows = self.rows(len(buckets), columns, None if single else buckets)
        return Block(buckets[rows], take_columns(columns, rows))

    def merge(self, buckets: Int64s, columns: list[Column]) -> Block:
        return self.lift(buckets, columns, False)

    @property
    def layout(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._schema)
        order = " then ".join("greatest" if descending else "least" for descending in self._ranking.directions)
        kinds = {RankKind.RANK: " with ties", RankKind.DENSE_RANK: " with ties, without gaps"}
        return f"the {self._k} {order} of {columns} by {self._keys}{kinds.get(self._ranking.kind, '')}"

    @property
    def types(self) -> list[pa.DataType | None]:
        return [*[pa.int64()] * self._hidden, *self._schema.types, *[None] * self._orders]

    def named(self, columns: list[Column]) -> dict[str, Column]:
        return dict(zip(self._schema.names, columns[self._hidden :], strict=False))

    def rows(self, count: int, columns: list[Column], leading: Int64s | None) -> npt.NDArray[np.intp]:
        """Returns the numbers of the rows to keep, by `leading`, group and rank."""
        groups = group([columns[place] for place in self._keys], count, leading)
        codes = ordered_codes(columns[-self._orders :], self._ranking.directions)
        if self._ranking.kind is RankKind.RANK:
            return self._ranked(groups, codes)
        if self._ranking.kind is RankKind.ROW_NUMBER:
            # Ties are rare, so all columns are compared only among the remaining rows.
            rows = self._ranked(groups, codes)
            return rows[self._top(rows, groups.index[rows], codes[rows], columns)]
        return self._top(np.arange(count), groups.index, codes, columns)

    def _top(
        self, rows: npt.NDArray[np.intp], groups: npt.NDArray[np.intp], codes: Int64s, columns: list[Column]
    ) -> npt.NDArray[np.intp]:
        def ties(places: npt.NDArray[np.intp]) -> list[Int64s]:
            parts = (column.take(pa.array(rows[places])) for column in reversed(columns[: -self._orders]))
            return [directed_codes(part, self._ranking.directions[0]) for part in parts]

        kept: npt.NDArray[np.intp] = top(groups, codes, np.ones(len(rows), np.int64), self._ranking, ties).places
        return kept

    def ranks(self, count: int, columns: list[Column], leading: Int64s) -> Int64s:
        """Returns the ranks of all the top rows of some windows, which are in the order of `rows`."""
        groups = group([columns[place] for place in self._keys], count, leading)
        codes = ordered_codes(columns[-self._orders :], self._ranking.directions)
        return ranks_of(groups.index, codes, np.ones(count, np.int64), self._ranking.kind)

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

    def describe(self) -> dict[str, Any]:
        types = self._schema.serialize().to_pybytes()
        ranking = [list(self._ranking.directions), self._ranking.kind.value]
        return {"grid": self._grid, "best": [self._keys, self._k, *ranking], "types": types}


class WindowTop(Function):
    """The rows that rank at most k per keys and window. Columns out: the input's, the window's if it has none, and the
    rank's if it has a name.

    Without a window, the input has window_start and window_end, for example from a window aggregate.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        time: EventTime | None,
        window: Tumbling | Hopping | Span | None,
        ranking: Ranking,
    ) -> None:
        self._shape = shape_of(schema, time, Span(*BOUNDS) if window is None else window)
        self._ranking = ranking
        hidden = self._shape.hidden
        places = [*range(hidden), *(hidden + column_index(schema, name, "a key") for name in keys)]
        fields = [pa.field(field.name, plain_type(field.type)) for field in schema]
        self._kernel = Best(pa.schema(fields), hidden, places, ranking, self._shape.describe())
        self._added = [name for name in BOUNDS if name not in schema.names]
        self._width = len(fields)
        self.schema = pa.schema([*fields, *(pa.field(name, WINDOW_TYPE) for name in self._added), *ranking.fields()])
        self.panes = PaneState(self._kernel, window=window)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        placed = accepted(self._shape, batch, ctx, self.panes.emitted_us, 0)
        if placed is None:
            return
        batch = placed.batch
        orders = (order.by.evaluate(batch) for order in self._ranking.orders)
        columns = [decoded(column) for column in (*batch.columns, *orders)]
        self.panes.add(Raw(placed.bucket, batch.num_rows, [*placed.hidden, *columns]), placed.low)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us <= self.panes.emitted_us:
            return
        for windows, columns, grouped in closing(self._shape, self.panes, watermark_us):
            if not grouped or self._ranking.column is not None:
                rows = self._kernel.rows(len(windows), columns, windows)
                windows, columns = windows[rows], take_columns(columns, rows)
            self._send(windows, columns, ctx)
        self.panes.emitted_us = watermark_us
        forget(self._shape, self.panes, watermark_us)

    def _send(self, windows: Int64s, columns: list[Column], ctx: Context) -> None:
        hidden = self._shape.hidden
        bounds = dict(zip(BOUNDS, self._shape.bounds(windows, columns), strict=True))
        arrays = [*columns[hidden : hidden + self._width], *(timestamps(bounds[name]) for name in self._added)]
        if self._ranking.column is not None:
            ranks = self._kernel.ranks(len(windows), columns, windows)
            arrays.append(fixed_array(ranks.astype(np.int32), RANK_TYPE))
        ctx.send(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
