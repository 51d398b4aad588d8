"""`stretto simulate`: figures, exit codes, and the command that replays a failing seed."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from stretto.cli.program import program
from stretto.cli.simulate.seeds import Sweep

runner = CliRunner()


def test_seeds_without_a_violation_are_counted() -> None:
    result = runner.invoke(program, ["simulate", "barriers", "--seeds", "20", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["seeds"] == 20
    assert found["violations"] == {}
    assert found["barriers"] > 0
    assert found["messages"] > found["barriers"]
    assert found["seeds_per_s"] > 0


def test_a_mutation_is_caught_with_a_witness_and_a_way_to_see_it_again() -> None:
    mutated = ["simulate", "barriers", "--seeds", "50", "--mutate", "forwards-uncounted"]
    result = runner.invoke(program, [*mutated, "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    seed = found["failed_seeds"][0]
    assert found["violations"]
    replay = f"stretto simulate barriers --seeds 1 --first {seed} --workers 8 --functions 8 --mutate forwards-uncounted"
    assert replay in result.stderr
    assert "lessor of" in result.stderr
    again = runner.invoke(program, replay.split()[1:])
    assert again.exit_code == 1


@pytest.mark.parametrize(
    "options",
    [
        ["faults", "--workers", "4", "--functions", "5", "--mutate", "states-forgotten", "--rescale"],
        ["faults", "--functions", "4", "--mutate", "offset-forgotten"],
        ["barriers", "--workers", "5", "--functions", "6", "--mutate", "state-lost", "--strategy", "reject"],
        ["scaling", "--workers", "3", "--functions", "5", "--mutate", "position-lost"],
    ],
    ids=["rescale", "faults", "barriers", "scaling"],
)
def test_the_command_that_is_printed_does_the_same_run_again(options: list[str]) -> None:
    result = runner.invoke(program, ["simulate", *options, "--seeds", "100", "--json"])
    assert result.exit_code == 1, result.output
    (command,) = re.findall(r"Replay it with: stretto (.*)", result.stderr)
    assert set(options) <= set(command.split())
    again = runner.invoke(program, [*shlex.split(command), "--json"])
    assert again.exit_code == 1
    found, replayed = json.loads(result.stdout), json.loads(again.stdout)
    assert (replayed["failed_seeds"], replayed["violations"]) == (found["failed_seeds"], found["violations"])
    assert _told(again.stderr) == _told(result.stderr)


def _told(stderr: str) -> str:
    """Returns the report of the failing run, without the progress bar before it."""
    return stderr[re.search(r"^seed \d+: ", stderr, re.MULTILINE).start() :]


def test_an_option_that_was_not_given_is_not_in_the_command() -> None:
    sweep = Sweep("faults", {"workers": 3, "mutate": None, "every-step": True, "rescale": False}, list, dict, str)
    assert sweep.replay(7) == "stretto simulate faults --seeds 1 --first 7 --workers 3 --every-step"


def test_an_unknown_mutation_is_refused_with_those_there_are() -> None:
    result = runner.invoke(program, ["simulate", "barriers", "--mutate", "nonsense"])
    assert result.exit_code == 2
    assert "there is no mutation 'nonsense'" in result.stderr
    assert "no-dependency-payload" in result.stderr.replace("\n", "")


def test_a_strategy_goes_by_name_or_as_a_class_of_ones_own() -> None:
    for strategy in ("laxity-direct", "examples.ask_first:AskFirst"):
        result = runner.invoke(program, ["simulate", "barriers", "--seeds", "3", "--strategy", strategy, "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["violations"] == {}
    result = runner.invoke(program, ["simulate", "barriers", "--strategy", "nonsense"])
    assert result.exit_code == 2
    assert "there is no strategy 'nonsense'" in result.stderr


def test_shares_are_told_by_phase_and_worker() -> None:
    result = runner.invoke(program, ["simulate", "shares", "--workers", "2", "--seconds", "0.5", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["shares"] == {"small": 20.0, "middle": 40.0, "large": 40.0}
    assert [phase["name"] for phase in found["phases"]] == ["all compete", "large rests", "large is back"]
    assert all(len(phase["found"]) == 2 for phase in found["phases"])
    assert found["holds"] is True
