"""Joins of a few rows with results computed by hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from stretto.actors.context import Context
from stretto.actors.discipline import SEQUENTIAL
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.errors import InvariantError, PlanError
from stretto.operators import join_interval, join_sides, join_window
from stretto.operators.joins import PAIRS_MAX, IntervalJoin, Join, Matching, UnboundedJoin, WindowJoin
from stretto.operators.windows import EventTime, Hopping, Tumbling

TIME = pa.timestamp("us")
LEFT = pa.schema([("k", pa.int32()), ("t", TIME), ("l", pa.string())])
RIGHT = pa.schema([("k", pa.int64()), ("t", TIME), ("r", pa.string())])
OUTPUT = pa.schema(
    [("k", pa.int32()), ("t", TIME), ("l", pa.string()), ("rk", pa.int64()), ("rt", TIME), ("r", pa.string())]
)
WINDOWED = pa.schema([*OUTPUT, ("window_start", TIME), ("window_end", TIME)])
ON = (("k", "k"),)
Row = tuple[Any, ...]


class Plus:
    """The column `t`, shifted."""

    def __init__(self, shift_us: int) -> None:
        self.shift_us = shift_us

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.add(batch.column("t").cast(pa.int64()), self.shift_us).cast(TIME)


class SmallLeft:
    """A residual predicate: l < 'm'."""

    def mask(self, batch: pa.RecordBatch) -> Any:
        return pc.less(batch.column("l"), "m").to_numpy(zero_copy_only=False)


def batches_of(ctx: Context) -> list[Any]:
    """Returns what was sent; a join sends only batches."""
    return [sent for _, sent in ctx.sent]


class Driver:
    """Calls a join as an instance does, and collects pairs (l, r) or, for windows, (l, r, start, end)."""

    def __init__(self, join: Join) -> None:
        self.join = join
        self.ctx = Context("job", "join", 0, 1, {"out": join.schema})

    def push(self, side: str, *rows: Row, schema: pa.Schema | None = None) -> list[Row]:
        schema = schema or (LEFT if side == "left" else RIGHT)
        columns = [pa.array([row[i] for row in rows], type=field.type) for i, field in enumerate(schema)]
        return self.send(side, pa.RecordBatch.from_arrays(columns, schema=schema))

    def send(self, side: str, batch: pa.RecordBatch) -> list[Row]:
        self.ctx.input = side
        self.ctx.sent.clear()
        self.join.process(batch, self.ctx)
        found = []
        for out in batches_of(self.ctx):
            assert out.num_rows <= PAIRS_MAX
            wanted = [name for name in ("l", "r", "window_start", "window_end") if name in out.schema.names]
            columns = [out.column(name) for name in wanted]
            plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in columns]
            found += list(zip(*(column.to_pylist() for column in plain), strict=True))
        return sorted(found)

    def watermark(self, watermark_us: int) -> None:
        self.ctx.watermark_us = watermark_us
        self.join.on_watermark(watermark_us, self.ctx)

    @property
    def stored(self) -> tuple[int, int]:
        return self.join.left.num_rows, self.join.right.num_rows


def interval(low: int, high: int, inclusive: bool = True, known: bool = True) -> Driver:
    join = IntervalJoin(
        LEFT,
        RIGHT,
        Matching(ON, OUTPUT),
        EventTime("t"),
        EventTime("t"),
        Plus(low),
        Plus(high),
        inclusive,
        low if known else None,
    )
    return Driver(join)


def windowed(window: Tumbling | Hopping) -> Driver:
    return Driver(WindowJoin(LEFT, RIGHT, Matching(ON, WINDOWED), window, EventTime("t"), EventTime("t")))


def test_an_unbounded_join_pairs_every_row_with_every_equal_one() -> None:
    join = Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT)))
    assert join.push("left", (1, 0, "a"), (2, 0, "b")) == []
    assert join.push("right", (2, 9, "x"), (2, 9, "y"), (3, 9, "z")) == [("b", "x"), ("b", "y")]
    assert join.push("left", (3, 5, "c"), (2, 5, "d"), (3, 5, "e")) == [("c", "z"), ("d", "x"), ("d", "y"), ("e", "z")]
    assert join.push("right", (1, 0, "w")) == [("a", "w")]
    join.watermark(1_000_000)
    assert join.stored == (5, 4)
    assert join.join.discipline is SEQUENTIAL


def test_null_keys_match_nothing_and_are_not_kept() -> None:
    join = Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT)))
    assert join.push("left", (None, 0, "a"), (1, 0, "b")) == []
    assert join.push("right", (None, 0, "x"), (1, 0, "y")) == [("b", "y")]
    assert join.push("right", (None, 0, "x")) == []
    assert join.stored == (1, 1)


def test_the_columns_are_left_then_right_under_the_output_names() -> None:
    join = Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT)))
    join.push("right", (1, 7, "x"))
    join.push("left", (1, 5, None))
    (batch,) = batches_of(join.ctx)
    assert batch.schema == OUTPUT
    (row,) = batch.to_pylist()
    assert (row["k"], row["l"], row["rk"], row["r"]) == (1, None, 1, "x")
    assert (row["t"].microsecond, row["rt"].microsecond) == (5, 7)


def test_a_residual_predicate_sees_the_joined_rows() -> None:
    join = Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT, SmallLeft())))
    join.push("right", (1, 0, "x"))
    assert join.push("left", (1, 0, "a"), (1, 0, "z")) == [("a", "x")]
    assert join.push("left", (1, 0, "z")) == []


def test_a_hot_key_makes_many_batches_of_bounded_size() -> None:
    join = UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT))
    ctx = Context("job", "join", 0, 1, {"out": join.schema})
    rows, numbers = 700, [str(i) for i in range(700)]
    for side, schema in (("left", LEFT), ("right", RIGHT)):
        ctx.input = side
        columns = [pa.array([5] * rows, schema.field(0).type), pa.array([0] * rows).cast(TIME), pa.array(numbers)]
        join.process(pa.RecordBatch.from_arrays(columns, schema=schema), ctx)
    *full, _ = batches_of(ctx)
    assert {batch.num_rows for batch in full} == {PAIRS_MAX}
    table = pa.Table.from_batches(batches_of(ctx))
    assert table.num_rows == rows * rows
    assert table.select(["l", "r"]).group_by(["l", "r"]).aggregate([]).num_rows == rows * rows


def test_floats_join_as_in_spark_with_one_zero_and_one_nan() -> None:
    left, right = pa.schema([("l", pa.float64())]), pa.schema([("r", pa.float32())])
    output = pa.schema([*left, *right])
    join = Driver(UnboundedJoin(left, right, Matching((("l", "r"),), output)))
    join.push("left", (0.0,), (float("nan"),), (1.5,), schema=left)
    join.push("right", (-0.0,), (float("nan"),), (1.5,), schema=right)
    assert sum(batch.num_rows for batch in batches_of(join.ctx)) == 3


@pytest.mark.parametrize(
    ("left_type", "right_type", "values"),
    [
        (pa.string(), pa.dictionary(pa.int32(), pa.string()), ["a", "", "long enough for several words"]),
        (pa.large_string(), pa.string(), ["a", "", "long enough for several words"]),
        (pa.binary(2), pa.binary(), [b"ab", b"cd", b"ef"]),
        (pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), [datetime(2026, 1, 2), datetime(1960, 1, 1)]),
        (pa.decimal128(10, 2), pa.decimal128(30, 5), [Decimal("1.5"), Decimal(20), Decimal("-0.01")]),
        (pa.bool_(), pa.bool_(), [True, False]),
    ],
)
def test_keys_of_comparable_types_meet(left_type: pa.DataType, right_type: pa.DataType, values: list[Any]) -> None:
    left, right = pa.schema([("a", left_type)]), pa.schema([("a", right_type)])
    output = pa.schema([("l", left_type), ("r", right_type)])
    join = UnboundedJoin(left, right, Matching((("a", "a"),), output))
    ctx = Context("job", "join", 0, 1, {"out": join.schema})
    for side, schema in (("left", left), ("right", right)):
        ctx.input = side
        join.process(pa.RecordBatch.from_arrays([pa.array(values, schema.types[0])], schema=schema), ctx)
    (joined,) = batches_of(ctx)
    assert joined.num_rows == len(values)


def test_keys_of_different_kinds_are_refused() -> None:
    with pytest.raises(PlanError, match="different kinds"):
        UnboundedJoin(LEFT, RIGHT, Matching((("k", "r"),), OUTPUT))
    with pytest.raises(PlanError, match="no column 'q'"):
        UnboundedJoin(LEFT, RIGHT, Matching((("k", "q"),), OUTPUT))
    with pytest.raises(InvariantError, match="does not follow"):
        UnboundedJoin(LEFT, RIGHT, Matching(ON, LEFT))


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(InvariantError, match="does not have"):
        Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT))).push("middle", (1, 0, "a"))


@pytest.mark.parametrize("module", [join_sides, join_interval, join_window])
def test_colliding_hashes_do_not_make_a_match(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_columns", lambda rows, keys: np.zeros(rows.num_rows, dtype=np.uint64))
    on = (("k", "k"), ("l", "r"))
    times = EventTime("t"), EventTime("t")
    if module is join_sides:
        join: Join = UnboundedJoin(LEFT, RIGHT, Matching(on, OUTPUT))
    elif module is join_interval:
        join = IntervalJoin(LEFT, RIGHT, Matching(on, OUTPUT), *times, Plus(0), Plus(9))
    else:
        join = WindowJoin(LEFT, RIGHT, Matching(on, WINDOWED), Tumbling(10), *times)
    driver = Driver(join)
    driver.push("left", (1, 0, "a"), (2, 0, "a"), (1, 0, "b"))
    found = driver.push("right", (1, 0, "a"), (2, 0, "b"), (3, 0, "c"))
    assert [pair[:2] for pair in found] == [("a", "a")]


def test_the_bounds_of_an_interval_are_included() -> None:
    join = interval(-5, 10)
    join.push("left", (1, 100, "a"))
    assert join.push(
        "right", (1, 94, "early"), (1, 95, "low"), (1, 110, "high"), (1, 111, "after"), (2, 100, "key")
    ) == [
        ("a", "high"),
        ("a", "low"),
    ]
    assert join.push("left", (1, 99, "b"), (1, 121, "c")) == [("b", "early"), ("b", "low")]


def test_an_upper_bound_can_be_excluded() -> None:
    join = interval(0, 10, inclusive=False)
    join.push("left", (1, 100, "a"))
    assert join.push("right", (1, 100, "x"), (1, 109, "y"), (1, 110, "z")) == [("a", "x"), ("a", "y")]


@pytest.mark.parametrize(("inclusive", "forgotten_at"), [(True, 111), (False, 110)])
def test_a_left_row_is_forgotten_after_its_upper_bound(inclusive: bool, forgotten_at: int) -> None:
    join = interval(0, 10, inclusive)
    join.push("left", (1, 100, "a"))
    join.watermark(forgotten_at - 1)
    assert join.stored == (1, 0)
    join.watermark(forgotten_at)
    assert join.stored == (0, 0)


@pytest.mark.parametrize("offset", [0, -7, 7])
def test_a_right_row_is_forgotten_when_lower_bounds_to_come_are_past_it(offset: int) -> None:
    join = interval(offset, 50)
    join.push("right", (1, 100, "x"))
    join.watermark(100 - offset)
    assert join.push("left", (1, 100 - offset, "a")) == ([("a", "x")] if 100 - offset + 50 >= 100 else [])
    join.watermark(100 - offset + 1)
    assert join.join.right.num_rows == 0


def test_without_a_known_lower_bound_right_rows_stay_until_the_end() -> None:
    join = interval(0, 10, known=False)
    join.push("right", (1, 100, "x"))
    join.watermark(10**15)
    assert join.stored == (0, 1)
    join.watermark(EVENT_TIME_MAX_US)
    assert join.stored == (0, 0)


def test_late_rows_of_an_interval_join_are_dropped_and_counted() -> None:
    join = interval(0, 10)
    join.push("left", (1, 100, "a"), (1, 99, "b"))
    join.watermark(100)
    assert join.push("right", (1, 99, "late"), (1, 100, "x"), (None, 1, "null")) == [("a", "x"), ("b", "x")]
    assert join.push("left", (1, 98, "late"), (1, None, "no time")) == []
    assert join.ctx.counts == {"late_rows": 2}
    assert join.stored == (2, 1)


def test_a_tumbling_window_joins_rows_of_one_window() -> None:
    join = windowed(Tumbling(10, origin_us=3))
    join.push("left", (1, 12, "a"), (1, 13, "b"), (1, 2, "c"))
    assert join.push("right", (1, 3, "x"), (1, 22, "y"), (1, -7, "z"), (2, 12, "w")) == [
        ("a", "x", 3, 13),
        ("b", "y", 13, 23),
        ("c", "z", -7, 3),
    ]
    (batch,) = batches_of(join.ctx)
    assert batch.schema == WINDOWED


def test_a_window_is_forgotten_when_it_closes_and_takes_no_more_rows() -> None:
    join = windowed(Tumbling(10))
    join.push("left", (1, 5, "a"), (1, 9, "b"))
    join.watermark(9)
    assert join.push("right", (1, 6, "x")) == [("a", "x", 0, 10), ("b", "x", 0, 10)]
    assert join.stored == (2, 1)
    join.watermark(10)
    assert join.stored == (0, 0)
    assert join.push("right", (1, 9, "late"), (1, 10, "y"), (1, None, "no time")) == []
    assert join.ctx.counts == {"late_rows": 1}
    assert join.stored == (0, 1)


def test_hopping_windows_give_a_pair_once_per_common_window() -> None:
    join = windowed(Hopping(10, 5))
    join.push("left", (1, 7, "a"))
    assert join.push("right", (1, 4, "w"), (1, 7, "x"), (1, 10, "y"), (1, 15, "z")) == [
        ("a", "w", 0, 10),
        ("a", "x", 0, 10),
        ("a", "x", 5, 15),
        ("a", "y", 5, 15),
    ]
    join.watermark(10)
    assert join.push("right", (1, 7, "v"), (1, 4, "late")) == [("a", "v", 5, 15)]
    assert join.ctx.counts == {"late_rows": 1}


def test_a_slide_need_not_divide_the_size() -> None:
    join = windowed(Hopping(10, 4))
    join.push("left", (1, 9, "a"))
    assert join.push("right", (1, 9, "x")) == [("a", "x", 0, 10), ("a", "x", 4, 14), ("a", "x", 8, 18)]
    assert join.push("left", (1, 10, "b")) == [("b", "x", 4, 14), ("b", "x", 8, 18)]


def test_the_event_time_of_a_window_row_is_its_end_less_one() -> None:
    join = Driver(WindowJoin(LEFT, RIGHT, Matching(ON, WINDOWED), Tumbling(10), EventTime("t", 1), EventTime("t")))
    join.push("left", (1, 10, "a"))
    assert join.push("right", (1, 9, "x"), (1, 10, "y")) == [("a", "x", 0, 10)]


def test_rows_that_bring_their_window_join_when_both_bounds_agree() -> None:
    left = pa.schema([("k", pa.int64()), ("l", pa.string()), ("window_start", TIME), ("window_end", TIME)])
    right = pa.schema([("k", pa.int64()), ("r", pa.string()), ("window_start", TIME), ("window_end", TIME)])
    names = ["k", "l", "ls", "le", "rk", "r", "rs", "re"]
    output = pa.schema(list(zip(names, [*left.types, *right.types], strict=True)))
    join = Driver(WindowJoin(left, right, Matching(ON, output), None))
    join.push("left", (1, "a", 0, 10), (1, "b", 0, 20), (1, "c", 10, 20), schema=left)
    assert join.push("right", (1, "x", 0, 10), (1, "y", 10, 20), (2, "z", 0, 10), schema=right) == [
        ("a", "x"),
        ("c", "y"),
    ]
    join.watermark(10)
    assert join.push("right", (1, "late", 0, 10), (1, "w", 0, 20), (1, "v", None, 20), schema=right) == [("b", "w")]
    assert join.ctx.counts == {"late_rows": 1}
    join.watermark(20)
    assert join.stored == (0, 0)


@pytest.mark.parametrize(
    "move",
    [copy.deepcopy, lambda join: pickle.loads(pickle.dumps(join))],
    ids=["copied", "pickled"],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT))),
        lambda: interval(0, 10),
        lambda: windowed(Tumbling(10)),
    ],
    ids=["unbounded", "interval", "window"],
)
def test_a_join_continues_after_a_move(make: Callable[[], Driver], move: Callable[[Join], Join]) -> None:
    driver = make()
    driver.join.bind_states()
    driver.push("left", (1, 0, "a"), (2, 0, "b"))
    driver.push("right", (3, 0, "w"))
    driver.join = move(driver.join)
    assert [pair[:2] for pair in driver.push("right", (2, 0, "x"))] == [("b", "x")]
    other = make()
    for name, state in driver.join.states().items():
        other.join.states()[name].restore(state.export())
    assert [pair[:2] for pair in other.push("left", (3, 0, "c"), (2, 0, "d"))] == [("c", "w"), ("d", "x")]


def test_fresh_states_are_empty_and_their_own() -> None:
    driver = interval(0, 10)
    driver.push("left", (1, 0, "a"))
    first = driver.join.left
    driver.join.bind_states()
    assert driver.stored == (0, 0)
    assert first.num_rows == 1
    assert driver.join.left.export().schema == LEFT


def test_the_end_empties_the_state() -> None:
    driver = Driver(UnboundedJoin(LEFT, RIGHT, Matching(ON, OUTPUT)))
    driver.push("left", (1, 0, "a"))
    driver.join.on_end(driver.ctx)
    assert driver.stored == (0, 0)
