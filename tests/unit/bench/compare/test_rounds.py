"""The search for a rate against a system whose limit is known; ratios by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.bench.compare.rounds import Search, Staircase, ratios


@given(limit=st.floats(1e3, 1e8), guess=st.floats(0.2, 3.0))
def test_the_search_closes_in_on_the_limit(limit: float, guess: float) -> None:
    search = Search(limit * guess)
    for _ in range(12):
        search.learn(search.rate <= limit, min(search.rate, limit))
    assert limit * 0.85 <= search.found <= limit


def test_a_system_that_sustains_nothing_is_asked_for_less_and_less() -> None:
    search = Search(1000.0)
    asked = []
    for _ in range(4):
        asked.append(search.rate)
        search.learn(False, 0.0)
    assert asked == sorted(asked, reverse=True)
    assert search.found == search.rate > 0


def test_a_rate_once_sustained_outweighs_a_slow_moment() -> None:
    search = Search(1000.0)
    search.learn(False, 900.0)
    search.rate = 1200.0
    search.learn(True, 1200.0)
    assert search.found == 1200.0
    assert search.rate > 1200.0


def test_the_staircase_stays_near_the_limit() -> None:
    stairs = Staircase(500.0)
    for _ in range(60):
        stairs.learn(stairs.rate <= 1000, min(stairs.rate, 1000))
    assert 880 <= stairs.rate <= 1050
    assert max(stairs.reached) <= 1000


def test_ratios_are_taken_round_by_round() -> None:
    found = ratios(
        {"ours": [100.0, 50.0, 200.0], "theirs": [10.0, 5.0, 25.0], "none": [], "gaps": [None, 5.0, 0.0]}, "ours"
    )
    assert found.median == {"theirs": 10.0, "gaps": 10.0}
    assert found.range == {"theirs": (8.0, 10.0), "gaps": (10.0, 10.0)}


def test_a_system_that_is_not_there_has_no_ratio() -> None:
    with pytest.raises(KeyError):
        ratios({"theirs": [1.0]}, "ours")
