"""How large the entries of a keyed state are, from a sample: what moving them to another worker would send.

A state yields some of its entries with their keys and the bytes that each stands for. Who knows shards adds them up
(`actors/shard_sizes.py`). A sample has at most `COLUMN_ROWS` rows of a block of columns, evenly spread, or
`OBJECT_ENTRIES` entries of a map, the next ones each time. If a state has no more, the number of entries of each shard
is exact. Otherwise the standard error of a shard with the share p of the entries is about sqrt((1 - p) / (n p)) of a
sample of n: 25 percent for one of 256 equal shards of a map, 18 percent in columns, and a third of that for 8 shards.
The bytes of one entry are those of its packed values. Names and frames around them are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretto.state.packing import packed

COLUMN_ROWS = 8_192
OBJECT_ENTRIES = 4_096
BITS = 8

Weights = npt.NDArray[np.float64]


class Weighed(NamedTuple):
    """Some entries: the columns of their keys by name, and how many bytes of the state each stands for."""

    keys: Mapping[str, Any]
    bytes: Weights


def evenly(rows: int, most: int = COLUMN_ROWS) -> npt.NDArray[np.intp]:
    """Returns at most so many of the rows, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.intp)) if rows else np.empty(0, np.intp)


def weights_of(columns: Sequence[Any], rows: int) -> Weights:
    """Returns the bytes of each row of some columns: Arrow arrays, or NumPy arrays of numbers or objects."""
    total = np.zeros(rows)
    for column in columns:
        total += _weights(column)
    return total


def _weights(column: Any) -> Weights | float:
    if isinstance(column, np.ndarray):
        if column.dtype != object:
            return float(column.itemsize)
        return np.array([len(packed(value)) for value in column.tolist()], np.float64)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return _filled(pc.binary_length(column)) + 4
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = column.flatten()
        return _filled(pc.list_value_length(column)) * float(values.nbytes / max(1, len(values))) + 4
    if pa.types.is_primitive(kind):
        return float(kind.bit_width / BITS)
    return float(column.nbytes / max(1, len(column)))


def _filled(lengths: pa.Array) -> Weights:
    found: Weights = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return found
