"""Queries as SQL text: the actors, in virtual time, have the rows that Spark SQL has for the same text.

Only what a table is called differs: `{bid}` is a stream with a watermark here, and a view in Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.sql_runs import simulated

from stretto import App, sources
from stretto.bench.verify import Match, compare

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
SPARK_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.join.asofJoin.enabled": "true",
}

START = datetime(2026, 3, 1, tzinfo=UTC)
TIMES = pa.timestamp("us", tz="UTC")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


BIDS = pa.table(
    {
        "auction": pa.array([n * 7 % 5 if n % 11 else None for n in range(120)], pa.int64()),
        "bidder": pa.array([n * 3 % 4 for n in range(120)], pa.int64()),
        "price": pa.array([50 + n * 37 % 100 for n in range(120)], pa.int64()),
        "channel": [("web", "Web", "app")[n % 3] for n in range(120)],
        # Bidder 3 rests for longer than a session's gap.
        "at": pa.array([at(n / 2 + (20 if n > 60 and n * 3 % 4 == 3 else 0)) for n in range(120)], TIMES),
    }
)
AUCTIONS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "seller": ["ada", "bob", "ada", "eve", "bob", "zoe"],
        "opened": pa.array([at(10 * n) for n in range(6)], TIMES),
        "closes": pa.array([at(10 * n + 15) for n in range(6)], TIMES),
    }
)
STREAMS = {
    "bid": "STREAM bid WATERMARK at DELAY OF INTERVAL 30 SECONDS",
    "auction": "STREAM auction WATERMARK opened DELAY OF INTERVAL 0 SECONDS",
    "names": "names",
}


def queries() -> list[str]:
    texts = (Path(__file__).parent / "sql_queries.sql").read_text("utf-8").split(";\n")
    return [text.strip() for text in texts if text.strip()]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, object]:
    names = pa.table({"who": ["ada", "bob", "eve", "eve"], "city": ["Oslo", "Rome", "Bern", "Riga"]})
    for name, rows in (("bid", BIDS), ("auction", AUCTIONS), ("names", names)):
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    return {
        "bid": sources.memory(BIDS, batch_rows=7),
        "auction": sources.memory(AUCTIONS, batch_rows=2),
        "names": names,
    }


@pytest.mark.parametrize("text", queries(), ids=lambda text: text.split("\n")[0].removeprefix("-- "))
def test_a_query_has_the_rows_of_spark_sql(spark: SparkSession, tables: dict[str, object], text: str) -> None:
    expected = spark.sql(text.format(bid="bid", auction="auction", names="names")).toArrow()
    assert expected.num_rows > 0, "the query shows nothing"
    verdict = compare(simulated(App.sql(text.format(**STREAMS), tables=tables)), expected)
    assert verdict.match is Match.MATCH, verdict.describe()
