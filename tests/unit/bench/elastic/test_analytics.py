"""The statistics and events of the stock exchange, and their models, against examples worked out by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.elastic_runs import applied, trades

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic import analytics_model
from stretto.bench.elastic.exchange import EVENTS, PER_INTERVAL, PER_TRADE, STATISTICS
from stretto.bench.elastic.interval_statistics import TurnoverIndex, UserVolume
from stretto.bench.elastic.rules import Rules
from stretto.errors import UserError

RULES = Rules(
    interval_us=100,
    average_trades=3,
    sectors=2,
    alarm_percent=10,
    spike_factor=2,
    spike_intervals=2,
    wash_us=50,
    halt_percent=10,
    halt_us=100,
    large_cash=1_000,
)


def by_function(name: str, table: pa.Table) -> pa.Table:
    """Returns what the function of this name sends; each batch has one trade."""
    if name in PER_TRADE:
        kind = PER_TRADE[name]
        return applied(kind(RULES), table.to_batches(max_chunksize=1), kind.result)
    function: Function
    if name in PER_INTERVAL:
        function, result = PER_INTERVAL[name](RULES.interval_us), PER_INTERVAL[name].result
    elif name == "user_volumes":
        table, function, result = both_sides(table), UserVolume(RULES.interval_us), UserVolume.result
    else:
        sectors = pa.array([stock % RULES.sectors for stock in table.column("stock").to_pylist()])
        table = table.append_column("sector", sectors)
        function, result = TurnoverIndex(RULES.interval_us), TurnoverIndex.result
    return applied(function, table.to_batches(max_chunksize=1), result)


def both_sides(table: pa.Table) -> pa.Table:
    rows = []
    for trade in table.to_pylist():
        rows.append({"t": trade["t"], "user": trade["buyer"], "volume": trade["volume"], "cash": trade["cash"]})
        rows.append({"t": trade["t"], "user": trade["seller"], "volume": -trade["volume"], "cash": -trade["cash"]})
    return pa.Table.from_pylist(rows)


def by_model(name: str, table: pa.Table) -> pa.Table:
    return analytics_model.answers(table, RULES)[name].table


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the rows in the order of their keys, with times as numbers."""
    times = [i for i, field in enumerate(table.schema) if pa.types.is_timestamp(field.type)]
    for place in times:
        table = table.set_column(place, table.schema.field(place).name, table.column(place).cast(pa.int64()))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def prices(*moves: tuple[int, int]) -> pa.Table:
    return trades(*({"t": t, "price": price} for t, price in moves))


def volumes(*sizes: tuple[int, int]) -> pa.Table:
    return trades(*({"t": t, "volume": volume} for t, volume in sizes))


