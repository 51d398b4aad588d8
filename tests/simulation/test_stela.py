"""Stela on the production machines, small: the measured topology leads it to the congested operator, and throughput
rises as far as it can."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest

from stretto.simulator.experiments.dataflows import ROWS
from stretto.simulator.experiments.stela import CASES, converged_s, scale_out_figure
from stretto.simulator.experiments.stela_open_queues import in_time, late_executors, open_queues_figure
from stretto.simulator.experiments.stela_runs import rate, run
from stretto.simulator.experiments.stela_scale_in import (
    MACHINES,
    THESIS_GAIN,
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
    # In a model without credits a bad choice costs as much as in the thesis.
    assert found.open_queues.stela == 1.0
    assert found.open_queues.by_random_mean is not None
    assert found.open_queues.by_random_mean >= THESIS_GAIN


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


WORK = {"light": 0.1, "heavy": 0.6, "other": 0.3}


def test_who_needs_no_more_than_an_even_part_of_its_machine_keeps_up() -> None:
    homes = {"light": ("a", "a"), "heavy": ("a", "b"), "other": ("b",)}
    assert late_executors(homes, WORK, 1.0) == {"light": [], "heavy": [], "other": []}
    # On a, 0.15 and 0.15 leave 0.7 for 0.9; on b, 0.45 leaves 0.55 for 0.9.
    assert late_executors(homes, WORK, 1.5) == {"light": [], "heavy": [0, 1], "other": []}
    alone = {"heavy": ("a", "a", "a", "b")}
    assert late_executors(alone, WORK, 1.0) == {"heavy": [0, 1, 2]}, "three share one processor and all are late"
    assert in_time(alone, WORK, 1.0) == 0.25


def test_a_row_is_in_time_if_all_executors_on_its_way_are_as_trying_all_ways_finds() -> None:
    chance = random.Random(3)
    for _ in range(50):
        homes = {name: tuple(chance.choice("abc") for _ in range(chance.randint(1, 4))) for name in WORK}
        slow = late_executors(homes, WORK, 1.0)
        ways = list(product(*(range(len(places)) for places in homes.values())))
        good = [way for way in ways if not any(place in slow[name] for name, place in zip(homes, way, strict=True))]
        assert in_time(homes, WORK, 1.0) == pytest.approx(len(good) / len(ways))


def test_nothing_in_time_is_no_number_to_compare_with() -> None:
    crowded = {"heavy": ("a", "a", "a")}
    assert open_queues_figure({"heavy": ("a", "b", "c")}, [crowded], WORK, 1.0).by_random_mean is None
