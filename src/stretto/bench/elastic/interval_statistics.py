"""The statistics of the stock exchange that are sent when an interval has ended: five of its six (elasticutor.txt 5.4).

Each keeps one entry per key and open interval, and sends the rows of an interval when the watermark passes its end.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic.numbered import TIME
from stretto.bench.elastic.trades import batch_of, numbers_of
from stretto.state import MapState

BARS = pa.schema(
    [("start", TIME), *((name, pa.int64()) for name in ("stock", "open", "high", "low", "close", "trades"))]
)
VWAPS = pa.schema([("start", TIME), ("stock", pa.int64()), ("vwap", pa.float64()), ("volume", pa.int64())])
SPREADS = pa.schema(
    [("start", TIME), ("stock", pa.int64()), ("narrowest", pa.int64()), ("widest", pa.int64()), ("mean", pa.float64())]
)
USER_VOLUMES = pa.schema([("start", TIME), *((name, pa.int64()) for name in ("user", "bought", "sold", "cash"))])
INDEXES = pa.schema([("start", TIME), *((name, pa.int64()) for name in ("sector", "index", "turnover"))])


def _key_of(place: tuple[int, int]) -> int:
    return place[0]


class Interval(Function):
    """The base of statistics per key and interval. A subclass names its columns, and says what an entry is."""

    columns: tuple[str, ...] = ()
    """What it reads: the time, the key, and the rest."""
    result: pa.Schema
    intervals: MapState[tuple[int, int], list[Any]] = MapState(stream_key=_key_of)
    """By key and the start of the interval."""

    def __init__(self, interval_us: int) -> None:
        self._interval_us = interval_us

    def begin(self) -> list[Any]:
        """Returns the entry of an interval before its first row."""
        raise NotImplementedError

    def add(self, entry: list[Any], *values: int) -> None:
        """Adds a row to its interval."""
        raise NotImplementedError

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...] | None:
        """Returns what is sent of an interval that has ended, after its start and key; None for nothing."""
        raise NotImplementedError

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for t, key, *values in numbers_of(batch, *self.columns):
            place = (key, t - t % self._interval_us)
            entry = self.intervals.get(place)
            if entry is None:
                entry = self.intervals[place] = self.begin()
            self.add(entry, *values)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        ended = sorted((start, key) for key, start in self.intervals if start + self._interval_us <= watermark_us)
        rows = []
        for start, key in ended:
            found = self.end(key, self.intervals[key, start])
            if found is not None:
                rows.append((start, key, *found))
            del self.intervals[key, start]
        ctx.send(batch_of(rows, self.result))


class Bars(Interval):
    """The first, highest, lowest and last price of each stock, and how many trades it had."""

    columns = ("t", "stock", "price")
    result = BARS

    def begin(self) -> list[Any]:
        return []

    def add(self, entry: list[Any], *values: int) -> None:
        (price,) = values
        if not entry:
            entry[:] = [price, price, price, price, 0]
        entry[1], entry[2], entry[3] = max(entry[1], price), min(entry[2], price), price
        entry[4] += 1

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...]:
        return tuple(entry)


class Vwap(Interval):
    """The mean price of each stock by volume, and the volume."""

    columns = ("t", "stock", "volume", "cash")
    result = VWAPS

    def begin(self) -> list[Any]:
        return [0, 0]

    def add(self, entry: list[Any], *values: int) -> None:
        volume, cash = values
        entry[0] += volume
        entry[1] += cash

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...]:
        volume, cash = entry
        return cash / volume, volume


class Spread(Interval):
    """How far the best bid and the best ask of each stock were apart after its trades, if there were both."""

    columns = ("t", "stock", "bid", "ask")
    result = SPREADS

    def begin(self) -> list[Any]:
        return []

    def add(self, entry: list[Any], *values: int) -> None:
        bid, ask = values
        if not bid or not ask:
            return
        spread = ask - bid
        if not entry:
            entry[:] = [spread, spread, 0, 0]
        entry[0], entry[1] = min(entry[0], spread), max(entry[1], spread)
        entry[2] += spread
        entry[3] += 1

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...] | None:
        if not entry:
            return None
        narrowest, widest, total, count = entry
        return narrowest, widest, total / count


class UserVolume(Interval):
    """What each user bought and sold, and the cash received less the cash paid. It reads a row for each side of a
    trade: volume and cash are negative for the seller's."""

    columns = ("t", "user", "volume", "cash")
    result = USER_VOLUMES

    def begin(self) -> list[Any]:
        return [0, 0, 0]

    def add(self, entry: list[Any], *values: int) -> None:
        volume, cash = values
        entry[0] += max(volume, 0)
        entry[1] += max(-volume, 0)
        entry[2] -= cash

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...]:
        return tuple(entry)


class TurnoverIndex(Interval):
    """The index of each sector, which is the sum of the last prices of its stocks so far, and the cash of its trades.

    A stock's trades come in order, those of different stocks do not: an interval keeps the last price of each stock."""

    columns = ("t", "sector", "stock", "price", "cash")
    result = INDEXES
    last: MapState[int, dict[int, int]] = MapState()
    """The last prices of a sector's stocks when the last interval ended."""

    def begin(self) -> list[Any]:
        return [{}, 0]

    def add(self, entry: list[Any], *values: int) -> None:
        stock, price, cash = values
        entry[0][stock] = price
        entry[1] += cash

    def end(self, key: int, entry: list[Any]) -> tuple[Any, ...]:
        prices, turnover = entry
        last = self.last[key] = {**(self.last.get(key) or {}), **prices}
        return sum(last.values()), turnover
