"""The transactor of the stock exchange (elasticutor.txt 5.4): matches limit orders with price-time priority.

An order is executed against the waiting orders of the other side whose price is as good as its own or better: those
with the best price first, of those the earliest, at the price of the order that waited. What is left of it waits. An
order is valid for a time; then it counts no more.

A book is plain data: a heap of waiting orders per side, the number of trades, and when it was last cleared. Expired
orders leave a heap when they reach its top, or with the others when the book is cleared, once per time of validity.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic.costs import FREE, Cost
from stretto.bench.elastic.orders import BUY, SELL
from stretto.bench.elastic.trades import PADDING, TRADES, batch_of, numbers_of
from stretto.state import MapState

Waiting = list[int]
"""A waiting order: [rank, number, user, volume, end]. The rank is its price, negative for a buyer, so that the least
rank and number come first. `end` is when it expires."""
RANK, NUMBER, USER, VOLUME, END = range(5)
Book = list[list[Waiting]]
"""The waiting orders of both sides, as heaps."""
Fill = tuple[int, int, int, int, int, int]
"""The price, the volume, the number and user of the order that waited, and the best bid and ask after it."""


class Transactor(Function):
    """Sends the trades of each stock in their order."""

    books: MapState[int, Book] = MapState()
    counts: MapState[int, int] = MapState()
    """How many trades a stock has had."""
    cleared: MapState[int, int] = MapState()
    """When a book was last cleared."""

    def __init__(self, valid_us: int, cost: Cost = FREE) -> None:
        self._valid_us = valid_us
        self._cost = cost

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self._cost.spend(np.asarray(batch.column("number")))
        found = []
        orders = numbers_of(batch, "t", "number", "stock", "user", "side", "price", "volume")
        for t, number, stock, user, side, price, volume in orders:
            book = self._book(stock, t)
            order = [price if side == SELL else -price, number, user, volume, t + self._valid_us]
            for at, filled, other, other_user, bid, ask in execute(book, side, order, t):
                count = self.counts[stock] = (self.counts.get(stock) or 0) + 1
                buyer, seller = (user, other_user) if side == BUY else (other_user, user)
                ids = (number, other) if side == BUY else (other, number)
                found.append((t, stock, count, at, filled, at * filled, buyer, seller, *ids, bid, ask, PADDING))
        ctx.send(batch_of(found, TRADES))

    def _book(self, stock: int, t: int) -> Book:
        book = self.books.get(stock)
        if book is None:
            book = self.books[stock] = [[], []]
            self.cleared[stock] = t
        elif t - (self.cleared.get(stock) or 0) >= self._valid_us:
            for side in book:
                side[:] = [order for order in side if order[END] > t]
                heapify(side)
            self.cleared[stock] = t
        return book


def execute(book: Book, side: int, order: Waiting, t: int) -> Iterator[Fill]:
    """Executes an order, and returns its fills one by one. What is left of it waits in the book."""
    others = book[SELL if side == BUY else BUY]
    while order[VOLUME]:
        best = _best(others, t)
        # One of the two ranks is negative: their sum is the seller's price less the buyer's.
        if best is None or best[RANK] + order[RANK] > 0:
            heappush(book[side], order)
            return
        filled = min(order[VOLUME], best[VOLUME])
        order[VOLUME] -= filled
        best[VOLUME] -= filled
        if not best[VOLUME]:
            heappop(others)
        bid, ask = _best(book[BUY], t), _best(book[SELL], t)
        prices = (0 if bid is None else -bid[RANK], 0 if ask is None else ask[RANK])
        yield abs(best[RANK]), filled, best[NUMBER], best[USER], *prices


def _best(side: list[Waiting], t: int) -> Waiting | None:
    """Returns the first order of a side that is still valid."""
    while side and side[0][END] <= t:
        heappop(side)
    return side[0] if side else None
