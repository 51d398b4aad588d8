"""The transactor and the sequential order book against a matcher that looks through all orders for each fill.

Prices, users and times are few, so that orders meet, tie and expire often. Between batches, states go through the form
that a checkpoint has.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.elastic_runs import orders

from stretto.actors.context import Context
from stretto.bench.elastic.checks import Answer, check
from stretto.bench.elastic.orders import BUY, SELL
from stretto.bench.elastic.sequential_book import trades_of
from stretto.bench.elastic.trades import PADDING, TRADES
from stretto.bench.elastic.transactor import Transactor
from stretto.bench.verify import Match
from stretto.state import Fragment

VALID_US = 20

ORDER = st.tuples(
    st.integers(0, 8),  # The time since the last order.
    st.integers(0, 1),
    st.integers(0, 2),
    st.sampled_from((BUY, SELL)),
    st.integers(1, 6),
    st.integers(1, 5),
)


def brute_force(table: pa.Table) -> pa.Table:
    """For each fill, looks through all orders that came before."""
    known: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    times = table.column("t").cast(pa.int64()).to_pylist()
    for t, order in zip(times, table.to_pylist(), strict=True):
        order["t"] = t

        def best(side: int, now: int = t, stock: int = order["stock"]) -> dict[str, Any] | None:
            waiting = [each for each in known if each["side"] == side and each["stock"] == stock and each["volume"]]
            valid = [each for each in waiting if now - each["t"] < VALID_US]
            sign = 1 if side == SELL else -1
            return min(valid, key=lambda each: (sign * each["price"], each["number"]), default=None)

        while order["volume"]:
            other = best(SELL if order["side"] == BUY else BUY)
            if other is None:
                break
            buy, sell = (order, other) if order["side"] == BUY else (other, order)
            if buy["price"] < sell["price"]:
                break
            volume = min(order["volume"], other["volume"])
            order["volume"] -= volume
            other["volume"] -= volume
            bid, ask = best(BUY), best(SELL)
            found.append(
                {
                    "t": t,
                    "stock": order["stock"],
                    "trade": 1 + sum(trade["stock"] == order["stock"] for trade in found),
                    "price": other["price"],
                    "volume": volume,
                    "cash": volume * other["price"],
                    "buyer": buy["user"],
                    "seller": sell["user"],
                    "buy_order": buy["number"],
                    "sell_order": sell["number"],
                    "bid": bid["price"] if bid else 0,
                    "ask": ask["price"] if ask else 0,
                    "padding": PADDING,
                }
            )
        known.append(order)
    return pa.Table.from_pylist(found, TRADES)


def transacted(table: pa.Table, cuts: list[int]) -> pa.Table:
    """Returns the transactor's trades. After each batch another transactor resumes from the fragments of the last."""
    function = Transactor(VALID_US)
    function.bind_states()
    written: dict[tuple[str, int], Any] = {}
    ctx = Context("job", "transactor", 0, 1, {"out": TRADES})
    for start, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        for batch in table.slice(start, end - start).to_batches():
            function.process(batch, ctx)
        successor = Transactor(VALID_US)
        successor.bind_states()
        for name, state in function.states().items():
            fragments = state.fragments()
            for fragment in fragments:
                written.setdefault((name, fragment.number), fragment.content)
            stored = [Fragment(each.number, written[name, each.number]) for each in fragments]
            successor.states()[name].rebuild(stored)
        function = successor
    return pa.Table.from_batches([sent for _, sent in ctx.sent if isinstance(sent, pa.RecordBatch)], TRADES)


@given(st.lists(ORDER, max_size=40), st.lists(st.integers(0, 40), max_size=3))
def test_trades_are_those_of_a_search_through_all_orders(rows: list[tuple[int, ...]], cuts: list[int]) -> None:
    t, timed = 0, []
    for wait, *rest in rows:
        t += wait
        timed.append((t, *rest))
    table = orders(*timed)
    expected = Answer(brute_force(table), key="stock")
    assert trades_of(table, VALID_US).equals(expected.table)
    found = transacted(table, sorted(min(cut, len(rows)) for cut in cuts))
    verdict = check(found, expected)
    assert verdict.match is Match.MATCH, verdict.describe()
