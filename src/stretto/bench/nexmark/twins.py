"""NEXMark queries as batch twins: one DataFrame over all events, without workers, compared with Spark SQL.

It compares two Spark versions of a query, the one that stretto makes of its plan and one written by hand.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import OUT, Answers, Outcome, Status, verify
from stretto.errors import StrettoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = "batch"


def run_twin(query: str, workload: Workload, spark: SparkSession, answers: Answers | None) -> Outcome:
    """Returns the checked outcome of a query's batch twin. One that reads the time of arrival has none."""
    app = build(query, workload)
    outcome = Outcome(query, Status.FINISHED, workload, BATCH, 0, str(spark.sparkContext.applicationId))
    if any(source.stamp is not None for source in app.plan().sources):
        reason = "it depends on when events arrive, and a batch has no such time"
        return replace(outcome, status=Status.UNSUPPORTED, error=reason)
    started_s = time.monotonic()
    try:
        rows = app.to_spark(spark, OUT).toArrow()
    except StrettoError as error:
        return replace(outcome, status=Status.FAILED, error=str(error))
    elapsed_s = time.monotonic() - started_s
    verdicts = None if answers is None else verify(query, {OUT: rows}, answers)
    return replace(outcome, rows=rows.num_rows, elapsed_s=elapsed_s, verdicts=verdicts)
