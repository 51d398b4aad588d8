"""The NEXMark queries, each written once with the public API (`oracle_sql` has the same queries in SQL).

A query takes `Streams` and returns the stream of its answer. `build(query, workload)` returns an app with the sink
"out". Query 12 has a second sink, "ingested", that records the ingestion time of every bid, so that the oracle can
compute the same windows. Queries 0 to 8 are here, the later ones in `further_queries`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from stretto.api.app import App
from stretto.api.stream import Stream
from stretto.bench.nexmark import further_queries as further
from stretto.bench.nexmark.workload import Streams, Workload
from stretto.errors import UserError
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import hopping, span, tumbling
from stretto.scheduling.spreading import ForwardAll

__all__ = ["PARTITIONED", "QUERIES", "Streams", "Workload", "build"]

LAST_AUCTIONS = 10
"""Query 6 averages over this many closed auctions of each seller."""


def q0(streams: Streams) -> Stream:
    """Pass bids through."""
    return streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])


def q1(streams: Streams) -> Stream:
    """Bids with their price in euros."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])
    return bids.select("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")


def q2(streams: Streams) -> Stream:
    """Bids on some auctions."""
    bids = streams.of("bid", ["auction", "price", "dateTime"])
    return bids.filter("auction % 123 = 0").select("auction", "price")


def q3(streams: Streams) -> Stream:
    """Auctions of category 10 with their seller in Oregon, Idaho or California."""
    people = streams.of("person", ["id", "name", "city", "state", "dateTime"])
    auctions = streams.of("auction", ["id", "seller", "category", "dateTime"])
    sellers = people.filter("state IN ('OR', 'ID', 'CA')").select("id AS person", "name", "city", "state")
    offers = auctions.filter("category = 10").select("id", "seller")
    return offers.join(sellers, on="seller = person").select("name", "city", "state", "id")


def winning_prices(streams: Streams) -> Stream:
    """The highest price that met the reserve while the auction was open, once it has closed."""
    auctions = streams.of("auction", ["id", "seller", "category", "reserve", "dateTime", "expires"])
    bids = streams.of("bid", ["auction", "price", "dateTime"])
    offers = auctions.interval_join(
        bids.select("auction", "price", "dateTime AS bidTime"),
        on="id = auction",
        lower="dateTime",
        upper="expires",
        upper_inclusive=False,
    )
    return (
        offers.filter("price >= reserve")
        .key_by("id", "seller", "category")
        .window(span("dateTime", "expires"))
        .aggregate(final="max(price)", name="winners")
    )


def q4(streams: Streams) -> Stream:
    """Average winning price of each category."""
    return winning_prices(streams).key_by("category").aggregate(avg_price="avg(final)")


def q5(streams: Streams) -> Stream:
    """The auctions with most bids in the last ten seconds, every two seconds."""
    bids = streams.of("bid", ["auction", "dateTime"])
    counts = bids.key_by("auction").window(hopping("10 seconds", "2 seconds")).aggregate(num="count(*)", name="counts")
    return counts.top(1, by="num").select("window_start", "window_end", "auction", "num")


def q6(streams: Streams) -> Stream:
    """Mean winning price of each seller's last ten closed auctions."""
    winners = winning_prices(streams).select("seller", "id", "window_end AS closed", "final")
    return winners.key_by("seller").aggregate(avg_price=mean_of_last(LAST_AUCTIONS))


def mean_of_last(count: int) -> UserAggregate:
    """Returns an aggregate that SQL does not have: the mean of `final` over the last rows by closing time, then id."""

    def add(latest: list[tuple[Any, ...]], rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
        arrived = zip(*(rows.column(name).to_pylist() for name in ("closed", "id", "final")), strict=True)
        return sorted([*latest, *arrived])[-count:]

    def combine(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted([*one, *other])[-count:]

    def finish(latest: list[tuple[Any, ...]]) -> float:
        return float(sum(final for _, _, final in latest) / len(latest))

    return UserAggregate(list, add, combine, finish, pa.float64(), ("closed", "id", "final"), "avg_price")


def q7(streams: Streams) -> Stream:
    """The bids of highest price in each ten seconds."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime"])
    highest = bids.window(tumbling("10 seconds")).top(1, by="price")
    return highest.select("window_start", "window_end", "auction", "bidder", "price", "dateTime")


def q8(streams: Streams) -> Stream:
    """Persons who opened an auction in the ten seconds in which they registered."""
    ten_seconds = tumbling("10 seconds")
    people = streams.of("person", ["id", "name", "dateTime"])
    auctions = streams.of("auction", ["seller", "dateTime"])
    newcomers = people.key_by("id", "name").window(ten_seconds).aggregate(name="newcomers")
    sellers = auctions.key_by("seller").window(ten_seconds).aggregate(name="sellers")
    joined = newcomers.window_join(sellers, on="id = seller")
    return joined.select("id", "name", "window_start", "window_end")


_ORIGINAL = (q0, q1, q2, q3, q4, q5, q6, q7, q8)
_FURTHER = (
    *(further.q9, further.q10, further.q11, further.q12, further.q13, further.q14, further.q15),
    *(further.q16, further.q17, further.q18, further.q19, further.q20, further.q21, further.q22),
)
QUERIES: dict[str, Callable[[Streams], Stream]] = {query.__name__: query for query in (*_ORIGINAL, *_FURTHER)}

PARTITIONED: dict[str, tuple[str, ...]] = {"q10": ("dt", "hm")}
"""The columns that name the directories of a query whose answer is files."""


def build(query: str, workload: Workload) -> App:
    """Returns the app of a query."""
    make = QUERIES.get(query)
    if make is None:
        raise UserError(f"there is no NEXMark query '{query}'", None, f"Choose one of {', '.join(QUERIES)}.")
    streams = Streams(query, workload)
    streams.end(make(streams), partition_by=PARTITIONED.get(query, ()))
    return spread_out(streams.app, workload)


def spread_out(app: App, workload: Workload) -> App:
    """Returns an app with its functions on as many workers as the workload says."""
    if workload.lessees:
        app.spread(lessees=workload.lessees, strategy=workload.strategy or ForwardAll())
    if workload.elastic:
        app.elastic()
    return app
