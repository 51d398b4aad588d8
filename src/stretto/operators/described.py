"""Reads the rows of a state in a checkpoint without the app, from its fragments and the result of `State.describe`.

Later fragments overwrite earlier ones, and partials of one group may be in several. So a state is created from the
description and rebuilt by the same code that resumes from a checkpoint, and then converted to rows. A user's own
aggregate is the exception: its functions are not in the checkpoint, and its partials are shown as text.

A table of rows has the columns `key` and `value`, both structs, as in Spark's own state reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import StorageError
from stretto.operators.accumulators import Scalar
from stretto.operators.aggregation import Aggregation, columns_of
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import present
from stretto.operators.grouping import INT64_MAX, INT64_MIN, Column, Int64s, fixed_values
from stretto.operators.panes import Kernel, PaneState, timestamps
from stretto.operators.ranking import Order, Ranking, RankKind
from stretto.operators.running import RunningState
from stretto.operators.sessions import SessionState
from stretto.operators.shown import column_of, spark_column
from stretto.operators.top import Best
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windowed import Grouped
from stretto.state import Fragment, MapState
from stretto.state.packing import unpacked

Named = list[tuple[str, pa.Array]]

_INT64 = np.dtype(np.int64)


def rows_of(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    """Returns the rows of a state."""
    match description["kind"]:
        case "whole":
            return _whole(fragments)
        case "list":
            values = unpacked(_bytes(fragments[0]))
            return _table([("position", pa.array(range(len(values)), pa.int64()))], [("value", column_of(values))])
        case "map":
            return _map(fragments)
        case "rows":
            return _rows(description, fragments)
        case "multiset":
            return _multiset(description, fragments)
        case "running":
            return _running(description, fragments)
        case "panes":
            return _panes(description, fragments)
        case "sessions":
            return _sessions(description, fragments)
    raise StorageError(
        f"a state of kind '{description['kind']}' is unknown", None, "Use the version of stretto that wrote it."
    )


def _table(key: Named, value: Named) -> pa.Table:
    rows = len((key or value)[0][1])
    return pa.table({"key": _struct(key, rows), "value": _struct(value, rows)})


def _struct(columns: Named, rows: int) -> pa.Array:
    """Returns a struct of columns; NULL if there are none, since Spark has no struct without fields."""
    if not columns:
        return pa.nulls(rows, pa.struct([("key", pa.string())]))
    return pa.StructArray.from_arrays([spark_column(column) for _, column in columns], [name for name, _ in columns])


def _bytes(fragment: Fragment) -> bytes:
    assert isinstance(fragment.content, bytes)
    return fragment.content


def _whole(fragments: list[Fragment]) -> pa.Table:
    """Returns a value, or a state of a user's own kind, with a row for each fragment."""
    contents = [unpacked(each.content) if isinstance(each.content, bytes) else each.content for each in fragments]
    return _table([], [("value", column_of(contents))])


def _map(fragments: list[Fragment]) -> pa.Table:
    state: MapState[Any, Any] = MapState()
    state.rebuild(fragments)
    keys = column_of(list(state.entries))
    value = [("value", column_of(list(state.entries.values())))]
    if pa.types.is_struct(keys.type):
        return _table(list(zip(keys.type.names, keys.flatten(), strict=True)), value)
    return _table([("key", keys)], value)


