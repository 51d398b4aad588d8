"""Joins of two inputs: unbounded in time, within an interval of time, within windows, or with the nearest in time.

Each takes pairs (left column, right column) that must be equal, a residual predicate over pairs of rows, and the kind
of join. Read next: `join_base.py` (how a batch is matched), `row_buffer.py` (how rows are kept), `join_interval.py`,
`join_window.py`, `join_asof.py`.
"""

from __future__ import annotations

import pyarrow as pa

from stretto.operators.join_asof import AsofJoin
from stretto.operators.join_base import PAIRS_MAX, Join, Matching
from stretto.operators.join_interval import IntervalJoin
from stretto.operators.join_keys import LEFT, RIGHT, side_keys
from stretto.operators.join_sides import KeyedSide
from stretto.operators.join_window import WindowJoin

__all__ = ["LEFT", "PAIRS_MAX", "RIGHT", "AsofJoin", "IntervalJoin", "Join", "Matching", "UnboundedJoin", "WindowJoin"]


class UnboundedJoin(Join):
    """Every pair of rows with equal keys, however far apart in time: the state is all rows ever seen."""

    def __init__(self, left_schema: pa.Schema, right_schema: pa.Schema, matching: Matching) -> None:
        left = KeyedSide(left_schema, side_keys(matching.on, LEFT), matching.how.tracks_left)
        right = KeyedSide(right_schema, side_keys(matching.on, RIGHT), matching.how.tracks_right)
        super().__init__(left, right, matching)
