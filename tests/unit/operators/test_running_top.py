"""The top rows over all rows so far, and the first rows of keys: batch by batch, with what is removed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.expressions import compile_scalar
from stretto.operators.changes.duplicates import FirstRows
from stretto.operators.changes.top import RunningTop
from stretto.operators.changes.weights import weighted_schema
from stretto.operators.ranking import Order, Ranking, RankKind, ranking
from stretto.operators.top import WindowTop
from stretto.operators.windows import EventTime, Tumbling

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
X = compile_scalar("x", SCHEMA)


class Driver:
    """Runs a function, and returns what it has sent since the last call, in the order of its rows."""

    def __init__(self, function: Function, given: pa.Schema = SCHEMA) -> None:
        function.bind_states()
        self.function, self.given = function, given
        self.ctx = Context("job", "f", 0, 1, {"out": function.schema})  # type: ignore[attr-defined]

    def process(self, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(self.given)]
        self.function.process(pa.record_batch(columns, schema=self.given), self.ctx)
        return self.taken()

    def watermark(self, watermark_us: int) -> list[tuple[Any, ...]]:
        self.ctx.watermark_us = watermark_us
        self.function.on_watermark(watermark_us, self.ctx)
        return self.taken()

    def taken(self) -> list[tuple[Any, ...]]:
        sent, self.ctx.sent = self.ctx.sent, []
        found: list[tuple[Any, ...]] = []
        for _, batch in sent:
            columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
            found.extend(zip(*(column.to_pylist() for column in columns), strict=True))
        return sorted(found, key=repr)


def by_x(kind: RankKind, k: int = 2, column: str | None = None) -> Ranking:
    return Ranking((Order(X),), k, kind, column)


def test_a_row_that_is_overtaken_is_removed() -> None:
    driver = Driver(RunningTop(SCHEMA, ("k",), by_x(RankKind.RANK)))
    assert driver.process(("a", 1, 0), ("a", 2, 0), ("b", 1, 0)) == [
        ("a", 1, 0, 1),
        ("a", 2, 0, 1),
        ("b", 1, 0, 1),
    ]
    assert driver.process(("a", 3, 0)) == [("a", 1, 0, -1), ("a", 3, 0, 1)]
    assert driver.process(("a", 2, 1)) == [("a", 2, 1, 1)]
    assert driver.process(("a", 0, 0), ("a", 1, 5)) == []
    assert driver.process(("a", 4, 0)) == [("a", 2, 0, -1), ("a", 2, 1, -1), ("a", 4, 0, 1)]
    assert driver.function.rows.num_rows < 20  # type: ignore[attr-defined]


def test_numbers_follow_all_columns_where_rows_tie() -> None:
    driver = Driver(RunningTop(SCHEMA, (), by_x(RankKind.ROW_NUMBER, 2, "place")))
    assert driver.process(("a", 7, 0), ("b", 7, 0)) == [("a", 7, 0, 2, 1), ("b", 7, 0, 1, 1)]
    assert driver.process(("b", 7, 0)) == [("a", 7, 0, 2, -1), ("b", 7, 0, 2, 1)]
    assert driver.process(("c", 8, 0)) == [("b", 7, 0, 1, -1), ("c", 8, 0, 1, 1)]


def test_what_is_never_removed_needs_no_weights() -> None:
    driver = Driver(RunningTop(SCHEMA, ("k",), by_x(RankKind.ROW_NUMBER, 1), retracts=False))
    assert driver.process(("a", 1, 0), ("a", 2, 0)) == [("a", 2, 0)]
    assert driver.process(("a", 1, 0)) == []
    assert driver.process(("a", 3, 0), ("b", None, 0)) == [("a", 3, 0), ("b", None, 0)]


def test_a_removal_may_come_first() -> None:
    given = weighted_schema(SCHEMA)
    driver = Driver(RunningTop(SCHEMA, ("k",), by_x(RankKind.DENSE_RANK, 1, "place"), changing=True), given)
    assert driver.process(("a", 5, 0, -1), ("a", 4, 0, 1)) == [("a", 4, 0, 1, 1)]
    assert driver.process(("a", 5, 0, 1)) == []
    assert driver.process(("a", 5, 0, 2)) == [("a", 4, 0, 1, -1), ("a", 5, 0, 1, 2)]
    assert driver.process(("a", 5, 0, -2)) == [("a", 4, 0, 1, 1), ("a", 5, 0, 1, -2)]
    assert driver.process(("a", 4, 0, -1)) == [("a", 4, 0, 1, -1)]


def test_ranks_in_windows() -> None:
    values = [("a", 5, 1), ("b", 7, 2), ("c", 5, 3), ("d", 4, 4), ("e", None, 5)]
    expected = {
        RankKind.RANK: [("a", 2), ("b", 1), ("c", 2), ("d", 4)],
        RankKind.DENSE_RANK: [("a", 2), ("b", 1), ("c", 2), ("d", 3), ("e", 4)],
        RankKind.ROW_NUMBER: [("a", 3), ("b", 1), ("c", 2), ("d", 4)],
    }
    for kind, places in expected.items():
        driver = Driver(WindowTop(SCHEMA, (), EventTime("t"), Tumbling(10), by_x(kind, 4, "place")))
        driver.process(*values)
        assert [(row[0], row[-1]) for row in driver.watermark(10)] == places
    orders = (Order(X, False), Order(compile_scalar("k", SCHEMA)))
    driver = Driver(WindowTop(SCHEMA, (), EventTime("t"), Tumbling(10), Ranking(orders, 3, RankKind.ROW_NUMBER)))
    driver.process(*values)
    assert [row[0] for row in driver.watermark(10)] == ["c", "d", "e"]
    least = Driver(WindowTop(SCHEMA, (), EventTime("t"), Tumbling(10), ranking(X, 1, descending=False)))
    least.process(*values)
    assert [row[0] for row in least.watermark(10)] == ["e"]


def test_the_first_row_of_a_key_is_kept() -> None:
    driver = Driver(FirstRows(SCHEMA, ("k",)))
    assert driver.process(("a", 1, 0), ("b", 2, 0), ("a", 3, 0), (None, 4, 0)) == [
        ("a", 1, 0),
        ("b", 2, 0),
        (None, 4, 0),
    ]
    assert driver.process(("b", 1, 0), (None, 1, 0)) == []
    assert driver.process() == []
    assert driver.process(("c", 1, 0), ("c", 1, 0)) == [("c", 1, 0)]


def test_within_a_time_rows_that_are_far_apart_are_no_duplicates() -> None:
    function = FirstRows(SCHEMA, ("k",), EventTime("t"), 10)
    driver = Driver(function)
    assert driver.process(("a", 1, 50), ("a", 2, 40), ("a", 3, 39), ("a", 4, 61), ("b", 5, None)) == [
        ("a", 1, 50),
        ("a", 3, 39),
        ("a", 4, 61),
    ]
    assert driver.process(("a", 6, 55), ("a", 7, 71), ("a", 8, 72)) == [("a", 8, 72)]
    assert driver.watermark(60) == []
    assert driver.process(("a", 9, 59), ("b", 9, 59), ("b", 9, 60)) == [("b", 9, 60)]
    assert driver.ctx.counts == {"late_rows": 2}
    driver.watermark(1_000)
    assert function.seen.num_rows == 0
    assert driver.process(("a", 1, 1_000)) == [("a", 1, 1_000)]
