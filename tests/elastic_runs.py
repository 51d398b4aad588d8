"""Runs the functions of the elastic workloads alone, and the workloads on simulated clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.api.lowering import lowered
from stretto.bench.elastic.exchange import Exchange
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.elastic.orders import Orders
from stretto.bench.elastic.trades import PADDING, TRADES
from stretto.bench.elastic.tuples import Tuples

MICRO = Microbenchmark(
    Tuples(events=20_000, key_count=300, shuffles_per_minute=600.0, payload_bytes=20),
    state_bytes=100,
    generators=3,
    calculators=4,
    batch=50,
)
EXCHANGE = Exchange(
    Orders(events=10_000, stocks=40, users=500, rate=2000.0, period_s=1.0),
    sources=3,
    transactors=4,
    analysts=3,
    batch=50,
)


def deployment_of(workload: Microbenchmark | Exchange, job: str = "job") -> Deployment:
    app = workload.app()
    return lowered(app.plan(), job, 2, app.batch_rows)


def applied(function: Function, batches: Iterable[pa.RecordBatch], result: pa.Schema) -> pa.Table:
    """Returns what a function sends for these batches and at the end of the input."""
    function.bind_states()
    ctx = Context("job", "function", 0, 1, {"out": result})
    for batch in batches:
        function.process(batch, ctx)
    function.on_watermark(EVENT_TIME_MAX_US, ctx)
    return pa.Table.from_batches([sent for _, sent in ctx.sent if isinstance(sent, pa.RecordBatch)], result)


def orders(*rows: Sequence[int]) -> pa.Table:
    """Returns orders of (t, stock, user, side, price, volume), numbered from 1."""
    names = ("t", "stock", "user", "side", "price", "volume")
    found = [
        {**dict(zip(names, row, strict=True)), "number": number, "padding": b""} for number, row in enumerate(rows, 1)
    ]
    return pa.Table.from_pylist(found, Orders.schema)


def trades(*rows: dict[str, int]) -> pa.Table:
    """Returns trades with these values, numbered by stock: of one share at one cent, and 0 elsewhere, if not given."""
    counts: dict[int, int] = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        known: dict[str, Any] = {"stock": 0, "price": 1, "volume": 1, "padding": PADDING, **row}
        known["trade"] = counts[known["stock"]] = counts.get(known["stock"], 0) + 1
        known["cash"] = known["price"] * known["volume"]
        found.append({name: known.get(name, 0) for name in TRADES.names})
    return pa.Table.from_pylist(found, TRADES)
