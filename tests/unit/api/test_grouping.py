"""Keys that are expressions, expressions over aggregates, and aggregates without a key: what the plan has of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto import App, sinks, sources, span, tumbling
from stretto.api.changes import last_by_key
from stretto.api.plan import AggregateNode, WindowAggregateNode
from stretto.api.relational import unsupported
from stretto.errors import ExpressionError, PlanError
from stretto.operators.user_aggregate import UserAggregate

BID = "at timestamp, auction bigint, bidder string, price bigint"


def bids(app: App | None = None, time: str | None = "at") -> Any:
    return (app or App("a")).source("bids", sources.memory([], BID), time=time)


def test_calls_alone_need_no_select() -> None:
    stream = bids().key_by("auction").aggregate("count(*) AS n", total="sum(price)")
    assert isinstance(stream._node, AggregateNode)
    assert stream.schema.names == ["auction", "n", "total"]


def test_a_call_is_computed_once() -> None:
    app = App("a")
    stream = (
        bids(app)
        .key_by("auction")
        .aggregate("sum(price) / count(*) AS mean", "sum(price) AS total", "SUM(price) + 1", rows="count(*)", name="t")
    )
    stream.sink(sinks.collect())
    nodes = app.plan().nodes
    aggregated = nodes["t"]
    assert isinstance(aggregated, AggregateNode)
    assert [getattr(call, "sql", None) for call in aggregated.calls] == ["sum(price)", "count(*)"]
    assert stream.schema.names == ["auction", "mean", "total", "SUM(price) + 1", "rows"]
    assert stream.schema.types == [pa.int64(), pa.float64(), pa.int64(), pa.int64(), pa.int64()]
    assert stream._node.changes_by == ("auction",)


def test_names_of_calls_do_not_collide_with_keys() -> None:
    app = App("a")
    keyed = bids(app).select("price", "auction AS `count(*)`").key_by("count(*)")
    stream = keyed.aggregate("count(*) + 1 AS more", name="t")
    stream.sink(sinks.collect())
    node = app.plan().nodes["t"]
    assert node.schema.names == ["count(*)", "count(*) #2"]
    assert stream.schema.names == ["count(*)", "more"]


def test_windows_keep_their_time_through_a_select() -> None:
    stream = bids().key_by("auction").window(tumbling("10 s")).aggregate("max(price) - min(price) AS spread")
    assert stream.time is not None
    assert stream.time.column == "window_end"
    assert stream.schema.names == ["auction", "window_start", "window_end", "spread"]
    again = stream.window(tumbling("1 min")).aggregate("avg(spread)")
    assert isinstance(again._node, WindowAggregateNode)


def test_a_users_aggregate_beside_an_expression() -> None:
    own = UserAggregate(list, lambda acc, rows: acc, lambda a, b: a, len, pa.int64(), ("price",), "own")
    stream = bids().key_by("auction").aggregate(own, "count(*) + 1 AS n", other=own)
    assert stream.schema.names == ["auction", "own", "n", "other"]


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("price + count(*)", "column 'price' is neither a key nor inside an aggregate"),
        ("auction + 1", "is not an aggregate"),
        ("count(*) + nothing", "unknown column 'nothing'"),
        ("count(*) + 'a'::date", "types do not match"),
    ],
)
def test_expressions_refused(text: str, needle: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        bids().key_by("auction").aggregate(text)
    assert needle in str(caught.value)


def test_a_key_may_be_an_expression() -> None:
    keyed = bids().key_by("Auction", "lower(bidder)", "price % 3 AS third")
    stream = keyed.aggregate("count(*) AS n", "third + count(*) AS more")
    assert stream.schema.names == ["auction", "lower(bidder)", "third", "n", "more"]
    assert stream._node.changes_by == ("auction", "lower(bidder)", "third")
    assert keyed._step.time is not None


def test_keys_refused() -> None:
    with pytest.raises(PlanError, match="has the name of a column"):
        bids().key_by("lower(bidder) AS bidder")
    with pytest.raises(ExpressionError, match="did you mean 'price'"):
        bids().key_by("pricee")


def test_rows_partitioned_by_a_key_stay_where_they_are() -> None:
    app = App("a", parallelism=3)
    first = bids(app).key_by("auction").window(tumbling("10 s")).aggregate("count(*) AS n", "max(price) + 1 AS m")
    first.key_by("auction", "n % 2 AS odd").window(tumbling("20 s")).aggregate("sum(m)").sink(sinks.collect())
    assert "(partition to partition)" in app.explain()


def test_an_aggregate_without_a_key() -> None:
    app = App("a", parallelism=4)
    stream = bids(app).aggregate("count(*) AS n", "max(price) - min(price) AS spread", name="all")
    assert stream._node.changes_by == ()
    stream.sink(sinks.collect())
    assert "all [x1]" in app.explain()
    assert unsupported(app.plan(), streaming=False) is None
    with pytest.raises(PlanError, match="its rows replace all earlier rows; Parquet"):
        stream.sink(sinks.parquet("out"))
    with pytest.raises(PlanError, match="has one partition"):
        bids().aggregate("count(*)", parallelism=2)
    with pytest.raises(PlanError, match="an aggregate without a key does not spill"):
        bids().aggregate("count(*)", spill="1 MB")
    with pytest.raises(PlanError, match="computes nothing"):
        bids().aggregate()


def test_the_last_row_without_a_key() -> None:
    table = pa.table({"n": [1, 2, 3]})
    assert last_by_key(table, ()).to_pylist() == [{"n": 3}]
    assert last_by_key(table.slice(0, 0), ()).to_pylist() == []


def test_first_needs_an_order() -> None:
    spanned = "a timestamp, b timestamp, x int"
    stream = App("a").source("rows", sources.memory([], spanned))
    with pytest.raises(PlanError, match="first in a window needs event time"):
        stream.window(span("a", "b")).aggregate("first(x)")
    app = App("b")
    bids(app, time=None).key_by("auction").aggregate("last(price) AS l").sink(sinks.collect())
    reason = unsupported(app.plan(), streaming=False)
    assert reason is not None
    assert "'l' of 'bids.aggregate' depends on the order of arrival" in reason


def test_distinct_is_refused_in_micro_batches() -> None:
    app = App("a")
    bids(app).key_by("auction").aggregate("sum(DISTINCT price) AS d").sink(sinks.collect())
    assert unsupported(app.plan(), streaming=False) is None
    reason = unsupported(app.plan(), streaming=True)
    assert reason is not None
    assert "'d' of 'bids.aggregate' has DISTINCT" in reason
