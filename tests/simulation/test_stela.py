"""Stela on the production machines, small: the measured topology leads it to the congested operator, and throughput
rises as far as it can."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from stretto.simulator.experiments.dataflows import ROWS
from stretto.simulator.experiments.stela import CASES, converged_s, scale_out_figure
from stretto.simulator.experiments.stela_runs import rate, run
from stretto.simulator.experiments.stela_scale_in import (
    MACHINES,
    scale_in_case,
    scale_in_figure,
    throughput,
    without,
    work_of,
)


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


def test_stela_lets_the_machines_leave_that_nothing_depends_on_and_keeps_the_throughput() -> None:
    found = scale_in_figure(2.0, 3, 1, lambda: None)
    assert sorted(found.stela_leaving) == ["w0~1", "w1~1", "w2~1", "w3~1"]
    assert found.kept_share >= 0.9
    assert found.by_random_mean > 1.15
    assert found.gain_bound < 1.75


@pytest.mark.parametrize("leaving", [("w1~1", "w3~1", "w5~1", "w6~1"), ("w0~1", "w1~1", "w6~1", "w7~1")])
def test_the_model_that_the_bound_is_from_agrees_with_the_machines(leaving: tuple[str, ...]) -> None:
    flow, homes = scale_in_case()
    placement = without(homes, leaving)
    reached = rate(run(flow, placement, MACHINES, 2.0, 1, lambda: None))
    assert reached == pytest.approx(1_000 * ROWS * throughput(placement, work_of(flow)), rel=0.12)


def test_who_keeps_a_throughput_keeps_at_most_1_75_times_what_any_four_of_eight_machines_do() -> None:
    chance = random.Random(5)
    worst = 0.0
    for _ in range(300):
        loads = [chance.choice((0.01, 1.0, chance.random())) for _ in range(8)]
        kept = min(1 / max(loads), 4 / sum(loads))
        for leaving in combinations(range(8), 4):
            share = sum(loads[place] for place in leaving) / 4
            group = 1 / (max(load for place, load in enumerate(loads) if place not in leaving) + share)
            worst = max(worst, kept / group)
    assert 1.6 < worst <= 1.75
