"""What is shown of entities agrees with what was observed, and takes its place beside streams."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stretto.bench.page.feed import MadeUp, MadeUpCluster
from stretto.dashboard.history import Bounds, History
from stretto.dashboard.views import job_rows, job_view, overview, report_view

from .made import history_of

BANK = "bank-000"


def test_a_job_with_entities_and_no_streams_is_a_job() -> None:
    history = history_of(jobs=1, banks=1)
    bank, job = overview(history)["jobs"]
    observed = history.observation.entities[BANK]
    assert (bank["name"], bank["status"], bank["workers"]) == (BANK, "running", list(observed.members))
    ended = [each.interval.committed + sum(each.interval.aborted.values()) for each in observed.places]
    assert bank["transactions_per_s"] == sum(ended), "the intervals are seconds"
    assert job["transactions_per_s"] is None
    assert overview(history, quiet=True)["jobs"][0]["transactions_per_s"] == 0


def test_its_transactions_are_those_of_its_places() -> None:
    history = history_of(jobs=1, banks=1)
    found, totals = job_view(history, BANK)["entities"], history.observation.entities[BANK].totals
    for name in ("committed", "conflicts", "again", "epochs", "looks", "entities", "waiting"):
        assert found[name] == getattr(totals, name)
    assert found["aborted_by"] == totals.aborted
    assert list(found["aborted_by"]) == ["NotEnough", "ValueError"], "the most frequent first"
    assert found["aborted"] == sum(totals.aborted.values())
    assert [place["number"] for place in found["places"]] == [1, 2]
    for name in ("committed", "aborted", "conflicts"):
        assert sum(place[name] for place in found["places"]) == found[name]
    ended = sum(each["transactions_per_s"] for each in found["places"])
    assert found["committed_per_s"] + found["aborted_per_s"] == pytest.approx(ended)
    assert 0 < found["p50_ms"] < found["p99_ms"]


def test_its_figures_over_time_are_of_each_second() -> None:
    cluster, history = MadeUpCluster(MadeUp(1, 2, banks=1)), History()
    expected = []
    for observation in cluster.observations(8):
        history.observe(observation)
        expected.append(sum(each.interval.committed for each in observation.entities[BANK].places))
    rows = job_rows(history.jobs[BANK])["entities"]
    assert rows["committed"] == pytest.approx(expected)
    assert min(rows["p50_ms"]) > 0
    assert job_rows(history.jobs["job-000"])["entities"] is None
    assert report_view(history, "t", "run")["rows"][BANK]["entities"] == rows


def test_entities_beside_streams_are_of_the_same_job() -> None:
    observation = MadeUpCluster(MadeUp(1, 2, banks=1)).observe()
    history = History()
    history.observe(replace(observation, entities={"job-000": observation.entities[BANK]}))
    (line,) = overview(history)["jobs"]
    assert line["rows_in"] > 0
    assert line["transactions_per_s"] > 0
    view = job_view(history, "job-000")
    assert view["graph"]
    assert view["entities"]["committed"] > 0


def test_entities_that_have_ended_are_kept_as_they_were() -> None:
    observation = MadeUpCluster(MadeUp(0, 2, banks=1)).observe()
    bank = observation.entities[BANK]
    history = History()
    history.observe(observation)
    failed = replace(bank, status="failed", failure="FunctionError: broken")
    history.observe(replace(observation, time_ns=observation.time_ns + 1, entities={BANK: failed}))
    view = job_view(history, BANK)
    assert (view["status"], view["error"]) == ("failed", "FunctionError: broken")
    assert (view["entities"]["committed"], view["entities"]["committed_per_s"]) == (bank.totals.committed, 0)


def test_a_cluster_without_entities_keeps_nothing_of_them() -> None:
    history = history_of(jobs=1)
    assert history.jobs["job-000"].entities is None
    assert job_view(history, "job-000")["entities"] is None


def test_jobs_with_entities_count_among_those_that_are_kept() -> None:
    assert len(history_of(seconds=2, jobs=2, banks=3, bounds=Bounds(jobs=3)).jobs) == 3
