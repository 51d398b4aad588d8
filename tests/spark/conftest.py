"""Fixtures of the tests on real Spark: a local session, and waiting for a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from tests import waiting

from stretto.runtime.own_python import use_own_python

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # The slots are for workers. Spark's own queries would have a Python process in each, which takes seconds to start.
    "spark.default.parallelism": "2",
}


# Per module: a module may have its own settings (`SPARK_SETTINGS`), and a process has one session at a time.
@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session with eight slots, enough for several clusters at once."""
    builder = SparkSession.builder.master("local[8]").appName("stretto-tests")
    for key, value in (DEFAULTS | getattr(request.module, "SPARK_SETTINGS", {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    use_own_python(session)
    session.sparkContext.setLogLevel("OFF")  # Tasks are killed on purpose here; Spark would log a lot.
    yield session
    session.stop()


@pytest.fixture(scope="session")
def eventually() -> Callable[..., object]:
    """`eventually(condition)` returns the first true value of the condition, or fails after a long while."""
    return waiting.eventually
