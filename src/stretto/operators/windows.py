"""The shapes of event-time windows, and durations as text.

All times are microseconds since the epoch, as in Spark. A window covers [start, end); its rows carry the event time
`end - 1`, as Spark's `window_time` does, so that a window over windows contains whole windows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite

from stretto.errors import PlanError

Duration = str | int | float | timedelta

_UNITS_US = {
    "us": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
}  # fmt: skip
_TERM = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_WRITTEN_AS = "Write it as '10 seconds', '500 ms', '1 minute 30 s', a timedelta, or a number of seconds."


def duration_us(value: Duration, what: str = "a duration") -> int:
    """Returns the microseconds of '10 seconds', '1 minute 30 s', a timedelta, or a number of seconds."""
    if isinstance(value, timedelta):
        return round(value / timedelta(microseconds=1))
    if isinstance(value, int | float) and isfinite(value):
        return round(value * 1_000_000)
    if not isinstance(value, str):
        raise PlanError(f"{what} cannot be read", repr(value), _WRITTEN_AS)
    total, position, text = 0.0, 0, value
    while position < len(text):
        term = _TERM.match(text, position)
        unit = term.group(2).lower() if term else ""
        factor = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
        if term is None or factor is None:
            raise PlanError(f"{what} cannot be read", repr(value), _WRITTEN_AS)
        total += float(term.group(1)) * factor
        position = term.end()
    if not text.strip():
        raise PlanError(f"{what} is empty", None, _WRITTEN_AS)
    return round(total)


def positive_duration_us(value: Duration, what: str) -> int:
    amount = duration_us(value, what)
    if amount <= 0:
        raise PlanError(f"{what} must be longer than zero", f"it is {value!r}", "Give a positive duration.")
    return amount


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a stream: a timestamp column minus a fixed offset (1 us for the rows of a window)."""

    column: str
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Adjacent windows of one size, aligned to the epoch plus `origin_us`."""

    size_us: int
    origin_us: int = 0

    @property
    def slide_us(self) -> int:
        return self.size_us


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of one size that start every slide; an event is in size / slide of them."""

    size_us: int
    slide_us: int
    origin_us: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when a key has no events for `gap_us`; the end is the last event plus the gap, as in Spark."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class Span:
    """Windows given by two timestamp columns of each row; rows of one key and one span belong together."""

    start: str
    end: str


Window = Tumbling | Hopping | Session | Span


def tumbling(size: Duration, origin: Duration = 0) -> Tumbling:
    """Returns adjacent windows of `size`."""
    return Tumbling(positive_duration_us(size, "the size of a tumbling window"), duration_us(origin))


def hopping(size: Duration, slide: Duration, origin: Duration = 0) -> Hopping:
    """Returns windows of `size` that start every `slide`."""
    size_us = positive_duration_us(size, "the size of a hopping window")
    slide_us = positive_duration_us(slide, "the slide of a hopping window")
    if slide_us > size_us:
        raise PlanError(
            "the slide of a hopping window is longer than its size",
            f"slide {slide!r}, size {size!r}",
            "Events between windows would be lost: make the slide at most the size, or filter first.",
        )
    return Hopping(size_us, slide_us, duration_us(origin))


def session(gap: Duration) -> Session:
    """Returns windows that close after a gap without events of the key."""
    return Session(positive_duration_us(gap, "the gap of a session window"))


def span(start: str, end: str) -> Span:
    """Returns windows that each row gives in the timestamp columns `start` and `end`."""
    if not (isinstance(start, str) and isinstance(end, str)):
        raise PlanError("span takes the names of two timestamp columns", f"got {start!r} and {end!r}")
    return Span(start, end)
