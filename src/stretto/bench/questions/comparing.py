"""Two answers to a question, compared row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stretto.errors import StrettoError

TOLERANCE = 1e-9
"""Relative: sums of doubles depend on their order."""
Rows = list[tuple[Any, ...]]


def rows_of(table: pa.Table) -> Rows:
    """Returns the rows of a table as plain values."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def difference(mine: Rows, theirs: Rows, ordered: bool) -> str | None:
    """Returns how two answers differ; None if they do not. Without ORDER BY, they may be in any order."""
    if len(mine) != len(theirs):
        return f"{len(mine)} rows, and Spark has {len(theirs)}"
    if not ordered:
        mine, theirs = sorted(mine, key=_key), sorted(theirs, key=_key)
    for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not all(map(same, one, other)):
            return f"row {place} is {one!r}, and Spark's is {other!r}"
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, doubles but for the last digits."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _key(row: Sequence[Any]) -> str:
    return repr([f"{value:.6g}" if isinstance(value, float) else value for value in (_zero(each) for each in row)])


def _zero(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


def is_refusal(error: Exception) -> bool:
    """Whether an error is one that is raised on purpose: for what is not supported, or as ANSI SQL wants it."""
    return isinstance(error, StrettoError)
