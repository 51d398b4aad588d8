"""The NEXMark queries as SQL text for streams: the same as `queries`, compiled to the same verbs.

`build_sql(query, workload)` returns an app with the sinks of `queries.build`. The texts are what a user would write,
with `USING nexmark` for the tables; the workload decides what is behind that. They are independent of `oracle_sql`,
which is for Spark over the whole input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stretto import sinks
from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.api.app import App
from stretto.bench.nexmark.events import SCHEMAS, Kind
from stretto.bench.nexmark.queries import PARTITIONED, build, spread_out
from stretto.bench.nexmark.workload import Streams, Workload
from stretto.errors import UserError
from stretto.formats import ShippedFormats
from stretto.sql import compiled

__all__ = ["SQL_QUERIES", "build_sql", "built", "text_of"]

_TABLES = "\n".join(
    f"""CREATE STREAMING TABLE {kind} (WATERMARK FOR dateTime AS dateTime - INTERVAL 2 SECONDS)
USING nexmark OPTIONS (kind = '{kind}', events = 200000);"""
    for kind in Kind
)
_OUT = "CREATE TABLE out USING collect;"

_WINNING = """winning AS (
  SELECT a.id, a.seller, a.category, span_window(a.dateTime, a.expires) AS open, max(b.price) AS price
  FROM STREAM auction a JOIN STREAM bid b ON a.id = b.auction
  WHERE b.dateTime >= a.dateTime AND b.dateTime < a.expires AND b.price >= a.reserve
  GROUP BY a.id, a.seller, a.category, span_window(a.dateTime, a.expires)
)"""
_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _counted(call: str, name: str) -> str:
    """Returns a count of all bids, and of those in each class of prices."""
    ranked = (f"{call} FILTER (WHERE {rank}) AS rank{i}_{name}" for i, rank in enumerate(_RANKS, 1))
    return ",\n  ".join([f"{call} AS total_{name}", *ranked])


_BIDS = _counted("count(*)", "bids")
_STATISTICS = ",\n  ".join(
    [_BIDS, _counted("count(DISTINCT bidder)", "bidders"), _counted("count(DISTINCT auction)", "auctions")]
)

SQL_QUERIES: dict[str, str] = {
    "q0": "INSERT INTO out SELECT auction, bidder, price, dateTime, extra FROM STREAM bid",
    "q1": "INSERT INTO out SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM STREAM bid",
    "q2": "INSERT INTO out SELECT auction, price FROM STREAM bid WHERE auction % 123 = 0",
    "q3": """INSERT INTO out
SELECT p.name, p.city, p.state, a.id
FROM STREAM auction a JOIN STREAM person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""INSERT INTO out
WITH {_WINNING}
SELECT category, avg(price) AS avg_price FROM winning GROUP BY category""",
    "q5": """INSERT INTO out
WITH counts AS (
  SELECT window_start, window_end, auction, count(*) AS num
  FROM HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
  GROUP BY window_start, window_end, auction
)
SELECT * FROM counts
QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY num DESC) = 1""",
    "q7": """INSERT INTO out
SELECT window_start, window_end, auction, bidder, price, dateTime
FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)
QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) = 1""",
    "q8": """INSERT INTO out
WITH newcomers AS (
  SELECT DISTINCT id, name, window(dateTime, '10 seconds') AS w FROM STREAM person
), sellers AS (
  SELECT DISTINCT seller, window(dateTime, '10 seconds') AS w FROM STREAM auction
)
SELECT p.id, p.name, p.w.start AS window_start, p.w.end AS window_end
FROM newcomers p JOIN sellers s ON p.id = s.seller AND p.w = s.w""",
    "q9": """INSERT INTO out
SELECT * EXCEPT (place) FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder, b.extra) AS place
  FROM STREAM auction a JOIN STREAM bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
) WHERE place <= 1""",
    "q10": """CREATE TABLE out USING parquet OPTIONS (path = 'logged') PARTITIONED BY (dt, hm);
INSERT INTO out
SELECT auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM STREAM bid""",
    "q11": """INSERT INTO out
