"""A quiet local Spark for the command line and the benchmarks: started in one place, and stopped again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from stretto.errors import ClusterError

SPARE_SLOTS = 2
"""Slots beside those of the workers, for Spark's own queries."""

_LOGGING = Path(__file__).with_name("log4j2.properties")


def local_master(workers: int) -> str:
    """The master for so many workers and what runs beside them."""
    return f"local[{workers + SPARE_SLOTS}]"


@contextmanager
def spark_session(name: str, master: str) -> Iterator[SparkSession]:
    """A Spark session for the time of the block. One that the user's own code has started is used, and stopped, too."""
    spark = start_spark(name, master)
    try:
        yield spark
    finally:
        spark.stop()


def start_spark(name: str, master: str) -> SparkSession:
    """Start Spark: UTC, no web page, no progress bar, and only errors in the log, which goes to stderr."""
    is_local = master.split("[")[0] == "local"
    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if is_local:
        # Spark's default of 200 partitions is for many machines.
        builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "2g")
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ClusterError(
            "Spark did not start",
            str(error),
            "Spark needs Java 17 or later: install it, and let JAVA_HOME or the path lead to it.",
        ) from error
    except PySparkException as error:
        raise ClusterError("Spark did not start", str(error)) from error
    _keep_interrupts()
    return spark


def _keep_interrupts() -> None:
    """Let Ctrl-C end our own waits only: Spark's handler would also cancel the workers' jobs before they can leave."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
