"""The model of the transactor: all orders one after the other, each side of a stock a list that is kept sorted.

It is written to be obviously right, not to be fast, and shares nothing with the transactor.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.bench.elastic.orders import BUY
from stretto.bench.elastic.trades import PADDING, TRADES


@dataclass
class Resting:
    """An order that waits, with the volume that is left of it."""

    number: int
    t: int
    buys: bool
    user: int
    price: int
    volume: int


@dataclass
class Sides:
    """The waiting orders of one stock: buyers from the highest price, sellers from the lowest, then by time."""

    buyers: list[Resting] = field(default_factory=list)
    sellers: list[Resting] = field(default_factory=list)
    by_time: deque[Resting] = field(default_factory=deque)
    """All orders that had to wait, also those that have been filled since."""
    trades: int = 0

    def add(self, order: Resting) -> None:
        insort(self.buyers if order.buys else self.sellers, order, key=_priority)
        self.by_time.append(order)

    def expire(self, before: int) -> None:
        """Removes the orders that came at this time or before."""
        while self.by_time and self.by_time[0].t <= before:
            order = self.by_time.popleft()
            if order.volume > 0:
                side = self.buyers if order.buys else self.sellers
                del side[bisect_left(side, _priority(order), key=_priority)]


def _priority(order: Resting) -> tuple[int, int]:
    return (-order.price if order.buys else order.price, order.number)


def trades_of(orders: pa.Table, valid_us: int) -> pa.Table:
    """Returns the trades of these orders, executed in this order."""
    stocks: dict[int, Sides] = defaultdict(Sides)
    found: list[dict[str, Any]] = []
    orders = orders.set_column(0, "t", orders.column("t").cast(pa.int64())).drop_columns(["padding"])
    for row in orders.to_pylist():
        sides = stocks[row["stock"]]
        sides.expire(row["t"] - valid_us)
        found += _executed(sides, row)
    return pa.Table.from_pylist(found, TRADES)


def _executed(sides: Sides, row: dict[str, Any]) -> list[dict[str, Any]]:
    buys = row["side"] == BUY
    order = Resting(row["number"], row["t"], buys, row["user"], row["price"], row["volume"])
    others = sides.sellers if buys else sides.buyers
    found = []
    while order.volume > 0 and others:
        other = others[0]
        crosses = order.price >= other.price if buys else order.price <= other.price
        if not crosses:
            break
        volume = min(order.volume, other.volume)
        order.volume -= volume
        other.volume -= volume
        if other.volume == 0:
            others.pop(0)
        sides.trades += 1
        buyer, seller = (order, other) if buys else (other, order)
        found.append(
            {
                "t": order.t,
                "stock": row["stock"],
                "trade": sides.trades,
                "price": other.price,
                "volume": volume,
                "cash": other.price * volume,
                "buyer": buyer.user,
                "seller": seller.user,
                "buy_order": buyer.number,
                "sell_order": seller.number,
                "bid": sides.buyers[0].price if sides.buyers else 0,
                "ask": sides.sellers[0].price if sides.sellers else 0,
                "padding": PADDING,
            }
        )
    if order.volume > 0:
        sides.add(order)
    return found
