"""Keys and aggregates: the columns that are read from rows, and the table of partials that rows become.

A table here is a list of columns: the keys, then the partial columns of each aggregate in turn. Windows, sessions and
running aggregates differ only in what else they group by and in when they compute results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import PlanError
from stretto.expressions.zeros import has_floats, one_zero
from stretto.operators.accumulators import Call, Scalar, accumulator
from stretto.operators.grouping import (
    Column,
    Groups,
    Int64s,
    group,
    plain_type,
    take_columns,
)
from stretto.operators.user_aggregate import UserAggregate
from stretto.state.schemas import check_type


def column_index(schema: pa.Schema, name: str, what: str) -> int:
    """Returns the index of a column; raises a PlanError with the known names if there is none."""
    index: int = schema.get_field_index(name)
    if index < 0:
        raise PlanError(f"{what} is not a column of the input", f"'{name}'", f"Columns: {', '.join(schema.names)}.")
    return index


def decoded(array: pa.Array) -> pa.Array:
    """Returns the array without dictionary encoding, since the dictionaries of two batches can differ."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


class Aggregation:
    """Keys and aggregate calls over rows of a schema. `hidden` is the number of unnamed key columns before the keys."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], calls: Sequence[Call | UserAggregate], hidden: int = 0
    ) -> None:
        self._keys = [column_index(schema, name, "a key") for name in keys]
        self._floats = [
            place for place, index in enumerate(self._keys) if has_floats(plain_type(schema.field(index).type))
        ]
        self._encoded = any(pa.types.is_dictionary(field.type) for field in schema)
        self._calls = tuple(calls)
        self.accumulators = [accumulator(call) for call in calls]
        self._expressions: list[Scalar | int] = []
        self._reads = [
            [self._input(expression) for expression in _expressions(schema, call)][: acc.arity]
            for call, acc in zip(calls, self.accumulators, strict=True)
        ]
        self.hidden = hidden
        self.keys = hidden + len(self._keys)
        self.key_fields = [pa.field(schema.field(i).name, plain_type(schema.field(i).type)) for i in self._keys]
        self.result_fields = [pa.field(acc.name, acc.result) for acc in self.accumulators]
        self.objects = [
            self.keys + place
            for place, acc in enumerate(acc for acc in self.accumulators for _ in range(acc.width))
            if acc.objects
        ]
        self.partial_types = [kind for acc in self.accumulators for kind in acc.partials]
        self.types = [pa.int64()] * hidden + [field.type for field in self.key_fields] + self.partial_types
        """The types of a table's columns; those of Python objects are only nominal."""

    def _input(self, expression: Scalar | int) -> int:
        """Returns the number of the input column for an expression; the same expression is evaluated once."""
        for number, known in enumerate(self._expressions):
            if known is expression or (isinstance(known, int) and known == expression):
                return number
            if (text := getattr(known, "sql", None)) is not None and text == getattr(expression, "sql", None):
                return number
        self._expressions.append(expression)
        return len(self._expressions) - 1

    @property
    def layout(self) -> str:
        """The columns of a table of partials, described in words."""
        keys = [f"{field.name} {field.type}" for field in self.key_fields]
        calls = [f"{type(acc).__name__} {acc.name} {list(map(str, acc.partials))}" for acc in self.accumulators]
        return f"{', '.join(calls)} by {', '.join(keys) or 'nothing'}"

    def named_keys(self, columns: Sequence[Column]) -> dict[str, Column]:
        """Returns the key columns of a table by their names."""
        return {field.name: columns[self.hidden + place] for place, field in enumerate(self.key_fields)}

    def rows(self, batch: pa.RecordBatch) -> list[Column]:
        """Returns the columns of a batch that are kept for grouping: keys, then the arguments of the aggregates."""
        columns = [batch.column(index) for index in self._keys]
        for expression in self._expressions:
            columns.append(batch.column(expression) if isinstance(expression, int) else expression.evaluate(batch))
        if self._encoded:
            columns = [decoded(column) for column in columns]
        for place in self._floats:
            columns[place] = one_zero(columns[place])
        return columns

    def group(self, rows: int, columns: Sequence[Column], leading: Int64s | None) -> Groups:
        return group(columns[: self.keys], rows, leading)

    def lift(self, groups: Groups, columns: Sequence[Column]) -> list[Column]:
        """Returns a table of partials with one row per group, from rows."""
        table = take_columns(columns[: self.keys], groups.sample)
        inputs = columns[self.keys :]
        for acc, reads in zip(self.accumulators, self._reads, strict=True):
            table += acc.lift(groups, [inputs[number] for number in reads])
        return table

    def merge(self, groups: Groups, columns: Sequence[Column]) -> list[Column]:
        """Returns a table of partials with one row per group, from a table with several."""
        table = take_columns(columns[: self.keys], groups.sample)
        place = self.keys
        for acc in self.accumulators:
            table += acc.merge(groups, columns[place : place + acc.width])
            place += acc.width
        return table

    def finish(self, columns: Sequence[Column]) -> list[pa.Array]:
        """Returns the results of the aggregates, one column each."""
        results, place = [], self.keys
        for acc in self.accumulators:
            results.append(acc.finish(columns[place : place + acc.width]))
            place += acc.width
        return results

    def describe(self) -> dict[str, Any]:
        """Returns what `operators/described.py` needs to merge and finish partials, except users' own functions."""
        calls, kinds = [], []
        for number, call in enumerate(self._calls):
            if isinstance(call, UserAggregate):
                calls.append([call.name, None, None])
                continue
            calls.append([call.name, call.function, call.parameter])
            known = {"argument": call.argument, "ordering": call.ordering, "result": call}
            kinds += [pa.field(f"{number} {part}", each.type) for part, each in known.items() if each is not None]
        return {
            "hidden": self.hidden,
            "keys": pa.schema(self.key_fields).serialize().to_pybytes(),
            "calls": calls,
            "types": pa.schema(kinds).serialize().to_pybytes(),
        }


