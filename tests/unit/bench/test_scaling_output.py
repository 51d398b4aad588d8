"""What a change of the workers did to a query's output, from when results came and what was read."""

from __future__ import annotations

import pytest

from stretto.bench.scaling.output import Change, figures, gap, rates

CHANGE = Change(steady_s=0.0, asked_s=3.0, done_s=4.0, until_s=8.0)


def every(step_s: float, from_s: float, to_s: float) -> list[float]:
    return [from_s + place * step_s for place in range(round((to_s - from_s) / step_s))]


def test_the_gap_is_what_the_longest_silence_around_the_change_is_longer_than_usual() -> None:
    results_s = [*every(0.1, 0.0, 3.5), *every(0.1, 3.9, 8.0)]
    normal_s, gap_s, ended_s = gap(results_s, CHANGE)
    assert (normal_s, gap_s, ended_s) == pytest.approx((0.1, 0.5, 3.9))


def test_silence_long_after_the_change_is_not_its_gap() -> None:
    results_s = [*every(0.1, 0.0, 6.0), *every(0.1, 7.5, 8.0)]
    assert gap(results_s, CHANGE)[1] == pytest.approx(0.1)


def test_a_query_that_never_comes_back_has_a_gap_until_the_end() -> None:
    assert gap(every(0.1, 0.0, 3.1), CHANGE)[1] == pytest.approx(5.0)


def test_the_dip_is_of_the_worst_slice_and_steady_is_what_it_is_afterwards() -> None:
    # 1,000 events per second; none from 3.5 to 4; then half of it.
    read = [(0.0, 0), (3.5, 3_500), (4.0, 3_500), (8.0, 5_500)]
    found = figures([*every(0.01, 0.0, 3.5), *every(0.01, 4.0, 8.0)], read, CHANGE)
    assert found.dip == pytest.approx(1.0)
    assert found.gap_ms == pytest.approx(500, abs=1)
    assert found.normal_ms == pytest.approx(10)
    assert found.converged_s == pytest.approx(1.5, abs=0.02)


def test_rates_are_those_of_whole_slices_between_samples() -> None:
    read = [(0.0, 0), (1.0, 100), (2.0, 400)]
    assert rates(read, 0.0, 2.0) == pytest.approx([100, 100, 300, 300])
    assert rates(read, 1.0, 1.2) == pytest.approx([300])
    assert rates(read, 5.0, 6.0) == [0, 0]
