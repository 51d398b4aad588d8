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


def test_rates_are_those_of_the_last_second() -> None:
    series = Series(FunctionMetrics(), 0, 0)
    for quarter in range(1, 9):
        # 10 rows in each quarter of the first second, 30 in each of the next.
        rows = 10 * quarter + 20 * max(0, quarter - 4)
        series.add(FunctionMetrics(rows_in=rows, busy_ns=quarter), quarter * SECOND // 4, quarter)
    actor = series.observed(0, "w0~1", 8)
    assert (actor.interval_ns, actor.interval.rows_in) == (SECOND, 120)


def test_a_pause_is_not_part_of_the_last_second() -> None:
    series = Series(FunctionMetrics(rows_in=10), 0, 0)
    series.add(FunctionMetrics(rows_in=20), 60 * SECOND, 60 * SECOND)
    series.add(FunctionMetrics(rows_in=50), 60 * SECOND + SECOND // 4, 60 * SECOND)
    actor = series.observed(0, "w0~1", 60 * SECOND)
    assert (actor.interval_ns, actor.interval.rows_in) == (SECOND // 4, 30)


def test_who_counts_from_the_beginning_has_no_interval_yet() -> None:
    series = Series(FunctionMetrics(rows_in=90, busy_ns=50), 0, 0)
    series.add(FunctionMetrics(rows_in=10, busy_ns=5), SECOND, SECOND)
    assert series.observed(0, "w0~1", SECOND).busy_share == 0.0
    series.add(FunctionMetrics(rows_in=30, busy_ns=SECOND // 2 + 5), 2 * SECOND, 2 * SECOND)
    actor = series.observed(0, "w0~1", 2 * SECOND)
    assert (actor.interval.rows_in, actor.busy_share) == (20, 0.5)


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
