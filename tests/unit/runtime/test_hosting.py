"""Spark's slots before a worker is started, and the one line that says why a worker has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from stretto.errors import ClusterError
from stretto.runtime import hosting
from stretto.runtime.hosting import check_slots, failure_line, slots_of


def spark_on(master: str, cores: Any = None, **settings: str) -> SparkSession:
    """Returns a stand-in for a session with the settings for slots; `cores` returns those of the registered
    executors."""
    backend = SimpleNamespace(totalCoreCount=cores)
    jsc = SimpleNamespace(sc=lambda: SimpleNamespace(schedulerBackend=lambda: backend))
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    context = SimpleNamespace(
        master=master, getConf=lambda: SimpleNamespace(get=conf.get), defaultParallelism=6, _jsc=jsc
    )
    return cast(SparkSession, SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize(
    ("spark", "slots"),
    [
        (spark_on("local"), 1),
        (spark_on("local[4]"), 4),
        (spark_on("local[4,2]"), 4),
        (spark_on("local[*]"), 6),
        (spark_on("local[4]", spark_task_cpus="2"), 2),
        (spark_on("local-cluster[2,1,1024]", lambda: 2), 2),
        (spark_on("spark://there:7077", lambda: 12), 12),
        (spark_on("spark://there:7077", lambda: 12, spark_task_cpus="4"), 3),
        (spark_on("yarn", lambda: 2, spark_dynamicAllocation_enabled="true"), None),
    ],
)
def test_slots_are_counted_as_spark_has_them(spark: SparkSession, slots: int | None) -> None:
    assert slots_of(spark) == slots


def test_too_many_workers_are_refused_with_what_to_do() -> None:
    with pytest.raises(ClusterError, match="3 workers were asked for, and Spark has 1 slot: master local") as caught:
        check_slots(spark_on("local"), 3)
    assert "Use workers=1 or fewer, or start Spark with more slots, such as local[4]." in str(caught.value)


def test_executors_that_are_about_to_register_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "REGISTER_POLL_S", 0.001)
    registered = iter([0, 1, 1, 2])
    check_slots(spark_on("spark://there:7077", lambda: next(registered)), 2)
    assert list(registered) == []


def test_executors_that_never_register_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "REGISTER_TIMEOUT_S", 0.0)
    with pytest.raises(ClusterError, match="2 workers were asked for, and Spark has 1 slot"):
        check_slots(spark_on("spark://there:7077", lambda: 1), 2)


LOST = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, "
    "most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): "
)
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
CANCELLED = "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled"
MISSING = "ModuleNotFoundError: No module named 'stretto'"
STACK = "\n\tat org.apache.spark.A(B.scala:1)\n\tat org.apache.spark.C(D.scala:2)\n\nDriver stacktrace:\n\tat E"
PYTHON = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
REASONS = {
    LOST + CRASHED + STACK: CRASHED,
    LOST + PYTHON + '  File "worker.py", line 1, in main\n' + MISSING + "\n" + STACK: MISSING,
    "An error occurred while calling z:org.apache.spark.A.\n: " + CANCELLED + STACK: CANCELLED,
    "plain words": "plain words",
    "": "ValueError",
}


@pytest.mark.parametrize(("told", "line"), REASONS.items())
def test_the_line_that_matters_is_found(told: str, line: str) -> None:
    assert failure_line(ValueError(told)) == line
