"""Whether Spark's own answer for an aggregate depends on how it has the rows: in which order, in which partitions.

A quantile, or a moment of infinity, is a matter of the values alone; Spark's is one of their order too, since NaN is in
no order with others while it compares, and infinity less infinity is NaN. `first` looks at one row of each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from stretto.bench.fuzz.aggregates import Division
from stretto.bench.fuzz.answers import Answer, Answered, Failure, same
from stretto.bench.fuzz.documented import MOMENTS
from stretto.bench.fuzz.terms import Term

ORDERS = 5
"""Random orders in which the rows are asked about, beside the opposite one."""
UNORDERED = MOMENTS | {"percentile_approx", "approx_percentile"}
"""Aggregates to which the order of rows does not matter, as they are defined."""

Asked = Callable[[Term, pa.RecordBatch, Division], Answer]
"""Returns Spark's answer for an aggregate over rows."""


def with_other_divisions(term: Term, rows: pa.RecordBatch, mine: Answer, theirs: Answer, asked: Asked) -> Answer:
    """Returns Spark's answer, with ours for each group where Spark has that too if it has the rows in another way."""
    if not isinstance(mine, Answered) or not isinstance(theirs, Answered):
        return theirs
    left = theirs
    for other in _others(term, rows, asked):
        if isinstance(other, Answered) and other.comparable:
            left = _with_agreeing(mine, left, other)
            if left.rows == mine.rows:
                break
    return left


def _others(term: Term, rows: pa.RecordBatch, asked: Asked) -> Any:
    """Yields Spark's other answers."""
    yield asked(term, rows, Division.APART)
    if term.arguments[0].label not in UNORDERED:
        return
    count = rows.num_rows
    orders = [list(range(count))[::-1], *(Random(order).sample(range(count), count) for order in range(ORDERS))]
    for order in orders:
        for division in Division:
            yield asked(term, rows.take(pa.array(order)), division)


def _with_agreeing(mine: Answered, theirs: Answered, other: Answered) -> Answered:
    """Returns an answer with our rows where the other answer has them as well."""
    if _fails(mine.rows) and _fails(other.rows):
        return replace(theirs, rows=mine.rows)
    if not len(mine.rows) == len(theirs.rows) == len(other.rows):
        return theirs
    each = zip(mine.rows, theirs.rows, other.rows, strict=True)
    return replace(theirs, rows=[here if same(here, there) else kept for here, kept, there in each])


def _fails(rows: Sequence[Any]) -> bool:
    """Whether an aggregate fails on purpose, which it does as a whole."""
    return len(rows) == 1 and isinstance(rows[0], Failure) and not rows[0].crash
