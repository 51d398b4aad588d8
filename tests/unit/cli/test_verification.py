"""A wrong, missing or repeated row makes the verification fail, and the command exits with code 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from stretto.api.app import App
from stretto.api.engines import Engine
from stretto.api.relational import unsupported
from stretto.api.slo import SLO
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload
from stretto.bench.nexmark.run import Bench, Outcome, Status, chosen, exit_code, verify
from stretto.bench.verify import Match
from stretto.cli import nexmark
from stretto.cli.program import program
from stretto.coordinator.records import JobStatus
from stretto.errors import EngineError, FunctionError, StrettoError, UserError
from stretto.runtime.metrics import report

# Stand-ins for a cluster and for Spark SQL, so that commands run without either.

TIMESTAMP = pa.timestamp("us", tz="UTC")

ANSWER = pa.table(
    {
        "window_start": pa.array([0, 2_000_000, 2_000_000], TIMESTAMP),
        "window_end": pa.array([10_000_000, 12_000_000, 12_000_000], TIMESTAMP),
        "auction": pa.array([1000, 1001, 1002], pa.int64()),
        "num": pa.array([7, 9, 9], pa.int64()),
    }
)
"""An answer of query 5."""

BIDS = pa.table({"bidder": pa.array([1, 2, 2], pa.int64()), "price": pa.array([10, 20, 20], pa.int64())})
"""The generated bids, for query 12."""


def wrong(table: pa.Table) -> pa.Table:
    """Returns the rows with one value of the first row changed."""
    values = table.column(table.num_columns - 1).to_pylist()
    changed = pa.array([values[0] + 1, *values[1:]], table.schema.types[-1])
    return table.set_column(table.num_columns - 1, table.schema.names[-1], changed)


def missing(table: pa.Table) -> pa.Table:
    return table.slice(1)


def repeated(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


class FakeAnswers:
    """Returns the same right answer for every query."""

    def __init__(self, table: pa.Table = ANSWER, bids: pa.Table = BIDS) -> None:
        self._table = table
        self._bids = bids
        self.ingested: pa.Table | None = None

    def answer(self, query: str, ingested: pa.Table | None = None) -> pa.Table:
        self.ingested = ingested
        return self._table

    def bids(self, columns: Sequence[str]) -> pa.Table:
        return self._bids.select(list(columns))


class FakeJob:
    """A job that has already ended."""

    def __init__(self, app: App, results: Mapping[str, pa.Table], error: StrettoError | None) -> None:
        self.name = app.name
        self.plan = app.plan()
        self.engine = Engine.ACTORS
        self.error = error
        self.status = JobStatus.FINISHED if error is None else JobStatus.FAILED
        self._results = results

    def results(self, sink: str) -> pa.Table:
        return self._results[sink]

    def metrics(self) -> Any:
        plan: Any = SimpleNamespace(sources=[], sinks=[], slo=SLO())
        return report({}, 0.5, plan)


class FakeCluster:
    """Returns the same results for every query; one query may have other results or an error."""

    def __init__(self, results: pa.Table, errors: Mapping[str, StrettoError] | None = None) -> None:
        self.workers = ["w0", "w1"]
        self.spark = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="local-1"))
        self._results = results
        self._errors = errors or {}

    def submit(self, app: App) -> FakeJob:
        if app.engine is Engine.MICROBATCH:
            reason = unsupported(app.plan(), streaming=True)
            if reason is not None:
                raise EngineError(f"micro-batches cannot express app '{app.name}'", reason)
        return FakeJob(app, {"out": self._results}, self._errors.get(app.name))


def fake_bench(cluster: FakeCluster, answers: FakeAnswers) -> Any:
    """Replaces the command's `_bench`, which starts Spark."""

    @contextmanager
    def bench(request: Any, console: Any) -> Iterator[Bench]:
        yield Bench(cluster, request.workload, answers if request.verify else None)  # type: ignore[arg-type]

    return bench


# Verification

TAMPERINGS = [
    pytest.param(wrong, 1, 1, id="wrong-row"),
    pytest.param(missing, 1, 0, id="missing-row"),
    pytest.param(repeated, 0, 1, id="repeated-row"),
]

KEYS = ["query", "events", "rows", "match", "events_per_s", "latency_ms", "workers", "spark_app_id"]


