"""NEXMark queries that the original suite does not have, after nexmark/nexmark's Flink SQL (`bench/README.md` lists the
differences)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stretto.api.stream import Stream
from stretto.api.udfs import udf
from stretto.bench.nexmark.events import AUCTION, BID
from stretto.bench.nexmark.workload import Streams
from stretto.operators.windows import session, tumbling

DAY = "date_format(dateTime, 'yyyy-MM-dd')"
MINUTE = "date_format(dateTime, 'HH:mm')"
RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
"""Three classes of prices, which queries 15 to 17 count."""

SIDE_INPUT_ROWS = 10_000
"""The rows of query 13's table: numbers, and the same numbers as text."""


def q9(streams: Streams) -> Stream:
    """The winning bid of each auction: the highest while it was open, the earliest on a tie."""
    auctions = streams.of("auction", AUCTION.names)
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])
    offers = auctions.interval_join(
        bids.rename({"dateTime": "bid_dateTime", "extra": "bid_extra"}),
        on="id = auction",
        lower="dateTime",
        upper="expires",
    )
    earliest = ["price DESC", "bid_dateTime ASC", "bidder ASC", "bid_extra ASC"]
    return offers.key_by("id").top(1, by=earliest, ranking="row_number")


def q10(streams: Streams) -> Stream:
    """Log bids to files, in a directory for each day and minute."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime", "extra"])
    return bids.with_columns(dt=DAY, hm=MINUTE)


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


def q13(streams: Streams) -> Stream:
    """Bids with a value that a bounded table has for their auction."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime"])
    keys = range(SIDE_INPUT_ROWS)
    rows = pa.table({"key": pa.array(keys, pa.int64()), "value": pa.array(map(str, keys), pa.string())})
    side_input = streams.app.table("side_input", rows)
    joined = bids.join(side_input, on=f"auction % {SIDE_INPUT_ROWS} = key")
    return joined.select("auction", "bidder", "price", "dateTime", "value")


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


def by_rank(name: str, count: str) -> list[str]:
    """Returns a count of all bids, and of those in each class of prices."""
    ranked = [f"{count} FILTER (WHERE {rank}) AS rank{i}_{name}" for i, rank in enumerate(RANKS, 1)]
    return [f"{count} AS total_{name}", *ranked]


STATISTICS = [
    *by_rank("bids", "count(*)"),
    *by_rank("bidders", "count(DISTINCT bidder)"),
    *by_rank("auctions", "count(DISTINCT auction)"),
]


def q15(streams: Streams) -> Stream:
    """Bids, bidders and auctions of each day, by classes of prices."""
    bids = streams.of("bid", ["auction", "bidder", "price", "dateTime"])
    return bids.key_by(f"{DAY} AS day").aggregate(*STATISTICS)


def q16(streams: Streams) -> Stream:
    """Bids, bidders and auctions of each channel and day, by classes of prices."""
    bids = streams.of("bid", ["auction", "bidder", "price", "channel", "dateTime"])
    return bids.key_by("channel", f"{DAY} AS day").aggregate(f"max({MINUTE}) AS minute", *STATISTICS)


def q17(streams: Streams) -> Stream:
    """Bids and prices of each auction and day."""
    bids = streams.of("bid", ["auction", "price", "dateTime"])
    by_day = bids.key_by("auction", f"{DAY} AS day")
    return by_day.aggregate(
        *by_rank("bids", "count(*)"),
        min_price="min(price)",
        max_price="max(price)",
        avg_price="avg(price)",
        sum_price="sum(price)",
    )


def q18(streams: Streams) -> Stream:
    """The last bid of each bidder on each auction."""
    return streams.of("bid", BID.names).drop_duplicates("bidder", "auction", keep="last")


def q19(streams: Streams) -> Stream:
    """The ten highest bids of each auction."""
    highest = ["price DESC", "dateTime ASC", "bidder ASC", "channel ASC", "extra ASC"]
    by_auction = streams.of("bid", BID.names).key_by("auction")
    return by_auction.top(10, by=highest, rank="rank_number", ranking="row_number")


def q20(streams: Streams) -> Stream:
    """Bids with their auction, of category 10."""
    bids = streams.of("bid", BID.names)
    auctions = streams.of("auction", AUCTION.names)
    return (
        bids.rename({"dateTime": "bid_dateTime", "extra": "bid_extra"})
        .join(
            auctions.filter("category = 10").rename({"dateTime": "auction_dateTime", "extra": "auction_extra"}),
            on="auction = id",
        )
        .drop("id")
    )


def q21(streams: Streams) -> Stream:
    """Bids with the number of their channel: known for the hot ones, else from their address."""
    bids = streams.of("bid", ["auction", "bidder", "price", "channel", "url", "dateTime"])
    channel_id = """CASE lower(channel)
                      WHEN 'apple' THEN '0'
                      WHEN 'google' THEN '1'
                      WHEN 'facebook' THEN '2'
                      WHEN 'baidu' THEN '3'
                      ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
                    END AS channel_id"""
    return bids.select("auction", "bidder", "price", "channel", channel_id).filter("channel_id <> ''")


def q22(streams: Streams) -> Stream:
    """Bids with the directories of their address."""
    bids = streams.of("bid", ["auction", "bidder", "price", "channel", "url", "dateTime"])
    directories = [f"split(url, '/')[{i + 2}] AS dir{i}" for i in (1, 2, 3)]
    return bids.select("auction", "bidder", "price", "channel", *directories)
