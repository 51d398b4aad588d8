"""Objectives as utilities (thesis 3.3): the knee of equations 3.1 and 3.2, other shapes, a user's own, hybrids."""

from __future__ import annotations

import math

import pytest

from stretto import objective
from stretto.errors import PlanError


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(None, 35.0), (0.0, 35.0), (30.0, 35.0), (60.0, 35.0), (120.0, 17.5), (600.0, 3.5)],
)
def test_the_knee_of_a_latency_is_the_objective_by_the_latency(latency_ms: float | None, expected: float) -> None:
    assert objective(latency="60 ms", priority=35).utility(latency_ms, None) == pytest.approx(expected)


@pytest.mark.parametrize(("juice", "expected"), [(1.0, 2.0), (0.8, 2.0), (0.4, 1.0), (0.0, 0.0)])
def test_the_knee_of_a_throughput_is_the_juice_by_the_objective(juice: float, expected: float) -> None:
    assert objective(throughput=0.8, priority=2).utility(None, juice) == pytest.approx(expected)


def test_a_hybrid_is_worth_its_lesser_part() -> None:
    both = objective(latency="100 ms", throughput=0.9)
    assert both.utility(200.0, 0.9) == pytest.approx(0.5)
    assert both.utility(50.0, 0.45) == pytest.approx(0.5)
    assert both.utility(50.0, 1.0) == 1.0


def test_without_results_a_job_is_worth_everything_unless_it_is_stuck() -> None:
    both = objective(latency="100 ms", throughput=0.9, priority=4)
    assert both.utility(None, None) == 4
    assert both.utility(None, None, is_stuck=True) == 0
    assert both.utility(None, 0.9, is_stuck=True) == 0, "a latency is promised"
    assert objective(throughput=0.9, priority=4).utility(None, 0.9, is_stuck=True) == 4
    assert objective(priority=4).utility(None, None, is_stuck=True) == 4, "nothing is promised"


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("knee", {0.0: 0.0, 0.5: 0.5, 0.75: 0.75, 1.0: 1.0, 3.0: 1.0}),
        ("linear", {0.0: 0.0, 0.5: 0.0, 0.75: 0.5, 1.0: 1.0, 3.0: 1.0}),
        ("step", {0.0: 0.0, 0.999: 0.0, 1.0: 1.0, 3.0: 1.0}),
    ],
)
def test_utilities_by_name(name: str, at: dict[float, float]) -> None:
    chosen = objective(throughput=1.0, utility=name, priority=4)
    for attained, expected in at.items():
        assert chosen.worth(attained) == pytest.approx(4 * expected)


def test_a_function_of_the_users() -> None:
    chosen = objective(latency="100 ms", utility=lambda attained: attained**2, priority=10)
    assert chosen.utility(200.0, None) == pytest.approx(2.5)
    assert chosen.utility(10.0, None) == 10.0
    assert "utility <lambda>" in chosen.describe()


def test_a_function_that_is_not_monotonic_is_refused_with_the_pair_that_shows_it() -> None:
    def humped(attained: float) -> float:
        return 1.0 if attained == 1 else math.sin(math.pi * attained)

    with pytest.raises(PlanError) as caught:
        objective(latency="1 s", utility=humped)
    assert "not monotonic" in str(caught.value)
    # Its first descent that the check can see is just after the top.
    assert "humped(0.5) = 1, but humped(0.501953) = 0.999981" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda attained: 2 * attained, "out of range"),
        (lambda attained: attained - 1, "out of range"),
        (lambda attained: math.nan, "out of range"),
        (lambda attained: attained / 2, "does not reach 1"),
        (lambda attained: 1 / attained, "raised ZeroDivisionError"),
        ("hinge", "no such utility"),
        (7, "a name or a function"),
    ],
)
def test_other_functions_that_are_refused(function: object, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        objective(latency="1 s", utility=function)  # type: ignore[arg-type]