SELECT bidder, session_window.start AS window_start, session_window.end AS window_end, count(*) AS bids
FROM STREAM bid GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    "q12": """CREATE STREAMING TABLE arriving (WATERMARK FOR ingestTime AS ingestTime)
USING nexmark OPTIONS (kind = 'bid', events = 200000, stamp = 'ingestTime');
CREATE TABLE ingested USING collect;
INSERT INTO ingested SELECT auction, bidder, price, dateTime, ingestTime FROM STREAM arriving;
INSERT INTO out
SELECT bidder, window_start, window_end, count(*) AS bids
FROM TUMBLE(TABLE arriving, DESCRIPTOR(ingestTime), INTERVAL '10' SECOND)
GROUP BY window_start, window_end, bidder""",
    "q13": """INSERT INTO out
WITH side_input AS (SELECT id AS key, CAST(id AS STRING) AS value FROM range(10000))
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM STREAM bid b JOIN side_input s ON b.auction % 10000 = s.key""",
    "q14": """CREATE FUNCTION count_char AS 'stretto.bench.nexmark.further_queries:count_char';
INSERT INTO out
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidTimeType,
  dateTime, extra, count_char(extra, 'c') AS c_counts
FROM STREAM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""INSERT INTO out
SELECT date_format(dateTime, 'yyyy-MM-dd') AS day,
  {_STATISTICS}
FROM STREAM bid GROUP BY day""",
    "q16": f"""INSERT INTO out
SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day, max(date_format(dateTime, 'HH:mm')) AS minute,
  {_STATISTICS}
FROM STREAM bid GROUP BY channel, date_format(dateTime, 'yyyy-MM-dd')""",
    "q17": f"""INSERT INTO out
SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day,
  {_BIDS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM STREAM bid GROUP BY 1, 2""",
    "q18": """INSERT INTO out
SELECT * FROM STREAM bid
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1""",
    "q19": """INSERT INTO out
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY auction ORDER BY price DESC, dateTime, bidder, channel, extra
  ) AS rank_number FROM STREAM bid
) WHERE rank_number <= 10""",
    "q20": """INSERT INTO out
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
  a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auction_dateTime, a.expires, a.seller, a.category,
  a.extra AS auction_extra
FROM STREAM bid b JOIN STREAM auction a ON b.auction = a.id WHERE a.category = 10""",
    "q21": r"""INSERT INTO out
SELECT * FROM (
  SELECT auction, bidder, price, channel,
    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
      ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
  FROM STREAM bid
) WHERE channel_id <> ''""",
    "q22": """INSERT INTO out
SELECT auction, bidder, price, channel,
  split(url, '/')[3] AS dir1, split(url, '/')[4] AS dir2, split(url, '/')[5] AS dir3
FROM STREAM bid""",
}
SQL_QUERIES["q6"] = f"""INSERT INTO out
WITH {_WINNING}, latest AS (
  SELECT seller, price, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY open.end DESC, id DESC) AS place FROM winning
)
SELECT seller, avg(price) AS avg_price FROM latest WHERE place <= 10 GROUP BY seller"""


def text_of(query: str) -> str:
    """Returns the whole script of a query."""
    if query not in SQL_QUERIES:
        raise UserError(f"there is no NEXMark query '{query}' in SQL", None, f"Choose one of {', '.join(SQL_QUERIES)}.")
    out = "" if query in PARTITIONED else f"{_OUT}\n"
    return f"{_TABLES}\n{out}{SQL_QUERIES[query]};\n"


def built(query: str, workload: Workload) -> App:
    """Returns the app of a query, made of verbs or of text as the workload says."""
    return build_sql(query, workload) if workload.sql else build(query, workload)


def build_sql(query: str, workload: Workload) -> App:
    """Returns the app of a query that is written in SQL."""
    streams = Streams(query, workload)
    compiled(streams.app, text_of(query), _Workloads(streams))
    return spread_out(streams.app, workload)


class _Workloads(ShippedFormats):
    """The formats of a workload: its events at its rate, and its sinks."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def source(
        self, format: str, options: Mapping[str, str], schema: pa.Schema | None, columns: Sequence[str] | None
    ) -> Source:
        kind = options["kind"]
        names = SCHEMAS[Kind(kind)].names
        return self._streams.source(kind, [name for name in names if columns is None or name.lower() in columns])

    def sink(self, format: str, options: Mapping[str, Any], partition_by: Sequence[str]) -> Sink:
        workload = self._streams.workload
        if format == "parquet" and workload.files is not None:
            return sinks.parquet(workload.files, partition_by=partition_by)
        return workload.sink()
