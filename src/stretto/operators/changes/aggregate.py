"""Aggregates over rows that change: the result of each key whose rows a batch changes is computed again.

The state has all rows of all keys, so any aggregate works, also one that cannot forget a value, such as a maximum. A
batch costs what it has, and all rows of its keys: few large groups are expensive.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.accumulators import Call
from stretto.operators.aggregation import Aggregation
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import consolidated, present, weighted, weighted_schema, weights_of
from stretto.operators.user_aggregate import UserAggregate


class ChangingAggregate(Function):
    """Aggregates per key of rows with weights. Columns out: keys, one per call, the weight. A key without rows has no
    result."""

    order_matters = False

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], calls: tuple[Call | UserAggregate, ...]) -> None:
        self._aggregation = Aggregation(schema, keys, calls)
        inputs = self._aggregation.rows(pa.RecordBatch.from_pylist([], schema=schema))[self._aggregation.keys :]
        names = [pa.field(f"__input_{place}", column.type) for place, column in enumerate(inputs)]
        self.rows = Multiset(pa.schema([*self._aggregation.key_fields, *names]), keys)
        self.schema = weighted_schema(pa.schema([*self._aggregation.key_fields, *self._aggregation.result_fields]))

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not batch.num_rows:
            return
        rows = consolidated(weighted(self._aggregation.rows(batch), weights_of(batch), self.rows.schema))
        before = self.rows.of_keys(rows)
        after = pa.concat_batches([before, rows])
        self.rows.put(rows)
        changes = consolidated(pa.concat_batches([self._results(before, -1), self._results(after, 1)]))
        if changes.num_rows:
            ctx.send(changes)

    def _results(self, rows: pa.RecordBatch, weight: int) -> pa.RecordBatch:
        """Returns the results over all rows of some keys, with a weight."""
        there = present(rows)
        if not there.num_rows:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        groups = self._aggregation.group(there.num_rows, there.columns, None)
        table = self._aggregation.lift(groups, there.columns)
        columns = [*table[: self._aggregation.keys], *self._aggregation.finish(table)]
        return weighted(columns, np.full(groups.count, weight, np.int64), self.schema)
