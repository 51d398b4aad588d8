"""The model of the stock exchange's statistics and events: each from its definition, over the list of all trades.

It looks back through earlier trades where the functions keep state, and shares nothing with them but the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa

from stretto.bench.elastic import interval_statistics as intervals
from stretto.bench.elastic import trade_events as events
from stretto.bench.elastic.checks import Answer
from stretto.bench.elastic.rules import Rules

Trade = dict[str, Any]
Trades = list[Trade]
Rows = Iterator[Trade]


def answers(trades: pa.Table, rules: Rules) -> dict[str, Answer]:
    """Returns the right answers to all statistics and events, by the names of their sinks."""
    rows = trades.set_column(0, "t", trades.column("t").cast(pa.int64())).drop_columns(["padding"]).to_pylist()
    stocks = _grouped(rows, lambda trade: trade["stock"])

    def of_stocks(find: Callable[[Trades, Rules], Rows], schema: pa.Schema) -> Answer:
        found = [row for _, mine in sorted(stocks.items()) for row in find(mine, rules)]
        return Answer(pa.Table.from_pylist(found, schema), key="stock")

    users = pa.Table.from_pylist(list(_user_volumes(rows, rules)), intervals.USER_VOLUMES)
    sectors = pa.Table.from_pylist(list(_indexes(rows, rules)), intervals.INDEXES)
    return {
        "averages": of_stocks(_averages, events.AVERAGES),
        "alarms": of_stocks(_alarms, events.ALARMS),
        "spikes": of_stocks(_spikes, events.SPIKES),
        "washes": of_stocks(_washes, events.WASHES),
        "halts": of_stocks(_halts, events.HALTS),
        "large_orders": of_stocks(_large_orders, events.LARGE_ORDERS),
        "bars": of_stocks(_bars, intervals.BARS),
        "vwaps": of_stocks(_vwaps, intervals.VWAPS),
        "spreads": of_stocks(_spreads, intervals.SPREADS),
        "user_volumes": Answer(users, key="user"),
        "indexes": Answer(sectors, key="sector"),
    }


def _grouped(rows: Trades, key: Callable[[Trade], int]) -> dict[int, Trades]:
    found: dict[int, Trades] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _by_interval(rows: Trades, rules: Rules) -> list[tuple[int, Trades]]:
    return sorted(_grouped(rows, lambda trade: trade["t"] // rules.interval_us * rules.interval_us).items())


def _place(trade: Trade) -> Trade:
    return {name: trade[name] for name in ("t", "stock", "trade")}


# Of the trades of one stock


def _averages(trades: Trades, rules: Rules) -> Rows:
    for end in range(1, len(trades) + 1):
        prices = [trade["price"] for trade in trades[max(0, end - rules.average_trades) : end]]
        yield {**_place(trades[end - 1]), "average": sum(prices) / len(prices)}


def _alarms(trades: Trades, rules: Rules) -> Rows:
    limit = trades[0]["price"] * (100 + rules.alarm_percent) // 100
    for before, trade in zip([None, *trades], trades, strict=False):
        if trade["price"] > limit and (before is None or before["price"] <= limit):
            yield {**_place(trade), "price": trade["price"], "limit": limit}


def _spikes(trades: Trades, rules: Rules) -> Rows:
    by_interval = _by_interval(trades, rules)
    totals = [sum(trade["volume"] for trade in mine) for _, mine in by_interval]
    for place in range(rules.spike_intervals, len(by_interval)):
        mine = by_interval[place][1]
        usual = sum(totals[place - rules.spike_intervals : place])
        for trade, volume in zip(mine, accumulate(trade["volume"] for trade in mine), strict=True):
            if volume * rules.spike_intervals > rules.spike_factor * usual:
                yield {**_place(trade), "volume": volume, "usual": usual // rules.spike_intervals}
                break


def _washes(trades: Trades, rules: Rules) -> Rows:
    earlier: dict[tuple[int, int], list[int]] = {}
    for trade in trades:
        buyer, seller, t = trade["buyer"], trade["seller"], trade["t"]
        returned = [each for each in earlier.get((seller, buyer), [])[-1:] if t - each <= rules.wash_us]
        since = [t] if buyer == seller else returned
        if since:
            yield {**_place(trade), "buyer": buyer, "seller": seller, "since_us": t - since[0]}
        earlier.setdefault((buyer, seller), []).append(t)


def _halts(trades: Trades, rules: Rules) -> Rows:
    start = trades[0]
    for trade in trades:
        if trade["t"] >= start["t"] + rules.halt_us:
            start = trade
        if 100 * abs(trade["price"] - start["price"]) > rules.halt_percent * start["price"]:
            yield {**_place(trade), "price": trade["price"], "before": start["price"]}
            start = trade


def _large_orders(trades: Trades, rules: Rules) -> Rows:
    for order, mine in _grouped(trades, lambda trade: max(trade["buy_order"], trade["sell_order"])).items():
        for trade, cash in zip(mine, accumulate(trade["price"] * trade["volume"] for trade in mine), strict=True):
            if cash >= rules.large_cash:
                yield {**_place(trade), "order": order, "cash": cash}
                break


def _bars(trades: Trades, rules: Rules) -> Rows:
    for start, mine in _by_interval(trades, rules):
        prices = [trade["price"] for trade in mine]
        ends = {"open": prices[0], "high": max(prices), "low": min(prices), "close": prices[-1]}
        yield {"start": start, "stock": mine[0]["stock"], **ends, "trades": len(mine)}


def _vwaps(trades: Trades, rules: Rules) -> Rows:
    for start, mine in _by_interval(trades, rules):
        volume = sum(trade["volume"] for trade in mine)
        cash = sum(trade["price"] * trade["volume"] for trade in mine)
        yield {"start": start, "stock": mine[0]["stock"], "vwap": cash / volume, "volume": volume}


def _spreads(trades: Trades, rules: Rules) -> Rows:
    for start, mine in _by_interval(trades, rules):
        spreads = [trade["ask"] - trade["bid"] for trade in mine if trade["ask"] and trade["bid"]]
        if spreads:
            bounds = {"narrowest": min(spreads), "widest": max(spreads)}
            yield {"start": start, "stock": mine[0]["stock"], **bounds, "mean": sum(spreads) / len(spreads)}


# Of all trades


def _user_volumes(trades: Trades, rules: Rules) -> Rows:
    for start, mine in _by_interval(trades, rules):
        buyers = _grouped(mine, lambda trade: trade["buyer"])
        sellers = _grouped(mine, lambda trade: trade["seller"])
        for user in sorted({*buyers, *sellers}):
            bought, sold = buyers.get(user, []), sellers.get(user, [])
            yield {
                "start": start,
                "user": user,
                "bought": sum(trade["volume"] for trade in bought),
                "sold": sum(trade["volume"] for trade in sold),
                "cash": sum(trade["cash"] for trade in sold) - sum(trade["cash"] for trade in bought),
            }


def _indexes(trades: Trades, rules: Rules) -> Rows:
    for sector, of_sector in sorted(_grouped(trades, lambda trade: trade["stock"] % rules.sectors).items()):
        last: dict[int, int] = {}
        for start, mine in _by_interval(of_sector, rules):
            last.update({trade["stock"]: trade["price"] for trade in mine})
            turnover = sum(trade["cash"] for trade in mine)
            yield {"start": start, "sector": sector, "index": sum(last.values()), "turnover": turnover}