EXAMPLES: dict[str, tuple[pa.Table, list[tuple[Any, ...]]]] = {
    "averages": (
        prices((1, 10), (2, 20), (3, 60), (4, 70)),
        [(1, 0, 1, 10.0), (2, 0, 2, 15.0), (3, 0, 3, 30.0), (4, 0, 4, 50.0)],
    ),
    # The limit is 110: above it twice, of which the second time after it has been at it.
    "alarms": (
        prices((1, 100), (2, 110), (3, 111), (4, 115), (5, 110), (6, 120)),
        [(3, 0, 3, 111, 110), (6, 0, 6, 120, 110)],
    ),
    # Intervals of 4, 6 and 20: more than twice the mean of 4 and 6 with the second trade. The mean of 6 and 20 is 13,
    # and the next interval has more than twice that with its second trade.
    "spikes": (
        volumes((0, 4), (150, 6), (250, 5), (260, 6), (270, 9), (900, 26), (950, 9)),
        [(260, 0, 4, 11, 5), (950, 0, 7, 35, 13)],
    ),
    "washes": (
        trades(
            {"t": 0, "buyer": 1, "seller": 2},
            {"t": 10, "buyer": 3, "seller": 3},
            {"t": 20, "buyer": 2, "seller": 1},
            {"t": 25, "stock": 1, "buyer": 1, "seller": 2},
            {"t": 60, "buyer": 2, "seller": 1},
            {"t": 111, "buyer": 1, "seller": 2},
        ),
        [(10, 0, 2, 3, 3, 0), (20, 0, 3, 2, 1, 20)],
    ),
    # More than a tenth away from 100 at 50; from 111 at 60 it is less. A new start at 160, and a fall from there.
    "halts": (
        prices((0, 100), (40, 110), (50, 111), (60, 105), (160, 120), (170, 107)),
        [(50, 0, 3, 111, 100), (170, 0, 6, 107, 120)],
    ),
    # Order 5 is the later one of all its trades: 600, 1,000 and more. Order 6 stays below.
    "large_orders": (
        trades(
            {"t": 1, "buy_order": 5, "sell_order": 1, "price": 6, "volume": 100},
            {"t": 1, "buy_order": 5, "sell_order": 2, "price": 8, "volume": 50},
            {"t": 1, "buy_order": 5, "sell_order": 3, "price": 8, "volume": 50},
            {"t": 2, "buy_order": 4, "sell_order": 6, "price": 9, "volume": 111},
        ),
        [(1, 0, 2, 5, 1_000)],
    ),
    "bars": (
        prices((0, 5), (50, 9), (60, 3), (99, 4), (100, 7), (350, 8)),
        [(0, 0, 5, 9, 3, 4, 4), (100, 0, 7, 7, 7, 7, 1), (300, 0, 8, 8, 8, 8, 1)],
    ),
    "vwaps": (
        trades(
            {"t": 0, "price": 10, "volume": 1},
            {"t": 99, "price": 20, "volume": 3},
            {"t": 100, "price": 5, "volume": 2},
        ),
        [(0, 0, 17.5, 4), (100, 0, 5.0, 2)],
    ),
    # Without a bid or an ask there is no spread, and without any spread no row.
    "spreads": (
        trades(
            {"t": 0, "bid": 10, "ask": 14},
            {"t": 1, "bid": 0, "ask": 14},
            {"t": 2, "bid": 13, "ask": 14},
            {"t": 100, "bid": 13, "ask": 0},
            {"t": 200, "bid": 1, "ask": 3},
        ),
        [(0, 0, 1, 4, 2.5), (200, 0, 2, 2, 2.0)],
    ),
    "user_volumes": (
        trades(
            {"t": 0, "buyer": 1, "seller": 2, "price": 10, "volume": 3},
            {"t": 10, "buyer": 2, "seller": 1, "price": 20, "volume": 1},
            {"t": 20, "buyer": 3, "seller": 3, "price": 20, "volume": 5},
            {"t": 120, "buyer": 1, "seller": 3, "price": 1, "volume": 1},
        ),
        [(0, 1, 3, 1, -10), (0, 2, 1, 3, 10), (0, 3, 5, 5, 0), (100, 1, 1, 0, -1), (100, 3, 0, 1, 1)],
    ),
    # Stocks 0 and 2 are in one sector. Its index has the last prices of both, also of the one that was not traded.
    "indexes": (
        trades(
            {"t": 0, "stock": 0, "price": 10, "volume": 1},
            {"t": 5, "stock": 0, "price": 12, "volume": 1},
            {"t": 6, "stock": 1, "price": 50, "volume": 2},
            {"t": 7, "stock": 2, "price": 30, "volume": 1},
            {"t": 150, "stock": 2, "price": 31, "volume": 2},
        ),
        [(0, 0, 42, 52), (0, 1, 50, 100), (100, 0, 43, 62)],
    ),
}


@pytest.mark.parametrize("answer", [by_function, by_model], ids=["function", "model"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_by_hand(name: str, answer: Any) -> None:
    table, expected = EXAMPLES[name]
    assert sorted(rows_of(answer(name, table))) == expected


def test_every_statistic_and_event_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted((*STATISTICS, *EVENTS))
    assert (len(STATISTICS), len(EVENTS)) == (6, 5)


def test_an_interval_is_sent_when_it_has_ended_and_not_before() -> None:
    bars = PER_INTERVAL["bars"](100)
    bars.bind_states()
    ctx = Context("job", "bars", 0, 1, {"out": bars.result})
    bars.process(EXAMPLES["bars"][0].to_batches()[0], ctx)
    sent = []
    for watermark in (99, 100, 399, 400):
        bars.on_watermark(watermark, ctx)
        sent.append(sum(batch.num_rows for _, batch in ctx.sent if isinstance(batch, pa.RecordBatch)))
    assert sent == [0, 1, 2, 3]


def test_rules_are_positive() -> None:
    with pytest.raises(UserError, match="positive"):
        Rules(interval_us=0)
