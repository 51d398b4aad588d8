"""Rollups, cubes and grouping sets: what the plan has of them, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stretto import App, sinks, sources, tumbling
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.plan import AggregateNode
from stretto.coordinator.records import JobStatus
from stretto.errors import ExpressionError, PlanError
from stretto.simulator.engine.cluster import SimulatedCluster

BID = "at timestamp, auction bigint, bidder string, price bigint"
ROWS = [{"at": place, "auction": place % 3 or None, "bidder": "xyz"[place % 2], "price": place} for place in range(20)]


def bids(app: App | None = None) -> Any:
    return (app or App("a")).source("bids", sources.memory(ROWS, BID), time="at")


def test_the_result_has_the_keys_and_what_was_asked_for() -> None:
    stream = bids().rollup("Auction", "bidder").aggregate("count(*) AS n", "grouping(bidder)", g="grouping_id()")
    assert stream.schema.names == ["auction", "bidder", "n", "grouping(bidder)", "g"]
    assert stream.schema.types == [pa.int64(), pa.string(), pa.int64(), pa.int8(), pa.int64()]


def test_rows_replace_each_other_by_the_keys_and_the_number_of_the_set() -> None:
    numbered = bids().cube("auction").aggregate("count(*) AS n", "grouping_id() AS g")
    assert (numbered._node.changes_by, numbered._node.removes) == (("auction", "g"), False)
    # A NULL of the rows and one of a set are the same key then.
    plain = bids().cube("auction").aggregate("count(*) AS n")
    assert (plain._node.changes_by, plain._node.removes) == (None, True)


def test_windows_keep_their_time() -> None:
    stream = bids().rollup("auction").window(tumbling("10 s")).aggregate("count(*) AS n")
    assert stream.schema.names == ["auction", "window_start", "window_end", "n"]
    assert stream.time.column == "window_end"
    assert not stream._node.changes


def test_a_running_rollup_is_that_of_a_brute_force_model() -> None:
    app = App("a")
    stream = (
        bids(app).rollup("auction", "bidder").aggregate("sum(price) AS total", "max(auction) AS most", spill="1 MB")
    )
    stream.sink(sinks.collect(), name="out")
    cluster = SimulatedCluster(2, seed=1)
    job = cluster.submit(lowered(app.plan(), "app", 3, 4))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    expected = []
    for keys in (("auction", "bidder"), ("auction",), ()):
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in ROWS:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        for group, found in groups.items():
            most = [row["auction"] for row in found if row["auction"] is not None]
            expected.append(
                (*group, *(None,) * (2 - len(keys)), sum(r["price"] for r in found), max(most, default=None))
            )
    rows = final_rows(job.writers["out"].table(), app.plan().sink_named("out")).to_pylist()
    assert sorted((tuple(row.values()) for row in rows), key=repr) == sorted(expected, key=repr)


def test_each_aggregate_is_computed_once() -> None:
    app = App("a")
    bids(app).cube("auction").aggregate("sum(price) / count(*) AS mean", "sum(price)", name="t").sink(sinks.collect())
    node = app.plan().nodes["t"]
    assert isinstance(node, AggregateNode)
    assert [getattr(call, "sql", None) for call in node.calls] == ["sum(price)", "count(*)"]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "rollup on 'bids' names no column": lambda s: s.rollup(),
    "a cube of 8 columns has 256 sets": lambda s: s.cube(*(f"price + {n} AS p{n}" for n in range(8))),
    "rollup on 'bids' names a column twice": lambda s: s.rollup("auction", "AUCTION"),
    "grouping_sets on 'bids' has the same set twice": lambda s: s.grouping_sets(
        [["auction", "bidder"], ["bidder", "auction"]]
    ),
    "no set has price": lambda s: s.grouping_sets([["auction"]], "auction", "price"),
    "'price' of a set is not among the columns": lambda s: s.grouping_sets([["price"]], "auction"),
    "rollup cannot follow 'bids.aggregate'": lambda s: s.key_by("auction").aggregate("count(*)").rollup("auction"),
    "that name is reserved": lambda s: s.select("*", "price AS __grouping_id").rollup("auction"),
    "cannot rank the rows of grouping sets": lambda s: s.rollup("auction").window(tumbling("1 s")).top(1, by="price"),
}


@pytest.mark.parametrize("needle", REFUSED)
def test_refused_by_name(needle: str) -> None:
    with pytest.raises(PlanError) as caught:
        REFUSED[needle](bids())
    assert needle in str(caught.value)


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("grouping(price)", "'price' is not a key"),
        ("grouping(auction, bidder)", "grouping takes one column"),
        ("grouping_id(bidder, auction)", "the columns of grouping_id are not the keys"),
        ("grouping(auction) FILTER (WHERE price > 1)", "grouping takes columns and nothing else"),
        ("price + grouping(auction)", "column 'price' is neither a key nor inside an aggregate"),
        ("sum(grouping(auction))", "grouping inside sum is not supported"),
    ],
)
def test_expressions_refused(text: str, needle: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        bids().rollup("auction", "bidder").aggregate(text)
    assert needle in str(caught.value)


@pytest.mark.parametrize("text", ["grouping(auction)", "count(*) + grouping_id()"])
def test_the_words_of_grouping_sets_need_some(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"use it in the aggregate after rollup\(\.\.\.\)"):
        bids().key_by("auction").aggregate(text)