def _expressions(schema: pa.Schema, call: Call | UserAggregate) -> list[Any]:
    if isinstance(call, UserAggregate):
        return [column_index(schema, name, f"a column that the aggregate '{call.name}' reads") for name in call.columns]
    return [expression for expression in (call.argument, call.ordering) if expression is not None]


def table_of(columns: Sequence[Column], objects: Sequence[int]) -> dict[str, Any]:
    """Returns columns as plain data: an Arrow table of the Arrow columns, and lists of the Python objects."""
    arrow = {f"c{place}": column for place, column in enumerate(columns) if place not in objects}
    return {"table": pa.table(arrow), "objects": {str(place): list(columns[place]) for place in objects}}


def columns_of(
    content: dict[str, Any], kinds: Sequence[pa.DataType | None], objects: Sequence[int] = ()
) -> list[Column]:
    """Returns the columns of a result of `table_of`; raises an error if they are not of these types (None: any)."""
    table, lists = content["table"], content["objects"]
    expected = [f"c{place}" for place in range(len(kinds)) if place not in objects]
    if table.column_names != expected or sorted(map(int, lists)) != sorted(objects):
        raise ValueError(f"the columns are {table.column_names} and objects {list(lists)}, and should be {expected}")
    found: dict[int, Column] = {}
    for place, kind in enumerate(kinds):
        if place in objects:
            values = lists[str(place)]
            found[place] = np.fromiter(values, object, len(values))
            continue
        found[place] = _one_array(table.column(f"c{place}"))
        if kind is not None:
            check_type(f"c{place}", found[place].type, kind)
    if len({len(column) for column in found.values()}) > 1:
        raise ValueError("the columns are of different lengths")
    return [found[place] for place in range(len(kinds))]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
