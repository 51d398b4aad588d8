"""Deadlines: what rides on a message so that its receiver knows how urgent it is, and what comes back (thesis 5.4-5.5).

A message that must be through its dataflow within L of the arrival of the last event that it waits for has a start
deadline at each function: that arrival, plus L, less what the function and the longest way below it cost. A windowed
function need not hurry before its window ends: the arrival that counts is that of the window's end, found from the
stream's own time by `frontier` (TRANSFORM) and `ProgressMap` (PROGRESSMAP).
"""

from __future__ import annotations

from collections import deque

NEVER_NS = 2**62
"""The deadline of what nobody waits for."""
LAX_NS = 10_000_000_000
"""The latency that a job without an objective gets: late enough to yield to all others, and finite, so that it is not
starved by them."""
FIT_POINTS = 64
FIT_POINTS_MIN = 4
FIT_EVERY = 16
"""New points until the line is drawn anew: it costs some microseconds, and the latest ones change it little."""
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
    where stream time does not move, or moves backwards."""

    __slots__ = ("_line", "_new", "_points")

    def __init__(self) -> None:
        self._points: deque[tuple[int, int]] = deque(maxlen=FIT_POINTS)
        self._line: tuple[int, int, float] | None = None
        self._new = 0

    def learn(self, progress_us: int, arrived_ns: int) -> None:
        """A message with this progress arrived at this time."""
        points = self._points
        if points and progress_us <= points[-1][0]:
            return
        points.append((progress_us, arrived_ns))
        self._new += 1

    def arrival_ns(self, progress_us: int) -> int | None:
        """When that much of the stream will have arrived."""
        if len(self._points) < FIT_POINTS_MIN:
            return None
        if self._line is None or self._new >= FIT_EVERY:
            self._line, self._new = self._fitted(), 0
        middle_us, middle_ns, slope = self._line
        return middle_ns + int((progress_us - middle_us) * slope) if slope > 0 else None

    def _fitted(self) -> tuple[int, int, float]:
        """Least squares about the middle, in nanoseconds of arrival per microsecond of the stream."""
        points = self._points
        count = len(points)
        middle_us = sum(p for p, _ in points) // count
        middle_ns = sum(t for _, t in points) // count
        spread = sum((p - middle_us) ** 2 for p, _ in points)
        slope = sum((p - middle_us) * (t - middle_ns) for p, t in points) / spread if spread else 0.0
        return middle_us, middle_ns, slope


def start_deadline_ns(frontier_ns: int, latency_ns: int, cost_ns: float, path_ns: float) -> int:
    """Equation 5.3: the latest moment to begin, so that the rest of the way can be made in time."""
    return int(frontier_ns + latency_ns - cost_ns - path_ns)
