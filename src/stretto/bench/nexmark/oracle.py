"""Each NEXMark query's final answer, computed by Spark SQL over the whole input.

The oracle shares only the events with the system under test. A query is plain SQL over the views `bid`, `auction` and
`person`; query 12 reads `bid_ingested`, which is `bid` with the `ingestTime` that the source stamped and recorded.
The input has ended, so every window and every auction counts as closed. Timestamps are in UTC.

An answer is collected to the driver: for a pass-through query over more than a few million bids, raise
`spark.driver.maxResultSize` and the driver's memory, or check a shorter stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from stretto.bench.nexmark.events import SCHEMAS, Kind, NexmarkConfig, stream_length
from stretto.bench.nexmark.generator import generate
from stretto.errors import SourceError, UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every view a query may read: the three kinds, and the bids with their ingestion time.
VIEWS = (*(kind.value for kind in Kind), "bid_ingested")

# Arrival positions per chunk when events are written: bounds the memory, whatever the length of the stream.
WRITE_CHUNK = 500_000

# The price of each auction's winning bid. On a tie the earliest bid wins, which cannot change the price.
_WINNING = """
winning AS (
  SELECT a.id, a.category, a.seller, a.expires, max(b.price) AS price
  FROM auction a JOIN bid b ON a.id = b.auction
  WHERE b.dateTime >= a.dateTime AND b.dateTime < a.expires AND b.price >= a.reserve
  GROUP BY a.id, a.category, a.seller, a.expires
)"""

QUERIES: dict[str, str] = {
    # Pass bids through.
    "q0": """
SELECT auction, bidder, price, dateTime, extra FROM bid
""",
    # Dollars to euros.
    "q1": """
SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid
""",
    # Bids on some auctions.
    "q2": """
SELECT auction, price FROM bid WHERE auction % 123 = 0
""",
    # Sellers in some states.
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
""",
    # Average winning price of each category.
    "q4": f"""
WITH {_WINNING}
SELECT category, avg(price) AS avg_price FROM winning GROUP BY category
""",
    # The auctions with most bids in each hopping window.
    "q5": """
WITH counts AS (
  SELECT window(dateTime, '10 seconds', '2 seconds') AS w, auction, count(*) AS num FROM bid GROUP BY 1, 2
), ranked AS (
  SELECT *, rank() OVER (PARTITION BY w ORDER BY num DESC) AS place FROM counts
)
SELECT w.start AS window_start, w.end AS window_end, auction, num FROM ranked WHERE place = 1
""",
    # Average winning price of each seller's last ten auctions that had a winner.
    "q6": f"""
WITH {_WINNING}, latest AS (
  SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place FROM winning
)
SELECT seller, avg(price) AS avg_price FROM latest WHERE place <= 10 GROUP BY seller
""",
    # The bids of highest price in each tumbling window.
    "q7": """
WITH windowed AS (
  SELECT window(dateTime, '10 seconds') AS w, auction, bidder, price, dateTime FROM bid
), highest AS (
  SELECT w, max(price) AS price FROM windowed GROUP BY w
)
SELECT b.w.start AS window_start, b.w.end AS window_end, b.auction, b.bidder, b.price, b.dateTime
FROM windowed b JOIN highest h ON b.w = h.w AND b.price = h.price
""",
    # Persons who opened an auction in the window in which they registered.
    "q8": """
WITH registered AS (
  SELECT DISTINCT id, name, window(dateTime, '10 seconds') AS w FROM person
), sellers AS (
  SELECT DISTINCT seller, window(dateTime, '10 seconds') AS w FROM auction
)
SELECT p.id, p.name, p.w.start AS window_start, p.w.end AS window_end
FROM registered p JOIN sellers s ON p.id = s.seller AND p.w = s.w
""",
    # Bids of each bidder in each session of activity. Spark joins sessions that touch: a bid exactly ten seconds after
    # the last one continues its session, although `window_end` is exclusive.
    "q11": """
SELECT bidder, session_window.start AS window_start, session_window.end AS window_end, count(*) AS bids
FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')
""",
    # Bids of each bidder in each tumbling window of ingestion time.
    "q12": """
SELECT bidder, window.start AS window_start, window.end AS window_end, count(*) AS bids
FROM bid_ingested GROUP BY bidder, window(ingestTime, '10 seconds')
""",
}


def answer(spark: SparkSession, query: str, events: Mapping[str, pa.Table] | Path | str) -> pa.Table:
    """The final answer of one query ("q0" to "q12") over `events`, in no particular order.

    `events` is a table for each view, or a directory that `write_events` wrote. The caller's session keeps its views
    and settings: the query runs in its own session, in UTC.
    """
    if query not in QUERIES:
        raise UserError(f"there is no NEXMark query {query!r} here", f"there are {', '.join(QUERIES)}")
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    if isinstance(events, Mapping):
        for view, table in events.items():
            session.createDataFrame(table).createOrReplaceTempView(view)
    else:
        load_views(session, events)
    return session.sql(QUERIES[query]).toArrow()


def load_views(spark: SparkSession, directory: Path | str) -> tuple[str, ...]:
    """Register a temporary view for each kind of event found in `directory`; return their names."""
    found = tuple(view for view in VIEWS if (Path(directory) / view).is_dir())
    if not found:
        raise SourceError("no NEXMark events found", f"{directory} has none of {', '.join(VIEWS)}")
    for view in found:
        spark.read.parquet(str(Path(directory) / view)).createOrReplaceTempView(view)
    return found


def write_events(config: NexmarkConfig, directory: Path | str, kinds: Iterable[Kind | str] = tuple(Kind)) -> None:
    """Write the whole stream as Parquet, `directory/<kind>/events.parquet`, in arrival order and constant memory."""
    length = stream_length(config)
    for kind in map(Kind, kinds):
        target = Path(directory) / kind.value
        target.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(target / "events.parquet", SCHEMAS[kind]) as writer:
            for start in range(0, length, WRITE_CHUNK):
                writer.write_batch(generate(config, kind, start, start + WRITE_CHUNK))
