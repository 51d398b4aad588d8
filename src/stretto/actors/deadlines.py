"""Deadlines: the urgency that a message carries to its receiver, and the costs that come back (thesis 5.4-5.5).

A message that must be through its dataflow within L of the arrival of the last event that it waits for has a start
deadline at each function: that arrival, plus L, less the cost of the function and of the longest path below it. A
windowed function is not urgent before its window ends: the arrival that counts is that of the window's end, found from
the stream's own time by `frontier` (TRANSFORM) and `ProgressMap` (PROGRESSMAP).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

PROGRESS_MAX_US = 2**63 - 1
"""The last moment of a stream."""
AT_ONCE = float("-inf")
"""The urgency of work that other work waits for: opening, timers, a critical message with nothing before it."""
NEVER_NS = 2**62
"""The deadline of work that nothing waits for. Times of arrival, in nanoseconds, are not later either."""
LATENCY_MAX_NS = NEVER_NS // 2
"""The greatest objective for latency, so that no deadline needs more than 64 bits."""
LAX_NS = 10_000_000_000
"""The latency that a job without an objective gets: late enough to yield to all others, and finite, so that it is not
starved by them. It is not how such a job is known (`OutChannel.yields` is): somebody may promise just as much."""
YIELDS_NS = LAX_NS // 2
"""The least distance to the deadline of its next message: a job without an objective does not become urgent by falling
behind."""
HANDICAP = 0.25
"""The part of its job's objective by which a function that takes the whole time of a worker yields to others."""
FIT_POINTS = 32
FIT_POINTS_MIN = 4
FIT_EVERY = 16
"""The number of new points until the line is fitted again: a fit costs some microseconds, and a few points change it
little."""
POINTS_PER_WINDOW = 4
"""The maximum number of points per window in the fit."""
COST_WEIGHT = 0.125
"""The weight of the latest cost in the running mean."""


def frontier(progress_us: int, slide_us: int | None, slide_above_us: int | None) -> int:
    """Returns the stream time at which the receiver emits the result that includes this progress (equation 5.4).

    The receiver emits at multiples of its slide; if its sender emits no more often than that, each message triggers
    it."""
    if slide_us is None or (slide_above_us is not None and slide_above_us >= slide_us):
        return progress_us
    return min((progress_us // slide_us + 1) * slide_us, PROGRESS_MAX_US)


class ProgressMap:
    """A prediction of when a stream time arrives: a straight line through the latest pairs of stream time and arrival.

    There is no prediction, and the function counts as a regular one, before there are enough points, and where stream
    time does not move or moves backwards. Points are at least `step_us` apart, so that they cover several windows,
    however many messages a window has. Points are summed once, in groups: a fit needs only the sums, and combining
    those of a few groups is cheap."""

    __slots__ = ("_groups", "_line", "_new", "_next_us", "step_us")

    def __init__(self) -> None:
        self._new: list[tuple[int, int]] = []
        self._next_us = -(2**63)
        self._groups: deque[_Sums] = deque(maxlen=FIT_POINTS // FIT_EVERY)
        self._line: tuple[int, int, float] | None = None
        self.step_us = 1

    def learn(self, progress_us: int, arrived_ns: int) -> None:
        """Adds a message with this progress that arrived at this time."""
        if progress_us < self._next_us:
            return
        self._next_us = progress_us + self.step_us
        self._new.append((progress_us, arrived_ns))
        if len(self._new) >= FIT_EVERY:
            self._draw()

    def arrival_ns(self, progress_us: int) -> int | None:
        """Returns when this stream time will have arrived, or None if unknown."""
        if self._line is None:
            if len(self._new) < FIT_POINTS_MIN:
                return None
            self._draw()
        assert self._line is not None
        middle_us, middle_ns, slope = self._line
        return min(middle_ns + int((progress_us - middle_us) * slope), NEVER_NS) if slope > 0 else None

    def _draw(self) -> None:
        """Fits the line again, with the new points."""
        self._groups.append(_summed(self._new))
        self._new = []
        self._line = _fitted(self._groups)


_Sums = tuple[int, int, int, float, float, float, float]
"""A group of points: the count, the first point, and the sums of both coordinates, of the squares of stream time and of
the products. All are relative to the first point, so that they are small and floats are accurate enough."""


def _summed(points: list[tuple[int, int]]) -> _Sums:
    first_us, first_ns = points[0]
    sum_us = sum_ns = squares = products = 0.0
    for progress_us, arrived_ns in points:
        us, ns = progress_us - first_us, arrived_ns - first_ns
        sum_us += us
        sum_ns += ns
        squares += us * us
        products += us * ns
    return len(points), first_us, first_ns, sum_us, sum_ns, squares, products


def _fitted(groups: Iterable[_Sums]) -> tuple[int, int, float]:
    """Returns the least-squares line: its middle, and its slope in nanoseconds of arrival per microsecond of the
    stream."""
    origin: tuple[int, int] | None = None
    count, sum_us, sum_ns, squares, products = 0, 0.0, 0.0, 0.0, 0.0
    for points, first_us, first_ns, us, ns, square, product in groups:
        origin_us, origin_ns = origin = origin or (first_us, first_ns)
        by_us, by_ns = float(first_us - origin_us), float(first_ns - origin_ns)
        count += points
        sum_us += us + points * by_us
        sum_ns += ns + points * by_ns
        squares += square + by_us * (2 * us + points * by_us)
        products += product + by_us * ns + by_ns * us + points * by_us * by_ns
    assert origin is not None
    spread = squares - sum_us * sum_us / count
    slope = (products - sum_us * sum_ns / count) / spread if spread > 0 else 0.0
    return origin[0] + int(sum_us / count), origin[1] + int(sum_ns / count), slope


def start_deadline_ns(frontier_ns: int, latency_ns: int, cost_ns: float, path_ns: float) -> int:
    """Returns the latest moment to begin that still meets the objective (equation 5.3)."""
    return int(frontier_ns + latency_ns - cost_ns - path_ns)