def _rows(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    # Those of a tracked buffer's settled bits are bytes.
    tables = [fragment.content for fragment in fragments if not isinstance(fragment.content, bytes)]
    if "types" in description:
        tables.insert(0, _schema(description["types"]).empty_table())
    table = pa.concat_tables(tables) if tables else pa.table({"value": pa.nulls(0)})
    return _by_keys(table, description["keys"])


def _multiset(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    """Returns the rows that are there, each as often as it is."""
    schema, keys = _schema(description["types"]), tuple(description["keys"])
    state = Multiset(schema, keys)
    state.rebuild(fragments)
    batches = [present(rows) for rows in state.export().combine_chunks().to_batches()]
    return _by_keys(pa.Table.from_batches(batches, schema), keys)


def _by_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Returns rows by their keys; if there are no other columns, the keys are the values too."""
    return _table(
        [(name, table.column(name)) for name in keys],
        [(name, table.column(name)) for name in table.column_names if name not in keys]
        or [(name, table.column(name)) for name in keys],
    )


def _running(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    aggregation = _aggregation(description)
    state = RunningState(aggregation)
    state.rebuild(fragments)
    content = state.export()
    columns = None if content is None else columns_of(content, aggregation.types, aggregation.objects)
    return _finished(aggregation, [], columns)


def _panes(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    grid = description["grid"]
    aggregation = _aggregation(description["grouped"]) if "grouped" in description else None
    kernel: Kernel = Grouped(aggregation, grid) if aggregation is not None else _best(description)
    state = PaneState(kernel)
    state.rebuild(fragments)
    block = state.select(INT64_MIN, INT64_MAX)
    buckets = np.empty(0, np.int64) if block is None else block.buckets
    name = "window" if grid is None or grid["whole"] else "pane"
    if grid is not None:
        starts = buckets * grid["pane_us"] + grid["origin_us"]
        bounds = starts, starts + grid["pane_us"]
    else:
        bounds = (buckets if block is None else fixed_values(block.columns[0], _INT64)), buckets
    window = [(name, _bounds(*bounds))]
    if aggregation is not None:
        return _finished(aggregation, window, None if block is None else block.columns)
    fields = list(_schema(description["types"]))
    hidden = _hidden(grid)
    columns = [pa.array([], field.type) for field in fields] if block is None else block.columns[hidden:]
    keys = {place - hidden for place in description["best"][0]}
    named = [(field.name, column) for field, column in zip(fields, columns, strict=False)]
    return _table(
        [*window, *(each for place, each in enumerate(named) if place in keys)],
        [each for place, each in enumerate(named) if place not in keys] or named,
    )


def _sessions(description: dict[str, Any], fragments: list[Fragment]) -> pa.Table:
    aggregation = _aggregation(description)
    state = SessionState(aggregation, description["gap_us"])
    state.rebuild(fragments)
    sessions = state.whole()
    none = np.empty(0, np.int64)
    window = [("window", _bounds(none, none) if sessions is None else _bounds(sessions.starts, sessions.ends))]
    return _finished(aggregation, window, None if sessions is None else sessions.columns)


def _finished(aggregation: Aggregation, window: Named, columns: Sequence[Column] | None) -> pa.Table:
    """Returns keys and the current results of their aggregates; `columns` is None if there is no group."""
    if columns is None:
        keys = [pa.array([], field.type) for field in aggregation.key_fields]
        results = [pa.array([], field.type) for field in aggregation.result_fields]
    else:
        keys = list(columns[aggregation.hidden : aggregation.keys])
        results = aggregation.finish(columns)
    return _table(
        [*window, *zip((field.name for field in aggregation.key_fields), keys, strict=True)],
        list(zip((field.name for field in aggregation.result_fields), results, strict=True)),
    )


def _bounds(starts: Int64s, ends: Int64s) -> pa.Array:
    return pa.StructArray.from_arrays([timestamps(starts), timestamps(ends)], ["start", "end"])


# From descriptions to aggregations.


@dataclass(frozen=True)
class _Typed:
    """A stand-in for an expression; merging needs only its type."""

    type: pa.DataType

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        raise NotImplementedError


@dataclass(frozen=True)
class _Call:
    name: str
    function: str
    argument: Scalar | None
    ordering: Scalar | None
    parameter: Any
    type: pa.DataType


def _aggregation(description: dict[str, Any]) -> Aggregation:
    keys, kinds = _schema(description["keys"]), _schema(description["types"])

    def typed(number: int, part: str) -> _Typed | None:
        place = kinds.get_field_index(f"{number} {part}")
        return _Typed(kinds.field(place).type) if place >= 0 else None

    calls: list[_Call | UserAggregate] = []
    for number, (name, function, parameter) in enumerate(description["calls"]):
        result = typed(number, "result")
        if result is None:
            calls.append(UserAggregate(_unknown, _unknown, _unknown, repr, pa.string(), (_ABSENT,), name))
        else:
            call = _Call(name, function, typed(number, "argument"), typed(number, "ordering"), parameter, result.type)
            calls.append(call)
    schema = keys.append(pa.field(_ABSENT, pa.null()))
    return Aggregation(schema, keys.names, calls, description["hidden"])


_ABSENT = "input of a user's aggregate"


def _unknown(*arguments: Any) -> Any:
    raise StorageError("a user's own aggregate cannot be merged without its app")


def _best(description: dict[str, Any]) -> Best:
    keys, k, directions, kind = description["best"]
    grid = description["grid"]
    schema = _schema(description["types"])
    orders = tuple(Order(None, descending) for descending in directions)
    return Best(schema, _hidden(grid), keys, Ranking(orders, k, RankKind(kind)), grid)


def _hidden(grid: Any) -> int:
    """Returns the number of columns before the input's: one, if windows are given by columns of the rows."""
    return 1 if grid is None else 0


def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))
