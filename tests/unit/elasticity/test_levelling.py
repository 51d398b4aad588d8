"""Workers of one job's actors are divided by their loads."""

from __future__ import annotations

from itertools import product

import pytest

from stretto.elasticity.levelling import WORTH, Holding, level


def test_the_most_loaded_takes_from_the_least_loaded() -> None:
    assert level([Holding(9.0, 8, 64), Holding(7.0, 8, 8)]) == [9, 7]
    assert level([Holding(8.0, 8, 64), Holding(8.0, 8, 8)]) == [8, 8]
    assert level([Holding(9.0, 4, 64), Holding(3.0, 12, 12)]) == [12, 4]


def test_nobody_takes_who_keeps_up_and_nobody_gives_the_last_one() -> None:
    assert level([Holding(9.0, 4, 4), Holding(3.0, 12, 12)]) == [4, 12]
    assert level([Holding(9.0, 4, 6), Holding(3.0, 12, 12)]) == [6, 10]
    assert level([Holding(9.0, 1, 64), Holding(0.1, 1, 1)]) == [1, 1]
    assert level([]) == []


@pytest.mark.parametrize("loads", list(product((0.5, 1.0, 2.7, 6.0), repeat=3)))
def test_it_comes_near_the_best_division_and_rests_there(loads: tuple[float, ...]) -> None:
    """Against all divisions of nine workers among three actors."""
    found = level([Holding(load, 3, 9) for load in loads])
    assert sum(found) == 9
    greatest = max(load / workers for load, workers in zip(loads, found, strict=True))
    divisions = [(a, b, 9 - a - b) for a in range(1, 8) for b in range(1, 9 - a)]
    best = min(max(load / each for load, each in zip(loads, many, strict=True)) for many in divisions)
    assert greatest <= WORTH * best
    noisy = [load * factor for load, factor in zip(loads, (1.02, 0.98, 1.0), strict=True)]
    assert level([Holding(load, workers, 9) for load, workers in zip(noisy, found, strict=True)]) == found
