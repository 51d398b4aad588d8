"""The orders of the stock exchange: 96 bytes, and stocks whose popularity and price change as in figure 18."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stretto.bench.elastic import market
from stretto.bench.elastic.orders import BUY, ORDER_BYTES, SELL, Orders
from stretto.bench.elastic.sequential_book import trades_of
from stretto.bench.elastic.trades import TRADE_BYTES

SEEDS = range(1, 6)
PERIODS = 120


def rates(orders: Orders, periods: int) -> np.ndarray:
    """Returns the orders of each stock in each period, those of the five most popular stocks."""
    numbers = np.arange(round(periods * orders.period_s * orders.rate))
    stocks = orders.keys(numbers)
    popular = np.argsort(-np.bincount(stocks, minlength=orders.stocks), kind="stable")[:5]
    by_period = [np.bincount(stocks[orders.periods(numbers) == p], minlength=orders.stocks) for p in range(periods)]
    return np.array(by_period)[:, popular]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_popularity_of_stocks_wavers_and_at_times_rises_to_a_multiple(seed: int) -> None:
    found = rates(Orders(seed=seed, stocks=200, rate=2_000.0, period_s=1.0), PERIODS)
    level = np.median(found, axis=0)
    # Each of the five wavers around its level ...
    assert (found.std(axis=0) > 0.15 * level).all()
    # ... and another one is the first at different times.
    assert len(set(found.argmax(axis=1).tolist())) > 1


def test_news_raise_a_stock_to_a_multiple_and_fade() -> None:
    weights = np.array([market.popularity(3, 100, 0.8, period) for period in range(PERIODS)])
    level = np.median(weights, axis=0)
    peaks = (weights > 3 * level).sum(axis=0)
    assert 5 < (peaks > 0).sum() < 90, "some stocks have news, others not"
    # They fade: nobody is at three times its level in a quarter of all periods.
    assert peaks.max() < PERIODS / 4
    assert (weights / level).max() > 8


def test_weights_can_be_drawn_from_whatever_happens() -> None:
    for stocks, skew in ((1, 0.0), (10, 3.0), (1_000, 0.8)):
        for period in range(300):
            weights = market.popularity(1, stocks, skew, period)
            assert weights.min() >= 1
            assert weights.sum() < 2**32


def test_prices_move_and_stay_near_where_they_began() -> None:
    found = np.array([market.prices(2, 300, period) for period in range(PERIODS)])
    first = np.median(found, axis=0)
    assert found.min() > 0
    assert (np.abs(found - first) / first).max() < market.PRICE_MEMORY * market.STEP_MAX * market.NEWS_STEP / 1_000
    assert (found.std(axis=0) / first > 0.001).mean() > 0.9
    moves = np.abs(np.diff(found, axis=0)) / first
    # A step enters and another one leaves the sum.
    assert moves.max() <= 2 * market.NEWS_STEP * market.STEP_MAX / 1_000 + 0.005


def test_orders_and_trades_have_the_bytes_of_the_paper() -> None:
    orders = Orders(events=20_000, stocks=20).table()
    orders.validate(full=True)
    trades = trades_of(orders, 10**9)
    offsets = 4  # Arrow's, for the padding.
    assert abs(orders.nbytes / orders.num_rows - ORDER_BYTES - offsets) < 0.1
    assert abs(trades.nbytes / trades.num_rows - TRADE_BYTES - offsets) < 0.1


def test_buyers_and_sellers_meet_about_the_price_of_the_stock() -> None:
    orders = Orders(events=50_000, stocks=20, users=100)
    rows = orders.table()
    sides, prices = rows.column("side").to_numpy(), rows.column("price").to_numpy()
    assert set(sides.tolist()) == {BUY, SELL}
    assert abs(sides.mean() - 0.5) < 0.01
    stocks, users = rows.column("stock").to_numpy(), rows.column("user").to_numpy()
    middle = np.array([np.median(prices[stocks == stock]) for stock in range(20)])
    apart = (prices - middle[stocks]) / middle[stocks]
    assert -0.01 < apart[sides == BUY].mean() < 0 < apart[sides == SELL].mean() < 0.01
    assert (users.min(), users.max()) == (0, 99)
    volumes = rows.column("volume").to_numpy()
    assert (volumes % 100 == 0).all()
    assert 0.005 < (volumes > 2_000).mean() < 0.015
    trades = trades_of(rows, 10**9)
    assert 0.3 * orders.events < trades.num_rows < 2 * orders.events


def test_the_rows_of_any_selection_of_numbers_are_those_of_the_whole() -> None:
    orders = Orders(events=9_000, stocks=30, period_s=0.1)
    some = np.array([0, 17, 999, 1_000, 4_095, 4_096, 8_999])
    assert pa.Table.from_batches([orders.rows(some)]).equals(orders.table().take(some))
