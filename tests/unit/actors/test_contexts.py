"""Deadlines: the thesis's worked examples, and what happens where progress cannot be told."""

from __future__ import annotations

import pytest

from stretto.actors.contexts import (
    FIT_POINTS_MIN,
    ProgressMap,
    frontier,
    start_deadline_ns,
)

SECOND_US, SECOND_NS = 1_000_000, 1_000_000_000


def test_the_example_of_the_thesis() -> None:
    """Figure 5.4: a message that arrived at 30, with 50 to go and a cost of 20, must begin by 60."""
    assert start_deadline_ns(30, 50, 20, 0) == 60


@pytest.mark.parametrize(
    ("progress", "slide", "above", "expected"),
    [
        (1, 10, None, 10),
        (9, 10, None, 10),
        (10, 10, None, 20),  # The next window has begun.
        (14, 10, 2, 20),
        (14, 10, 10, 14),  # What feeds it puts out as seldom: each message triggers it.
        (14, 2, 10, 14),
        (14, None, None, 14),  # A regular function.
    ],
)
def test_transform_finds_the_end_of_the_window(
    progress: int, slide: int | None, above: int | None, expected: int
) -> None:
    assert frontier(progress, slide, above) == expected


def test_progress_is_mapped_by_a_line() -> None:
    """Windows of 10 s whose events take 2 s to arrive: those that end at 11 and 21 are there at 13 and 23."""
    found = ProgressMap()
    for second in range(1, 9):
        found.learn(second * SECOND_US, (second + 2) * SECOND_NS)
    assert found.arrival_ns(11 * SECOND_US) == pytest.approx(13 * SECOND_NS, abs=1_000)
    assert found.arrival_ns(21 * SECOND_US) == pytest.approx(23 * SECOND_NS, abs=1_000)


def test_a_stream_that_is_replayed_faster_has_another_slope() -> None:
    found = ProgressMap()
    for second in range(20):
        found.learn(second * SECOND_US, second * SECOND_NS // 10)
    assert found.arrival_ns(30 * SECOND_US) == pytest.approx(3 * SECOND_NS, abs=1_000)


def test_where_progress_cannot_be_told_nothing_is_said() -> None:
    found = ProgressMap()
    for second in range(FIT_POINTS_MIN - 1):
        assert found.arrival_ns(0) is None
        found.learn(second, second)
    still = ProgressMap()
    for moment in range(20):
        still.learn(7, moment)  # Stream time does not move.
    assert still.arrival_ns(8) is None
    back = ProgressMap()
    for moment in range(20):
        back.learn(moment, -moment)  # Later events came earlier: no line that one could follow.
    assert back.arrival_ns(30) is None
