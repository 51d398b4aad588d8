"""What is shown agrees with what was observed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from stretto.bench.page.feed import FUNCTIONS, SLOW, MadeUp, MadeUpCluster
from stretto.dashboard.history import History
from stretto.dashboard.views import decisions_view, job_rows, job_view, overview, report_view

from .made import history_of


def test_the_overview_has_all_jobs_and_workers_with_the_figures_of_the_observation() -> None:
    history = history_of()
    found = overview(history)
    assert [job["name"] for job in found["jobs"]] == sorted(history.observation.jobs)
    for line in found["jobs"]:
        job = history.observation.jobs[line["name"]]
        assert line["rows_in"] == pytest.approx(job.functions["bids"].input_rate, rel=1e-5)
        assert line["queued"] == sum(function.queued for function in job.functions.values())
        assert line["objective"]["latency_ms"] == 500
    busy = {worker["name"]: worker["busy"] for worker in found["workers"]}
    for name, worker in history.observation.workers.items():
        assert busy[name] == pytest.approx(worker.busy_share, rel=1e-5)


def test_a_job_that_is_late_misses_its_objective_and_has_the_slow_function_as_cause() -> None:
    history = history_of()
    slow, fast = overview(history)["jobs"][:2]
    assert (slow["held"], slow["in_time_now"], slow["in_time_hour"]) == (False, 0.0, 0.0)
    assert (fast["held"], fast["causes"]) == (True, [])
    assert [cause["function"] for cause in slow["causes"]] == [SLOW]
    view = job_view(history, "job-000")
    assert {each["name"]: each["pressure"] for each in view["graph"]} == {
        "bids": "victim",
        "parse": "victim",
        SLOW: "cause",
        "ranking": "none",
        "out": "none",
    }
    assert view["held_back"] == [{"job": "job-000", "function": SLOW, "share": 1.0}]


def test_a_job_has_its_graph_its_checkpoints_and_its_rates() -> None:
    history = history_of(seconds=25)
    view = job_view(history, "job-001")
    job = history.observation.jobs["job-001"]
    assert [(edge["from"], edge["to"]) for edge in view["edges"]] == list(pairwise(FUNCTIONS))
    for edge, observed in zip(view["edges"], job.edges, strict=True):
        assert edge["sent"] == pytest.approx(observed.sent_rate, rel=1e-5)
    assert [each["number"] for each in view["checkpoints"]["ended"]] == [2, 1]
    by_name = {each["name"]: each for each in view["graph"]}
    assert by_name["windows"]["lag_s"] == pytest.approx(0.2)
    assert by_name["windows"]["late"] == job.functions["windows"].totals.counts["late_rows"]
    assert by_name["windows"]["state_bytes"] == job.functions["windows"].state_bytes


def test_rows_after_a_time_continue_those_before() -> None:
    history = history_of(seconds=20)
    known = history.jobs["job-000"]
    whole = job_rows(known)
    middle = whole["job"]["t"][11]
    rest = job_rows(known, middle)
    assert rest["job"]["t"] == whole["job"]["t"][12:]
    assert rest["latency"]["counts"] == whole["latency"]["counts"][12:]
    assert rest["functions"]["bids"]["busy"] == whole["functions"]["bids"]["busy"][12:]


def test_when_nothing_happens_rates_are_zero_and_nothing_is_congested() -> None:
    found = overview(history_of(), quiet=True)
    assert {job["rows_in"] for job in found["jobs"]} == {0.0}
    assert {worker["busy"] for worker in found["workers"]} == {0.0}
    assert not any(job["causes"] for job in found["jobs"])


def test_a_job_that_has_ended_is_shown_as_it_was_at_its_busiest() -> None:
    cluster, history = MadeUpCluster(MadeUp(1, 2)), History()
    observations = list(cluster.observations(10))
    for observation in observations:
        history.observe(observation)
    last = cluster.observe()
    ended = {name: replace(job, status="finished") for name, job in last.jobs.items()}
    history.observe(replace(last, jobs=ended))
    view = job_view(history, "job-000")
    rates = [(job.jobs["job-000"].functions["bids"].input_rate, job.time_ns) for job in [*observations, last]]
    assert view["as_of_s"] == max(rates)[1] / 1e9
    assert (view["status"], view["rows_in"]) == ("finished", 0.0)
    assert [cause["function"] for cause in view["causes"]] == [SLOW]


def test_decisions_are_filtered_and_come_latest_first() -> None:
    history = history_of(decisions=8)
    found = decisions_view(history)
    assert [each["number"] for each in found] == list(range(8, 0, -1))
    job = found[0]["job"]
    assert {each["job"] for each in decisions_view(history, job)} == {job}
    assert decisions_view(history, controller="nobody") == decisions_view(history, outcome="failed") == []
    chosen = [each["what"] for each in found[0]["candidates"] if each["lost_because"] is None]
    assert chosen == [found[0]["what"]]


def test_all_views_are_json() -> None:
    history = history_of()
    for view in (overview(history, recent=True), job_view(history, "job-000"), report_view(history, "t", "run")):
        assert msgspec.json.decode(msgspec.json.encode(view))["time_s" if "time_s" in view else "clock"]
