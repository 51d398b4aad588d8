"""A query that fails because its planner was too slow for Spark: started again, a bounded number of times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from stretto import App, sinks, sources
from stretto.runtime.query_watch import STARTS_MAX, QueryWatch

TOO_SLOW = "Job aborted: org.apache.spark.SparkException: Python worker failed to connect back."


class Queries:
    """Stands in for Spark: each start makes a query that has failed at once."""

    def __init__(self, message: str) -> None:
        self.started = 0
        self._message = message

    def start(self) -> Any:
        self.started += 1
        error = StreamingQueryException(self._message)
        return SimpleNamespace(recentProgress=[], isActive=False, exception=lambda: error)


def watch_of(queries: Queries) -> QueryWatch:
    app = App("slow")
    app.source("rows", sources.memory([{"n": 1}])).sink(sinks.collect(), name="out")
    plan = app.plan()
    writer = SimpleNamespace(write=lambda rows: None)
    watch = QueryWatch(plan.sinks[0], cast(Any, writer), plan)
    watch.begin(queries.start)
    return watch


def polled_to_the_end(watch: QueryWatch) -> None:
    while not watch.has_ended():
        watch.poll()


def test_a_query_starts_a_bounded_number_of_times() -> None:
    queries = Queries(TOO_SLOW)
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        polled_to_the_end(watch_of(queries))
    assert queries.started == STARTS_MAX


def test_another_failure_is_raised_at_once() -> None:
    queries = Queries("no luck with this one")
    with pytest.raises(StreamingQueryException, match="no luck"):
        polled_to_the_end(watch_of(queries))
    assert queries.started == 1


def test_a_query_that_has_written_is_not_started_again() -> None:
    queries = Queries(TOO_SLOW)
    watch = watch_of(queries)
    watch.write(cast(Any, SimpleNamespace(toArrow=lambda: pa.table({"n": [1]}))), 0)
    with pytest.raises(StreamingQueryException):
        polled_to_the_end(watch)
    assert queries.started == 1
