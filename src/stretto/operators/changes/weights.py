"""The column that says what happens to a row, and what functions do with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.expressions import Projection
from stretto.operators.aggregation import decoded
from stretto.operators.grouping import Bools, Column, Groups, Int64s, equality_codes, fixed_array, fixed_values, group

CHANGE = "__change"
"""The last column of the rows of a stream that changes: how many equal rows are added, or removed if negative."""
CHANGE_FIELD = pa.field(CHANGE, pa.int64())

_INT64 = np.dtype(np.int64)


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of rows that carry their weights."""
    return schema.append(CHANGE_FIELD)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns without the weights, if they are there."""
    return pa.schema([field for field in schema if field.name != CHANGE])


def weights_of(rows: pa.RecordBatch) -> Int64s:
    return fixed_values(rows.column(rows.num_columns - 1), _INT64)


def weighted(columns: Sequence[pa.Array], weights: Int64s, schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows with their weights; `schema` has the column of the weights."""
    return pa.RecordBatch.from_arrays([*columns, fixed_array(weights, CHANGE_FIELD.type)], schema=schema)


def consolidated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the same multiset with each row once, or unchanged if nothing is removed."""
    weights = weights_of(rows)
    if not len(weights) or weights.min() > 0:
        return rows
    groups = equal_rows(rows)
    totals = summed(groups, weights)
    there = np.flatnonzero(totals)
    places = groups.sample[there]
    columns = [column.take(pa.array(places)) for column in rows.columns[:-1]]
    return weighted(columns, totals[there], rows.schema)


def equal_rows(rows: pa.RecordBatch) -> Groups:
    """Returns groups of rows that are equal but for their weights. Null equals null, NaN equals NaN."""
    return group([decoded(column) for column in rows.columns[:-1]], rows.num_rows)


def summed(groups: Groups, weights: Int64s) -> Int64s:
    """Returns the total weight of each group."""
    totals = np.zeros(groups.count, np.int64)
    np.add.at(totals, groups.index, weights)
    return totals


def present(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows of a multiset without weights, each as often as it is there."""
    rows = consolidated(rows)
    counts = np.maximum(weights_of(rows), 0)
    plain = rows.select(list(range(rows.num_columns - 1)))
    if len(counts) and counts.min() == counts.max() == 1:
        return plain
    return plain.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def same_values(one: Sequence[Column], other: Sequence[Column]) -> Bools:
    """Returns which rows have equal values in two lists of as many columns."""
    same: Bools = np.ones(len(one[0]) if one else 0, np.bool_)
    for old, new in zip(one, other, strict=True):
        codes, _ = equality_codes(pa.concat_arrays([old, new]))
        same &= codes[: len(old)] == codes[len(old) :]
    return same


def signs(removed: int, added: int) -> Int64s:
    result: npt.NDArray[np.int64] = np.ones(removed + added, np.int64)
    result[:removed] = -1
    return result


class Added:
    """A transform for rows that are only ever added: each gets the weight 1."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = weighted_schema(schema)

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [weighted(batch.columns, np.ones(batch.num_rows, np.int64), self._schema)]


class Latest:
    """A transform for rows that are never removed without a new row of their key: the new rows, without weights."""

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        added = batch.filter(pa.array(weights_of(batch) > 0))
        return [added.select(list(range(batch.num_columns - 1)))]


class WeightedSelect:
    """Columns by SQL expressions, of rows with weights."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self._schema = weighted_schema(projection.schema)

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        selected = self.projection.evaluate(batch)
        columns = [*selected.columns, batch.column(batch.num_columns - 1)]
        return [pa.RecordBatch.from_arrays(columns, schema=self._schema)]
