"""NEXMark queries that the original suite does not have, after nexmark/nexmark's Flink SQL (`bench/README.md` lists the
differences)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stretto.api.stream import Stream
from stretto.api.udfs import udf
from stretto.bench.nexmark.workload import Streams
from stretto.operators.windows import session, tumbling


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


@udf("bigint")
def count_char(text: pa.Array, char: pa.Array) -> pa.Array:
    """Returns how often a letter, the same for all rows, is in each text."""
    (letter,) = char.unique().to_pylist()
    return pc.count_substring(text, letter).cast(pa.int64())


def q14(streams: Streams) -> Stream:
    """Bids in a range of prices, with the time of day and a Python function of their text."""
    streams.app.register(count_char)
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])
    return bids.filter("0.908 * price > 1000000 AND 0.908 * price < 50000000").select(
        "auction",
        "bidder",
        "0.908 * price AS price",
        """CASE
             WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
             WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
             ELSE 'otherTime'
           END AS bidTimeType""",
        "dateTime",
        "extra",
        "count_char(extra, 'c') AS c_counts",
    )


def q20(streams: Streams) -> Stream:
    """Bids with their auction, of category 10."""
    bids = streams.of("bid", ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"])
    columns = ["id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category"]
    auctions = streams.of("auction", [*columns, "extra"])
    return (
        bids.rename({"dateTime": "bid_dateTime", "extra": "bid_extra"})
        .join(
            auctions.filter("category = 10").rename({"dateTime": "auction_dateTime", "extra": "auction_extra"}),
            on="auction = id",
        )
        .drop("id")
    )
