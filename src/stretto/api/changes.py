"""Streams whose rows replace earlier rows: the final answer is the last row of each key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def last_by_key(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Returns the last row of each key, in order of arrival; the last row, if there are no keys."""
    if not keys:
        return table.slice(max(table.num_rows - 1, 0))
    numbered = table.select(list(keys)).append_column("__row", pa.array(np.arange(table.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([("__row", "max")]).column("__row_max")
    return table.take(last.take(pc.sort_indices(last)))


def replaced_rows(keys: tuple[str, ...]) -> str:
    """Returns which rows a row of such a stream replaces, in words."""
    return f"earlier rows with the same {', '.join(keys)}" if keys else "all earlier rows"
