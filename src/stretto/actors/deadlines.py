"""Deadlines: what rides on a message so that its receiver knows how urgent it is, and what comes back (thesis 5.4-5.5).

A message that must be through its dataflow within L of the arrival of the last event that it waits for has a start
deadline at each function: that arrival, plus L, less what the function and the longest way below it cost. A windowed
function need not hurry before its window ends: the arrival that counts is that of the window's end, found from the
stream's own time by `frontier` (TRANSFORM) and `ProgressMap` (PROGRESSMAP).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

AT_ONCE = float("-inf")
"""The urgency of what others wait for: opening, timers, a critical message with nothing before it."""
NEVER_NS = 2**62
"""The deadline of what nobody waits for."""
LAX_NS = 10_000_000_000
"""The latency that a job without an objective gets: late enough to yield to all others, and finite, so that it is not
starved by them. It is not how such a job is known (`OutChannel.yields` is): somebody may promise just as much."""
YIELDS_NS = LAX_NS // 2
"""How far ahead the deadline of its next message is at least: who has promised nothing does not become urgent by being
far behind."""
FIT_POINTS = 32
FIT_POINTS_MIN = 4
FIT_EVERY = 16
"""New points until the line is drawn anew: it costs some microseconds, and the latest ones change it little."""
POINTS_PER_WINDOW = 4
"""How many points of a window the line takes, at most."""
COST_WEIGHT = 0.125
"""How much the latest cost counts in the running mean."""


def frontier(progress_us: int, slide_us: int | None, slide_above_us: int | None) -> int:
    """The stream time that must be seen before the receiver puts out what this progress is part of (equation 5.4).

    The receiver puts out at multiples of its slide; if what feeds it does so as seldom, each message triggers it."""
    if slide_us is None or (slide_above_us is not None and slide_above_us >= slide_us):
        return progress_us
    return (progress_us // slide_us + 1) * slide_us


class ProgressMap:
    """When a stream time arrives: a straight line through the latest pairs of stream time and arrival.

    None where that cannot be told, and the function then counts as a regular one: before there are points enough, and
    where stream time does not move, or moves backwards. Points are `step_us` apart at least, so that they reach back
    over some windows, however many messages a window has. Each is added up once, with those that came with it: a line
    needs the sums alone, and those of a few groups of points are soon put together."""

    __slots__ = ("_groups", "_line", "_new", "_next_us", "step_us")

    def __init__(self) -> None:
        self._new: list[tuple[int, int]] = []
        self._next_us = -(2**63)
        self._groups: deque[_Sums] = deque(maxlen=FIT_POINTS // FIT_EVERY)
        self._line: tuple[int, int, float] | None = None
        self.step_us = 1

    def learn(self, progress_us: int, arrived_ns: int) -> None:
        """A message with this progress arrived at this time."""
        if progress_us < self._next_us:
            return
        self._next_us = progress_us + self.step_us
        self._new.append((progress_us, arrived_ns))
        if len(self._new) >= FIT_EVERY:
            self._draw()

    def arrival_ns(self, progress_us: int) -> int | None:
        """When that much of the stream will have arrived."""
        if self._line is None:
            if len(self._new) < FIT_POINTS_MIN:
                return None
            self._draw()
        assert self._line is not None
        middle_us, middle_ns, slope = self._line
        return middle_ns + int((progress_us - middle_us) * slope) if slope > 0 else None

    def _draw(self) -> None:
        """Draw the line anew, with the points that are new."""
        self._groups.append(_summed(self._new))
        self._new = []
        self._line = _fitted(self._groups)


_Sums = tuple[int, int, int, float, float, float, float]
"""A group of points: how many, the first of them, and the sums of both coordinates, of the squares of the one and of
the products of both, all from the first point, so that they are small and floats hold them well."""


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
    """Least squares about the middle, in nanoseconds of arrival per microsecond of the stream."""
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
    """Equation 5.3: the latest moment to begin, so that the rest of the way can be made in time."""
    return int(frontier_ns + latency_ns - cost_ns - path_ns)
