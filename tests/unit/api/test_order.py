"""The direction of `top`: named in its text, or given as an argument."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from stretto import App, sources, tumbling
from stretto.api.plan import TopNode
from stretto.errors import ExpressionError, PlanError

ROWS = [{"price": 2, "desc": 3, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}]


def top(by: str, **options: Any) -> TopNode:
    bids = App("app").source("bids", sources.memory(ROWS, "price bigint, desc int, at timestamp"), time="at")
    node = bids.window(tumbling("1 s")).top(1, by, **options)._node
    assert isinstance(node, TopNode)
    return node


@pytest.mark.parametrize(
    ("by", "options", "sql", "descending"),
    [
        ("price", {}, "price", True),
        ("price", {"descending": False}, "price", False),
        ("price ASC", {}, "price", False),
        ("price asc", {"descending": False}, "price", False),
        ("price DESC", {}, "price", True),
        ("-price * 2 desc", {}, "-price * 2", True),
        ("desc", {}, "desc", True),
        ("desc ASC", {}, "desc", False),
    ],
)
def test_direction(by: str, options: dict[str, bool], sql: str, descending: bool) -> None:
    node = top(by, **options)
    (order,) = node.ranking.orders
    assert (order.by.sql, order.descending) == (sql, descending)


def test_two_directions_are_refused() -> None:
    with pytest.raises(PlanError, match="two directions"):
        top("price DESC", descending=False)


@pytest.mark.parametrize(
    ("by", "needle"),
    [
        ("price AS cost", "an order has no name of its own"),
        ("price AS desc", "an order has no name of its own"),
        ("price cost", "an order has no name of its own"),
        ("price ASC NULLS LAST", "nulls come first with ASC and last with DESC"),
        ("price DESC NULLS LAST", "nulls come first with ASC and last with DESC"),
        ("ASC price", "an order has no name of its own"),
    ],
)
def test_names_and_places_of_nulls_are_refused(by: str, needle: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        top(by)
    assert needle in str(caught.value)
