"""Bad input gets a clear error before anything runs: it names the cause and says what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Function, UserAggregate, hopping, objective, session, sinks, sources, span, tumbling
from stretto.actors.context import Context
from stretto.api import plan
from stretto.api.plan import checked
from stretto.errors import ExpressionError, PlanError, SourceError, StrettoError

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "auction bigint, price bigint, channel string, at timestamp"


def bids(app: App | None = None, name: str = "bids", time: str | None = "at") -> Any:
    rows = [{"auction": 1, "price": 2, "channel": "web", "at": NOW}]
    return (app or App("app")).source(name, sources.memory(rows, SCHEMA), time=time)


def expect_error(act: Callable[[], Any], kind: type[StrettoError], *parts: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    for part in parts:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"


@pytest.mark.parametrize(
    ("act", "parts"),
    [
        (lambda: bids().select("auction", "prize"), ("prize", "price")),
        (lambda: bids().filter("prise > 3"), ("prise", "prise > 3", "auction, price, channel, at")),
        (lambda: bids().key_by("seller"), ("seller", "auction")),
        (lambda: bids().window(tumbling("1 s")).aggregate("max(prize)"), ("prize",)),
        (lambda: bids().filter("channel + channel > 2"), ("channel + channel", "string")),
        (lambda: bids().filter("price"), ("price", "bool")),
        (lambda: bids().filter("price >"), ("price >",)),
        (lambda: bids().select("frobnicate(price)"), ("frobnicate",)),
        (lambda: bids().window(tumbling("1 s")).aggregate("median_of(price)"), ("median_of", "max")),
    ],
)
def test_expressions_name_what_is_wrong(act: Callable[[], Any], parts: tuple[str, ...]) -> None:
    expect_error(act, ExpressionError, *parts)


class Quiet(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def two_of_one_name() -> None:
    app = App("app")
    bids(app).filter("price > 1", name="cheap")
    app.stream("bids").filter("price > 2", name="cheap")


def other_app() -> None:
    bids().union(bids(App("other")))


@pytest.mark.parametrize(
    ("act", "parts"),
    [
        (two_of_one_name, ("two functions named 'cheap'", "name=")),
        (lambda: tumbling("-10 seconds"), ("tumbling", "-10 seconds", "positive")),
        (lambda: tumbling("0 s"), ("longer than zero",)),
        (
            lambda: App("a").source("s", sources.memory([{"n": 1}]), max_jump="0 s"),
            ("max_jump of source 's'", "longer"),
        ),
        (lambda: tumbling("ten seconds"), ("ten seconds", "10 seconds")),
        (lambda: hopping("10 s", "20 s"), ("slide", "longer than its size")),
        (lambda: session("-1 s"), ("gap", "positive")),
        (lambda: bids().key_by("auction").window(tumbling("1 s")).allowed_lateness("-1 s"), ("lateness", "-1 s")),
        (lambda: bids(time=None).window(tumbling("1 s")), ("event time", "bids", "time=")),
        (lambda: bids().select("price").window(tumbling("1 s")), ("event time", "select")),
        (lambda: bids().top(1, []), ("nothing to order by",)),
        (lambda: bids().top(1, "price", rank="Price"), ("cannot name its rank 'Price'",)),
        (lambda: bids().top(1, "price", ranking="best"), ("'best'", "row_number, rank, dense_rank")),
        (lambda: bids().top(1, "price", ties=False, ranking="rank"), ("two ways to rank",)),
        (lambda: bids().drop_duplicates("auction", keep="any"), ("keep='any'",)),
        (lambda: bids().drop_duplicates("auction", keep="last", within="1 s"), ("last row within a time",)),
        (lambda: bids().drop_duplicates("auction", within="-1 s"), ("within is negative",)),
        (lambda: bids().select("auction").drop_duplicates(keep="last"), ("no event time", "key_by")),
        (lambda: bids().select("auction").drop_duplicates(within="1 s"), ("needs event time",)),
        (lambda: bids().window(tumbling("1 s")).top(0, by="price"), ("at least one row",)),
        (lambda: bids().window(span("at", "price")), ("span", "price", "int64")),
        (lambda: bids().key_by(), ("key_by", "no column")),
        (lambda: bids().select(), ("no expressions",)),
        (lambda: bids().map(5), ("map", "int")),
        (lambda: bids().map(lambda b: 1 / 0), ("ZeroDivisionError", "schema=")),
        (lambda: bids().map(lambda b: 5, name="five"), ("five", "schema=")),
        (lambda: bids().apply(len, "n bigint"), ("stretto.Function", "map")),
        (lambda: bids().apply(Quiet(), "n bigint").output("late"), ("no output 'late'", "none")),
        (lambda: bids().union(bids(App("app"), "more").select("price")), ("different apps",)),
        (other_app, ("different apps",)),
        (lambda: bids().window(tumbling("1 s")).aggregate("count(*)", parallelism=3), ("one partition", "key_by")),
        (lambda: bids().filter("price > 1", parallelism=0), ("parallelism", "at least 1")),
        (lambda: App("a/b"), ("'a/b'", "without '/'")),
        (lambda: App("a", engine="turbo"), ("turbo", "microbatch")),
        (lambda: App("a").source("s", [1, 2]), ("takes a source", "list")),  # type: ignore[arg-type]
        (lambda: bids(time="price"), ("must be a timestamp", "price", "int64")),
        (lambda: App("a").stream("nope"), ("no stream 'nope'",)),
        (lambda: objective(throughput=1.5), ("juice", "1.5")),
        (lambda: objective(latency="-5 ms"), ("latency objective", "-5 ms")),
        (lambda: objective(percentile=0), ("percentile",)),
        (lambda: objective(share=0), ("share", "greater than zero")),
        (lambda: bids().key_by("auction").window(tumbling("1 s")).aggregate("max(price) AS m", m="min(price)"), ("m",)),
    ],
)
def test_plans_name_what_is_wrong(act: Callable[[], Any], parts: tuple[str, ...]) -> None:
    expect_error(act, PlanError, *parts)


def test_an_unknown_time_column_is_named() -> None:
    expect_error(lambda: bids(time="when"), ExpressionError, "when", "at")


def test_a_stream_that_reaches_no_sink_is_named() -> None:
    app = App("app")
    stream = bids(app)
    stream.sink(sinks.collect())
    stream.filter("price > 1", name="lost")
    expect_error(app.plan, PlanError, "'lost'", "reaches no sink", ".sink(")


def test_a_sink_is_found_by_its_name_or_by_being_the_only_one() -> None:
    app = App("app")
    stream = bids(app)
    stream.sink(sinks.null(), name="first")
    assert app.plan().sink_named(None).name == "first"
    stream.sink(sinks.null(), name="second")
    expect_error(lambda: app.plan().sink_named(None), PlanError, "several sinks", "first, second")
    expect_error(lambda: app.plan().sink_named("third"), PlanError, "no sink 'third'", "first, second")
    stream.sink(sinks.collect(), name="kept")
    assert app.plan().sink_named(None).name == "kept"


def test_an_empty_app_says_so() -> None:
    expect_error(App("empty").plan, PlanError, "empty", "source")


def test_a_cycle_is_shown() -> None:
    """The verbs cannot make a cycle; a plan built by hand can have one."""
    schema = pa.schema([("n", pa.int64())])
    nodes = {
        name: plan.UnionNode(name=name, inputs=(parent,), schema=schema) for name, parent in (("a", "b"), ("b", "a"))
    }
    expect_error(lambda: checked("app", dict(nodes), objective()), PlanError, "cycle", "a -> b", "b -> a")


def test_joins_name_the_columns_that_do_not_fit() -> None:
    app = App("app")
    left, right = bids(app), bids(app, "right")
    expect_error(lambda: left.join(right, on="auction = seller"), ExpressionError, "seller")
    expect_error(
        lambda: left.join(right, on="left.auction < left.price"), PlanError, "no key", "left.auction < left.price"
    )
    expect_error(
        lambda: left.interval_join(right, on="auction", lower="price", upper="at"), PlanError, "price", "timestamp"
    )
    expect_error(lambda: left.window_join(right, on="auction"), PlanError, "window_join", "window_start")
    expect_error(lambda: left.union(right.select("price")), PlanError, "columns differ")


def test_a_stream_of_changes_cannot_be_mapped() -> None:
    totals = bids().key_by("auction").aggregate(total="sum(price)")
    expect_error(lambda: totals.map(lambda batch: batch), PlanError, "map cannot follow", "auction")
    expect_error(lambda: totals.select("total").map(lambda batch: batch), PlanError, "can be removed again")


def test_a_user_aggregate_names_its_missing_column() -> None:
    aggregate = UserAggregate(int, lambda a, rows: a, lambda a, b: a, lambda a: a, pa.int64(), ("prize",))
    expect_error(lambda: bids().key_by("auction").aggregate(aggregate), ExpressionError, "prize")


def test_a_missing_file_is_named() -> None:
    expect_error(
        lambda: App("a").source("s", sources.parquet("/nowhere/bids.parquet")), SourceError, "/nowhere/bids.parquet"
    )