def command(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    results: pa.Table = ANSWER,
    errors: dict[str, StrettoError] | None = None,
    answers: FakeAnswers | None = None,
) -> Result:
    monkeypatch.setattr(nexmark, "_bench", fake_bench(FakeCluster(results, errors), answers or FakeAnswers()))
    return CliRunner().invoke(program, ["nexmark", *arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(("tamper", "lacking", "extra"), TAMPERINGS)
def test_one_bad_row_fails_the_verification(tamper: Callable[[pa.Table], pa.Table], lacking: int, extra: int) -> None:
    verdict = verify("q5", {"out": tamper(ANSWER)}, FakeAnswers())["out"]
    assert verdict.match is Match.MISMATCH
    assert (verdict.missing, verdict.extra) == (lacking, extra)
    assert verdict.witness


@pytest.mark.parametrize(("tamper", "lacking", "extra"), TAMPERINGS)
def test_one_bad_row_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tamper: Callable[[pa.Table], pa.Table], lacking: int, extra: int
) -> None:
    result = command(monkeypatch, "q5", "--verify", "--json", results=tamper(ANSWER))
    assert result.exit_code == 1
    assert [line["match"] for line in lines(result)] == [False]
    assert f"mismatch: {tamper(ANSWER).num_rows} rows, expected 3; {lacking} missing, {extra} extra" in result.stderr


@pytest.mark.parametrize(("tamper", "lacking", "extra"), TAMPERINGS)
def test_the_table_for_people_shows_a_bad_row_too(
    monkeypatch: pytest.MonkeyPatch, tamper: Callable[[pa.Table], pa.Table], lacking: int, extra: int
) -> None:
    result = command(monkeypatch, "q5", "--verify", results=tamper(ANSWER))
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout
    assert "equal" not in result.stdout


def test_an_equal_result_in_another_order_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    result = command(monkeypatch, "q5", "--verify", "--json", "--events", "500", results=ANSWER.take([2, 0, 1]))
    assert result.exit_code == 0
    (line,) = lines(result)
    assert list(line)[: len(KEYS)] == KEYS
    assert (line["query"], line["events"], line["rows"], line["match"]) == ("q5", 500, 3, True)
    assert line["events_per_s"] == 1000.0
    assert list(line["latency_ms"]) == ["p50", "p95", "p99", "max"]
    assert (line["workers"], line["spark_app_id"], line["engine"]) == (2, "local-1", "actors")
    assert result.stderr == ""


def test_without_verify_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = command(monkeypatch, "q5", "--json", results=wrong(ANSWER))
    assert result.exit_code == 0
    assert lines(result)[0]["match"] is None


def test_empty_answers_match_but_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = ANSWER.slice(0, 0)
    result = command(monkeypatch, "q5", "--verify", "--json", results=empty, answers=FakeAnswers(empty))
    assert result.exit_code == 0
    assert "shows little" in result.stderr


def test_one_mismatch_among_many_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {"q7": FunctionError("function 'highest' raised KeyError", "'price'")}
    result = command(monkeypatch, "q5", "q7", "q8", "--verify", "--json", errors=failing)
    assert result.exit_code == 1
    assert [(line["query"], line["match"]) for line in lines(result)] == [("q5", True), ("q7", None), ("q8", True)]
    assert "function 'highest' raised KeyError" in lines(result)[1]["error"]


def test_what_an_engine_cannot_express_is_no_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    result = command(monkeypatch, "q4", "q5", "--verify", "--json", "--engine", "microbatch")
    assert result.exit_code == 0
    refused, ran = lines(result)
    assert (refused["query"], refused["match"], refused["rows"]) == ("q4", None, None)
    assert "micro-batches cannot express app 'q4'" in refused["error"]
    assert ran["match"] is True


# Query 12


def ingested(bids: pa.Table) -> pa.Table:
    return bids.append_column("ingestTime", pa.array(range(bids.num_rows), TIMESTAMP))


def test_query_12_is_judged_over_the_bids_that_it_recorded() -> None:
    answers = FakeAnswers()
    record = ingested(BIDS.take([2, 1, 0]))
    verdicts = verify("q12", {"out": ANSWER, "ingested": record}, answers)
    assert [verdict.match for verdict in verdicts.values()] == [Match.MATCH, Match.MATCH]
    assert answers.ingested is record


@pytest.mark.parametrize("tamper", [wrong, missing, repeated])
def test_query_12_must_record_exactly_the_generated_bids(tamper: Callable[[pa.Table], pa.Table]) -> None:
    verdicts = verify("q12", {"out": ANSWER, "ingested": ingested(tamper(BIDS))}, FakeAnswers())
    assert verdicts["ingested"].match is Match.MISMATCH
    assert verdicts["out"].match is Match.MATCH
    outcome = Outcome("q12", Status.FINISHED, Workload(), "actors", 2, "local-1", rows=3, verdicts=verdicts)
    assert outcome.match is False
    assert exit_code([outcome]) == 1
    assert "sink 'ingested'" in outcome.complaints()[0]


# What to run


def test_no_outcome_is_no_success() -> None:
    assert exit_code([]) == 1


def test_all_stands_for_every_query_once() -> None:
    assert chosen(["q5", "all"]) == ["q5", *(name for name in QUERIES if name != "q5")]
    assert chosen(["all"]) == sorted(QUERIES, key=lambda name: int(name[1:]))


def test_an_unknown_query_is_named_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"no NEXMark query 'q23'\n  Choose all, or some of q0, q1"):
        chosen(["q5", "q23"])
    result = command(monkeypatch, "q23", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: there is no NEXMark query 'q23'")


@pytest.mark.parametrize("option", [("--disorder", "inf"), ("--latency", "soon")])
def test_bad_options_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, option: tuple[str, str]
) -> None:
    result = command(monkeypatch, "q5", *option)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_the_json_tells_the_whole_workload() -> None:
    workload = Workload(NexmarkConfig(seed=3, events=100, disorder_s=2.0), 50.0, 4, 100)
    line = Outcome("q5", Status.FINISHED, workload, "actors", 2, "local-1", rows=1, elapsed_s=2.0).as_json()
    expected = {"seed": 3, "parallelism": 4, "batch": 100, "disorder_s": 2.0, "rate": 50.0, "events_per_s": 50.0}
    assert {key: line[key] for key in expected} == expected
    assert "error" not in line
