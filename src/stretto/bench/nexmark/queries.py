"""The NEXMark queries, each written once with the public API (`oracle` has the same queries in SQL).

A query takes `Streams` and returns the stream of its answer. `build(query, workload)` returns an app with the sink
"out". Query 12 has a second sink, "ingested", that records the ingestion time of every bid, so that the oracle can
compute the same windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.api.slo import SLO
from stretto.api.stream import Stream
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.errors import UserError
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import hopping, session, span, tumbling
from stretto.scheduling.spreading import ForwardAll

LAST_AUCTIONS = 10
"""Query 6 averages over this many closed auctions of each seller."""


@dataclass(frozen=True)
class Workload:
    """The events of a query, their rate, and how the query is spread."""

    config: NexmarkConfig = field(default_factory=lambda: NexmarkConfig(events=200_000))
    rate: float | None = None
    parallelism: int | None = None
    batch: int = 4096
    sink: Callable[[], Sink] = CollectSink
    slo: SLO | None = None
    engine: str = "actors"
    lessees: int = 0
    """If not 0, every function that allows it has this many lessees, which get all of its messages ..."""
    strategy: str | None = None
    """... or those that this strategy assigns to them."""
    gate: Gate | None = None
    """Holds the events of all kinds back."""


class Streams:
    """The sources of one app, made on demand."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.workload = workload
        self.app = App(
            name,
            slo=workload.slo,
            engine=workload.engine,
            parallelism=workload.parallelism,
            batch_rows=workload.batch,
        )

    def of(self, kind: str, columns: Sequence[str], **options: Any) -> Stream:
        # The source emits its own watermark; the delay is for micro-batches, which only know the greatest time.
        delay = self.workload.config.disorder_s
        return self.app.source(kind, self.source(kind, columns), **{"time": "dateTime", "delay": delay, **options})

    def source(self, kind: str, columns: Sequence[str]) -> Source:
        """Returns the source of the events of one kind."""
        source = NexmarkSource(kind, self.workload.config, self.workload.rate, columns)
        return source if self.workload.gate is None else self.workload.gate.before(source)

    def record(self, bids: Stream) -> None:
        """Record bids with their ingestion time."""
        self.end(bids, "ingested")

    def end(self, stream: Stream, name: str = "out") -> None:
        stream.sink(self.workload.sink(), name=name)


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


def q11(streams: Streams) -> Stream:
    """Bids of each bidder per session of activity."""
    bids = streams.of("bid", ["bidder", "dateTime"])
    counted = bids.key_by("bidder").window(session("10 seconds")).aggregate(bids="count(*)")
    return counted.select("bidder", "window_start", "window_end", "bids")


def q12(streams: Streams) -> Stream:
    """Bids of each bidder per ten seconds of processing time."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime"], time="ingestTime", stamp="ingestTime")
    streams.record(bids)
    counted = bids.key_by("bidder").window(tumbling("10 seconds")).aggregate(bids="count(*)")
    return counted.select("bidder", "window_start", "window_end", "bids")


QUERIES: dict[str, Callable[[Streams], Stream]] = {
    function.__name__: function for function in (q0, q1, q2, q3, q4, q5, q6, q7, q8, q11, q12)
}


def build(query: str, workload: Workload) -> App:
    """Returns the app of a query."""
    make = QUERIES.get(query)
    if make is None:
        raise UserError(f"there is no NEXMark query '{query}'", None, f"Choose one of {', '.join(QUERIES)}.")
    streams = Streams(query, workload)
    streams.end(make(streams))
    if workload.lessees:
        streams.app.spread(lessees=workload.lessees, strategy=workload.strategy or ForwardAll())
    return streams.app
