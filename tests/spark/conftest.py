"""What tests on real Spark share: a local session, and waiting for a condition instead of for time to pass."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from pyspark.sql import SparkSession

T = TypeVar("T")
Eventually = Callable[..., T]


# Per module, because modules with settings of their own stop the one session that a process can have.
@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Eight slots, so that several clusters fit beside each other."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[8]")
        .appName("stretto-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # Tasks are killed on purpose here; Spark would fill the page.
    yield session
    session.stop()


@pytest.fixture(scope="session")
def eventually() -> Callable[..., object]:
    """`eventually(condition)` gives the first true value of the condition, or fails after a while."""

    def wait(condition: Callable[[], T], within_s: float = 20.0, what: str = "the condition") -> T:
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            if time.monotonic() >= deadline:
                raise AssertionError(f"{what} did not come true within {within_s:g} s; it is {value!r}")
            time.sleep(0.02)
        return value

    return wait
