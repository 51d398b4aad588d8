"""Rows that wait in front of a source, against a stream whose arrivals are known."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from random import Random

import pytest

from stretto.actors.due_rows import DueRows

SECOND = 1_000_000_000


def arrivals(rate: float, seconds: float, seed: int) -> list[int]:
    """When each row arrives: a Poisson process."""
    chance = Random(seed)
    gaps = (chance.expovariate(rate) for _ in range(int(rate * seconds)))
    return [int(at_s * SECOND) for at_s in accumulate(gaps)]


def reads(arrived: list[int], batch: int, every_s: float) -> tuple[int, int]:
    """Reads the stream in batches, one every so often; returns how many rows waited at the last read, by the estimate
    and in fact."""
    due, read, now_ns = DueRows(), 0, 0
    found = (0, 0)
    while now_ns < arrived[-1]:
        now_ns += int(every_s * SECOND)
        reach = bisect_right(arrived, now_ns)
        rows = min(batch, reach - read)
        read += rows
        waiting = due.waiting(rows, arrived[read - 1] if rows else now_ns, now_ns, read < reach)
        found = (waiting, reach - read)
    return found


@pytest.mark.parametrize("rate", [50.0, 800.0])
def test_what_waits_is_how_late_the_last_row_is_times_the_rate_of_arrivals(rate: float) -> None:
    # A read of ten rows each time in which twenty arrive: half of them wait in the end.
    waiting, actual = reads(arrivals(rate, 40, seed=3), batch=10, every_s=20 / rate)
    assert actual > 0.4 * rate * 40
    assert waiting == pytest.approx(actual, rel=0.2)


def test_nothing_waits_where_a_source_keeps_up() -> None:
    assert reads(arrivals(200.0, 10, seed=3), batch=10, every_s=0.01) == (0, 0)


def test_nothing_is_due_in_a_source_whose_rows_arrive_when_they_are_read() -> None:
    due = DueRows()
    assert {due.waiting(100, at_ns, at_ns, True) for at_ns in range(0, 10 * SECOND, SECOND // 7)} == {0}


def test_the_rate_is_that_of_the_last_seconds() -> None:
    due = DueRows()
    for second in range(10):
        due.waiting(10, second * SECOND, 100 * SECOND, True)
    for second in range(10, 14):
        due.waiting(500, second * SECOND, 100 * SECOND, True)
    assert due.waiting(500, 14 * SECOND, 100 * SECOND, True) == 86 * 500


def test_a_split_that_is_behind_the_others_does_not_turn_time_back() -> None:
    due = DueRows()
    for second in range(20):
        due.waiting(50, second * SECOND, 30 * SECOND, True)
        late = due.waiting(50, max(0, second - 3) * SECOND, 30 * SECOND, True)
    assert late == pytest.approx((30 - 16) * 100, rel=0.5)
