"""The output of a job as a streaming DataFrame, from which Spark queries continue exactly once.

from stretto import sinks, streams

totals.sink(sinks.stream("/data/totals"), name="totals")
streams.read(spark, "/data/totals").writeStream.format("delta")...
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stretto.runtime.epoch_stream import read_epochs
from stretto.runtime.epoch_stream import register as register_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, directory: str | os.PathLike[str]) -> DataFrame:
    """Returns the rows that a job writes to `sinks.stream(directory)` as a streaming DataFrame. Each micro-batch has
    whole checkpoints of each partition. A query that is stopped or fails and starts again reads every row once."""
    return read_epochs(spark, directory)


def register(spark: SparkSession) -> None:
    """Makes the format known to a session: `spark.readStream.format("stretto").option("sink", directory)`."""
    register_format(spark)
