"""The help, the version, and how errors and interrupts end a command."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.bench.nexmark.queries import QUERIES
from stretto.cli import nexmark, nexmark_command, program, running
from stretto.errors import FunctionError

ROOT = Path(__file__).parents[3]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(program.program, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("stretto 0.")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--help"], ["run", "explain", "nexmark", "demo", "Examples", "stretto nexmark q5 --verify"]),
        (["run", "--help"], ["MODULE:APP", "--workers", "--engine", "--master", "--timeout", "--json", "Example"]),
        (["explain", "--help"], ["MODULE:APP", "--measure", "Example"]),
        (["nexmark", "--help"], ["--disorder", "--parallelism", "--batch", "--rate", "--verify", "row-by-row"]),
        (["nexmark", "--help"], [f" {name}  {str(query.__doc__)[:40]}" for name, query in QUERIES.items()]),
        (["demo", "--help"], ["--workers", "--json", "about a minute"]),
    ],
)
def test_help_explains_itself(arguments: list[str], says: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 0
    for text in says:
        assert text in result.stdout


def test_without_arguments_there_is_help() -> None:
    assert "Usage" in invoke().stdout + invoke().stderr


@pytest.mark.parametrize(
    "arguments",
    [["nexmark"], ["nexmark", "q5", "--workers", "0"], ["nexmark", "q5", "--engine", "flink"], ["run"], ["nosuch"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_shards_are_shuffled_by_a_controller_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[nexmark.Request] = []
    monkeypatch.setattr(nexmark_command, "run_in_turn", lambda request: requests.append(request) or 0)
    assert invoke("nexmark", "q8", "--elastic", "--shuffle-shards").exit_code == 0
    assert invoke("nexmark", "q8", "--elastic").exit_code == 0
    assert [request.elasticity for request in requests] == [SHUFFLING, "auto"]
    assert [request.workload.rate for request in requests] == [nexmark_command.SHUFFLE_RATE, None]
    assert all(request.workload.elastic for request in requests)


def test_shards_to_shuffle_need_functions_that_are_elastic() -> None:
    result = invoke("nexmark", "q8", "--shuffle-shards")
    assert result.exit_code == 2
    assert "--shuffle-shards needs --elastic" in result.stderr


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_missing_module_is_an_error_without_a_traceback(command: str) -> None:
    result = invoke(command, "no_such_module:app")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: there is no module 'no_such_module': ")
    assert "Traceback" not in result.stderr


def test_a_bad_plan_is_told_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = 'from stretto import App, sources\napp = App("loose")\napp.source("rows", sources.memory([{"n": 1}]))\n'
    (tmp_path / "loose_end.py").write_text(source)
    result = invoke("run", "loose_end:app")
    assert result.exit_code == 2
    assert "reaches no sink" in result.stderr


def test_a_failing_function_shows_the_users_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(request: object) -> None:
        raise FunctionError("function 'f' raised KeyError", "'price'\nTraceback (most recent call last):\n  in f")

    monkeypatch.setattr(program, "run_app", failing)
    result = invoke("run", "some:app")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: function 'f' raised KeyError: 'price'\nTraceback")


def test_an_interruption_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(request: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(nexmark_command, "run_in_turn", interrupted)
    result = invoke("nexmark", "q5")
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted")


def test_explain_prints_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = invoke("explain", "examples.highest_bid:app", "--workers", "3")
    assert result.exit_code == 0
    assert "app highest-bid" in result.stdout
    assert "tumbling 2 s window" in result.stdout
    assert "x3" in result.stdout


def test_the_demo_is_paced_verified_and_under_two_minutes() -> None:
    request = nexmark.demo_request(2, nexmark.DEMO_EVENTS, json=False)
    assert request.verify
    assert len(request.queries) >= 5
    assert request.workload.rate is not None
    assert 10 <= nexmark.DEMO_EVENTS / request.workload.rate <= 30


def test_rows_of_a_result_are_limited() -> None:
    running.rows_table("out", pa.table({"t": pa.array([2**63 - 1], pa.timestamp("us", "UTC"))}), 20)
    table = running.rows_table("out", pa.table({"n": list(range(30))}), 20)
    assert table.row_count == 20
    assert "10 more rows" in str(table.caption)
