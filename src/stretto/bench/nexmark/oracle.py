"""Each NEXMark query's final answer, computed by Spark SQL over the whole input.

The oracle shares only the events with the system under test. A query is plain SQL (`oracle_sql`) over the views `bid`,
`auction` and `person`; query 12 reads `bid_ingested`, which is `bid` with the `ingestTime` that the source stamped and
recorded. The input has ended, so every window and every auction counts as closed. Timestamps are in UTC.

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
from stretto.bench.nexmark.oracle_sql import QUERIES
from stretto.errors import SourceError, UserError

__all__ = ["QUERIES", "answer", "load_views", "write_events"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every view a query may read: the three kinds, and the bids with their ingestion time.
VIEWS = (*(kind.value for kind in Kind), "bid_ingested")

# Arrival positions per chunk when events are written: bounds the memory, whatever the length of the stream.
WRITE_CHUNK = 500_000


def answer(
    spark: SparkSession, query: str, events: Mapping[str, pa.Table] | Path | str, timezone: str = "UTC"
) -> pa.Table:
    """The final answer of one query ("q0" to "q22") over `events`, in no particular order.

    `events` is a table for each view, or a directory that `write_events` wrote. The caller's session keeps its views
    and settings: the query runs in its own session, in its own time zone.
    """
    if query not in QUERIES:
        raise UserError(f"there is no NEXMark query {query!r} here", f"there are {', '.join(QUERIES)}")
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", timezone)
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
