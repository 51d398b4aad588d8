"""Inner joins of two inputs: unbounded in time, within an interval of time, or within windows.

Each takes pairs (left column, right column) that must be equal, and a residual predicate over the joined rows. Read
next: `join_base.py` (how a batch is matched), `row_buffer.py` (how rows are kept), `join_interval.py`,
`join_window.py`.
"""

from __future__ import annotations

import pyarrow as pa

from stretto.operators.join_base import LEFT, PAIRS_MAX, RIGHT, Join, KeyedSide, On, RowFilter, side_keys
from stretto.operators.join_interval import IntervalJoin
from stretto.operators.join_window import WindowJoin

__all__ = ["LEFT", "PAIRS_MAX", "RIGHT", "IntervalJoin", "Join", "UnboundedJoin", "WindowJoin"]


class UnboundedJoin(Join):
    """Every pair of rows with equal keys, however far apart in time: the state is all rows ever seen."""

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        on: On,
        output: pa.Schema,
        residual: RowFilter | None = None,
    ) -> None:
        left = KeyedSide(left_schema, side_keys(on, LEFT))
        right = KeyedSide(right_schema, side_keys(on, RIGHT))
        super().__init__(left, right, on, output, residual)
