"""The interval join: equal keys, and the right row's time between two bounds computed from the left row.

Rows before the watermark are late: they are dropped and counted, so that the results do not depend on when the state
was last cleaned. A left row is dropped once the watermark is past its upper bound. A right row is dropped once the
lower bounds of all future left rows are past it, which is known only if that bound is the left time plus a constant.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.partitioning import hash_columns, null_mask, times_us
from stretto.operators.join_base import Join, Matching
from stretto.operators.join_keys import LEFT, RIGHT, side_keys
from stretto.operators.join_sides import KeyedSide, alone, rows_where, without_nulls
from stretto.operators.row_blocks import Entries, Integers, Mask, sort_entries
from stretto.operators.row_buffer import Indexed, Match
from stretto.operators.windows import EventTime


class TimeExpression(Protocol):
    """A compiled expression that returns a timestamp per row."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array: ...


class IntervalJoin(Join):
    """Pairs with equal keys and lower(left) <= right's time <= upper(left), `<` when not `upper_inclusive`.

    `lower_offset_us` is the constant c if lower(left) is the left row's event time plus c. It is None if no such
    constant is known; right rows are then kept until the end. `holds_back_us` is by how much the event time of a row
    out may be before the watermark.
    """

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        matching: Matching,
        left_time: EventTime,
        right_time: EventTime,
        lower: TimeExpression,
        upper: TimeExpression,
        upper_inclusive: bool = True,
        lower_offset_us: int | None = None,
        holds_back_us: int = 0,
    ) -> None:
        self.holds_back_us = holds_back_us
        on, how = matching.on, matching.how
        bounds = lower, upper, upper_inclusive
        left = _BoundsSide(left_schema, side_keys(on, LEFT), how.tracks_left, left_time, *bounds)
        right = PointSide(right_schema, side_keys(on, RIGHT), how.tracks_right, right_time, lower_offset_us)
        super().__init__(left, right, matching)

    def _pairs_match(self, probe: Entries, match: Match, from_left: bool) -> Mask | None:
        if from_left:
            (lower,), until, (time,) = probe.marks, probe.expires_us, match.block.entries.marks
            bounds, point = match.probe, match.stored
        else:
            entries = match.block.entries
            (lower,), until, (time,) = entries.marks, entries.expires_us, probe.marks
            bounds, point = match.stored, match.probe
        assert until is not None
        times = time[point]
        mask: Mask = (lower[bounds] <= times) & (times < until[bounds])
        return mask


class _TimedSide(KeyedSide):
    """One side with an event time: late rows are dropped."""

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], tracked: bool, time: EventTime) -> None:
        super().__init__(schema, keys, tracked)
        self.time = time

    def _on_time(self, rows: pa.RecordBatch, watermark_us: int) -> tuple[pa.RecordBatch, int, list[pa.RecordBatch]]:
        """Returns the rows with valid keys that are not late, the number of late ones, and the lonely rows."""
        if self.tracked:
            rows, late_rows = self._not_late(rows, watermark_us)
            valid = without_nulls(rows, self.keys)
            return rows_where(rows, valid), late_rows, self.lonely(rows, valid)
        return *self._not_late(rows_where(rows, without_nulls(rows, self.keys)), watermark_us), []

    def _not_late(self, rows: pa.RecordBatch, watermark_us: int) -> tuple[pa.RecordBatch, int]:
        column = rows.column(self.time.column)
        on_time: Mask = times_us(column) - self.time.offset_us >= watermark_us
        if column.null_count:
            on_time |= null_mask(column)
        return rows_where(rows, on_time), len(on_time) - int(np.count_nonzero(on_time))


class _BoundsSide(_TimedSide):
    """The left side: the mark is the lower bound, and the entry expires at the upper one, as an exclusive bound."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        tracked: bool,
        time: EventTime,
        lower: TimeExpression,
        upper: TimeExpression,
        upper_inclusive: bool,
    ) -> None:
        super().__init__(schema, keys, tracked, time)
        self._lower = lower
        self._upper = upper
        self._upper_inclusive = upper_inclusive

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        rows, late_rows, lonely = self._on_time(rows, watermark_us)
        lower_column, upper_column = self._lower.evaluate(rows), self._upper.evaluate(rows)
        lower, until = times_us(lower_column), times_us(upper_column)
        if self._upper_inclusive:
            until = _just_after(until)
        if lower_column.null_count or upper_column.null_count:
            mask = ~(null_mask(lower_column) | null_mask(upper_column))
            lonely += self.lonely(rows, mask)
            rows, lower, until = rows_where(rows, mask), lower[mask], until[mask]
        return Indexed(rows, sort_entries(hash_columns(rows, self.keys), (lower,), until), late_rows, alone(lonely))


class PointSide(_TimedSide):
    """A side whose mark is the row's time; an entry expires when the watermark is past that less the offset."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[str, ...], tracked: bool, time: EventTime, lower_offset_us: int | None
    ) -> None:
        super().__init__(schema, keys, tracked, time)
        self._lower_offset_us = lower_offset_us

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        rows, late_rows, lonely = self._on_time(rows, watermark_us)
        if rows.column(self.time.column).null_count:
            valid = ~null_mask(rows.column(self.time.column))
            lonely += self.lonely(rows, valid)
            rows = rows_where(rows, valid)
        times = times_us(rows.column(self.time.column)) - self.time.offset_us
        if self._lower_offset_us is None:
            expires_us = np.full(len(times), EVENT_TIME_MAX_US, dtype=np.int64)
        else:
            expires_us = _just_after(times - self._lower_offset_us)
        entries = sort_entries(hash_columns(rows, self.keys), (times,), expires_us)
        return Indexed(rows, entries, late_rows, alone(lonely))


def _just_after(times: Integers) -> Integers:
    after: Integers = np.minimum(times, EVENT_TIME_MAX_US - 1) + 1
    return after
