"""Aggregates over session windows: a session of a key ends when the key has no events for longer than the gap.

As in Spark's session_window, a row at t makes the session [t, t + gap], overlapping or touching sessions of a key are
merged (so rows exactly a gap apart stay together), and the end is the last event plus the gap. A row at the watermark
itself may still arrive and touch a session, so a session closes when the watermark is past its end, not when it is at
it.

The state is rows and partial sessions. They are merged, all at once and sorted by key and start, when a watermark
closes a session or when there are many of them. A row is late if its session closed before the row arrived. This is
detected during the merge, because a partial state does not know which sessions a row touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US, Function
from stretto.actors.snapshot import Int64
from stretto.operators.accumulators import Call
from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.operators.grouping import (
    Bools,
    Column,
    Groups,
    Int64s,
    concat_columns,
    fixed_values,
    order_within,
    take_columns,
)
from stretto.operators.panes import BUFFER_ROWS_MAX, WINDOW_TYPE, time_index, times_us, timestamps
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import EventTime
from stretto.state import KeyedPart, State, Surveyed
from stretto.state.weighing import Weighed, evenly, weights_of

PARTS_ROWS_MIN = 8_192

_INT64 = np.dtype(np.int64)


class Sessions(NamedTuple):
    """Partial sessions: starts, ends, the number of rows of each, and the table of keys and partials."""

    starts: Int64s
    ends: Int64s
    rows: Int64s
    columns: list[Column]

    def take(self, numbers: npt.NDArray[Any]) -> Sessions:
        columns = take_columns(self.columns, numbers)
        return Sessions(self.starts[numbers], self.ends[numbers], self.rows[numbers], columns)


class _Buffered(NamedTuple):
    times: Int64s
    columns: list[Column]


def _joined(parts: Sequence[Sessions]) -> Sessions:
    if len(parts) == 1:
        return parts[0]
    starts, ends, rows = (np.concatenate([part[place] for part in parts]) for place in range(3))
    columns = zip(*(part.columns for part in parts), strict=True)
    return Sessions(starts, ends, rows, [concat_columns(pieces) for pieces in columns])


def _numbered(order: npt.NDArray[np.intp], first: Bools) -> Groups:
    """Returns groups of consecutive rows in `order`; each begins where `first` is true."""
    number = np.cumsum(first) - 1
    index = np.empty(len(order), np.intp)
    index[order] = number
    return Groups(index, int(number[-1]) + 1)


def _greatest_so_far(owner: npt.NDArray[np.intp], values: Int64s) -> Int64s:
    """Returns the running maximum of the values within each owner; owners are sorted and numbered from 0."""
    low = int(values.min())
    width = int(values.max()) - low + 1
    if width * (int(owner[-1]) + 1) < 2**62:
        base = owner * width
        result: Int64s = np.maximum.accumulate(values - low + base) - base + low
        return result
    distinct, ranks = np.unique(values, return_inverse=True)
    base = owner * len(distinct)
    return distinct[np.maximum.accumulate(ranks + base) - base]


class _Exported(msgspec.Struct):
    emitted_us: Int64
    due_us: Int64
    columns: dict[str, Any] | None


class SessionState(State):
    """Partial sessions of one instance. Partial states are appended, and touching sessions merged later."""

    indivisible = None

    def __init__(self, aggregation: Aggregation, gap_us: int, combinable: bool = True) -> None:
        self._aggregation = aggregation
        self._gap_us = gap_us
        self._combinable = combinable
        self.emitted_us = EVENT_TIME_MIN_US
        # A lower bound of the ends of all sessions: until the watermark is past it, nothing can close.
        self.due_us = EVENT_TIME_MAX_US
        self._buffer: list[_Buffered] = []
        self._buffered = 0
        self._parts: list[Sessions] = []
        self._parts_rows = 0
        self._parts_rows_max = PARTS_ROWS_MIN

    @property
    def combinable(self) -> bool:
        return self._combinable

    def fresh(self) -> SessionState:
        return SessionState(self._aggregation, self._gap_us, self._combinable)

    @property
    def rows(self) -> int:
        """The number of rows that the state holds: raw rows and partial sessions."""
        return self._buffered + self._parts_rows

    def add(self, times: Int64s, columns: list[Column]) -> None:
        self.due_us = min(self.due_us, int(times.min()) + self._gap_us)
        self._buffer.append(_Buffered(times, columns))
        self._buffered += len(times)
        if self._buffered >= BUFFER_ROWS_MAX:
            self.flush()

    def flush(self) -> None:
        """Convert the buffered rows to partial sessions."""
        if not self._buffer:
            return
        buffer, self._buffer, self._buffered = self._buffer, [], 0
        times = np.concatenate([part.times for part in buffer])
        columns = [concat_columns(parts) for parts in zip(*(part.columns for part in buffer), strict=True)]
        self._keep(self.lift(times, columns))

    def _keep(self, part: Sessions) -> None:
        self._parts.append(part)
        self._parts_rows += len(part.starts)
        if self._parts_rows > self._parts_rows_max:
            self.whole()

    def lift(self, times: Int64s, columns: list[Column]) -> Sessions:
        """Returns the sessions of rows."""
        keys = self._aggregation.group(len(times), columns, None)
        order = order_within(keys, times)
        ordered, owner = times[order], keys.index[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (owner[1:] != owner[:-1]) | (ordered[1:] - ordered[:-1] > self._gap_us)
        groups = _numbered(order, first)
        begins = np.flatnonzero(first)
        lasts = np.append(begins[1:], len(order)) - 1
        table = self._aggregation.lift(groups, columns)
        return Sessions(ordered[begins], ordered[lasts] + self._gap_us, groups.sizes.astype(np.int64), table)

    def _touching(self, sessions: Sessions) -> tuple[Groups, Sessions]:
        """Returns for each session its number after touching ones are merged, and the merged sessions."""
        keys = self._aggregation.group(len(sessions.starts), sessions.columns, None)
        order = order_within(keys, sessions.starts)
        starts, owner = sessions.starts[order], keys.index[order]
        reach = _greatest_so_far(owner, sessions.ends[order])
        first = np.ones(len(order), np.bool_)
        first[1:] = (owner[1:] != owner[:-1]) | (starts[1:] > reach[:-1])
        groups = _numbered(order, first)
        begins = np.flatnonzero(first)
        lasts = np.append(begins[1:], len(order)) - 1
        rows = np.zeros(groups.count, np.int64)
        np.add.at(rows, groups.index, sessions.rows)
        if groups.count == len(order):
            return groups, Sessions(starts, sessions.ends[order], rows, take_columns(sessions.columns, order))
        return groups, Sessions(starts[begins], reach[lasts], rows, self._aggregation.merge(groups, sessions.columns))

    def whole(self) -> Sessions | None:
        """Returns all sessions, merged; None if there are none."""
        self.flush()
        if not self._parts:
            return None
        if len(self._parts) > 1:
            self.replace(self._touching(_joined(self._parts))[1])
        return self._parts[0]

    def replace(self, sessions: Sessions) -> None:
        """Replace the content by these sessions, which do not touch each other."""
        self._parts = [sessions] if len(sessions.starts) else []
        self._parts_rows = len(sessions.starts)
        self._parts_rows_max = max(PARTS_ROWS_MIN, 2 * self._parts_rows)

    def with_late(self, sessions: Sessions) -> tuple[Sessions, Int64s, Bools]:
        """Returns all sessions merged with those of new rows, the new rows of each, and whether it existed before."""
        known = self.whole()
        before = 0 if known is None else len(known.starts)
        groups, together = self._touching(sessions if known is None else _joined([known, sessions]))
        new = np.zeros(groups.count, np.int64)
        np.add.at(new, groups.index[before:], sessions.rows)
        old = np.zeros(groups.count, np.bool_)
        old[groups.index[:before]] = True
        return together, new, old

    def merge(self, other: SessionState) -> None:
        for part in other._buffer:
            self.add(part.times, part.columns)
        for sessions in other._parts:
            self._keep(sessions)
        self.due_us = min(self.due_us, other.due_us)
        self.emitted_us = max(self.emitted_us, other.emitted_us)

    @property
    def layout(self) -> str:
        return f"{self._aggregation.layout} in sessions with a gap of {self._gap_us} us"

    def keep(self, part: KeyedPart) -> None:
        sessions = self.whole()
        if sessions is not None:
            self.replace(sessions.take(np.flatnonzero(part.mine(self._aggregation.named_keys(sessions.columns)))))

    def survey(self, keys: pa.Schema) -> Surveyed:
        self.flush()
        columns = [self._aggregation.named_keys(part.columns) for part in self._parts]
        return Surveyed(columns, {"emitted_us": self.emitted_us, "due_us": self.due_us, "columns": None})

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        self.flush()
        for part in self._parts:
            rows = evenly(len(part.starts))
            sample = part.take(rows)
            each = weights_of([*sample[:3], *sample.columns], len(rows))
            yield Weighed(self._aggregation.named_keys(sample.columns), each * (len(part.starts) / max(1, len(rows))))

    def export(self) -> dict[str, Any]:
        sessions = self.whole()
        columns = None
        if sessions is not None:
            starts, ends, rows = (pa.array(part) for part in sessions[:3])
            objects = [place + 3 for place in self._aggregation.objects]
            columns = table_of([starts, ends, rows, *sessions.columns], objects)
        return {"emitted_us": self.emitted_us, "due_us": self.due_us, "columns": columns}

    def restore(self, content: dict[str, Any]) -> None:
        found = msgspec.convert(content, type=_Exported)
        self.__dict__.update(self.fresh().__dict__)
        self.emitted_us, self.due_us = found.emitted_us, found.due_us
        if found.columns is not None:
            kinds = [*[pa.int64()] * 3, *self._aggregation.types]
            objects = [place + 3 for place in self._aggregation.objects]
            starts, ends, rows, *columns = columns_of(found.columns, kinds, objects)
            bounds = fixed_values(starts, _INT64), fixed_values(ends, _INT64)
            self._keep(Sessions(*bounds, fixed_values(rows, _INT64), columns))

    def describe(self) -> dict[str, Any]:
        return {"kind": "sessions", "gap_us": self._gap_us, **self._aggregation.describe()}


class SessionAggregate(Function):
    """Aggregates per key and session. Columns out: keys, window_start, window_end, one per call.

    With an allowed lateness, sessions stay until the watermark is past their end by more than that. A late row emits
    the updated row of its session again at once. Such a function cannot run in parallel.
    """

    order_matters = False

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        time: EventTime,
        gap_us: int,
        calls: tuple[Call | UserAggregate, ...],
        lateness_us: int = 0,
    ) -> None:
        self._time = time_index(schema, time.column)
        self._offset_us = time.offset_us
        self._gap_us = gap_us
        self._lateness_us = lateness_us
        self._aggregation = Aggregation(schema, keys, calls)
        bounds = [pa.field("window_start", WINDOW_TYPE), pa.field("window_end", WINDOW_TYPE)]
        self.schema = pa.schema([*self._aggregation.key_fields, *bounds, *self._aggregation.result_fields])
        self.sessions = SessionState(self._aggregation, gap_us, combinable=lateness_us == 0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        missing = batch.column(self._time).null_count
        if missing:
            ctx.count("null_time_rows", missing)
            batch = batch.filter(batch.column(self._time).is_valid())
        if not batch.num_rows:
            return
        times = times_us(batch.column(self._time))
        if self._offset_us:
            times = times - self._offset_us
        columns = self._aggregation.rows(batch)
        watermark_us = max(ctx.watermark_us, self.sessions.emitted_us)
        if self._lateness_us and int(times.min()) + self._gap_us < watermark_us:
            self._process_late(times, columns, watermark_us, ctx)
        else:
            self.sessions.add(times, columns)

    def _process_late(self, times: Int64s, columns: list[Column], watermark_us: int, ctx: Context) -> None:
        """Emit the closed sessions that the rows change, and drop rows that form a session of their own too late."""
        state = self.sessions
        together, new, old = state.with_late(state.lift(times, columns))
        gone = ~old & (together.ends < watermark_us - self._lateness_us)
        if gone.any():
            ctx.count("late_rows", int(new[gone].sum()))
        self._send(together.take(np.flatnonzero(~gone & (new > 0) & (together.ends < watermark_us))), ctx)
        kept = together.take(np.flatnonzero(~gone))
        state.replace(kept)
        self._set_due(kept)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        state = self.sessions
        if watermark_us <= state.emitted_us:
            return
        if watermark_us > state.due_us and (sessions := state.whole()) is not None:
            late = sessions.ends < max(state.emitted_us - self._lateness_us, EVENT_TIME_MIN_US)
            if late.any():
                ctx.count("late_rows", int(sessions.rows[late].sum()))
            closed = (sessions.ends < watermark_us) & (sessions.ends >= state.emitted_us)
            self._send(sessions.take(np.flatnonzero(closed)), ctx)
            open_rows = sessions.ends >= max(watermark_us - self._lateness_us, EVENT_TIME_MIN_US)
            kept = sessions.take(np.flatnonzero(open_rows))
            state.replace(kept)
            state.emitted_us = watermark_us
            self._set_due(kept)
        state.emitted_us = watermark_us

    def _set_due(self, sessions: Sessions) -> None:
        """Set the next due time: when a session that was not emitted closes, or one that was can be dropped."""
        state = self.sessions
        pending = sessions.ends[sessions.ends >= state.emitted_us]
        state.due_us = min(
            int(pending.min()) if len(pending) else EVENT_TIME_MAX_US,
            int(sessions.ends.min()) + self._lateness_us if len(sessions.ends) else EVENT_TIME_MAX_US,
        )

    def _send(self, sessions: Sessions, ctx: Context) -> None:
        if not len(sessions.starts):
            return
        sessions = sessions.take(np.argsort(sessions.ends, kind="stable"))
        keys = sessions.columns[: self._aggregation.keys]
        results = self._aggregation.finish(sessions.columns)
        arrays = [*keys, timestamps(sessions.starts), timestamps(sessions.ends), *results]
        ctx.send(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
