"""The rows of every kind of state, from its fragments and its description alone, on cases checked by hand."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.errors import StorageError
from stretto.expressions import compile_scalar, parse_aggregate
from stretto.operators.described import rows_of
from stretto.operators.joins import Matching, UnboundedJoin
from stretto.operators.ranking import ranking
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.shown import column_of, fitted, settled, together
from stretto.operators.top import WindowTop
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling
from stretto.state import Fragment, ListState, MapState, State, ValueState
from stretto.state.packing import packed, unpacked

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
TIME = EventTime("t")
CALLS = tuple(
    parse_aggregate(text, SCHEMA)
    for text in (
        "count(*) AS n",
        "avg(x) AS mean",
        "max_by(k, x) AS best",
        "count(distinct x) AS d",
        "top_k(x, 2) AS t",
    )
)
ROWS = [("a", 1, 0), ("b", 5, 9), ("a", 2, 10), ("a", 3, 3), ("b", 5, 25)]


def batch(rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


class Store:
    """Keeps the contents of fragments by number, as a checkpoint does."""

    def __init__(self) -> None:
        self.contents: dict[int, Any] = {}

    def through(self, state: State) -> tuple[dict[str, Any], list[Fragment]]:
        fragments = state.fragments()
        for fragment in fragments:
            self.contents.setdefault(fragment.number, fragment.content)
        read = [Fragment(fragment.number, self.contents[fragment.number]) for fragment in fragments]
        return unpacked(packed(state.describe())), read


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: json.dumps(row, default=str))


def held(function: Function, state: str, rows: list[tuple[Any, ...]] = ROWS) -> list[dict[str, Any]]:
    """Processes rows one by one with a checkpoint after each; returns the rows read from the last."""
    function.bind_states()
    ctx = Context("job", "fn", 0, 1, {"out": function.schema})  # type: ignore[attr-defined]
    store = Store()
    read = store.through(function.states()[state])
    assert rows_of(*read).num_rows == 0
    empty = rows_of(*read).schema
    for row in rows:
        function.process(batch([row]), ctx)
        read = store.through(function.states()[state])
    table = rows_of(*read)
    if function.states()[state].describe()["kind"] != "whole":
        assert table.schema.equals(empty)
    return in_order(table)


def at(us: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=us)


def span(start: int, end: int) -> dict[str, datetime.datetime]:
    return {"start": at(start), "end": at(end)}


def test_a_running_aggregate_shows_its_current_results() -> None:
    expected = [
        {"key": {"k": "a"}, "value": {"n": 3, "mean": 2.0, "best": "a", "d": 3, "t": [3, 2]}},
        {"key": {"k": "b"}, "value": {"n": 2, "mean": 5.0, "best": "b", "d": 1, "t": [5, 5]}},
    ]
    assert held(RunningAggregate(SCHEMA, ("k",), CALLS), "totals") == expected
    assert held(RunningAggregate(SCHEMA, ("k",), CALLS[:2]), "totals") == [
        {"key": row["key"], "value": {name: row["value"][name] for name in ("n", "mean")}} for row in expected
    ]


def test_windows_that_are_open_show_their_partials_merged() -> None:
    assert held(WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), CALLS[:2]), "panes") == [
        {"key": {"window": span(0, 10), "k": "a"}, "value": {"n": 2, "mean": 2.0}},
        {"key": {"window": span(0, 10), "k": "b"}, "value": {"n": 1, "mean": 5.0}},
        {"key": {"window": span(10, 20), "k": "a"}, "value": {"n": 1, "mean": 2.0}},
        {"key": {"window": span(20, 30), "k": "b"}, "value": {"n": 1, "mean": 5.0}},
    ]


def test_panes_of_overlapping_windows_are_called_panes() -> None:
    function = WindowAggregate(SCHEMA, (), TIME, Hopping(20, 10), CALLS[:1])
    assert [(row["key"], row["value"]["n"]) for row in held(function, "panes")] == [
        ({"pane": span(0, 10)}, 3),
        ({"pane": span(10, 20)}, 1),
        ({"pane": span(20, 30)}, 1),
    ]


def test_emitted_and_dropped_windows_are_not_shown() -> None:
    function = WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), CALLS[:1])
    function.bind_states()
    ctx = Context("job", "fn", 0, 1, {"out": function.schema})
    function.process(batch(ROWS), ctx)
    store = Store()
    store.through(function.panes)
    function.on_watermark(20, ctx)
    assert rows_of(*store.through(function.panes)).to_pylist() == [
        {"key": {"window": span(20, 30), "k": "b"}, "value": {"n": 1}}
    ]


def test_windows_that_rows_bring_along() -> None:
    schema = pa.schema([("k", pa.string()), ("s", pa.timestamp("us", "UTC")), ("e", pa.timestamp("us", "UTC"))])
    count = parse_aggregate("count(*) AS n", schema)
    function = WindowAggregate(schema, ("k",), None, Span("s", "e"), (count,))
    function.bind_states()
    function.process(
        batch([("a", 0, 10), ("a", 5, 10), ("a", 0, 10)], schema), Context("job", "fn", 0, 1, {"out": function.schema})
    )
    assert in_order(rows_of(*Store().through(function.panes))) == [
        {"key": {"window": span(0, 10), "k": "a"}, "value": {"n": 2}},
        {"key": {"window": span(5, 10), "k": "a"}, "value": {"n": 1}},
    ]


def test_the_best_rows_so_far() -> None:
    function = WindowTop(SCHEMA, ("k",), TIME, Tumbling(10), ranking(compile_scalar("x", SCHEMA), 1))
    assert held(function, "panes") == [
        {"key": {"window": span(0, 10), "k": "a"}, "value": {"x": 3, "t": at(3)}},
        {"key": {"window": span(0, 10), "k": "b"}, "value": {"x": 5, "t": at(9)}},
        {"key": {"window": span(10, 20), "k": "a"}, "value": {"x": 2, "t": at(10)}},
        {"key": {"window": span(20, 30), "k": "b"}, "value": {"x": 5, "t": at(25)}},
    ]


def test_open_sessions() -> None:
    assert held(SessionAggregate(SCHEMA, ("k",), TIME, 7, CALLS[:1]), "sessions") == [
        {"key": {"window": span(0, 17), "k": "a"}, "value": {"n": 3}},
        {"key": {"window": span(9, 16), "k": "b"}, "value": {"n": 1}},
        {"key": {"window": span(25, 32), "k": "b"}, "value": {"n": 1}},
    ]


def test_a_users_own_aggregate_shows_its_partials_as_text() -> None:
    own = UserAggregate(list, lambda acc, rows: [*acc, *rows.column(0).to_pylist()], lambda a, b: a + b, sum,
                        pa.int64(), ("x",), "own")  # fmt: skip
    assert held(RunningAggregate(SCHEMA, ("k",), (CALLS[0], own)), "totals") == [
        {"key": {"k": "a"}, "value": {"n": 3, "own": "[1, 2, 3]"}},
        {"key": {"k": "b"}, "value": {"n": 2, "own": "[5, 5]"}},
    ]
    assert held(WindowAggregate(SCHEMA, (), TIME, Tumbling(100), (own,)), "panes") == [
        {"key": {"window": span(0, 100)}, "value": {"own": "[1, 5, 2, 3, 5]"}}
    ]


def test_rows_that_wait_for_a_match() -> None:
    right = pa.schema([("k", pa.string()), ("y", pa.int64())])
    output = pa.schema([*SCHEMA, ("k2", pa.string()), ("y", pa.int64())])
    join = UnboundedJoin(SCHEMA, right, Matching((("k", "k"),), output))
    join.bind_states()
    ctx = Context("job", "fn", 0, 1, {"out": join.schema})
    ctx.input = "left"
    join.process(batch(ROWS[:2]), ctx)
    assert rows_of(*Store().through(join.left)).to_pylist() == [
        {"key": {"k": "a"}, "value": {"x": 1, "t": at(0)}},
        {"key": {"k": "b"}, "value": {"x": 5, "t": at(9)}},
    ]
    assert rows_of(*Store().through(join.right)).num_rows == 0


def test_maps_show_the_last_word_on_each_key() -> None:
    state: MapState[Any, Any] = MapState()
    store = Store()
    state["a"], state["b"], state["c"] = [1], [2], [3]
    store.through(state)
    state["a"].append(4)
    del state["b"]
    assert rows_of(*store.through(state)).to_pylist() == [
        {"key": {"key": "a"}, "value": {"value": [1, 4]}},
        {"key": {"key": "c"}, "value": {"value": [3]}},
    ]


@pytest.mark.parametrize(
    ("entries", "rows"),
    [
        ({(1, "x"): 2.5}, [{"key": {"_1": 1, "_2": "x"}, "value": {"value": 2.5}}]),
        ({1: {"p": 1}}, [{"key": {"key": 1}, "value": {"value": [("p", 1)]}}]),
        ({1: {3}}, [{"key": {"key": 1}, "value": {"value": [3]}}]),
        ({1: 2**70}, [{"key": {"key": 1}, "value": {"value": str(2**70)}}]),
        (
            {1: "one", "two": 2},
            [{"key": {"key": "1"}, "value": {"value": "one"}}, {"key": {"key": "two"}, "value": {"value": "2"}}],
        ),
        ({1: datetime.time(1, 2)}, [{"key": {"key": 1}, "value": {"value": "datetime.time(1, 2)"}}]),
    ],
)
def test_maps_hold_values_of_any_type(entries: dict[Any, Any], rows: list[Any]) -> None:
    state: MapState[Any, Any] = MapState()
    state.restore(list(entries.items()))
    assert rows_of(*Store().through(state)).to_pylist() == rows


def test_values_and_lists() -> None:
    value: ValueState[dict[str, int]] = ValueState({"a": 1})
    assert rows_of(*Store().through(value)).to_pylist() == [{"key": None, "value": {"value": [("a", 1)]}}]
    items: ListState[int] = ListState()
    items.extend([7, 8])
    assert rows_of(*Store().through(items)).to_pylist() == [
        {"key": {"position": 0}, "value": {"value": 7}},
        {"key": {"position": 1}, "value": {"value": 8}},
    ]


def test_an_unknown_kind_is_reported() -> None:
    with pytest.raises(StorageError, match="is unknown"):
        rows_of({"kind": "of tomorrow"}, [])


@pytest.mark.parametrize(
    ("one", "other", "kind", "values"),
    [
        ([1], [2.5], pa.float64(), [1.0, 2.5]),
        ([1], ["x"], pa.string(), ["1", "x"]),
        ([None], [3], pa.int64(), [None, 3]),
        ([[]], [[1]], pa.list_(pa.int64()), [[], [1]]),
        ([(1, "x")], [(2, 3)], pa.struct([("_1", pa.int64()), ("_2", pa.string())]), None),
        ([None], [None], pa.string(), [None, None]),
    ],
)
def test_partitions_meet_in_one_type(one: list[Any], other: list[Any], kind: pa.DataType, values: Any) -> None:
    columns = column_of(one), column_of(other)
    met = settled(together(columns[0].type, columns[1].type))
    assert met == kind
    found = [value for column in columns for value in fitted(column, met).to_pylist()]
    assert values is None or found == values


def test_text_that_is_no_unicode_is_shown_anyway() -> None:
    assert column_of(["\ud800", np.float64(1.5)]).to_pylist() == ["?", "np.float64(1.5)"]


def test_newer_aggregates_are_read_back() -> None:
    texts = (
        "sum(distinct x) AS different",
        "listagg(x, ',') WITHIN GROUP (ORDER BY x DESC) AS text",
        "percentile(x, 0.5) AS middle",
        "mode(x) AS common",
        "first(x) FILTER (WHERE x > 1) AS opening",
        "var_pop(x) AS variance",
    )
    calls = tuple(parse_aggregate(text, SCHEMA) for text in texts)
    (one, other) = held(RunningAggregate(SCHEMA, ("k",), calls), "totals")
    assert one["value"] == {
        "different": 6, "text": "3,2,1", "middle": 2.0, "common": 1, "opening": 2, "variance": pytest.approx(2 / 3),
    }  # fmt: skip
    assert other["value"]["text"] == "5,5"
