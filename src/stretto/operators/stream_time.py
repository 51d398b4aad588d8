"""The event time that a source has reached, from its rows alone: outliers do not move it, and a stream that jumps does.

A row that is more than `max_jump` ahead of the stream is kept out of the watermark: one wrong clock would close all
windows. It is processed like any other row. The stream follows a jump when `CONFIRMED_BY` rows in a row were ahead. It
then continues from the least of them, so a stream whose every row jumps, such as a replay of sparse history,
stays behind by that many rows and no more. A row that is not ahead shows that the stream has not jumped, and those
ahead were outliers.

The first row has nothing to be compared with, so a stream begins with the lesser of its first two event times. A
watermark that stays back only delays results, and the end of the input closes all windows; one that is too far ahead
drops rows. So where it is not clear which rows are wrong, the rule takes the lesser time. It depends on the rows of a
split and their order, never on batches or timing, and its memory is part of the source's position in a checkpoint.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.errors import SourceError
from stretto.operators.grouping import INT64_MAX, INT64_MIN

MAX_JUMP_US = 100 * 86_400_000_000
"""The default: longer than a quarter of a year, since streams of reports pause that long, and shorter than the year by
which a mistyped date is wrong."""
CONFIRMED_BY = 16
"""As many outliers in a row are improbable, even if every tenth row is one."""

MARGIN_US = 31_556_952_000_000_000
"""A thousand years. Event times keep this distance from the ends of int64, so that no bound of a window overflows."""
EARLIEST_US, LATEST_US = INT64_MIN + MARGIN_US, INT64_MAX - MARGIN_US

_US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


class StreamTime:
    """How far the event time of one split has come. `max_jump_us` is None if it follows every row."""

    __slots__ = ("_ahead", "_max_jump_us", "reached_us")

    def __init__(self, max_jump_us: int | None) -> None:
        self._max_jump_us = max_jump_us
        self.reached_us: int | None = None
        """None until there are two rows to compare."""
        self._ahead: list[int] = []
        """The last event times in a row that are too far ahead; before the stream begins, the first one."""

    def add(self, column: pa.Array, latest_us: int) -> list[int]:
        """Adds the event times of a batch, of which `latest_us` is the greatest. Returns those that turned out to be
        outliers."""
        max_jump_us, reached_us = self._max_jump_us, self.reached_us
        if max_jump_us is None:
            self.reached_us = latest_us if reached_us is None else max(reached_us, latest_us)
            return []
        if reached_us is not None and latest_us <= reached_us + max_jump_us:
            self.reached_us = max(reached_us, latest_us)
            outliers, self._ahead = self._ahead, []
            return outliers
        times = (_us(value, column.type) for value in column.drop_null().cast(pa.int64()).to_pylist())
        return [outlier for time_us in times for outlier in self._add(time_us, max_jump_us)]

    def _add(self, time_us: int, max_jump_us: int) -> list[int]:
        if self.reached_us is None:
            self._ahead.append(time_us)
            if len(self._ahead) < 2:
                return []
            self.reached_us, time_us = sorted(self._ahead)
            self._ahead = []
        if time_us <= self.reached_us + max_jump_us:
            self.reached_us = max(self.reached_us, time_us)
            outliers, self._ahead = self._ahead, []
            return outliers
        self._ahead.append(time_us)
        if len(self._ahead) == CONFIRMED_BY:
            within_us = min(self._ahead) + max_jump_us
            self.reached_us = max(each for each in self._ahead if each <= within_us)
            self._ahead = [each for each in self._ahead if each > self.reached_us + max_jump_us]
        return []

    def remember(self) -> tuple[int | None, list[int]]:
        return self.reached_us, list(self._ahead)

    def recall(self, remembered: tuple[int | None, list[int]]) -> None:
        self.reached_us, ahead = remembered
        self._ahead = list(ahead)


def bounds_us(column: pa.Array) -> tuple[int, int] | None:
    """Returns the least and the greatest event time of a batch in microseconds; None if it has none."""
    if len(column) and not column.null_count:  # Twice as fast as Arrow's kernel, and every batch is looked at.
        values = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)
        return _us(int(values.min()), column.type), _us(int(values.max()), column.type)
    bounds = pc.min_max(column)
    if not bounds["min"].is_valid:
        return None
    return _us(bounds["min"].value, column.type), _us(bounds["max"].value, column.type)


def _us(value: int, kind: pa.TimestampType) -> int:
    """Returns microseconds; Python's integers do not overflow."""
    return value // 1_000 if kind.unit == "ns" else value * _US_PER_UNIT[kind.unit]


def check_range(source: str, name: str, column: pa.Array, position: int) -> None:
    """Raises a SourceError for the first event time that is too close to the ends of what 64 bits can hold.

    `position` is that of the first row."""
    for row, value in enumerate(column.cast(pa.int64()).to_pylist()):
        if value is not None and not EARLIEST_US <= _us(value, column.type) <= LATEST_US:
            raise SourceError(
                f"{source}: an event time is out of range",
                f"column '{name}' of the row at position {position + row} is {value} {column.type.unit} from 1970",
                "Event times lie between the years -289,000 and 293,000. Correct the row, or remove it in the source.",
            )
