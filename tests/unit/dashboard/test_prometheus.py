"""Figures for Prometheus, read by its client's parser, against the observation; and the dashboard that uses them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stretto.actors.metrics import summed
from stretto.dashboard.history import History
from stretto.dashboard.prometheus import exposition

from .made import HOSTILE, PageWeb, history_of, renamed

GRAFANA = Path(__file__).parents[3] / "docs" / "grafana" / "stretto.json"
UNITS = ("_seconds", "_bytes", "_rows", "_messages", "_cores", "_frames", "_transactions", "_epochs", "_calls")


@pytest.fixture(scope="module")
def history() -> History:
    return history_of(seconds=25, banks=1)


def parsed(history: History) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(exposition(history).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_totals_are_those_of_the_observation(history: History) -> None:
    found = parsed(history)
    for name, job in history.observation.jobs.items():
        for each, function in job.functions.items():
            labels = (("function", each), ("job", name))
            assert found["stretto_function_input_rows_total"][labels] == function.totals.rows_in
            assert found["stretto_function_busy_seconds_total"][labels] == pytest.approx(function.totals.busy_ns / 1e9)
            assert found["stretto_function_queued_messages"][labels] == function.queued
            for end, waited_ns in summed([actor.totals.waited_ns for actor in function.actors]).items():
                waited = found["stretto_function_credit_wait_seconds_total"][*labels, ("waits_for", end)]
                assert waited == pytest.approx(waited_ns / 1e9)
    for name, worker in history.observation.workers.items():
        labels = (("host", worker.member.host), ("role", "worker"), ("worker", name))
        assert found["stretto_worker_busy_cores"][labels] == pytest.approx(worker.busy_share)


def test_latencies_are_a_histogram_of_all_results(history: History) -> None:
    found = parsed(history)
    for name, known in history.jobs.items():
        if known.entities is not None:
            continue
        assert known.latency is not None
        total = known.latency.zeros + sum(known.latency.bins.values())
        assert found["stretto_job_latency_seconds_count"][("job", name),] == total
        buckets = {
            float(dict(labels)["le"]): value
            for labels, value in found["stretto_job_latency_seconds_bucket"].items()
            if dict(labels)["job"] == name
        }
        counts = [buckets[edge] for edge in sorted(buckets)]
        assert counts == sorted(counts)
        assert counts[-1] == total


def test_the_congested_job_and_its_cause_are_told(history: History) -> None:
    found = parsed(history)
    assert found["stretto_job_congestion_causes"] == {
        (("job", name),): float(name == "job-000") for name in history.jobs
    }
    causes = [labels for labels, value in found["stretto_function_is_cause"].items() if value]
    assert causes == [(("function", "windows"), ("job", "job-000"))]
    assert found["stretto_job_objective_held"][("job", "job-000"),] == 0
    assert found["stretto_checkpoint_last_bytes"][("job", "job-001"),] > 0


def test_transactions_are_told_with_the_reasons_of_aborts(history: History) -> None:
    found, totals = parsed(history), history.observation.entities["bank-000"].totals
    bank = ("job", "bank-000")
    assert found["stretto_entity_committed_transactions_total"] == {(bank,): totals.committed}
    assert found["stretto_entity_aborted_transactions_total"] == {
        (bank, ("reason", reason)): count for reason, count in totals.aborted.items()
    }
    assert found["stretto_entity_conflicting_transactions_total"] == {(bank,): totals.conflicts}
    ended = totals.committed + sum(totals.aborted.values())
    assert found["stretto_entity_transaction_seconds_count"][bank,] == pytest.approx(ended, rel=0.05)
    assert not [each for each in parsed(history_of(seconds=1)) if "entit" in each], "there are none"


def test_names_follow_the_conventions(history: History) -> None:
    for family in text_string_to_metric_families(exposition(history).decode()):
        assert re.fullmatch(r"stretto_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
            assert family.name.endswith((*UNITS, "_decisions")), "a counter has its unit before _total"
        assert not re.search(r"_(ms|ns|us|percent)\b", family.name), "units are base units"


def test_a_name_of_a_user_cannot_add_a_figure() -> None:
    name = 'a"} 1\nstretto_planted{x="' + HOSTILE
    before, history = history_of(seconds=2), History()
    history.observe(renamed(before.observation, "job-000", name))
    found = parsed(history)
    assert "stretto_planted" not in found
    assert found["stretto_job_congestion_causes"][("job", name),] == 1


def test_metrics_are_served_as_text(history: History) -> None:
    answer = PageWeb(history).ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.body == exposition(history)


def test_the_dashboard_for_grafana_uses_figures_that_are_there(history: History) -> None:
    names = set(parsed(history))
    board = json.loads(GRAFANA.read_text("utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 10
    used = {name for expression in expressions for name in re.findall(r"stretto_\w+", expression)}
    assert used <= names
