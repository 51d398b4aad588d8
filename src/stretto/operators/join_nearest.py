"""Which right row is the nearest one, for many left rows at once.

Rows of one key are in the order of their times; those at the same time are in the order of their columns, so that there
is one answer whatever arrived first. Looking back takes the last row that is not too late, looking forward the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.partitioning import Hashes
from stretto.errors import PlanError
from stretto.expressions.types import is_orderable
from stretto.operators import join_base
from stretto.operators.aggregation import decoded
from stretto.operators.grouping import order_codes
from stretto.operators.row_blocks import Entries, Integers, Mask
from stretto.operators.row_buffer import RowBuffer

_GROWTH = 4
"""How many more candidates are looked at in each round, while those before have been refused."""

Accepts = Callable[[Integers, Integers], Mask]
"""Which pairs of a left row and a candidate match, by their places."""


class Direction(Enum):
    """Where a left row looks for its partner."""

    BACKWARD = "backward"
    FORWARD = "forward"
    NEAREST = "nearest"

    @classmethod
    def named(cls, name: str, verb: str) -> Direction:
        """Returns the direction of a name."""
        try:
            return cls(name.lower())
        except ValueError:
            raise PlanError(
                f"{verb} does not know this direction", repr(name), 'Write "backward", "forward" or "nearest".'
            ) from None


@dataclass(frozen=True)
class Nearness:
    """Which right rows a left row may have: in this direction, at most so far away, and perhaps not at its own time."""

    direction: Direction = Direction.BACKWARD
    tolerance_us: int | None = None
    exact: bool = True

    @property
    def only_looks_back(self) -> bool:
        return self.direction is Direction.BACKWARD

    @property
    def waits_us(self) -> int:
        """By how much the watermark must have passed a left row before its partner is known."""
        return 0 if self.only_looks_back or self.tolerance_us is None else self.tolerance_us

    @property
    def keeps_us(self) -> int | None:
        """By how much the watermark must have passed a right row before nobody takes it; None if somebody always may.

        A left row that waits may be behind the watermark, and looks back from there."""
        if self.tolerance_us is None:
            return None
        return self.waits_us + (0 if self.direction is Direction.FORWARD else self.tolerance_us)


class Candidates:
    """Right rows with some hashes, sorted by hash, time and columns."""

    def __init__(self, rows: pa.RecordBatch, hashes: Hashes, times: Integers, columns: Sequence[int]) -> None:
        order = _order(rows, hashes, times, columns)
        self.rows = rows.take(pa.array(order))
        self.times = times[order]
        self._hashes = np.unique(hashes)
        self._instants = np.unique(times)
        groups, instants = self._hashes.searchsorted(hashes[order]), self._instants.searchsorted(self.times)
        self._places = groups * len(self._instants) + instants

    @classmethod
    def of(cls, buffer: RowBuffer, hashes: Hashes, columns: Sequence[int]) -> Candidates:
        """Returns the rows of a buffer that have one of these hashes."""
        wanted = np.unique(hashes)
        probe = Entries(wanted, np.arange(len(wanted)))
        found = list(buffer.search(probe, join_base.PAIRS_MAX))
        rows = [match.block.rows.take(pa.array(match.block.entries.positions[match.stored])) for match in found]
        return cls(
            pa.concat_batches(rows) if rows else pa.RecordBatch.from_pylist([], schema=buffer.schema),
            np.concatenate([np.empty(0, np.uint64), *(wanted[match.probe] for match in found)]),
            np.concatenate([np.empty(0, np.int64), *(m.block.entries.marks[0][m.stored] for m in found)]),
            columns,
        )

    def ranges(self, hashes: Hashes, times: Integers, near: Nearness, back: bool) -> tuple[Integers, Integers]:
        """Returns the begin and the end of the candidates that are near enough, on one side of each time."""
        size = len(self._instants)
        groups = self._hashes.searchsorted(hashes)
        known = groups < len(self._hashes)
        known[known] = self._hashes[groups[known]] == hashes[known]
        reach_us = near.tolerance_us
        if back:
            # Times are in int64, and so are their sums with a tolerance: they stop at its ends.
            first = None if reach_us is None else np.maximum(times, EVENT_TIME_MIN_US + reach_us) - reach_us
            low = np.zeros_like(times) if first is None else self._instants.searchsorted(first)
            high = self._instants.searchsorted(times, side="right" if near.exact else "left")
        else:
            last = None if reach_us is None else np.minimum(times, EVENT_TIME_MAX_US - reach_us) + reach_us
            low = self._instants.searchsorted(times, side="left" if near.exact else "right")
            high = np.full_like(times, size) if last is None else self._instants.searchsorted(last, side="right")
        begins = self._places.searchsorted(groups * size + low)
        ends = self._places.searchsorted(groups * size + high)
        return begins, np.where(known, ends, begins)


def nearest(candidates: Candidates, hashes: Hashes, times: Integers, near: Nearness, accepts: Accepts) -> Integers:
    """Returns the place of the nearest candidate of each left row, -1 where there is none."""
    if near.direction is Direction.FORWARD:
        return _first_accepted(*candidates.ranges(hashes, times, near, back=False), False, accepts)
    before = _first_accepted(*candidates.ranges(hashes, times, near, back=True), True, accepts)
    if near.direction is Direction.BACKWARD:
        return before
    after = _first_accepted(*candidates.ranges(hashes, times, near, back=False), False, accepts)
    # Of two that are equally near it is the earlier one. Distances may be longer than int64 can say.
    both = np.flatnonzero((before >= 0) & (after >= 0))
    own = times[both].astype(np.uint64)
    back_us = own - candidates.times[before[both]].astype(np.uint64)
    forward_us = candidates.times[after[both]].astype(np.uint64) - own
    chosen = np.where(before >= 0, before, after)
    chosen[both] = np.where(back_us <= forward_us, before[both], after[both])
    return chosen


def _first_accepted(begins: Integers, ends: Integers, back: bool, accepts: Accepts) -> Integers:
    """Returns the first place in each range that is accepted, from its end if `back`; -1 where none is."""
    chosen = np.full(len(begins), -1, dtype=np.int64)
    (waiting,) = np.nonzero(ends > begins)
    tried, width = 0, 1
    while len(waiting):
        rest = ends[waiting] - begins[waiting] - tried
        counts = np.minimum(rest, width)
        at = np.arange(len(waiting)).repeat(counts)
        steps = tried + np.arange(len(at)) - (counts.cumsum() - counts)[at]
        places = ends[waiting[at]] - 1 - steps if back else begins[waiting[at]] + steps
        (accepted,) = np.nonzero(accepts(waiting[at], places))
        found, first = np.unique(at[accepted], return_index=True)
        chosen[waiting[found]] = places[accepted[first]]
        open_ = rest > width
        open_[found] = False
        waiting = waiting[open_]
        tried += width
        width = min(_GROWTH * width, max(1, join_base.PAIRS_MAX // max(1, len(waiting))))
    return chosen


def _order(rows: pa.RecordBatch, hashes: Hashes, times: Integers, columns: Sequence[int]) -> Integers:
    """Returns the order of rows by hash and time; those that tie are in the order of their columns."""
    order: Integers = np.lexsort((times, hashes))
    same = (hashes[order[1:]] == hashes[order[:-1]]) & (times[order[1:]] == times[order[:-1]])
    if same.any():
        tied = np.zeros(len(order), dtype=np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = order[tied]
        parts = (rows.column(column).take(pa.array(places)) for column in reversed(columns))
        codes = [order_codes(decoded(part)) for part in parts if is_orderable(part.type)]
        order[tied] = places[np.lexsort((*codes, times[places], hashes[places]))]
    return order
