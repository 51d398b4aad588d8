"""What results are worth over time, by hand; and the waits of a busy machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stretto.api.slo import objective
from stretto.bench.elastic.costs import OWED_S_MAX, Meter
from stretto.bench.henge.comparison import CONTROLLER, NOBODY, Comparison, RunReport
from stretto.bench.henge.conflict import INTENTS, Conflict, Intent
from stretto.bench.henge.worth import Slice, arrivals_by_number, slices, totals

NAN = math.nan


def test_latency_is_that_of_what_arrived_in_a_slice_and_juice_its_number_by_what_was_due() -> None:
    # Ten rows a second; the first second is in time, then each row takes twice as long as there is.
    due_s = np.arange(30) / 10
    arrived_s = np.where(due_s < 1, due_s + 0.05, 1 + 2 * (due_s - 1) + 0.05)
    both = objective(latency="100 ms", percentile=100, throughput=1.0, priority=8)
    first, second, third = slices(both, due_s, arrived_s, 1.0, 3)
    assert (first.latency_ms, first.juice, first.utility) == (pytest.approx(50.0), 1.0, 8.0)
    assert (second.latency_ms, second.juice) == (pytest.approx(450.0), 0.5)
    assert second.utility == pytest.approx(8 * 100 / 450)
    assert third.latency_ms == pytest.approx(950.0)


def test_a_slice_without_results_is_worth_nothing_while_rows_are_due() -> None:
    late, quiet = objective(latency="1 s", priority=3), np.array([0.5, 0.6, 3.5])
    found = slices(late, quiet, np.array([0.7, NAN, NAN]), 1.0, 4)
    assert [each.utility for each in found] == [3, 0, 0, 0]
    # All that was due has arrived: a slice in which nothing is due is worth everything.
    found = slices(late, quiet, np.array([0.7, 0.8, 3.6]), 1.0, 4)
    assert [each.utility for each in found] == [3, 3, 3, 3]
    assert [each.juice for each in found] == [1, None, None, 1]


def test_a_backlog_that_is_worked_off_is_not_more_than_all() -> None:
    (_, second) = slices(objective(throughput=1.0), np.arange(20) / 10, np.full(20, 1.5), 1.0, 2)
    assert (second.juice, second.utility) == (1.0, 1.0)


def test_arrivals_are_by_number_and_those_after_the_run_do_not_count() -> None:
    found = arrivals_by_number(np.array([2, 0, 7]), np.array([0.2, 0.1, 0.9]), 4)
    assert np.array_equal(found, [0.1, NAN, 0.2, NAN], equal_nan=True)


def test_the_jobs_want_more_than_there_is_and_each_alone_could_be_served() -> None:
    asked = Conflict()
    needs = [math.ceil(intent.load / 0.9) for intent in asked.intents]
    assert max(needs) < asked.workers < sum(needs)
    assert sum(intent.load for intent in asked.intents) > asked.workers * 0.8
    assert asked.most == 100
    assert {intent.slo.juice is None for intent in INTENTS} == {True, False}


def test_a_workload_has_the_rows_that_its_load_says() -> None:
    asked = Conflict(seconds=10.0, row_ms=50.0)
    workload = asked.workload(Intent("half", objective(), 0.5))
    assert (workload.tuples.rate, workload.cost.row_us) == (10.0, 50_000.0)
    assert asked.workload(Intent("half", objective(), 0.5), events=7).tuples.events == 7


def reported(*utilities: float) -> RunReport:
    """A run with one job of these utilities."""
    run = RunReport(partitions={"job": 1}, rows={"job": 5})
    run.jobs["job"] = [Slice(5.0 * place, each, None, 1.0) for place, each in enumerate(utilities, 1)]
    return run


def test_the_last_third_is_judged() -> None:
    asked = Conflict((Intent("job", objective(priority=9), 1.0),), seconds=30.0)
    found = Comparison(asked, {NOBODY: reported(9, 9, 9, 9, 1, 2), CONTROLLER: reported(0, 0, 0, 0, 6, 9)})
    plain = found.as_dict()
    assert (plain["utility"], plain["ratio"], plain["raised"]) == ({"nobody": 1.5, "henge": 7.5}, 5.0, True)
    assert (plain["most"], plain["judged_s"], plain["match"]) == (9, 10.0, True)
    assert [each["total"] for each in plain["over_time"]["nobody"]] == [9, 9, 9, 9, 1, 2]
    assert plain["jobs"]["henge"]["job"] == {
        "utility": 7.5, "latency_ms": None, "juice": 1.0, "partitions": 1, "rows": 5,
    }  # fmt: skip
    found.runs[NOBODY].wrong.append("a row is missing")
    assert not found.as_dict()["match"]
    assert found.wrong == ["nobody: a row is missing"]


def test_totals_add_up_jobs_of_the_same_slice() -> None:
    assert totals([reported(1, 2).jobs["job"], reported(10, 20).jobs["job"]]) == [11, 22]


class Machine:
    """A machine on which each sleep takes longer than it should."""

    def __init__(self, longer_s: float) -> None:
        self.now_s = 0.0
        self.longer_s = longer_s

    def sleep(self, wanted_s: float) -> None:
        self.now_s += wanted_s + self.longer_s

    def meter(self) -> Meter:
        return Meter(lambda: self.now_s, self.sleep)


def test_waits_take_as_long_as_they_should_on_average_though_each_is_too_long() -> None:
    machine = Machine(longer_s=0.03)
    meter = machine.meter()
    for _ in range(100):
        meter.wait(0.02)
    assert machine.now_s == pytest.approx(2.0, abs=0.05)


def test_neither_an_idle_time_nor_a_long_pause_of_the_machine_is_made_up_for() -> None:
    machine = Machine(longer_s=60.0)
    meter = machine.meter()
    meter.wait(0.5)
    machine.longer_s = 0.0
    machine.now_s = 1_000.0
    for _ in range(10):
        meter.wait(0.5)
    assert machine.now_s == pytest.approx(1_000 + 10 * 0.5 - OWED_S_MAX)
