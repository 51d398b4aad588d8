"""The first row of each key: later ones are dropped, for ever or for some time.

The state has the keys that were seen. Within a time, it has their event times too, and drops them as the watermark
passes. A row is a duplicate if its event time is at most that far from the one of a row of its key that was sent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.actors.partitioning import null_mask, times_us
from stretto.operators.aggregation import decoded
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import weighted
from stretto.operators.grouping import INT64_MIN, Bools, Int64s, fixed_array, fixed_values, group
from stretto.operators.windows import EventTime

_TIME = "__time"
_INT64 = np.dtype(np.int64)

Places = npt.NDArray[np.intp]


class FirstRows(Function):
    """The first row of each key that arrives. Within a time, rows behind the watermark are dropped and counted."""

    order_matters = False

    def __init__(
        self, schema: pa.Schema, keys: tuple[str, ...], time: EventTime | None = None, within_us: int | None = None
    ) -> None:
        self.schema = schema
        self._keys = keys
        self._time = time
        self._within_us = within_us
        fields = [schema.field(key) for key in keys]
        timed = [] if within_us is None else [pa.field(_TIME, pa.int64())]
        self.seen = Multiset(pa.schema([*fields, *timed]), keys)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        times = None
        if self._within_us is not None:
            batch, times = self._in_time(batch, ctx)
        if not batch.num_rows:
            return
        arrived = self._keys_of(batch, times)
        first = self._first(arrived, self.seen.of_keys(arrived), times)
        if len(first):
            self.seen.put(arrived.take(pa.array(first)))
            ctx.send(batch.take(pa.array(first)))

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if self._within_us is not None:
            self.seen.forget(_TIME, max(watermark_us, INT64_MIN + self._within_us) - self._within_us)

    def _in_time(self, batch: pa.RecordBatch, ctx: Context) -> tuple[pa.RecordBatch, Int64s]:
        """Returns the rows that have a time and are not late, and their times."""
        assert self._time is not None
        column = batch.column(self._time.column)
        known = ~null_mask(column) if column.null_count else np.ones(len(column), np.bool_)
        times = times_us(column) - self._time.offset_us
        kept: Bools = known & (times >= ctx.watermark_us)
        late = int(np.count_nonzero(known & ~kept))
        if late:
            ctx.count("late_rows", late)
        return batch.filter(pa.array(kept)), times[kept]

    def _keys_of(self, batch: pa.RecordBatch, times: Int64s | None) -> pa.RecordBatch:
        """Returns the keys of rows, and their times if they count, in the form of the state."""
        columns = [batch.column(key) for key in self._keys]
        if times is not None:
            columns.append(fixed_array(times, pa.int64()))
        return weighted(columns, np.ones(batch.num_rows, np.int64), self.seen.schema)

    def _first(self, arrived: pa.RecordBatch, seen: pa.RecordBatch, times: Int64s | None) -> Places:
        """Returns the rows to send, in their order."""
        rows = arrived.num_rows
        keys = [pa.concat_arrays([decoded(arrived.column(key)), decoded(seen.column(key))]) for key in self._keys]
        groups = group(keys, rows + seen.num_rows)
        index, known = groups.index[:rows], groups.index[rows:]
        if times is not None:
            return self._first_within(index, times, known, fixed_values(seen.column(_TIME), _INT64))
        first = np.full(groups.count, -1, np.intp)
        first[index[::-1]] = np.arange(rows)[::-1]
        first[known] = -1
        return np.sort(first[first >= 0])

    def _first_within(self, index: Places, times: Int64s, seen: Places, seen_us: Int64s) -> Places:
        """Returns the rows that are further than `within_us` from all rows of their key that were sent before them.
        Each pass sends one row of each key that has one left, and drops what is near to it."""
        assert self._within_us is not None
        left = np.arange(len(index))
        sent: list[Places] = []
        while len(left):
            left = left[~_near(index[left], times[left], seen, seen_us, self._within_us)]
            if len(left):
                _, first = np.unique(index[left], return_index=True)
                sent.append(left[first])
                seen, seen_us = index[left[first]], times[left[first]]
        return np.sort(np.concatenate(sent)) if sent else np.empty(0, np.intp)


def _near(keys: Places, times: Int64s, seen: Places, seen_us: Int64s, within_us: int) -> Bools:
    """Returns which rows are within a time of one that was seen with the same key."""
    result = np.zeros(len(keys), np.bool_)
    if not len(seen):
        return result
    order = np.lexsort((seen_us, seen))
    seen, seen_us = seen[order], seen_us[order]
    # The nearest seen times of a row's key are before and after its place among all of them.
    ranks = np.unique(np.concatenate([times, seen_us]), return_inverse=True)[1]
    span = len(ranks)
    places = np.searchsorted(seen * span + ranks[len(times) :], keys * span + ranks[: len(times)])
    for place in (places - 1, places):
        inside = (place >= 0) & (place < len(seen))
        at = np.clip(place, 0, len(seen) - 1)
        result |= inside & (seen[at] == keys) & (np.abs(seen_us[at] - times) <= within_us)
    return result
