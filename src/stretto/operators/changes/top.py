"""The top rows of each key over all rows so far: a row that is overtaken is removed.

If rows are only added, the state has the top rows alone: what ranks behind them now never comes back. If rows can be
removed, it has all rows. A batch costs what it has, and the rows that the state has of its keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.aggregation import decoded
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import equal_rows, summed, weighted, weighted_schema, weights_of
from stretto.operators.grouping import Groups, Int64s, fixed_array, group
from stretto.operators.ranking import Kept, Places, Ranking, RankKind, directed_codes, ordered_codes, top


class RunningTop(Function):
    """The rows that rank at most k per keys. Columns out: the input's, and the rank's if it has one.

    `changing` is whether its input has weights; `retracts` whether its output has."""

    order_matters = False

    def __init__(
        self, schema: pa.Schema, keys: tuple[str, ...], ranking: Ranking, changing: bool = False, retracts: bool = True
    ) -> None:
        self._ranking = ranking
        self._changing = changing
        self._retracts = retracts
        self._keys = keys
        self.rows = Multiset(schema, keys)
        plain = pa.schema([*schema, *ranking.fields()])
        self._weighted = weighted_schema(plain)
        self.schema = self._weighted if retracts else plain

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not batch.num_rows:
            return
        rows = batch
        if not self._changing:
            rows = weighted(batch.columns, np.ones(batch.num_rows, np.int64), self.rows.schema)
        old = self.rows.of_keys(rows)
        both = pa.concat_batches([old, rows])
        equal = equal_rows(both)
        distinct = both.take(pa.array(equal.sample))
        weights = weights_of(both)
        before = summed(Groups(equal.index[: old.num_rows], equal.count), weights[: old.num_rows])
        was, will_be = self._tops(distinct, before, summed(equal, weights))
        if self._changing:
            self.rows.put(rows)
        else:
            self.rows.put(_changes(distinct, _copies(will_be, distinct) - _copies(was, distinct)))
        self._send(distinct, was, will_be, ctx)

    def _tops(self, rows: pa.RecordBatch, before: Int64s, after: Int64s) -> tuple[Kept, Kept]:
        """Returns the top rows before a batch and after it."""
        ranking = self._ranking
        keys = group([decoded(rows.column(key)) for key in self._keys], rows.num_rows).index
        columns = [decoded(order.by.evaluate(rows)) for order in ranking.orders]
        codes = ordered_codes(columns, ranking.directions)

        def ties(places: Places) -> list[Int64s]:
            parts = (decoded(column).take(pa.array(places)) for column in reversed(rows.columns[:-1]))
            return [directed_codes(part, ranking.directions[0]) for part in parts]

        return top(keys, codes, before, ranking, ties), top(keys, codes, after, ranking, ties)

    def _send(self, rows: pa.RecordBatch, was: Kept, will_be: Kept, ctx: Context) -> None:
        if self._ranking.column is None:
            changes = _changes(rows, _copies(will_be, rows) - _copies(was, rows))
        else:
            places, ranks, totals = _ranked_changes(self._numbered(was), self._numbered(will_be))
            columns = [column.take(pa.array(places)) for column in rows.columns[:-1]]
            rank = fixed_array(ranks.astype(np.int32), self._weighted.types[-2])
            changes = weighted([*columns, rank], totals, self._weighted)
        if not self._retracts:
            changes = changes.filter(pa.array(weights_of(changes) > 0))
            changes = changes.select(list(range(changes.num_columns - 1)))
        if changes.num_rows:
            ctx.send(changes)

    def _numbered(self, kept: Kept) -> Kept:
        """Returns the rows with their ranks: equal rows have numbers of their own, if rows are numbered."""
        if self._ranking.kind is not RankKind.ROW_NUMBER or not len(kept.places) or kept.copies.max() == 1:
            return kept
        owners = np.repeat(np.arange(len(kept.places)), kept.copies)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(kept.copies) - kept.copies, kept.copies)
        return Kept(kept.places[owners], kept.ranks[owners] + within, np.ones(len(owners), np.int64))


def _copies(kept: Kept, rows: pa.RecordBatch) -> Int64s:
    """Returns how many of each row are kept."""
    copies = np.zeros(rows.num_rows, np.int64)
    copies[kept.places] = kept.copies
    return copies


def _changes(rows: pa.RecordBatch, weights: Int64s) -> pa.RecordBatch:
    """Returns the rows that are added or removed."""
    places = np.flatnonzero(weights)
    columns = [column.take(pa.array(places)) for column in rows.columns[:-1]]
    return weighted(columns, weights[places], rows.schema)


def _ranked_changes(was: Kept, will_be: Kept) -> tuple[Places, Int64s, Int64s]:
    """Returns places, ranks and weights of the rows that are added or removed, or whose rank changes."""
    places = np.concatenate([was.places, will_be.places])
    ranks = np.concatenate([was.ranks, will_be.ranks])
    weights = np.concatenate([-was.copies, will_be.copies])
    pairs = np.lexsort((ranks, places))
    places, ranks, weights = places[pairs], ranks[pairs], weights[pairs]
    if not len(places):
        return places, ranks, weights
    starts = np.flatnonzero(np.r_[True, (places[1:] != places[:-1]) | (ranks[1:] != ranks[:-1])])
    totals = np.add.reduceat(weights, starts)
    changed = np.flatnonzero(totals)
    return places[starts[changed]], ranks[starts[changed]], totals[changed]
