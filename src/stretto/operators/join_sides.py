"""One side of a join: which of its rows can match, and their entries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import hash_columns, null_mask
from stretto.operators.row_blocks import Entries, Integers, Mask, sort_entries
from stretto.operators.row_buffer import Indexed


class KeyedSide:
    """One side of a join that keeps its rows forever. A tracked side also has the rows that cannot match."""

    lanes: int = 1

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], tracked: bool = False) -> None:
        self.schema = schema
        self.keys = keys
        self.tracked = tracked

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        valid = without_nulls(rows, self.keys)
        lonely = self.lonely(rows, valid)
        rows = rows_where(rows, valid)
        return Indexed(rows, sort_entries(hash_columns(rows, self.keys)), lonely=alone(lonely))

    def lanes_of(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        return np.zeros(len(entries), dtype=np.int64)

    def lonely(self, rows: pa.RecordBatch, valid: Mask | None) -> list[pa.RecordBatch]:
        """Returns the rows that cannot match, if somebody asks for them."""
        return [] if valid is None or not self.tracked or valid.all() else [rows.filter(pa.array(~valid))]


def without_nulls(rows: pa.RecordBatch, columns: tuple[str, ...]) -> Mask | None:
    """Returns which rows have no null in these columns; None if no row has one."""
    mask: Mask | None = None
    for name in columns:
        column = rows.column(name)
        if column.null_count:
            mask = all_of(mask, ~null_mask(column))
    return mask


def alone(rows: list[pa.RecordBatch]) -> Indexed | None:
    """Returns rows that cannot match, one entry each."""
    if not rows:
        return None
    batch = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    return Indexed(batch, Entries(np.zeros(batch.num_rows, dtype=np.uint64), np.arange(batch.num_rows)))


def all_of(one: Mask | None, other: Mask | None) -> Mask | None:
    """Returns the conjunction of two masks, where None is a mask that is true everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def rows_where(rows: pa.RecordBatch, mask: Mask | None) -> pa.RecordBatch:
    return rows if mask is None or mask.all() else rows.filter(pa.array(mask))
