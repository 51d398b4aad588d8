"""NEXMark queries 1, 4, 5 and 8 whose rows take time: they wait, as for the answer of a service, so that many workers
run side by side on few cores.

The answers are those of the plain queries: `worked(x)` is x. It stands where the queries of sponge.txt (figure 8) have
their work: in what maps bids (1 and 4), and in what groups by key (4, 5 and 8). What maps bids is a function of its own
and not fused into the source, as in the paper: workers that are added can take it over then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from stretto.api.app import App
from stretto.api.stream import Stream
from stretto.api.udfs import udf
from stretto.bench.nexmark.workload import Streams, Workload
from stretto.errors import UserError
from stretto.operators.windows import hopping, span, tumbling


@dataclass(frozen=True)
class Waiting:
    """Takes time for each row, and returns the values as they are."""

    row_us: float

    def __call__(self, values: pa.Array) -> pa.Array:
        time.sleep(len(values) * self.row_us / 1e6)
        return values


def q1(streams: Streams) -> Stream:
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])
    columns = ("auction", "bidder", "0.908 * worked(price) AS price", "dateTime", "extra")
    return bids.select(*columns, name="euros", parallelism=streams.workload.parallelism)


def q4(streams: Streams) -> Stream:
    auctions = streams.of("auction", ["id", "seller", "category", "reserve", "dateTime", "expires"])
    bids = streams.of("bid", ["auction", "price", "dateTime"])
    prices = ("auction", "worked(price) AS price", "dateTime AS bidTime")
    offers = auctions.interval_join(
        bids.select(*prices, name="prices", parallelism=streams.workload.parallelism),
        on="id = auction",
        lower="dateTime",
        upper="expires",
        upper_inclusive=False,
    )
    winners = (
        offers.filter("price >= reserve")
        .key_by("id", "seller", "category")
        .window(span("dateTime", "expires"))
        .aggregate(final="max(worked(price))", name="winners")
    )
    return winners.key_by("category").aggregate(avg_price="avg(final)")


def q5(streams: Streams) -> Stream:
    bids = streams.of("bid", ["auction", "dateTime"])
    windows = bids.key_by("auction").window(hopping("10 seconds", "2 seconds"))
    counts = windows.aggregate(num="count(worked(auction))", name="counts")
    return counts.top(1, by="num").select("window_start", "window_end", "auction", "num")


def q8(streams: Streams) -> Stream:
    ten_seconds = tumbling("10 seconds")
    people = streams.of("person", ["id", "name", "dateTime"])
    auctions = streams.of("auction", ["seller", "dateTime"])
    newcomers = people.key_by("id", "name").window(ten_seconds).aggregate(came="count(worked(id))", name="newcomers")
    sellers = auctions.key_by("seller").window(ten_seconds).aggregate(sold="count(worked(seller))", name="sellers")
    joined = newcomers.window_join(sellers, on="id = seller")
    return joined.select("id", "name", "window_start", "window_end")


@dataclass(frozen=True)
class Worked:
    """A query, how many rows wait per event of the stream, where they do, and by how many times as long as usual."""

    make: Callable[[Streams], Stream]
    rows_per_event: float
    functions: tuple[str, ...]
    times: float = 1.0


QUERIES = {
    "q1": Worked(q1, 0.92, ("euros",)),
    # Its rows have a long way: with rows as short as those of others, the way would take most of the time, ...
    "q4": Worked(q4, 1.17, ("prices", "winners"), times=4.0),
    "q5": Worked(q5, 0.92, ("counts",)),
    # ... and so would reading here, where one event in twelve is read.
    "q8": Worked(q8, 0.08, ("newcomers", "sellers"), times=4.0),
}


def query_of(name: str) -> Worked:
    """Returns a query by its name."""
    found = QUERIES.get(name)
    if found is None:
        raise UserError(f"there is no query '{name}' with work", None, f"Choose one of {', '.join(QUERIES)}.")
    return found


def build(name: str, workload: Workload, row_us: float) -> App:
    """Returns the app of a query, each of whose rows waits for so long."""
    worked, streams = query_of(name), Streams(name, workload)
    streams.app.register(udf("bigint", name="worked")(Waiting(worked.times * row_us)))
    streams.end(worked.make(streams))
    return streams.app
