"""Rates come from two timed reports of the same instance, by the worker's own clock."""

from __future__ import annotations

from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import Feed, FunctionShape
from stretto.observation.intervals import IDLE_AFTER_NS, Series
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved

SECOND = 1_000_000_000


def observed(first: FunctionMetrics, second: FunctionMetrics, took_ns: int = SECOND) -> ActorObserved:
    series = Series(first, 100, 7)
    series.add(second, 100 + took_ns, 8)
    return series.observed(0, "w0~1", 8)


def test_an_interval_is_the_difference_of_two_reports() -> None:
    actor = observed(FunctionMetrics(rows_in=10, busy_ns=5), FunctionMetrics(rows_in=50, busy_ns=SECOND // 2 + 5))
    assert (actor.totals.rows_in, actor.interval.rows_in) == (50, 40)
    assert actor.busy_share == 0.5


def test_the_first_report_has_no_interval_yet() -> None:
    actor = Series(FunctionMetrics(rows_in=10), 100, 7).observed(0, "w0~1", 7)
    function = FunctionObserved(FunctionShape("f", 1), (actor,))
    assert (function.totals.rows_in, function.input_rate, function.busy_share) == (10, 0.0, 0.0)


def test_an_instance_that_reports_nothing_any_more_does_nothing() -> None:
    series = Series(FunctionMetrics(rows_in=10), 0, 0)
    series.add(FunctionMetrics(rows_in=90, queued=3), SECOND, SECOND)
    actor = series.observed(0, "w0~1", SECOND + IDLE_AFTER_NS + 1)
    assert (actor.totals.rows_in, actor.interval.rows_in, actor.busy_share) == (90, 0, 0.0)


def test_rates_of_a_function_add_up_over_workers_with_different_clocks() -> None:
    fast = observed(FunctionMetrics(rows_in=0), FunctionMetrics(rows_in=100), SECOND)
    slow = observed(FunctionMetrics(rows_in=0), FunctionMetrics(rows_in=100), 2 * SECOND)
    assert FunctionObserved(FunctionShape("f", 2), (fast, slow)).input_rate == 150.0


def test_edges_have_the_rates_of_rows_sent_and_executed() -> None:
    source = observed(FunctionMetrics(), FunctionMetrics(rows_out=100, sent_to={"sink": 100}))
    sink = observed(FunctionMetrics(messages_in=1), FunctionMetrics(messages_in=2, executed_from={"source": 80}))
    functions = {
        "source": FunctionObserved(FunctionShape("source", 1), (source,)),
        "sink": FunctionObserved(FunctionShape("sink", 1, feeds=(Feed("source", "in", False),), is_sink=True), (sink,)),
    }
    job = JobObserved("job", "running", "job", ("w0~1",), {}, functions)
    (edge,) = job.edges
    assert (edge.sender, edge.receiver, edge.sent_rate, edge.executed_rate) == ("source", "sink", 100.0, 80.0)
    assert job.juice == 0.8
