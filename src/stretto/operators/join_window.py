"""The window join: equal keys in the same window.

Pairs are sent when the second row arrives, not when the window closes: for an inner join they are final. A row of
several windows is stored once and has an entry in each. A row with no open window left is late, dropped and counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import combine_hashes, hash_columns, mix, null_mask, times_us
from stretto.errors import InvariantError
from stretto.operators.join_base import LEFT, RIGHT, Join, KeyedSide, Mask, On, RowFilter, all_of, rows_where, side_keys
from stretto.operators.row_buffer import Entries, Indexed, Indexer, Integers, Match, sort_entries
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
        on: On,
        output: pa.Schema,
        window: Tumbling | Hopping | None,
        left_time: EventTime | None = None,
        right_time: EventTime | None = None,
        residual: RowFilter | None = None,
    ) -> None:
        self._window = window
        if window is None:
            on = (*on, (WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END))
        left = _side(left_schema, side_keys(on, LEFT), window, left_time)
        right = _side(right_schema, side_keys(on, RIGHT), window, right_time)
        super().__init__(left, right, on, output, residual, appended=0 if window is None else 2)
        if window is not None and not all(
            pa.types.is_timestamp(kind) and kind.unit == "us" for kind in output.types[-2:]
        ):
            raise InvariantError(
                "a window's bounds are timestamps in microseconds", f"the join declares {output.types[-2:]}"
            )

    def _pairs_match(self, probe: Entries, match: Match, from_left: bool) -> Mask | None:
        if self._window is None:
            return None
        mask: Mask = probe.marks[0][match.probe] == match.entries.marks[0][match.stored]
        return mask

    def _appended(self, probe: Entries, places: Integers) -> list[pa.Array]:
        if self._window is None:
            return []
        starts = probe.marks[0][places]
        start_type, end_type = self.schema.types[-2:]
        return [pa.array(starts).view(start_type), pa.array(starts + self._window.size_us).view(end_type)]

    def _hash_is_of_key_alone(self) -> bool:
        return self._window is None


def _side(
    schema: pa.Schema, keys: tuple[str, ...], window: Tumbling | Hopping | None, time: EventTime | None
) -> Indexer:
    if window is None:
        return _SpanSide(schema, keys)
    if time is None:
        raise InvariantError("a join over windows needs the event time of both inputs")
    return _WindowSide(schema, keys, window, time)


class _SpanSide(KeyedSide):
    """Rows with their window in two columns, which are two of the keys."""

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        rows = rows_where(rows, self.valid_keys(rows))
        ends = times_us(rows.column(WINDOW_END))
        is_open: Mask = ends > watermark_us
        late_rows = len(ends) - int(np.count_nonzero(is_open))
        if late_rows:
            rows, ends = rows_where(rows, is_open), ends[is_open]
        return Indexed(rows, sort_entries(hash_columns(rows, self.keys), expires_us=ends), late_rows)


class _WindowSide(KeyedSide):
    """Rows with an event time: an entry for each open window, marked with the window's start."""

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], window: Tumbling | Hopping, time: EventTime) -> None:
        super().__init__(schema, keys)
        self.window = window
        self.time = time

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        column = rows.column(self.time.column)
        rows = rows_where(rows, all_of(self.valid_keys(rows), ~null_mask(column) if column.null_count else None))
        times = times_us(rows.column(self.time.column)) - self.time.offset_us
        late_rows = 0
        latest = times - (times - self.window.origin_us) % self.window.slide_us
        is_open: Mask = latest + self.window.size_us > watermark_us
        if not is_open.all():
            late_rows = len(is_open) - int(np.count_nonzero(is_open))
            rows, times, latest = rows_where(rows, is_open), times[is_open], latest[is_open]
        starts, positions = self._windows(times, latest, watermark_us)
        hashes = combine_hashes(hash_columns(rows, self.keys)[positions], mix(starts.view(np.uint64)))
        return Indexed(rows, sort_entries(hashes, (starts,), starts + self.window.size_us, positions), late_rows)

    def _windows(self, times: Integers, latest: Integers, watermark_us: int) -> tuple[Integers, Integers]:
        """Returns the start of each open window of each row, and the row's place."""
        size_us, slide_us = self.window.size_us, self.window.slide_us
        places = np.arange(len(times))
        if size_us == slide_us:
            return latest, places
        steps = np.arange(-(-size_us // slide_us)) * slide_us
        starts = (latest[:, None] - steps).ravel()
        positions = np.repeat(places, len(steps))
        ends = starts + size_us
        wanted = (ends > times[positions]) & (ends > watermark_us)
        return starts[wanted], positions[wanted]
