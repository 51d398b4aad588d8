"""The last row of each key, of a function that declares an upsert key: what it replaces is removed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.aggregation import decoded
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import consolidated, weighted
from stretto.operators.grouping import group


class LastRows(Function):
    """Turns rows that replace earlier ones with the same key into rows with weights."""

    order_matters = True

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self.rows = Multiset(schema, keys)
        self.schema = self.rows.schema

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not batch.num_rows:
            return
        # The sample of a group is its last row.
        keys = group([decoded(batch.column(key)) for key in self._keys], batch.num_rows)
        last = batch.take(pa.array(np.sort(keys.sample)))
        new = weighted(last.columns, np.ones(last.num_rows, np.int64), self.schema)
        old = self._of_the_same_keys(self.rows.of_keys(new), last)
        gone = weighted(old.columns[:-1], np.full(old.num_rows, -1, np.int64), self.schema)
        changes = consolidated(pa.concat_batches([gone, new]))
        if changes.num_rows:
            self.rows.put(changes)
            ctx.send(changes)

    def _of_the_same_keys(self, rows: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows whose keys are in the batch."""
        both = [pa.concat_arrays([decoded(rows.column(key)), decoded(batch.column(key))]) for key in self._keys]
        groups = group(both, rows.num_rows + batch.num_rows)
        wanted = np.zeros(groups.count, np.bool_)
        wanted[groups.index[rows.num_rows :]] = True
        return rows.filter(pa.array(wanted[groups.index[: rows.num_rows]]))
