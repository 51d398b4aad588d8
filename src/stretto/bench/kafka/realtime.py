"""The same way from topic to topic in Spark's real-time mode: one long batch whose records are passed on at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stretto.bench.kafka.broker import Broker
from stretto.bench.kafka.latency import SCHEMA, Latencies, Passage
from stretto.errors import ClusterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = "5 minutes"
"""Spark's default: offsets are written at the end of a batch."""


def measure(spark: SparkSession, broker: Broker, rate: int, seconds: float, number: int = 0) -> Latencies:
    """Returns the latencies of records that are written at `rate` per second for so long after the warm-up. Each
    `number` has topics of its own."""
    passage = Passage(broker, f"spark-{number}", rate, seconds)
    with _running(spark, passage) as query:

        def check() -> None:
            error = query.exception()
            if error is not None:
                raise ClusterError("Spark's query in real-time mode failed", str(error)[:500])

        return passage.timed(check)


@contextmanager
def _running(spark: SparkSession, passage: Passage) -> Iterator[StreamingQuery]:
    from pyspark.sql import functions as F

    brokers = {"kafka.bootstrap.servers": passage.address}
    read = spark.readStream.format("kafka").options(**brokers, subscribe=passage.read_from, startingOffsets="earliest")
    rows = read.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).where("row.n >= 0")
    values = rows.select(F.to_json("row").alias("value"))
    with tempfile.TemporaryDirectory(prefix="stretto-realtime-", ignore_cleanup_errors=True) as directory:
        writing = values.writeStream.format("kafka").options(**brokers, topic=passage.write_to)
        writing = writing.option("checkpointLocation", directory).outputMode("update")
        query = writing.trigger(realTime=BATCH).start()  # type: ignore[call-overload]  # PySpark's hints lack it.
        try:
            yield query
        finally:
            spark.sparkContext.setLogLevel("OFF")  # The batch that is stopped would report it as an error.
            query.stop()
            spark.sparkContext.setLogLevel("ERROR")
