"""How many rows a run may have, so that it is over within a bound.

A run is not interrupted, so the longest run of a neighbour is what the most urgent message may have to wait for. A
batch can be run in pieces, since answers do not depend on batches. What a piece costs is a fixed part and a part per
row, both learned from recent runs; pieces are never so small that the fixed part outweighs the rest.
"""

from __future__ import annotations

from stretto.actors.deadlines import NEVER_NS

ROWS_AT_FIRST = 1
"""The size of the first piece of a function whose cost is not known."""
GROWTH_MAX = 2
"""A piece has at most this many times the rows of the largest run so far, unless even more would be within the bound if
the whole cost were by rows. So a wrong guess costs little."""
WEIGHT, WEIGHT_IF_WRONG = 0.3, 0.7
"""The weight of the latest run; more if its cost was wrong."""
WRONG_BY = 2.0
"""A cost is wrong if it is this many times the expected one, or one part in so many of it."""
UNLIKE = 1.5
"""Two runs whose rows differ by this factor show which part of the cost is fixed."""
QUICK = 4
"""A run that takes less than one part in so many of the bound need not be learned from, unless it was as large as it
may be."""


class RowCost:
    """What the runs of one instance cost by their number of rows, in nanoseconds: `fixed` and `per_row`.

    `rows` is how many rows the next run may have, and `quick_ns` below which cost a smaller run teaches nothing; both
    are looked at for each message."""

    __slots__ = (
        "_bound_ns",
        "_cost_last_ns",
        "_divided",
        "_rows_last",
        "_rows_tried",
        "_single",
        "fixed",
        "per_row",
        "quick_ns",
        "rows",
    )

    def __init__(self, bound_ns: int) -> None:
        self._bound_ns = bound_ns
        self.quick_ns = bound_ns // QUICK
        self.rows = ROWS_AT_FIRST
        self.fixed = self.per_row = 0.0
        self._rows_last = self._rows_tried = 0
        self._cost_last_ns = 0
        self._divided = False
        self._single = 0
        """The number of runs of one row."""

    def bind(self, bound_ns: int) -> None:
        """Sets another bound."""
        self._bound_ns = bound_ns
        self.quick_ns = bound_ns // QUICK
        self.rows = self._rows_within(bound_ns)

    def learn(self, rows: int, cost_ns: int) -> None:
        """Takes in a run of this many rows. One that breaks the bound unexpectedly shows that larger ones were luck."""
        self._single += rows == 1
        ratio = cost_ns / max(1.0, self.fixed + self.per_row * rows)
        was_wrong = ratio > WRONG_BY and cost_ns > self._bound_ns
        self._rows_tried = rows if was_wrong else max(rows, self._rows_tried)
        if not self._rows_last:
            self.per_row = cost_ns / rows
        elif max(rows, self._rows_last) >= UNLIKE * min(rows, self._rows_last):
            self._divide(rows, cost_ns)
        else:
            self._scale(ratio)
        self._rows_last, self._cost_last_ns = rows, cost_ns
        self.rows = self._rows_within(self._bound_ns)

    def _divide(self, rows: int, cost_ns: int) -> None:
        """Learns both parts from two runs of different sizes."""
        per_row = max((cost_ns - self._cost_last_ns) / (rows - self._rows_last), 0.0)
        weight = 1.0
        if self._divided:
            # One of the two may have been held up by the machine.
            per_row = min(max(per_row, self.per_row / WRONG_BY), self.per_row * WRONG_BY)
            weight = WEIGHT
        per_row = min(per_row, cost_ns / rows)
        self.per_row += weight * (per_row - self.per_row)
        self.fixed += weight * (cost_ns - per_row * rows - self.fixed)
        self._divided = True

    def _scale(self, ratio: float) -> None:
        """Learns from the ratio of a cost to the expected one; the relation of the two parts stays."""
        weight = WEIGHT if 1 / WRONG_BY <= ratio <= WRONG_BY else WEIGHT_IF_WRONG
        scale = 1 + weight * (ratio - 1)
        self.fixed *= scale
        self.per_row *= scale

    def _rows_within(self, bound_ns: int) -> int:
        if not self._rows_last:
            return ROWS_AT_FIRST
        tried_ns = self.fixed + self.per_row * self._rows_tried
        most = self._rows_tried * max(GROWTH_MAX, int(bound_ns / max(1.0, tried_ns)))
        if self.fixed + self.per_row * most <= bound_ns or self.per_row * most <= self.fixed:
            return most
        rows = int(max(bound_ns - self.fixed, self.fixed) / self.per_row)
        if rows <= 1 and self._rows_tried == 1 and self._single > 1 and self._single.bit_count() == 1:
            # Runs of one row do not show whether their cost depends on rows. It is tried out, more and more rarely.
            return most
        return max(1, rows)


UNBOUNDED = RowCost(NEVER_NS)
"""Of instances without an urgent neighbour."""
UNBOUNDED.rows = NEVER_NS
