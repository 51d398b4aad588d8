"""Windowed, session, running and top-k operators on cases small enough to check by hand."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from stretto.actors.context import Context
from stretto.actors.discipline import COMBINABLE, SEQUENTIAL
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.errors import PlanError
from stretto.expressions import compile_scalar, parse_aggregate
from stretto.operators.ranking import ranking
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.top import WindowTop
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
TIME = EventTime("t")
COUNT = parse_aggregate("count(*) AS n", SCHEMA)
SUM = parse_aggregate("sum(x) AS total", SCHEMA)


def rows(*values: tuple[str | None, int | None, int | None], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = zip(*values, strict=True) if values else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


class Driver:
    """Runs a function as an actor does, and returns what it has sent since the last call."""

    def __init__(self, function: Function) -> None:
        function.bind_states()
        self.function = function
        self.ctx = Context("job", "fn", 0, 1, {"out": function.schema})  # type: ignore[attr-defined]

    def process(self, *values: tuple[str | None, int | None, int | None]) -> list[tuple[Any, ...]]:
        self.function.process(rows(*values), self.ctx)
        return self.taken()

    def watermark(self, watermark_us: int) -> list[tuple[Any, ...]]:
        self.ctx.watermark_us = watermark_us
        self.function.on_watermark(watermark_us, self.ctx)
        return self.taken()

    def taken(self) -> list[tuple[Any, ...]]:
        sent, self.ctx.sent = self.ctx.sent, []
        found: list[tuple[Any, ...]] = []
        for _, batch in sent:
            columns = [
                column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns
            ]
            found.extend(zip(*(column.to_pylist() for column in columns), strict=True))
        return found


def test_a_window_is_emitted_once_when_the_watermark_reaches_its_end() -> None:
    driver = Driver(WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), (COUNT, SUM)))
    assert driver.process(("a", 1, 0), ("b", 5, 9), ("a", 2, 10)) == []
    assert driver.watermark(9) == []
    assert sorted(driver.watermark(10)) == [("a", 0, 10, 1, 1), ("b", 0, 10, 1, 5)]
    assert driver.watermark(10) == []
    assert driver.process(("a", 3, 11)) == []
    assert driver.watermark(EVENT_TIME_MAX_US) == [("a", 10, 20, 2, 5)]


def test_windows_come_in_the_order_of_their_ends_and_empty_ones_not_at_all() -> None:
    driver = Driver(WindowAggregate(SCHEMA, (), TIME, Tumbling(10), (COUNT,)))
    driver.process(("a", 1, 95), ("a", 1, -25), ("a", 1, 10**15), ("a", 1, 3))
    assert driver.watermark(EVENT_TIME_MAX_US) == [(-30, -20, 1), (0, 10, 1), (90, 100, 1), (10**15, 10**15 + 10, 1)]


def test_a_row_is_in_every_window_that_hops_over_it() -> None:
    driver = Driver(WindowAggregate(SCHEMA, ("k",), TIME, Hopping(10, 5), (COUNT,)))
    driver.process(("a", 1, 7), ("a", 1, 12))
    assert driver.watermark(10) == [("a", 0, 10, 1)]
    assert driver.process(("a", 1, 6)) == []  # late for 0 to 10, in time for 5 to 15
    assert driver.watermark(30) == [("a", 5, 15, 3), ("a", 10, 20, 1)]
    assert "late_rows" not in driver.ctx.counts


def test_late_rows_and_rows_without_a_time_are_counted() -> None:
    driver = Driver(WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), (COUNT,)))
    driver.watermark(10)
    driver.process(("a", 1, 9), ("a", 1, None), ("a", 1, 10), ("a", 1, -100))
    driver.process(("a", 1, 3))
    driver.process(("a", 1, None))
    driver.process()
    assert driver.ctx.counts == {"late_rows": 3, "null_time_rows": 2}
    assert driver.watermark(20) == [("a", 10, 20, 1)]


def test_within_the_lateness_a_late_row_emits_its_window_again() -> None:
    driver = Driver(WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), (SUM,), lateness_us=5))
    driver.process(("a", 1, 0), ("b", 1, 0))
    driver.watermark(10)
    assert driver.process(("a", 10, 3), ("b", 1, 12)) == [("a", 0, 10, 11)]
    assert driver.process(("c", 7, 4)) == [("c", 0, 10, 7)]
    assert driver.watermark(14) == []
    assert driver.process(("a", 100, 9)) == [("a", 0, 10, 111)]
    assert driver.watermark(15) == []
    assert driver.process(("a", 1, 9)) == []
    assert driver.ctx.counts == {"late_rows": 1}
    assert driver.watermark(EVENT_TIME_MAX_US) == [("b", 10, 20, 1)]


@pytest.mark.parametrize(
    ("kind", "unit_us"), [(pa.timestamp("s"), 10**6), (pa.timestamp("ms", "UTC"), 1000), (pa.date32(), 86_400 * 10**6)]
)
def test_times_of_other_units(kind: pa.DataType, unit_us: int) -> None:
    schema = pa.schema([("t", kind)])
    function = WindowAggregate(schema, (), TIME, Tumbling(10 * unit_us), (COUNT,))
    driver = Driver(function)
    function.process(pa.record_batch([pa.array([-1, 0, 9, 10], kind)], schema=schema), driver.ctx)
    expected = [(-10 * unit_us, 0, 1), (0, 10 * unit_us, 2), (10 * unit_us, 20 * unit_us, 1)]
    assert driver.watermark(EVENT_TIME_MAX_US) == expected


def test_nanoseconds_are_cut_off() -> None:
    schema = pa.schema([("t", pa.timestamp("ns"))])
    function = WindowAggregate(schema, (), TIME, Tumbling(1), (parse_aggregate("max(t) AS last", schema),))
    driver = Driver(function)
    function.process(pa.record_batch([pa.array([999, 1000, -1], pa.timestamp("ns"))], schema=schema), driver.ctx)
    assert driver.watermark(EVENT_TIME_MAX_US) == [(-1, 0, -1), (0, 1, 0), (1, 2, 1)]


def test_the_rows_of_a_window_count_for_the_instant_before_its_end() -> None:
    driver = Driver(WindowAggregate(SCHEMA, (), EventTime("t", 1), Tumbling(10), (COUNT,)))
    driver.process(("a", 1, 10), ("a", 1, 11))
    assert driver.watermark(EVENT_TIME_MAX_US) == [(0, 10, 1), (10, 20, 1)]


def test_without_aggregates_the_keys_of_each_window_are_distinct() -> None:
    driver = Driver(WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), ()))
    driver.process(("a", 1, 0), ("a", 1, 1), (None, 1, 2), (None, 1, 3))
    assert sorted(driver.watermark(10), key=str) == [("a", 0, 10), (None, 0, 10)]


def test_spans_with_one_end_and_different_starts_are_different_windows() -> None:
    schema = pa.schema([("a", pa.timestamp("us")), ("b", pa.timestamp("us"))])
    function = WindowAggregate(schema, (), None, Span("a", "b"), (COUNT,))
    driver = Driver(function)
    batch = pa.record_batch([pa.array([0, 5, 0, None, 7]), pa.array([10, 10, 10, 3, None])], names=["a", "b"])
    function.process(batch.cast(schema), driver.ctx)
    assert driver.ctx.counts == {"null_time_rows": 2}
    assert driver.watermark(9) == []
    assert sorted(driver.watermark(10)) == [(0, 10, 2), (5, 10, 1)]


def test_memory_is_in_proportion_to_the_groups_not_to_the_rows() -> None:
    function = WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10**9), (COUNT,))
    driver = Driver(function)
    names = pa.array([f"user{number % 50}" for number in range(100)])
    times = pa.array(np.arange(100)).cast(SCHEMA.field("t").type)
    batch = pa.record_batch([names, pa.array(np.arange(100)), times], schema=SCHEMA)
    with (
        patch("stretto.operators.panes.BUFFER_ROWS_MAX", 200),
        patch("stretto.operators.panes.SMALL_BLOCK_ROWS_MAX", 100),
    ):
        for _ in range(300):
            function.process(batch, driver.ctx)
            assert function.panes.rows <= 200 + 100 + 2 * 50
    assert driver.watermark(10**9)[0] == ("user0", 0, 10**9, 600)
    assert function.panes.rows == 0


def test_rows_a_gap_apart_are_one_session_as_in_spark() -> None:
    driver = Driver(SessionAggregate(SCHEMA, ("k",), TIME, 10, (COUNT,)))
    driver.process(("a", 1, 10), ("a", 1, 0), ("a", 1, 21), ("b", 1, 0), ("b", 1, 9))
    assert driver.watermark(EVENT_TIME_MAX_US) == [("b", 0, 19, 2), ("a", 0, 20, 2), ("a", 21, 31, 1)]


def test_a_session_stays_open_for_a_row_at_the_watermark() -> None:
    driver = Driver(SessionAggregate(SCHEMA, ("k",), TIME, 10, (COUNT,)))
    driver.process(("a", 1, 0))
    assert driver.watermark(10) == []
    driver.process(("a", 1, 10))
    assert driver.watermark(20) == []
    assert driver.watermark(21) == [("a", 0, 20, 2)]


def test_a_row_may_join_two_sessions() -> None:
    driver = Driver(SessionAggregate(SCHEMA, ("k",), TIME, 10, (SUM,)))
    driver.process(("a", 1, 0), ("a", 2, 15))
    driver.watermark(5)
    driver.process(("a", 4, 8))
    assert driver.watermark(100) == [("a", 0, 25, 7)]


@pytest.mark.parametrize("flushed", [False, True])
def test_sessions_of_another_instance_close_in_time(flushed: bool) -> None:
    function = SessionAggregate(SCHEMA, ("k",), TIME, 10, (COUNT,))
    driver = Driver(function)
    other = Driver(copy.deepcopy(function))
    other.process(("a", 1, 0))
    if flushed:
        other.function.sessions.flush()  # type: ignore[attr-defined]
    function.sessions.merge(other.function.sessions)  # type: ignore[attr-defined]
    assert driver.watermark(10) == []
    assert driver.watermark(11) == [("a", 0, 10, 1)]


def test_a_row_that_only_a_closed_session_would_hold_is_late() -> None:
    driver = Driver(SessionAggregate(SCHEMA, ("k",), TIME, 10, (SUM,)))
    driver.process(("a", 1, 95))
    driver.watermark(100)
    driver.process(("a", 2, 50), ("a", 4, 86), ("b", 8, 86))  # the second one touches the open session
    assert driver.watermark(1000) == [("a", 86, 105, 5)]
    assert driver.ctx.counts == {"late_rows": 2}


def test_within_the_lateness_a_late_row_emits_its_session_again() -> None:
    driver = Driver(SessionAggregate(SCHEMA, ("k",), TIME, 10, (SUM,), lateness_us=20))
    driver.process(("a", 1, 0))
    assert driver.watermark(15) == [("a", 0, 10, 1)]
    assert driver.process(("a", 2, 1), ("b", 1, 30)) == [("a", 0, 11, 3)]
    assert driver.watermark(40) == []
    assert driver.process(("a", 4, 2)) == []
    assert driver.ctx.counts == {"late_rows": 1}
    assert driver.watermark(41) == [("b", 30, 40, 1)]


def test_a_running_aggregate_sends_the_keys_that_a_batch_touches() -> None:
    driver = Driver(RunningAggregate(SCHEMA, ("k",), (COUNT, SUM)))
    assert sorted(driver.process(("a", 1, 0), ("b", 2, 0), ("a", 3, 0))) == [("a", 2, 4), ("b", 1, 2)]
    assert driver.process(("b", None, 0)) == [("b", 2, 2)]
    assert driver.process() == []
    assert driver.process(("a", 1, None)) == [("a", 3, 5)]


def test_running_keys_may_leave_the_range_that_a_table_covers() -> None:
    schema = pa.schema([("k", pa.int64())])
    function = RunningAggregate(schema, ("k",), (COUNT,))
    driver = Driver(function)
    seen: dict[int | None, int] = {}
    for keys in ([3, 4], [-5, 3], [100_000], [-100_000, 3], [2**62, 3, -5], [None, 2**62], [None, 4]):
        function.process(pa.record_batch([pa.array(keys, pa.int64())], schema=schema), driver.ctx)
        for key in keys:
            seen[key] = seen.get(key, 0) + 1
        assert dict(driver.taken()) == {key: seen[key] for key in keys}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.dictionary(pa.int32(), pa.float64())])
def test_a_key_has_one_zero_and_one_nan(kind: pa.DataType) -> None:
    schema = pa.schema([("k", kind), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    other_nan = np.array([0x7FF8000000000001], np.int64).view(np.float64)[0]
    keys = pa.array(np.array([-0.0, np.nan, 0.0, other_nan, -np.nan]))
    columns = [pa.array([n], pa.int64()).cast(field.type) for n, field in enumerate(list(schema)[1:])]
    window = Driver(WindowAggregate(schema, ("k",), TIME, Tumbling(10), (COUNT,)))
    running = Driver(RunningAggregate(schema, ("k",), (COUNT,)))
    updates = []
    for n in range(len(keys)):
        key = keys.slice(n, 1)
        encoded = key.dictionary_encode() if pa.types.is_dictionary(kind) else key.cast(kind)
        for driver in (running, window):
            driver.function.process(pa.record_batch([encoded, *columns], schema=schema), driver.ctx)
        updates += running.taken()
    assert [(str(key), count) for key, count in updates] == [
        ("0.0", 1), ("nan", 1), ("0.0", 2), ("nan", 2), ("nan", 3),
    ]  # fmt: skip
    assert sorted((str(row[0]), row[-1]) for row in window.watermark(10)) == [("0.0", 2), ("nan", 3)]
    codes = pa.array([key for key, _ in updates]).to_numpy().view(np.int64)
    assert len(set(codes.tolist())) == 2


@pytest.mark.parametrize(("kind", "keys"), [
    (pa.list_(pa.float64()), [[-0.0, None], None, [0.0, None]]),
    (pa.struct([("a", pa.list_(pa.float32()))]), [{"a": [-0.0]}, None, {"a": [0.0]}]),
])  # fmt: skip
def test_a_nested_key_has_one_zero(kind: pa.DataType, keys: list[Any]) -> None:
    schema = pa.schema([("k", kind)])
    running = Driver(RunningAggregate(schema, ("k",), (COUNT,)))
    updates = []
    for key in keys:
        running.function.process(pa.record_batch([pa.array([key], kind)], schema=schema), running.ctx)
        updates += running.taken()
    assert [(repr(key), count) for key, count in updates] == [(repr(keys[2]), 1), ("None", 1), (repr(keys[2]), 2)]


def test_ties_at_rank_k_are_kept_or_ordered_by_all_columns() -> None:
    score = compile_scalar("x", SCHEMA)
    values = [("a", 5, 1), ("b", 7, 2), ("c", 5, 3), ("d", 4, 4), ("e", None, 5)]
    ranked = Driver(WindowTop(SCHEMA, (), TIME, Tumbling(10), ranking(score, 2)))
    ranked.process(*values)
    assert ranked.watermark(10) == [("b", 7, 2, 0, 10), ("a", 5, 1, 0, 10), ("c", 5, 3, 0, 10)]
    numbered = Driver(WindowTop(SCHEMA, (), TIME, Tumbling(10), ranking(score, 2, ties=False)))
    numbered.process(*reversed(values))
    assert numbered.watermark(10) == [("b", 7, 2, 0, 10), ("c", 5, 3, 0, 10)]
    least = Driver(WindowTop(SCHEMA, (), TIME, Tumbling(10), ranking(score, 1, descending=False)))
    least.process(*values)
    assert least.watermark(10) == [("e", None, 5, 0, 10)]


def test_the_least_number_there_is_ranks_last() -> None:
    driver = Driver(WindowTop(SCHEMA, (), TIME, Tumbling(10), ranking(compile_scalar("x", SCHEMA), 2)))
    driver.process(("a", -(2**63), 1), ("b", 2**63 - 1, 2), ("c", 0, 3))
    assert [name for name, *_ in driver.watermark(10)] == ["b", "c"]


def test_the_state_of_the_best_rows_is_pruned() -> None:
    function = WindowTop(SCHEMA, ("k",), TIME, Tumbling(10**9), ranking(compile_scalar("x", SCHEMA), 3))
    driver = Driver(function)
    times = pa.array(np.arange(4096)).cast(SCHEMA.field("t").type)
    for number in range(40):
        scores = pa.array(np.arange(4096) * 40 + number)
        function.process(pa.record_batch([pa.array(["a"] * 4096), scores, times], schema=SCHEMA), driver.ctx)
    assert function.panes.rows < 20_000
    assert [score for _, score, *_ in driver.watermark(10**9)] == [4095 * 40 + 39, 4095 * 40 + 38, 4095 * 40 + 37]


USER = UserAggregate(
    init=lambda: 0,
    add=lambda acc, batch: acc + batch.num_rows,
    combine=lambda mine, theirs: mine + theirs,
    finish=lambda acc: acc,
    type=pa.int64(),
    columns=("x",),
)
EVERY = [
    WindowAggregate(SCHEMA, ("k",), TIME, Hopping(10, 5), (COUNT, SUM, USER)),
    SessionAggregate(SCHEMA, ("k",), TIME, 10, (COUNT, USER)),
    RunningAggregate(SCHEMA, ("k",), (COUNT, USER)),
    WindowTop(SCHEMA, ("k",), TIME, Tumbling(10), ranking(compile_scalar("x + 1", SCHEMA), 2)),
]


@pytest.mark.parametrize("function", EVERY, ids=lambda function: type(function).__name__)
def test_functions_can_be_shipped_and_copied(function: Function) -> None:
    outputs = []
    for shipped in (function, copy.deepcopy(function), cloudpickle.loads(cloudpickle.dumps(function))):
        driver = Driver(shipped)
        outputs.append([driver.process(("a", 1, 0), ("b", 2, 3)), driver.watermark(EVENT_TIME_MAX_US)])
    assert outputs[0] == outputs[1] == outputs[2]
    assert any(outputs[0])


@pytest.mark.parametrize("function", EVERY, ids=lambda function: type(function).__name__)
def test_an_empty_state_survives_export_and_restore(function: Function) -> None:
    function.bind_states()
    for state in function.states().values():
        copied = state.fresh()
        copied.restore(state.export())
        state.merge(copied)


def test_only_functions_that_emit_at_watermarks_may_run_in_parallel() -> None:
    disciplines = [function.discipline for function in EVERY]
    assert disciplines == [
        COMBINABLE,
        COMBINABLE,
        SEQUENTIAL,
        COMBINABLE,
    ]
    late = WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), (COUNT,), lateness_us=1)
    assert late.discipline is SEQUENTIAL


def test_errors_are_raised_when_the_function_is_made() -> None:
    with pytest.raises(PlanError, match="'user'"):
        WindowAggregate(SCHEMA, ("user",), TIME, Tumbling(10), ())
    with pytest.raises(PlanError, match="not a timestamp"):
        WindowAggregate(SCHEMA, ("k",), EventTime("x"), Tumbling(10), ())
    with pytest.raises(PlanError, match="no event time"):
        WindowAggregate(SCHEMA, ("k",), None, Tumbling(10), ())
    with pytest.raises(PlanError, match="at least 1"):
        WindowTop(SCHEMA, (), TIME, Tumbling(10), ranking(compile_scalar("x", SCHEMA), 0))
