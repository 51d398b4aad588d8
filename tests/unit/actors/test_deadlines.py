"""Deadlines: the thesis's worked examples, and what happens where progress is unknown."""

from __future__ import annotations

import random

import numpy as np
import pytest

from stretto.actors.deadlines import (
    FIT_EVERY,
    FIT_POINTS,
    FIT_POINTS_MIN,
    POINTS_PER_WINDOW,
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
        (14, 10, 10, 14),  # Its sender emits no more often: each message triggers it.
        (14, 2, 10, 14),
        (14, None, None, 14),  # A regular function.
    ],
)
def test_transform_finds_the_end_of_the_window(
    progress: int, slide: int | None, above: int | None, expected: int
) -> None:
    assert frontier(progress, slide, above) == expected


def test_progress_is_mapped_by_a_line() -> None:
    """Windows of 10 s whose events take 2 s to arrive: those that end at 11 and 21 arrive at 13 and 23."""
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


def test_there_is_no_prediction_where_progress_is_unknown() -> None:
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
        back.learn(moment, -moment)  # Later events arrived earlier: no usable line.
    assert back.arrival_ns(30) is None


def test_a_line_reaches_back_over_windows_however_many_messages_they_have() -> None:
    """A thousand messages a second in bursts: the last few dozen alone would give a far steeper line."""
    thinned, all_of_them = ProgressMap(), ProgressMap()
    thinned.step_us = SECOND_US // POINTS_PER_WINDOW
    for message in range(20_000):
        at_us = message * 1_000
        # The first half of each second arrives as it happens, the other half at the second's end.
        arrived_ns = (at_us if at_us % SECOND_US < SECOND_US // 2 else -(-at_us // SECOND_US) * SECOND_US) * 1_000
        thinned.learn(at_us, arrived_ns)
        all_of_them.learn(at_us, arrived_ns)
    expected = thinned.arrival_ns(30 * SECOND_US)
    assert expected == pytest.approx(30 * SECOND_NS, rel=0.05)
    misled = all_of_them.arrival_ns(30 * SECOND_US)
    assert misled is None or abs(misled - 30 * SECOND_NS) > abs(expected - 30 * SECOND_NS)


def test_the_line_is_that_of_least_squares_over_the_latest_points() -> None:
    found = ProgressMap()
    chance = random.Random(3)
    start_us, start_ns = 1_750_000_000_000_000, 1_790_000_000_000_000_000
    points = []
    for number in range(200):
        point = (start_us + number * 20_000 + chance.randrange(9_000), start_ns + number * 25_000_000)
        found.learn(*point)
        points.append(point)
    # The latest complete groups of points.
    whole = points[: len(points) // FIT_EVERY * FIT_EVERY][-FIT_POINTS:]
    slope, at_start = np.polyfit(*zip(*[(us - start_us, ns - start_ns) for us, ns in whole], strict=True), 1)
    wanted_us = 5_000_000
    assert found.arrival_ns(start_us + wanted_us) == pytest.approx(start_ns + at_start + slope * wanted_us, abs=20_000)
