"""The window join: equal keys in the same window.

Pairs are sent when the second row arrives, not when the window closes, since they are final. A row without a match is
sent when its window closes. A row of several windows is stored once and has an entry in each. A row with no open window
left is late, dropped and counted; one without a time is in no window.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import combine_hashes, hash_columns, mix, null_mask, times_us
from stretto.errors import InvariantError
from stretto.operators.join_base import Join, Matching
from stretto.operators.join_keys import LEFT, RIGHT, side_keys
from stretto.operators.join_sides import KeyedSide, all_of, alone, rows_where, without_nulls
from stretto.operators.row_blocks import Entries, Integers, Mask, sort_entries
from stretto.operators.row_buffer import Indexed, Indexer, Match
from stretto.operators.windows import EventTime, Hopping, Tumbling

WINDOW_START = "window_start"
WINDOW_END = "window_end"


class WindowJoin(Join):
    """Pairs with equal keys in one window, once for each window that both rows are in.

    With a `window`, rows are assigned to windows by their event times, and the output ends with window_start and
    window_end. With None, both inputs have these columns already, and pairs must agree in both.
    """

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        matching: Matching,
        window: Tumbling | Hopping | None,
        left_time: EventTime | None = None,
        right_time: EventTime | None = None,
    ) -> None:
        self._window = window
        if window is None:
            matching = replace(matching, on=(*matching.on, (WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END)))
        on, how = matching.on, matching.how
        left = _side(left_schema, side_keys(on, LEFT), how.tracks_left, window, left_time)
        right = _side(right_schema, side_keys(on, RIGHT), how.tracks_right, window, right_time)
        super().__init__(left, right, matching, appended=0 if window is None else 2)
        if window is not None and not all(
            pa.types.is_timestamp(kind) and kind.unit == "us" for kind in matching.pair.types[-2:]
        ):
            raise InvariantError(
                "a window's bounds are timestamps in microseconds", f"the join declares {matching.pair.types[-2:]}"
            )

    def _pairs_match(self, probe: Entries, match: Match, from_left: bool) -> Mask | None:
        if self._window is None:
            return None
        mask: Mask = probe.marks[0][match.probe] == match.block.entries.marks[0][match.stored]
        return mask

    def _appended(self, entries: Entries, places: Integers) -> list[pa.Array]:
        if self._window is None:
            return []
        starts = entries.marks[0][places]
        start_type, end_type = self.schema.types[-2:]
        return [pa.array(starts).view(start_type), pa.array(starts + self._window.size_us).view(end_type)]

    def _hash_is_of_key_alone(self) -> bool:
        return self._window is None


def _side(
    schema: pa.Schema,
    keys: tuple[str, ...],
    tracked: bool,
    window: Tumbling | Hopping | None,
    time: EventTime | None,
) -> Indexer:
    if window is None:
        return _SpanSide(schema, keys, tracked)
    if time is None:
        raise InvariantError("a join over windows needs the event time of both inputs")
    return _WindowSide(schema, keys, tracked, window, time)


class _SpanSide(KeyedSide):
    """Rows with their window in two columns, which are two of the keys. A row without a window is dropped."""

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        lonely: list[pa.RecordBatch] = []
        if self.tracked:
            in_windows = without_nulls(rows, (WINDOW_START, WINDOW_END))
            rows, late_rows = _in_open_windows(rows_where(rows, in_windows), watermark_us)
            valid = without_nulls(rows, self.keys)
            rows, lonely = rows_where(rows, valid), self.lonely(rows, valid)
        else:
            rows, late_rows = _in_open_windows(rows_where(rows, without_nulls(rows, self.keys)), watermark_us)
        ends = times_us(rows.column(WINDOW_END))
        return Indexed(rows, sort_entries(hash_columns(rows, self.keys), expires_us=ends), late_rows, alone(lonely))


def _in_open_windows(rows: pa.RecordBatch, watermark_us: int) -> tuple[pa.RecordBatch, int]:
    """Returns the rows whose window is open, and the number of the others."""
    is_open: Mask = times_us(rows.column(WINDOW_END)) > watermark_us
    return rows_where(rows, is_open), len(is_open) - int(np.count_nonzero(is_open))


class _WindowSide(KeyedSide):
    """Rows with an event time: an entry for each open window, marked with the window's start."""

    def __init__(
        self, schema: pa.Schema, keys: tuple[str, ...], tracked: bool, window: Tumbling | Hopping, time: EventTime
    ) -> None:
        super().__init__(schema, keys, tracked)
        self.window = window
        self.time = time
        self.lanes = -(-window.size_us // window.slide_us)

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        column = rows.column(self.time.column)
        has_time = ~null_mask(column) if column.null_count else None
        rows = rows_where(rows, has_time if self.tracked else all_of(without_nulls(rows, self.keys), has_time))
        latest = self._latest(rows)
        is_open: Mask = latest + self.window.size_us > watermark_us
        late_rows = len(is_open) - int(np.count_nonzero(is_open))
        if late_rows:
            rows, latest = rows_where(rows, is_open), latest[is_open]
        lonely = None
        valid = without_nulls(rows, self.keys) if self.tracked else None
        if valid is not None:
            for batch in self.lonely(rows, valid):
                lonely = Indexed(batch, self._entries(batch, latest[~valid], watermark_us))
            rows, latest = rows_where(rows, valid), latest[valid]
        return Indexed(rows, self._entries(rows, latest, watermark_us), late_rows, lonely)

    def lanes_of(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        lanes: Integers = (self._latest(rows)[entries.positions] - entries.marks[0]) // self.window.slide_us
        return lanes

    def _times(self, rows: pa.RecordBatch) -> Integers:
        times: Integers = times_us(rows.column(self.time.column)) - self.time.offset_us
        return times

    def _latest(self, rows: pa.RecordBatch) -> Integers:
        """Returns the start of the latest window of each row."""
        times = self._times(rows)
        latest: Integers = times - (times - self.window.origin_us) % self.window.slide_us
        return latest

    def _entries(self, rows: pa.RecordBatch, latest: Integers, watermark_us: int) -> Entries:
        starts, positions = self._windows(rows, latest, watermark_us)
        hashes = combine_hashes(hash_columns(rows, self.keys)[positions], mix(starts.view(np.uint64)))
        return sort_entries(hashes, (starts,), starts + self.window.size_us, positions)

    def _windows(self, rows: pa.RecordBatch, latest: Integers, watermark_us: int) -> tuple[Integers, Integers]:
        """Returns the start of each open window of each row, and the row's place."""
        size_us, slide_us = self.window.size_us, self.window.slide_us
        places = np.arange(len(latest))
        if size_us == slide_us:
            return latest, places
        steps = np.arange(self.lanes) * slide_us
        starts = (latest[:, None] - steps).ravel()
        positions = np.repeat(places, len(steps))
        ends = starts + size_us
        wanted = (ends > self._times(rows)[positions]) & (ends > watermark_us)
        return starts[wanted], positions[wanted]
