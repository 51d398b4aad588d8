"""The input of the stock exchange (elasticutor.txt 5.4): limit orders of 96 bytes, for stocks that come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stretto.bench.draws import Int64s, below
from stretto.bench.elastic.market import popularity, prices
from stretto.bench.elastic.numbered import EPOCH_US, TIME, Numbered
from stretto.bench.elastic.padding import padding
from stretto.bench.elastic.zipf import places
from stretto.errors import UserError

BUY, SELL = 0, 1
ORDER_BYTES = 96
_PADDING_BYTES = ORDER_BYTES - 7 * 8
LOT = 100
LOTS_MAX = 20
BLOCK_ONE_IN, BLOCK_LOTS = 100, 50
"""One order of this many is larger by this factor."""
RING_ONE_IN = 64
"""One order of this many comes from one of two users who trade a stock with each other."""
SPREAD_PARTS = 100
"""Orders are priced up to one of so many parts of the stock's price away from it."""


@dataclass(frozen=True)
class Orders(Numbered):
    """The orders. The key is the stock; `number` is the order's id. Prices are in cents.

    Popularity and prices change every `period_s` seconds of event time."""

    stocks: int = 1_000
    users: int = 10_000
    skew: float = 0.8
    period_s: float = 5.0

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("t", TIME),
            ("number", pa.int64()),
            ("stock", pa.int64()),
            ("user", pa.int64()),
            ("side", pa.int64()),
            ("price", pa.int64()),
            ("volume", pa.int64()),
            ("padding", pa.binary()),
        ]
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stocks < 1 or self.users < 1 or not self.period_s > 0:
            numbers = f"{self.stocks} stocks, {self.users} users, {self.period_s:g} s"
            raise UserError("there must be a stock and a user, and periods must have a length", numbers)

    def periods(self, numbers: Int64s) -> Int64s:
        """Returns the period of each order."""
        found: Int64s = (self.times_us(numbers) - EPOCH_US) // round(self.period_s * 1e6)
        return found

    def keys(self, numbers: Int64s) -> Int64s:
        draw = self.draw("stock", numbers)
        return self._by_period(
            numbers, lambda period, mine: places(draw[mine], popularity(self.seed, self.stocks, self.skew, period))
        )

    def rows(self, numbers: Int64s) -> pa.RecordBatch:
        stocks = self.keys(numbers)
        sides = below(self.draw("side", numbers), 2)
        values = [numbers, stocks, self._users(numbers, stocks), sides, self._prices(numbers, stocks, sides)]
        columns = [
            pa.array(self.times_us(numbers)).view(TIME),
            *map(pa.array, values),
            pa.array(self._volumes(numbers)),
            padding(self.draw("padding", numbers), _PADDING_BYTES),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _users(self, numbers: Int64s, stocks: Int64s) -> Int64s:
        draw = self.draw("user", numbers)
        anyone = below(draw, self.users)
        one_of_two = (2 * stocks + (draw >> np.uint64(63)).view(np.int64)) % self.users
        return np.where(below(self.draw("ring", numbers), RING_ONE_IN) == 0, one_of_two, anyone)

    def _prices(self, numbers: Int64s, stocks: Int64s, sides: Int64s) -> Int64s:
        """Returns prices around the stock's: of buyers a little lower on average, of sellers a little higher."""
        middle = self._by_period(numbers, lambda period, mine: prices(self.seed, self.stocks, period)[stocks[mine]])
        reach = np.maximum(2, middle // SPREAD_PARTS)
        draw = self.draw("price", numbers)
        offset = below(draw, reach + 1) + below(draw >> np.uint64(32), reach + 1) - reach
        patience = np.where(sides == BUY, -(reach // 4), reach // 4)
        found: Int64s = np.maximum(1, middle + offset + patience)
        return found

    def _volumes(self, numbers: Int64s) -> Int64s:
        draw = self.draw("volume", numbers)
        lots = 1 + below(draw, LOTS_MAX)
        is_block = (draw >> np.uint64(32)).view(np.int64) % BLOCK_ONE_IN == 0
        return LOT * np.where(is_block, BLOCK_LOTS * lots, lots)

    def _by_period(self, numbers: Int64s, values: Callable[[int, np.ndarray], Int64s]) -> Int64s:
        """Returns values that are computed for the orders of each period together."""
        periods = self.periods(numbers)
        found = np.empty(len(numbers), np.int64)
        for period in np.unique(periods).tolist():
            mine = periods == period
            found[mine] = values(period, mine)
        return found
