"""Figures from outputs with known truth: a queue simulated by hand, with and without overload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.bench.compare.measure import Outputs, by_arrival, drained, paced

SECONDS = 10.0


def queue(rate: float, capacity: float, latency_s: float = 0.01, every: int = 100) -> Outputs:
    """Events due at `rate`, processed one after the other at `capacity`, and emitted `latency_s` later."""
    due_s = np.arange(1, int(rate * SECONDS) + 1) / rate
    done_s = np.empty_like(due_s)
    free_s = 0.0
    for i, due in enumerate(due_s):
        free_s = max(free_s, due) + 1 / capacity
        done_s[i] = free_s
    return Outputs(due_s[::every], done_s[::every] + latency_s)


def test_a_rate_below_the_capacity_is_sustained() -> None:
    found = paced(queue(rate=1000, capacity=1100), 1000, SECONDS)
    assert found.sustained
    assert found.events_per_s == 1000
    assert found.quantile_ms(0.99) == pytest.approx(10.9, abs=0.5)


@pytest.mark.parametrize("capacity", [300, 700, 900])
def test_a_rate_above_the_capacity_is_not_and_the_capacity_is_found(capacity: float) -> None:
    found = paced(queue(rate=1000, capacity=capacity), 1000, SECONDS)
    assert not found.sustained
    assert found.events_per_s == pytest.approx(capacity, rel=0.05)


def test_a_late_start_is_warm_up_and_does_not_count() -> None:
    outputs = queue(rate=1000, capacity=1e6)
    slow_start = np.where(outputs.due_s < 2.0, 2.0 - outputs.due_s, 0.0)
    found = paced(Outputs(outputs.due_s, outputs.received_s + slow_start), 1000, SECONDS)
    assert found.sustained
    assert found.quantile_ms(1.0) == pytest.approx(10, abs=1)


def test_micro_batches_are_sustained_although_latency_swings() -> None:
    due_s = np.arange(1, 10_001) / 1000
    received_s = np.ceil(due_s / 0.7) * 0.7 + 0.3
    assert paced(Outputs(due_s, received_s), 1000, SECONDS).sustained


def test_a_system_that_stops_putting_out_sustains_nothing() -> None:
    outputs = queue(rate=1000, capacity=1e6).before(SECONDS / 2)
    assert not paced(outputs, 1000, SECONDS).sustained


def test_a_p99_that_grows_is_not_sustained() -> None:
    outputs = queue(rate=1000, capacity=1e6, every=1)
    worse = np.where((outputs.due_s > 7) & (np.arange(len(outputs.due_s)) % 20 == 0), 1.0, 0.0)
    assert not paced(Outputs(outputs.due_s, outputs.received_s + worse), 1000, SECONDS).sustained


def test_no_output_at_all_is_nothing_sustained() -> None:
    found = paced(Outputs(np.empty(0), np.empty(0)), 1000, SECONDS)
    assert (found.sustained, found.events_per_s, found.quantile_ms(0.5)) == (False, 0.0, None)


@given(st.integers(1, 50), st.floats(0.001, 10))
def test_few_outputs_never_break_it(count: int, late_s: float) -> None:
    due_s = np.linspace(0, SECONDS, count)
    found = paced(Outputs(due_s, due_s + late_s), 500, SECONDS)
    assert 0 <= found.events_per_s <= 500


def test_windows_of_processing_time_count_what_went_through() -> None:
    ends = np.repeat(np.array([1010, 1020, 1030, 1040]), 2)
    events = np.array([100, 100, 5000, 4900, 5000, 5050, 300, 300])
    run = (1003.0, 1033.0)
    found = by_arrival(ends, events, rate=1000.0, window_s=10, run=run)
    assert found.sustained  # only the windows that end at 1020 and 1030 lie inside the run
    overloaded = by_arrival(ends, events, rate=2000.0, window_s=10, run=run)
    assert not overloaded.sustained
    assert overloaded.events_per_s == pytest.approx(997.5)
    assert not by_arrival(ends[:0], events[:0], 1000.0, 10, run).sustained


def test_a_drained_backlog_gives_the_pace_after_the_warm_up() -> None:
    numbers = np.arange(0, 100_001, 1000)
    received_s = np.where(numbers < 20_000, numbers / 2_000, 10 + (numbers - 20_000) / 50_000)
    assert drained(numbers, received_s) == pytest.approx(50_000, rel=0.01)
    assert drained(np.array([100_000]), np.array([4.0])) == pytest.approx(25_000)
    assert drained(np.empty(0, np.int64), np.empty(0)) == 0.0


@pytest.mark.parametrize("batch_s", [0.3, 1.0, 1.7])
def test_large_micro_batches_near_the_limit_are_not_taken_for_a_growing_backlog(batch_s: float) -> None:
    due_s = np.arange(1, 8_001) / 1000
    received_s = np.ceil(due_s / batch_s) * batch_s + batch_s
    assert paced(Outputs(due_s, received_s), 1000, 8.0).sustained
    behind_s = due_s * 0.3
    assert not paced(Outputs(due_s, received_s + behind_s), 1000, 8.0).sustained


def test_outputs_that_stop_after_the_warm_up_reach_no_more_than_came_out() -> None:
    due_s = np.array([0.5, 1.0, 1.5])
    found = paced(Outputs(due_s, np.array([6.0, 6.0, 6.0])), 1000, SECONDS)
    assert not found.sustained
    assert found.events_per_s == pytest.approx(250)
