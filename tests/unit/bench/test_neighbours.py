"""The verdict on deadly functions beside good jobs, without running any."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stretto.bench.deadly import Bomb, Deadly
from stretto.bench.neighbours import QUERIES, RECOVERIES_MAX, NeighboursReport, Round


def round_with(**changed: object) -> Round:
    right = {"named": True, "good": dict.fromkeys(QUERIES, "match"), "good_recoveries": dict.fromkeys(QUERIES, 1)}
    return Round("exits", **(right | changed))  # type: ignore[arg-type]


WRONG: dict[str, dict[str, object]] = {
    "the bad job is not named": {"named": False},
    "a good job has a wrong row": {"good": dict.fromkeys(QUERIES, "match") | {"q5": "1 row is missing"}},
    "the bad job recovers too often": {"recoveries": RECOVERIES_MAX + 1},
    "a good job recovers too often": {"good_recoveries": {"q5": RECOVERIES_MAX + 1, "q1": 0}},
}


def test_a_round_passes_if_all_is_right() -> None:
    report = NeighboursReport([round_with()])
    assert report.passed
    assert report.as_dict()["kinds"]["exits"]["passed"]


@pytest.mark.parametrize("what", WRONG)
def test_a_round_fails_if_one_thing_is_wrong(what: str) -> None:
    report = NeighboursReport([round_with(), round_with(**WRONG[what])])
    assert not report.passed


def test_no_rounds_are_no_success() -> None:
    assert not NeighboursReport([]).passed


def test_there_are_at_least_ten_kinds_and_all_can_be_shipped(tmp_path: Path) -> None:
    assert len(Deadly) >= 10
    for kind in Deadly:
        bomb = pickle.loads(pickle.dumps(Bomb(kind, tmp_path / "mark")))
        assert bomb.kind is kind
    assert not (tmp_path / "mark").exists(), "nothing goes off in the driver"
