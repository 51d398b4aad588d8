"""Rows in the order of ORDER BY, as Spark has it: NaN above all numbers, nulls first or last as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions.ranks import ranks


@dataclass(frozen=True)
class Direction:
    """How the values of one column are ordered."""

    descending: bool = False
    nulls_first: bool = True


def places_in_order(columns: Sequence[pa.Array], directions: Sequence[Direction], rows: int) -> Any:
    """Returns the numbers of rows in their order; rows that are equal keep theirs."""
    codes = [_codes(column, direction) for column, direction in zip(columns, directions, strict=True)]
    # The last of the keys of a lexsort counts most.
    return np.lexsort(codes[::-1]) if codes else np.arange(rows)


def _codes(column: pa.Array, direction: Direction) -> Any:
    found = ranks(column)
    if direction.descending:
        found = -found
    missing = np.asarray(column.is_null())
    if not missing.any():
        return found
    least = int(found.min()) - 1 if direction.nulls_first else int(found.max()) + 1
    return np.where(missing, least, found)
