"""The transactor and the sequential order book against examples worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.elastic_runs import applied, orders

from stretto.bench.elastic import transactor
from stretto.bench.elastic.checks import Answer, check
from stretto.bench.elastic.orders import BUY, SELL, Orders
from stretto.bench.elastic.sequential_book import trades_of
from stretto.bench.elastic.trades import TRADES
from stretto.bench.elastic.transactor import Transactor
from stretto.bench.verify import Match, Side

ANNA, BERT, CARL, DORA = range(4)
VALID_US = 1_000


def by_transactor(table: pa.Table) -> pa.Table:
    return applied(Transactor(VALID_US), table.to_batches(max_chunksize=1), TRADES)


def by_model(table: pa.Table) -> pa.Table:
    return trades_of(table, VALID_US)


MATCHERS = pytest.mark.parametrize("matched", [by_transactor, by_model], ids=["transactor", "model"])
Matched = Callable[[pa.Table], pa.Table]


def shown(trades: pa.Table) -> list[tuple[Any, ...]]:
    """Returns price, volume, buyer, seller, and the orders of both, of each trade."""
    columns = ("price", "volume", "buyer", "seller", "buy_order", "sell_order")
    return list(zip(*(trades.column(name).to_pylist() for name in columns), strict=True))


@MATCHERS
def test_the_best_price_comes_first_and_what_is_left_waits(matched: Matched) -> None:
    found = matched(
        orders(
            (1, 7, ANNA, SELL, 10, 100),
            (2, 7, BERT, SELL, 9, 100),
            (3, 7, CARL, BUY, 10, 150),
            (4, 7, DORA, BUY, 10, 80),
            (5, 7, ANNA, SELL, 10, 30),
        )
    )
    assert shown(found) == [
        (9, 100, CARL, BERT, 3, 2),
        (10, 50, CARL, ANNA, 3, 1),
        (10, 50, DORA, ANNA, 4, 1),
        (10, 30, DORA, ANNA, 4, 5),
    ]
    assert found.column("trade").to_pylist() == [1, 2, 3, 4]
    assert found.column("cash").to_pylist() == [900, 500, 500, 300]
    assert found.column("t").cast(pa.int64()).to_pylist() == [3, 3, 4, 5]


@MATCHERS
def test_of_one_price_the_earliest_comes_first(matched: Matched) -> None:
    found = matched(
        orders(
            (1, 7, ANNA, BUY, 10, 10),
            (1, 7, BERT, BUY, 10, 10),
            (2, 7, CARL, BUY, 11, 10),
            (3, 7, DORA, SELL, 1, 25),
        )
    )
    assert shown(found) == [(11, 10, CARL, DORA, 3, 4), (10, 10, ANNA, DORA, 1, 4), (10, 5, BERT, DORA, 2, 4)]


@MATCHERS
def test_a_part_that_was_filled_keeps_its_place(matched: Matched) -> None:
    found = matched(
        orders(
            (1, 7, ANNA, SELL, 10, 10),
            (2, 7, BERT, SELL, 10, 10),
            (3, 7, CARL, BUY, 10, 4),
            (4, 7, CARL, BUY, 10, 8),
        )
    )
    assert shown(found) == [(10, 4, CARL, ANNA, 3, 1), (10, 6, CARL, ANNA, 4, 1), (10, 2, CARL, BERT, 4, 2)]


@MATCHERS
def test_prices_that_do_not_meet_are_no_trade_and_stocks_are_apart(matched: Matched) -> None:
    assert matched(orders((1, 7, ANNA, SELL, 11, 5), (2, 7, BERT, BUY, 10, 5), (3, 8, CARL, BUY, 11, 5))).num_rows == 0


@MATCHERS
def test_the_best_prices_after_a_trade_are_those_that_wait(matched: Matched) -> None:
    found = matched(
        orders(
            (1, 7, ANNA, SELL, 12, 5),
            (1, 7, ANNA, SELL, 13, 5),
            (2, 7, BERT, BUY, 8, 5),
            (3, 7, CARL, BUY, 13, 7),
            (4, 7, CARL, BUY, 20, 9),
        )
    )
    bids, asks = (found.column(name).to_pylist() for name in ("bid", "ask"))
    assert list(zip(found.column("price").to_pylist(), bids, asks, strict=True)) == [
        (12, 8, 13),
        (13, 8, 13),
        (13, 8, 0),
    ]


@MATCHERS
def test_an_order_is_valid_for_a_time(matched: Matched) -> None:
    found = matched(
        orders(
            (0, 7, ANNA, SELL, 9, 5),
            (1, 7, BERT, SELL, 10, 5),
            (VALID_US, 7, CARL, BUY, 10, 3),
            (VALID_US + 1, 7, CARL, BUY, 10, 3),
            (2 * VALID_US, 7, DORA, SELL, 10, 3),
        )
    )
    # Anna's order has expired when Carl's first one comes, Bert's when the second one comes, which waits for Dora's.
    assert shown(found) == [(10, 3, CARL, BERT, 3, 2), (10, 3, CARL, DORA, 4, 5)]


def test_orders_that_have_expired_leave_the_book() -> None:
    function = Transactor(VALID_US)
    table = orders(*((t, 7, ANNA, BUY, 1 + t % 50, 5) for t in range(0, 50_000, 10)))
    applied(function, table.to_batches(max_chunksize=100), TRADES)
    # Those of one time of validity wait, and at most as many have expired since the book was cleared.
    assert sum(map(len, function.books[7])) <= 2 * VALID_US // 10


@MATCHERS
def test_what_is_bought_is_sold_and_nobody_gets_more_than_ordered(matched: Matched) -> None:
    table = Orders(events=5_000, stocks=5, users=50).table()
    filled: dict[int, int] = {}
    for trade in matched(table.set_column(0, "t", pa.array([0] * 5_000, table.schema.field(0).type))).to_pylist():
        for order in (trade["buy_order"], trade["sell_order"]):
            filled[order] = filled.get(order, 0) + trade["volume"]
    ordered = dict(zip(table.column("number").to_pylist(), table.column("volume").to_pylist(), strict=True))
    assert len(filled) > 1_000
    assert all(volume <= ordered[order] for order, volume in filled.items())


# Planted faults

ORDERS = Orders(events=3_000, stocks=10, users=50).table()
EXPECTED = Answer(trades_of(ORDERS, 60_000_000), key="stock")


def verdict_on(function: Transactor, table: pa.Table) -> Any:
    return check(applied(function, table.to_batches(max_chunksize=100), TRADES), EXPECTED)


def test_without_a_fault_it_matches() -> None:
    assert verdict_on(Transactor(60_000_000), ORDERS).match is Match.MATCH


def test_a_swapped_pair_of_orders_of_one_stock_is_noticed() -> None:
    """Two sellers at one price: who came first is filled first."""
    table = orders((1, 7, ANNA, SELL, 10, 5), (2, 7, BERT, SELL, 10, 5), (3, 7, CARL, BUY, 10, 5))
    expected = Answer(by_model(table), key="stock")
    assert check(by_transactor(table), expected).match is Match.MATCH
    swapped = table.set_column(1, "number", pa.array([2, 1, 3]))
    verdict = check(by_transactor(swapped), expected)
    assert verdict.match is Match.MISMATCH
    assert {witness.side for witness in verdict.witness} == {Side.MISSING, Side.EXTRA}


def test_orders_of_one_stock_that_come_in_another_order_are_noticed() -> None:
    """A crossing pair: who waits decides the price, whatever their numbers are."""
    table = orders((1, 7, ANNA, SELL, 9, 5), (2, 7, BERT, BUY, 10, 5))
    verdict = check(by_transactor(table.take([1, 0])), Answer(by_model(table), key="stock"))
    assert verdict.match is Match.MISMATCH
    stocks = ORDERS.column("stock").to_pylist()
    caught = tried = 0
    for first in range(1_000, 1_200):
        if first + 1 < len(stocks) and stocks[first] == stocks[first + 1]:
            places = [*range(first), first + 1, first, *range(first + 2, len(stocks))]
            tried += 1
            caught += verdict_on(Transactor(60_000_000), ORDERS.take(places)).match is Match.MISMATCH
    # Two orders on one side at different prices may come in any order.
    assert 0 < caught <= tried


def test_a_lost_fill_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = check(EXPECTED.table.slice(1), EXPECTED)
    assert (verdict.match, verdict.missing) == (Match.MISMATCH, 1)
    whole = transactor.execute

    def first_fill_only(*order: Any) -> Any:
        return list(whole(*order))[:1]

    monkeypatch.setattr(transactor, "execute", first_fill_only)
    assert verdict_on(Transactor(60_000_000), ORDERS).match is Match.MISMATCH


def test_swapped_trades_of_one_stock_are_out_of_order() -> None:
    stocks = EXPECTED.table.column("stock").to_pylist()
    first = next(i for i in range(len(stocks)) if stocks[i] == stocks[i + 1])
    places = [*range(first), first + 1, first, *range(first + 2, len(stocks))]
    verdict = check(EXPECTED.table.take(places), EXPECTED)
    assert [witness.side for witness in verdict.witness] == [Side.ORDER, Side.ORDER]
