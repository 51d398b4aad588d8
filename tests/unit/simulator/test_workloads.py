"""What arrives: volumes of the stated variation, with the mean rate kept, and rates as uneven as they should be."""

from __future__ import annotations

import random

import pytest

from stretto.simulator.experiments.workloads import (
    COST_SPREAD,
    SECOND_NS,
    START_NS,
    skewed,
    timetable,
    variation,
    volumes,
)


# The coefficient of variation of a Pareto distribution is 1 / sqrt(alpha * (alpha - 2)).
@pytest.mark.parametrize(
    ("alpha", "expected", "tolerance"), [(5.0, 0.258, 0.02), (3.3, 0.483, 0.05), (2.5, 0.894, 0.2)]
)
def test_volumes_have_the_mean_one_and_the_variation_of_their_distribution(
    alpha: float, expected: float, tolerance: float
) -> None:
    drawn = volumes(random.Random(7), alpha, 200_000)
    assert sum(drawn) / len(drawn) == pytest.approx(1, abs=0.02)
    assert variation(drawn) == pytest.approx(expected, abs=tolerance)


def test_a_constant_volume_does_not_vary() -> None:
    assert variation(volumes(random.Random(1), None, 10)) == 0


@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize(("alpha", "expected"), [(None, 0.0), (5.0, 0.258), (3.3, 0.483)])
def test_a_timetable_keeps_the_rate_whatever_the_bursts(alpha: float | None, expected: float, in_step: bool) -> None:
    table = timetable([10.0] * 8, 200, 1_000_000, 3, alpha, in_step=in_step)
    assert table.messages / (8 * 200) == pytest.approx(10, rel=0.1)
    assert table.work_ns / table.messages == pytest.approx(1_000_000, rel=0.02)
    assert table.variation == pytest.approx(expected, abs=0.1)


def test_a_rate_of_less_than_a_message_per_interval_is_kept_too() -> None:
    table = timetable([0.25] * 20, 40, 1_000, 3)
    assert table.messages == pytest.approx(200, abs=20)


def test_arrivals_are_in_order_within_the_run_and_cost_about_what_was_said() -> None:
    table = timetable([5.0, 50.0], 4, 1_000_000, 1, 2.5)
    for source in table.sources:
        moments = [due_ns for due_ns, _ in source]
        assert moments == sorted(moments)
        assert moments[0] >= START_NS
        assert moments[-1] < START_NS + 4 * SECOND_NS == table.until_ns
        assert all(abs(cost_ns / 1_000_000 - 1) <= COST_SPREAD for _, cost_ns in source)


def test_equal_seeds_give_equal_timetables() -> None:
    assert timetable([5.0], 4, 1_000, 1, 2.5).sources == timetable([5.0], 4, 1_000, 1, 2.5).sources
    assert timetable([5.0], 4, 1_000, 1, 2.5).sources != timetable([5.0], 4, 1_000, 2, 2.5).sources


def test_uneven_rates_have_the_sum_and_the_ratio() -> None:
    rates = skewed(640.0, 64, 200.0, 1)
    assert sum(rates) == pytest.approx(640)
    assert max(rates) / min(rates) == pytest.approx(200)
    assert skewed(64.0, 64, 1.0, 1) == pytest.approx([1.0] * 64)
