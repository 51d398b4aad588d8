"""A quiet local Spark session for the command line and the benchmarks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from stretto.errors import ClusterError
from stretto.runtime.own_python import use_own_python

SPARE_SLOTS = 2
"""Slots in addition to those of the workers, for Spark's own queries."""

_LOGGING = Path(__file__).with_name("log4j2.properties")


def local_master(workers: int) -> str:
    """Returns the master URL for this number of workers and the spare slots."""
    return f"local[{workers + SPARE_SLOTS}]"


@contextmanager
def spark_session(name: str, master: str, java_options: str = "", jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """Yields a Spark session and stops it after the block, even one that the user's own code has started."""
    spark = start_spark(name, master, java_options, jars)
    try:
        yield spark
    finally:
        spark.stop()


def start_spark(name: str, master: str, java_options: str = "", jars: Sequence[Path] = ()) -> SparkSession:
    """Starts Spark: UTC, no web page, no progress bar, and only errors in the log, which goes to stderr.

    The options of Java and the jars count only if no session of this process has started Java before."""
    is_local = master.split("[")[0] == "local"
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {java_options}")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    if is_local:
        # Spark's default of 200 partitions is for many machines.
        builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.driver.memory", "2g")
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ClusterError(
            "Spark did not start",
            str(error),
            "Spark needs Java 17 or later: install it, and set JAVA_HOME or the path.",
        ) from error
    except PySparkException as error:
        raise ClusterError("Spark did not start", str(error)) from error
    use_own_python(spark)
    _keep_interrupts()
    return spark


def timezone_of(spark: SparkSession) -> str:
    """Returns the session's time zone."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _keep_interrupts() -> None:
    """Makes Ctrl-C end only our own waits: Spark's handler would also cancel the workers' jobs before they can
    leave."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
