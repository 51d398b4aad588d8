"""The functions of the stock exchange that look at each trade of a stock in its order (elasticutor.txt 5.4).

The moving average is a statistic: it sends a row for each trade. The other five are events, which are rare.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic.numbered import TIME
from stretto.bench.elastic.rules import Rules
from stretto.bench.elastic.trades import batch_of, numbers_of
from stretto.state import MapState


def _schema(*columns: str) -> pa.Schema:
    return pa.schema([("t", TIME), *((name, pa.int64()) for name in ("stock", "trade", *columns))])


AVERAGES = pa.schema([*_schema(), ("average", pa.float64())])
ALARMS = _schema("price", "limit")
SPIKES = _schema("volume", "usual")
WASHES = _schema("buyer", "seller", "since_us")
HALTS = _schema("price", "before")
LARGE_ORDERS = _schema("order", "cash")


class PerTrade(Function):
    """The base of functions that look at trades one by one. A subclass names its columns and keeps a list per stock."""

    columns: tuple[str, ...] = ()
    """What it reads after the time and the stock."""
    result: pa.Schema
    stocks: MapState[int, list[Any]] = MapState()

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        rows = []
        for t, stock, trade, *values in numbers_of(batch, "t", "stock", "trade", *self.columns):
            known = self.stocks.get(stock)
            if known is None:
                known = self.stocks[stock] = []
            found = self.look(known, t, *values)
            if found is not None:
                rows.append((t, stock, trade, *found))
        ctx.send(batch_of(rows, self.result))

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        """Updates what is known of the stock, which is empty at first; returns what is sent of this trade, if
        anything."""
        raise NotImplementedError


class MovingAverage(PerTrade):
    """The mean price of the last trades, for each trade."""

    columns = ("price",)
    result = AVERAGES

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...]:
        known.extend(values)
        del known[: -self._rules.average_trades]
        return (sum(known) / len(known),)


class PriceAlarm(PerTrade):
    """A price that rises above the limit of its stock; again after it has been at or below it."""

    columns = ("price",)
    result = ALARMS

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        (price,) = values
        if not known:
            known[:] = [price * (100 + self._rules.alarm_percent) // 100, False]
        limit, was_above = known
        known[1] = price > limit
        return (price, limit) if known[1] and not was_above else None


class VolumeSpike(PerTrade):
    """The trade with which the volume of an interval is a multiple of the mean of those before it.

    Only intervals with trades count. It is sent once per interval."""

    columns = ("volume",)
    result = SPIKES

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        (volume,) = values
        rules = self._rules
        start = t - t % rules.interval_us
        if not known:
            known[:] = [start, 0, False, []]
        if start != known[0]:
            earlier = [*known[3], known[1]][-rules.spike_intervals :]
            known[:] = [start, 0, False, earlier]
        known[1] += volume
        _, total, told, earlier = known
        if told or len(earlier) < rules.spike_intervals or total * len(earlier) <= rules.spike_factor * sum(earlier):
            return None
        known[2] = True
        return total, sum(earlier) // len(earlier)


class WashTrade(PerTrade):
    """A trade of a user with itself, or one that returns to a user what it sold to the other a short time ago."""

    columns = ("buyer", "seller")
    result = WASHES

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        buyer, seller = values
        if not known:
            known.append({})
        recent: dict[tuple[int, int], int] = known[0]
        while recent and t - recent[oldest := next(iter(recent))] > self._rules.wash_us:
            del recent[oldest]
        since = t if buyer == seller else recent.get((seller, buyer))
        # The latest trade is the last entry, so that the oldest is the first.
        recent.pop((buyer, seller), None)
        recent[buyer, seller] = t
        return None if since is None else (buyer, seller, t - since)


class CircuitBreaker(PerTrade):
    """A price that has moved too far within a short time. It is measured from the price at the last halt, or from the
    first one after that time has passed."""

    columns = ("price",)
    result = HALTS

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        (price,) = values
        if not known or t - known[1] >= self._rules.halt_us:
            known[:] = [price, t]
        before = known[0]
        if abs(price - before) * 100 <= self._rules.halt_percent * before:
            return None
        known[:] = [price, t]
        return price, before


class LargeOrder(PerTrade):
    """The trade with which an order has brought about a large amount of cash.

    The order that brings trades about is the later of the two. Its trades follow each other."""

    columns = ("buy_order", "sell_order", "cash")
    result = LARGE_ORDERS

    def look(self, known: list[Any], t: int, *values: int) -> tuple[Any, ...] | None:
        buy_order, sell_order, cash = values
        order = max(buy_order, sell_order)
        before = known[1] if known and known[0] == order else 0
        known[:] = [order, before + cash]
        return (order, before + cash) if before < self._rules.large_cash <= before + cash else None
