"""Finds bids that are at least ten times the last bid on the same auction, with a stateful function.

stretto run examples.price_jumps:make_app
"""

import pyarrow as pa

from stretto import App, Context, Function, MapState, sinks
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource

FACTOR = 10
JUMP = pa.schema([("auction", pa.int64()), ("before", pa.int64()), ("price", pa.int64())])


class Jumps(Function):
    """Keeps the last price of each auction. All rows of an auction reach the same instance."""

    last: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        found = []
        for auction, price in zip(*(batch.column(name).to_pylist() for name in ("auction", "price")), strict=True):
            before = self.last.get(auction)
            if before is not None and price >= FACTOR * before:
                found.append({"auction": auction, "before": before, "price": price})
            self.last[auction] = price
        ctx.send(pa.RecordBatch.from_pylist(found, JUMP))


def make_app(events: int = 20_000) -> App:
    """Returns the app; `stretto run` also accepts a function that makes one."""
    app = App("price-jumps", engine="actors")
    bids = app.source("bids", NexmarkSource("bid", NexmarkConfig(seed=7, events=events), columns=["auction", "price"]))
    bids.key_by("auction").apply(Jumps(), JUMP, name="jumps").sink(sinks.collect(), name="found")
    return app
