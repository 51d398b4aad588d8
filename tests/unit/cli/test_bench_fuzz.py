"""`stretto bench fuzz`, as far as it can be tested without Spark: what it prints, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from stretto.bench.fuzz.findings import Finding, Report
from stretto.bench.fuzz.fuzzing import Setup
from stretto.cli.bench import fuzz
from stretto.cli.program import program

FINDING = Finding(
    "other value",
    "upper(string)",
    "upper(s)",
    "SELECT upper(s) FROM VALUES ('ß') AS t(s)",
    "'ß'",
    "'SS'",
    "length(upper(s))",
)


@contextmanager
def no_session(name: str, master: str, java_options: str) -> Iterator[None]:
    yield None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Setup]:
    """The setups that were run; the run of seed 2 finds something, and that of seed 3 is interrupted after it."""
    setups: list[Setup] = []

    def run(spark: Any, setup: Setup, progress: Any, found: Any) -> Report:
        setups.append(setup)
        progress("comparing expressions", 1.0)
        findings = [FINDING] if setup.seed >= 2 else []
        for finding in findings:
            found(finding)
        report = Report(setup.seed, setup.timezone, setup.expressions, agreed=setup.expressions, findings=findings)
        if setup.seed == 3:
            report.interrupted, report.unsettled = True, ["lower(s)"]
        return report

    monkeypatch.setattr(fuzz, "spark_session", no_session)
    monkeypatch.setattr(fuzz.fuzzing, "run", run)
    return setups


def test_agreement_ends_with_code_0(asked: list[Setup]) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--expressions", "50", "--seed", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert asked == [Setup(50, 1, "UTC")]
    shown = json.loads(result.stdout)
    assert shown["match"] is True
    assert shown["expressions"] == 50


def test_a_disagreement_ends_with_code_1_and_the_query_that_shows_it(asked: list[Setup]) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--seed", "2"])
    assert result.exit_code == 1
    assert "SELECT upper(s) FROM VALUES ('ß') AS t(s)" in result.stdout
    assert "other value, 1x: upper(s)" in result.stdout


def test_a_disagreement_is_printed_when_it_is_found(asked: list[Setup]) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--seed", "2", "--json"])
    assert json.loads(result.stdout)["findings"][0]["expression"] == "upper(s)"
    assert "SELECT upper(s) FROM VALUES ('ß') AS t(s)" in result.stderr


def test_an_interrupt_prints_what_was_found_so_far(asked: list[Setup]) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--seed", "3", "--json"])
    assert result.exit_code == 130
    shown = json.loads(result.stdout)
    assert shown["interrupted"] is True
    assert shown["match"] is False
    assert shown["unsettled"] == ["lower(s)"]
    assert len(shown["findings"]) == 1


def test_a_part_of_a_run(asked: list[Setup]) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--expressions", "50", "--part", "2/4", "--json"])
    assert result.exit_code == 0, result.output
    assert asked == [Setup(50, part=2, parts=4)]


@pytest.mark.parametrize("part", ["2", "0/4", "5/4", "1/0", "a/b"])
def test_what_is_no_part_is_refused(asked: list[Setup], part: str) -> None:
    result = CliRunner().invoke(program, ["bench", "fuzz", "--part", part])
    assert result.exit_code == 2
    assert "2/4" in result.stderr
    assert asked == []


@pytest.mark.parametrize("total", [0, 1, 399, 400, 1600, 5000])
def test_the_parts_of_a_run_are_the_whole(total: int) -> None:
    parts = [start for part in range(1, 5) for start in Setup(part=part, parts=4).starts(total, 400)]
    assert sorted(parts) == list(Setup().starts(total, 400)) == list(range(0, total, 400))
