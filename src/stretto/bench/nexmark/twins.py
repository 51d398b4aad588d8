"""NEXMark queries as batch twins: one DataFrame over all events, without workers, compared with Spark SQL.

It compares two Spark versions of a query, the one that stretto makes of its plan and one written by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from stretto.bench.nexmark.run import OUT, Answers, Outcome, Status, verify
from stretto.bench.nexmark.sql_queries import built
from stretto.bench.nexmark.workload import Workload
from stretto.errors import StrettoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = "batch"
_CANCEL_EVERY_S = 0.2


def run_twin(
    query: str, workload: Workload, spark: SparkSession, answers: Answers | None, timeout_s: float | None = None
) -> Outcome:
    """Returns the checked outcome of a query's batch twin. One that reads the time of arrival has none."""
    app = built(query, workload)
    outcome = Outcome(query, Status.FINISHED, workload, BATCH, 0, str(spark.sparkContext.applicationId))
    if any(source.stamp is not None for source in app.plan().sources):
        reason = "it depends on when events arrive, and a batch has no such time"
        return replace(outcome, status=Status.UNSUPPORTED, error=reason)
    started_s = time.monotonic()
    with _limited(spark, timeout_s) as is_late:
        try:
            rows = app.to_spark(spark, OUT).toArrow()
        except (StrettoError, PySparkException, Py4JError) as error:
            why = _too_late(timeout_s) if is_late() else str(error)
            return replace(outcome, status=Status.FAILED, error=why)
    if is_late():
        return replace(outcome, status=Status.FAILED, error=_too_late(timeout_s))
    elapsed_s = time.monotonic() - started_s
    verdicts = None if answers is None else verify(query, {OUT: rows}, answers)
    return replace(outcome, rows=rows.num_rows, elapsed_s=elapsed_s, verdicts=verdicts)


@contextmanager
def _limited(spark: SparkSession, timeout_s: float | None) -> Iterator[Callable[[], bool]]:
    """Cancels Spark's jobs that still run after so many seconds; yields whether that time is over."""
    done, late = Event(), Event()

    def watch() -> None:
        if done.wait(timeout_s):
            return
        late.set()
        # More than once: one query has several jobs, and the next may not have begun.
        while not done.wait(_CANCEL_EVERY_S):
            spark.sparkContext.cancelAllJobs()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield late.is_set
    finally:
        done.set()
        watcher.join()


def _too_late(timeout_s: float | None) -> str:
    return f"its batch twin had no answer after {timeout_s:g} s, the timeout"
