"""How long a micro-batch takes on this cluster: what `engine="auto"` compares a latency objective with."""

from __future__ import annotations

import statistics
import tempfile
import time
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from stretto.errors import ClusterError
from stretto.runtime.microbatch import STREAM_SETTINGS, state_partitions
from stretto.runtime.slots import require_free_slot

BATCHES_SKIPPED = 2
"""The number of first micro-batches to ignore: they compile code and start Python and RocksDB."""

BATCHES_MEASURED = 5
MEASURING_S = 60.0
"""After this time, fewer micro-batches will do: each has taken so long that no more precision is needed."""
MEASURING_S_MAX = 1_200.0
_ROWS_PER_BATCH = 100
_POLL_S = 0.05

_measured: dict[str, float] = {}
_lock = Lock()


def measure_trigger_s(spark: SparkSession) -> float:
    """Returns the median duration of a few micro-batches of a small stateful query, measured once per Spark
    application."""
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application not in _measured:
            require_free_slot(spark, "measuring the time of a micro-batch")
            _measured[application] = _measure(spark)
        return _measured[application]


def _measure(spark: SparkSession) -> float:
    session = spark.newSession()
    for key, value in STREAM_SETTINGS.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", state_partitions(session, None))
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS_PER_BATCH).load()
    counts = stream.groupBy((F.col("value") % 10).alias("key")).count()

    def through_python(batch: DataFrame, number: int) -> None:
        batch.toArrow()

    with tempfile.TemporaryDirectory(prefix="stretto-trigger-") as directory:
        query = (
            counts.writeStream.outputMode("update")
            .option("checkpointLocation", directory)
            .foreachBatch(through_python)
            .start()
        )
        try:
            return _median_s(query)
        finally:
            query.stop()


def _median_s(query: StreamingQuery) -> float:
    """Waits for the micro-batches. A query that is active makes progress, however slow the machine is."""
    began = time.monotonic()
    while query.isActive and (elapsed_s := time.monotonic() - began) < MEASURING_S_MAX:
        durations = [
            progress.durationMs["triggerExecution"] / 1000
            for progress in query.recentProgress
            if progress.batchId >= BATCHES_SKIPPED and progress.numInputRows
        ]
        if len(durations) >= BATCHES_MEASURED or (durations and elapsed_s >= MEASURING_S):
            return statistics.median(durations)
        time.sleep(_POLL_S)
    reason = str(query.exception() or f"no micro-batch ended within {MEASURING_S_MAX:g} s")
    raise ClusterError("the trigger time of micro-batches could not be measured", reason)
