"""Strategies compared at small scale: the findings of the thesis on task size, state, skew and windows."""

from __future__ import annotations

import pytest

from stretto.scheduling.spreading import Dispatcher
from stretto.scheduling.strategies import STRATEGIES
from stretto.simulator.experiments import bids, requests
from stretto.simulator.experiments.comparison import AUTO_WITHIN, Outcome

WORKERS, REQUESTS = 24, 2_400
MS = 1_000_000


@pytest.fixture(scope="module")
def objectives() -> dict[int, int]:
    return {task_ms: requests.objective_ns(task_ms * MS, WORKERS, REQUESTS) for task_ms in (1, 10)}


def mean(name: str, task_ms: int, skew: float, stateful: bool, objectives: dict[int, int]) -> float:
    setting = requests.Setting(task_ms * MS, skew, stateful, REQUESTS, workers=WORKERS)
    return requests.latencies(setting, STRATEGIES[name], objectives[task_ms]).mean


def test_dynamic_binding_is_better_for_large_tasks_without_state(objectives: dict[int, int]) -> None:
    for skew in (1.0, float("inf")):
        bound, offloaded = (mean(n, 10, skew, False, objectives) for n in ("laxity-direct", "1rtt-reject-send"))
        assert bound < offloaded
        assert mean("priority", 10, skew, False, objectives) > 3 * offloaded, "and both beat staying at home"
        assert mean("auto", 10, skew, False, objectives) < AUTO_WITHIN * bound


def test_offloading_is_better_for_small_tasks_with_state(objectives: dict[int, int]) -> None:
    bound, offloaded, auto = (
        mean(name, 1, 0.1, True, objectives) for name in ("laxity-direct", "1rtt-reject-send", "auto")
    )
    assert bound > 1.5 * offloaded
    assert auto < AUTO_WITHIN * offloaded


def test_a_dispatcher_for_all_is_slower_the_more_there_is_to_do() -> None:
    gaps = []
    for utilisation in (0.1, 0.6):
        setting = requests.Setting(MS, float("inf"), False, REQUESTS, utilisation=utilisation, workers=WORKERS)
        central = requests.latencies(setting, Dispatcher, 10**12)
        asked = requests.latencies(setting, STRATEGIES["queue-direct"], 10**12)
        gaps.append(central.p99 - asked.p99)
    assert gaps[1] > max(0.0, gaps[0])


def test_a_barrier_is_lighter_where_nothing_was_spread_without_need() -> None:
    setting = bids.Setting("highest bid", actors=8, instances=4, load=0.5, workers=16)
    direct, reject = (bids.latencies(setting, STRATEGIES[n](), 20 * MS) for n in ("laxity-direct", "1rtt-reject-send"))
    assert reject.windows == direct.windows > 0
    assert reject.p50 < direct.p50


@pytest.mark.parametrize("query", bids.QUERIES)
def test_an_overloaded_aggregation_needs_lessees(query: str) -> None:
    alone, spread = (
        bids.latencies(bids.Setting(query, 1, instances, load=2.0, workers=12), STRATEGIES["auto"](), 20 * MS)
        for instances in (1, 6)
    )
    assert alone.p50 > 10 * spread.p50


def test_the_winner_is_named_among_those_compared() -> None:
    latencies = {
        "queue-direct": 3.0, "laxity-direct": 2.0, "1rtt-reject-send": 4.0, "1rtt-accept-and-check": 5.0,
        "priority": 1.0, "auto": 2.2,
    }  # fmt: skip
    outcome = Outcome("6.9", "a setting", "mean", latencies, {}, "")
    assert (outcome.winner, outcome.kind) == ("laxity-direct", "dynamic binding")
    assert outcome.auto_by_best == 2.2, "the static ones count as well"
    assert outcome.as_json()["winner"] == "laxity-direct"
