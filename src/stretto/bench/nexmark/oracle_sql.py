"""The NEXMark queries in Spark SQL, over the views `bid`, `auction`, `person` and `bid_ingested`.

Queries 0 to 3, 5, 7 to 9 and later follow nexmark/nexmark's Flink SQL, 4 and 6 follow Beam; `bench/README.md` lists
the differences. Where a query orders rows, the order is extended by columns that make rows with equal places equal in
all columns, so that there is one answer.
"""

from __future__ import annotations

# The price of each auction's winning bid. On a tie the earliest bid wins, which cannot change the price.
_WINNING = """
winning AS (
  SELECT a.id, a.category, a.seller, a.expires, max(b.price) AS price
  FROM auction a JOIN bid b ON a.id = b.auction
  WHERE b.dateTime >= a.dateTime AND b.dateTime < a.expires AND b.price >= a.reserve
  GROUP BY a.id, a.category, a.seller, a.expires
)"""

# Prices in three classes: what queries 15 and 16 count, in all and by class.
_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _counted(what: str, name: str) -> str:
    """Returns a count of all rows and one for each class of prices: total_bids, rank1_bids, ..."""
    by_rank = [f"count({what}) FILTER (WHERE {rank}) AS rank{i}_{name}" for i, rank in enumerate(_RANKS, 1)]
    return ", ".join([f"count({what}) AS total_{name}", *by_rank])


_BIDS = _counted("*", "bids")
_STATISTICS = ",\n  ".join([_BIDS, _counted("DISTINCT bidder", "bidders"), _counted("DISTINCT auction", "auctions")])

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
    # The winning bid of each auction: the highest while it was open, the earliest on a tie.
    "q9": """
WITH ranked AS (
  SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder, b.extra) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
SELECT * EXCEPT (place) FROM ranked WHERE place = 1
""",
    # Bids as they are logged, with the day and the minute that name their directory.
    "q10": """
SELECT auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM bid
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
    # Bids with a value that a bounded table has for their auction.
    "q13": """
WITH side_input AS (SELECT id AS key, CAST(id AS STRING) AS value FROM range(10000))
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value FROM bid b JOIN side_input s ON b.auction % 10000 = s.key
""",
    # Expensive bids with the time of day and the number of letters c in `extra`.
    "q14": """
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidTimeType,
  dateTime, extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
""",
    # Bids, bidders and auctions of each day, by classes of prices.
    "q15": f"""
SELECT date_format(dateTime, 'yyyy-MM-dd') AS day,
  {_STATISTICS}
FROM bid GROUP BY 1
""",
    # The same by channel and day, with the last minute.
    "q16": f"""
SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day, max(date_format(dateTime, 'HH:mm')) AS minute,
  {_STATISTICS}
FROM bid GROUP BY 1, 2
""",
    # Bids and prices of each auction and day.
    "q17": f"""
SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day, {_BIDS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY 1, 2
""",
    # The last bid of each bidder on each auction.
    "q18": """
WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC, channel DESC, extra DESC
  ) AS place FROM bid
)
SELECT auction, bidder, price, channel, url, dateTime, extra FROM ranked WHERE place = 1
""",
    # The ten highest bids of each auction.
    "q19": """
WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY auction ORDER BY price DESC, dateTime, bidder, channel, extra
  ) AS rank_number FROM bid
)
SELECT auction, bidder, price, channel, url, dateTime, extra, rank_number FROM ranked WHERE rank_number <= 10
""",
    # Bids with their auction, where its category is 10.
    "q20": """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
  a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auction_dateTime, a.expires, a.seller, a.category,
  a.extra AS auction_extra
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10
""",
    # Bids with the number of their channel: a constant for the hot ones, else from the address.
    "q21": r"""
WITH addressed AS (
  SELECT auction, bidder, price, channel, regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) AS found FROM bid
)
SELECT auction, bidder, price, channel,
  CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE found END AS channel_id
FROM addressed WHERE found <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
""",
    # Bids with the directories of their address.
    "q22": """
SELECT auction, bidder, price, channel,
  split(url, '/')[3] AS dir1, split(url, '/')[4] AS dir2, split(url, '/')[5] AS dir3
FROM bid
""",
}
