"""The clock of a driver of machines: wall time without its steps."""

from __future__ import annotations

import pytest

from stretto.protocol.clock import SLEW, TURN_NS, SteadyClock

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS


class Clocks:
    """A wall clock that can be set, and a steady one, advanced by hand."""

    def __init__(self) -> None:
        self.wall_ns, self.steady_ns = START_NS, 5
        self.clock = SteadyClock(lambda: self.wall_ns, lambda: self.steady_ns)

    def after(self, ns: int) -> int:
        self.wall_ns += ns
        self.steady_ns += ns
        return self.clock.now_ns()


def test_it_starts_at_the_wall_time_and_follows_it() -> None:
    clocks = Clocks()
    assert clocks.clock.now_ns() == START_NS
    for passed_ns in (1, 999, TURN_NS - 1_000, TURN_NS, 40 * TURN_NS, 7):
        assert clocks.after(passed_ns) == clocks.wall_ns


@pytest.mark.parametrize("step_s", [-600, 600])
def test_a_step_changes_an_interval_by_a_tenth_at_most(step_s: int) -> None:
    clocks = Clocks()
    before_ns = clocks.after(300)
    clocks.wall_ns += step_s * SECOND_NS
    for _ in range(200):
        now_ns = clocks.after(SECOND_NS // 7)
        assert abs(now_ns - before_ns - SECOND_NS // 7) <= SECOND_NS // 7 // SLEW + 1
        before_ns = now_ns


@pytest.mark.parametrize("step_s", [-20, -0.001, 0.001, 20])
def test_it_returns_to_the_wall_time(step_s: float) -> None:
    clocks = Clocks()
    clocks.wall_ns += round(step_s * SECOND_NS)
    for _ in range(202):
        clocks.after(TURN_NS)
    assert clocks.clock.now_ns() == clocks.wall_ns


def test_it_never_goes_back_however_often_it_is_read() -> None:
    clocks = Clocks()
    clocks.wall_ns -= 10 * SECOND_NS
    clocks.after(TURN_NS)
    times = [clocks.after(ns) for ns in (1, 1, 2, 3, 5, 8, 13, TURN_NS - 1, 1, 1, 1)]
    assert times == sorted(times)


def test_a_pause_of_the_process_is_counted_and_made_up_for_once() -> None:
    clocks = Clocks()
    clocks.wall_ns += SECOND_NS
    clocks.after(TURN_NS)
    assert clocks.after(12 * SECOND_NS) == clocks.wall_ns - SECOND_NS + TURN_NS // SLEW
