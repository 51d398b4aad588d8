"""Lists of numbers from one to another by a step, of which sequences are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions.lists import is_missing, of_lengths, put_together, ranges, within_bounds
from stretto.expressions.nodes import Site
from stretto.expressions.vectors import reader, to_arrow


def known_numbers(*columns: pa.Array) -> tuple[Any, list[Any]]:
    """Returns where no column is null, and the columns as bigints, which are 0 elsewhere."""
    valid = ~np.logical_or.reduce([is_missing(column) for column in columns])
    return valid, [np.where(valid, reader(column.type)(column)[0], 0).astype(np.int64) for column in columns]


def lengths_of(low: Any, high: Any, by: Any, valid: Any, site: Site, beyond: Any = 0) -> Any:
    """Returns the number of values from one number to another, or so far beyond it; raises if no step leads there."""
    ordered = ((by > 0) & (low <= high)) | ((by < 0) & (low >= high)) | ((by == 0) & (low == high))
    if np.any(valid & ~ordered):
        row = int(np.argmax(valid & ~ordered))
        raise site.error(
            f"a sequence from {low[row]} to {high[row]} by {by[row]}", None, "the step must lead to the end"
        )
    high = high + beyond
    # As doubles first, since the distance of two bigints may not fit a bigint.
    within_bounds((high.astype(float) - low) / np.where(by == 0, 1, by), site)
    return within_bounds(np.where(valid, (high - low) // np.where(by == 0, 1, by) + 1, 0), site)


def listed(low: Any, lengths: Any, by: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    """Returns so many numbers from a first one on by a step."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    values = low[rows] + ranges(np.zeros(len(lengths), np.int64), lengths) * by[rows]
    return put_together(of_lengths(lengths, to_arrow((values, None), kind, len(values)), valid), pa.list_(kind))
