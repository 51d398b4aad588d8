"""Verbs that change some columns and keep the rest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Stream, sources, tumbling
from stretto.api.plan import SelectNode
from stretto.errors import ExpressionError, PlanError, StrettoError
from stretto.operators.windows import EventTime

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROWS = [{"auction": 1, "price": 20, "at": NOW}, {"auction": 2, "price": None, "at": NOW}]


def bids() -> Stream:
    source = sources.memory(ROWS, "auction bigint, price bigint, at timestamp")
    return App("app").source("bids", source, time="at")


def rows_of(stream: Stream) -> list[dict[str, Any]]:
    """Returns what a select makes of the rows above, without the time."""
    node = stream._node
    assert isinstance(node, SelectNode)
    batch = pa.RecordBatch.from_pylist(ROWS, schema=node.projection.input_schema)
    made = node.projection.evaluate(batch).drop_columns([name for name in node.schema.names if name == "at"])
    rows: list[dict[str, Any]] = made.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("act", "first", "names"),
    [
        (lambda s: s.with_column("twice", "2 * price"), {"twice": 40}, ["auction", "price", "at", "twice"]),
        (lambda s: s.with_column("price", "2 * price"), {"price": 40}, ["auction", "price", "at"]),
        (lambda s: s.with_column("PRICE", "2 * price AS p"), {"PRICE": 40}, ["auction", "PRICE", "at"]),
        (lambda s: s.with_column("a column", "1"), {"a column": 1}, ["auction", "price", "at", "a column"]),
        (
            lambda s: s.with_columns({"price": "auction", "auction": "price"}),
            {"price": 1, "auction": 20},
            ["auction", "price", "at"],
        ),
        (lambda s: s.with_columns(x="price + 1", y="price"), {"x": 21, "y": 20}, ["auction", "price", "at", "x", "y"]),
        (lambda s: s.drop("price"), {"auction": 1}, ["auction", "at"]),
        (lambda s: s.drop(["Price", "at"]), {"auction": 1}, ["auction"]),
        (lambda s: s.rename({"price": "amount"}), {"amount": 20}, ["auction", "amount", "at"]),
        (lambda s: s.rename({"price": "auction", "AUCTION": "price"}), {"price": 1}, ["price", "auction", "at"]),
        (lambda s: s.select("*", "2 * price AS price"), {"price": 40}, ["auction", "price", "at"]),
        (lambda s: s.select("*", price="2 * price", n="1"), {"price": 40, "n": 1}, ["auction", "price", "at", "n"]),
        (lambda s: s.select("1 AS n", "*", price="auction"), {"price": 1}, ["n", "auction", "price", "at"]),
    ],
)
def test_some_columns_change_and_the_rest_stays(
    act: Callable[[Stream], Stream], first: dict[str, Any], names: list[str]
) -> None:
    stream = act(bids())
    assert stream.schema.names == names
    row = rows_of(stream)[0]
    assert {name: row[name] for name in first} == first


def test_event_time_and_keys_follow_their_columns() -> None:
    assert bids().rename({"at": "when"}).time == EventTime("when")
    assert bids().with_column("copy", "at").time == EventTime("at")
    assert bids().with_column("at", "at + INTERVAL 1 HOUR").time is None
    assert bids().drop("at").time is None
    totals = bids().key_by("auction").aggregate(n="count(*)", name="totals")
    assert totals.rename({"auction": "id"})._node.changes_by == ("id",)
    assert totals.with_column("share", "n / 2")._node.changes_by == ("auction",)
    assert not totals._node.removes
    assert totals.drop("auction")._node.changes_by is None
    assert totals.drop("auction")._node.removes


def test_rows_that_a_function_makes() -> None:
    made = bids().select("at", "explode(array(auction, price)) AS number")
    assert (made.schema.names, made.time) == (["at", "number"], EventTime("at"))
    assert rows_of(made) == [{"number": 1}, {"number": 20}, {"number": 2}, {"number": None}]
    replaced = bids().with_column("price", "explode(array(price, 0L))")
    assert replaced.schema.names == ["auction", "price", "at"]
    assert [row["price"] for row in rows_of(replaced)] == [20, 0, None, 0]
    totals = bids().key_by("auction").aggregate(n="count(*)", name="totals")
    with pytest.raises(PlanError, match="select on 'totals' makes rows of rows that change"):
        totals.select("auction", "explode(array(n)) AS m")


@pytest.mark.parametrize(
    ("act", "kind", "parts"),
    [
        (lambda s: s.drop("prize"), ExpressionError, ("prize", "did you mean 'price'")),
        (lambda s: s.rename({"prize": "p"}), ExpressionError, ("prize", "did you mean 'price'")),
        (lambda s: s.rename({"price": "auction"}), ExpressionError, ("two columns are named 'auction'",)),
        (lambda s: s.drop("auction", "price", "at"), PlanError, ("drop on 'bids' leaves no column",)),
        (lambda s: s.drop(), PlanError, ("drop on 'bids' names no column",)),
        (lambda s: s.with_columns({}), PlanError, ("with_columns on 'bids' changes no column",)),
        (lambda s: s.rename({}), PlanError, ("rename on 'bids' renames no column",)),
        (lambda s: s.with_columns({"a": "1", "A": "2"}), PlanError, ("sets column 'A' twice",)),
        (lambda s: s.select("*", "price"), ExpressionError, ("two columns are named 'price'",)),
    ],
)
def test_what_cannot_change_is_refused(
    act: Callable[[Stream], Stream], kind: type[StrettoError], parts: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        act(bids())
    for part in parts:
        assert part in str(caught.value), caught.value


@pytest.mark.parametrize(
    ("act", "word"),
    [
        (lambda s: s.withColumn("twice", "2 * price"), "with_column("),
        (lambda s: s.orderBy("price"), 'top(10, by="price DESC")'),
        (lambda s: s.withColumnRenamed("price", "amount"), 'rename({"old": "new"})'),
        (lambda s: s.where("price > 1"), "filter("),
        (lambda s: s.groupBy("auction"), "key_by("),
        (lambda s: s.selectExpr("price"), "select("),
        (lambda s: s.withWatermark("at", "1 s"), 'delay="10 seconds"'),
        (lambda s: s.key_by("auction").agg("count(*)"), "aggregate("),
        (lambda s: s.key_by("auction").window(tumbling("1 s")).count(), 'aggregate(n="count(*)")'),
    ],
)
def test_pysparks_words_lead_to_those_here(act: Callable[[Any], Any], word: str) -> None:
    with pytest.raises(PlanError, match="PySpark's name") as caught:
        act(bids())
    assert word in str(caught.value)


def test_other_attributes_are_missing_as_usual() -> None:
    assert not hasattr(bids(), "withColumn")
    with pytest.raises(AttributeError, match="'Stream' object has no attribute 'frobnicate'"):
        _ = bids().frobnicate  # type: ignore[attr-defined]
