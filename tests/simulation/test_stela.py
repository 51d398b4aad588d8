"""Stela on the production machines, small: the measured topology leads it to the congested operator, and throughput
rises as far as it can."""

from __future__ import annotations

import pytest

from stretto.simulator.experiments.stela import CASES, converged_s, scale_out_figure


def test_stela_finds_the_congested_operator_and_round_robin_does_not() -> None:
    found = scale_out_figure(CASES["star"], 2.0, 1, lambda: None)
    assert found.added == ["middle"] * 3
    assert found.above_percent["round-robin"] >= CASES["star"].thesis_percent
    # 2 executors become 5, and nothing else limits the throughput.
    assert found.bound == pytest.approx(2.5 * found.before, rel=0.01)
    assert found.after["stela"] == pytest.approx(found.bound, rel=0.05)
    assert found.after["round-robin"] == pytest.approx(found.before, rel=0.1)
    assert found.touched["stela"] == 3 < found.touched["round-robin"]


def test_throughput_has_converged_when_it_was_twice_above_and_twice_below_its_average() -> None:
    assert converged_s([0, 50, 101, 99, 101, 99, 100], 0.5) == 3.0
    assert converged_s([0, 50, 200, 10, 300], 0.5) is None
