"""The rows of a table with an index of their keys, in pieces that workers map into memory.

An index is built once, where the app is submitted, and goes to the workers in Arrow files beside the rows. So a worker
has neither in memory of its own: all workers of a machine share the pages that they touch.

Hashes are rotated, so that the byte which chooses the partition of a row comes first. If the rows of a piece are in
their order, the rows of one partition are together, and a worker touches the pages of its own partitions only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import Hashes, hash_rows, null_mask
from stretto.operators.row_blocks import Entries, Integers, Mask, sort_entries
from stretto.operators.row_buffer import RowBuffer

PIECE_BYTES = 1 << 30
"""The size of a piece, about: an Arrow array has at most 2 GiB of text."""


class KeyExpression(Protocol):
    """A compiled expression: one value per row. `column` is its name if it is a column as it is."""

    @property
    def type(self) -> pa.DataType: ...
    @property
    def column(self) -> str | None: ...
    def evaluate(self, batch: pa.RecordBatch) -> pa.Array: ...


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows, the keys of them that are computed, and the index: the hashes of rows without a null key, in order, and
    the places of these rows. `start` is the place of the first row in the table."""

    start: int
    rows: pa.RecordBatch
    computed: pa.RecordBatch | None
    index: pa.RecordBatch

    def keys(self, expressions: Sequence[KeyExpression], places: Integers) -> list[pa.Array]:
        """Returns the keys of the rows at some places."""
        computed = iter(self.computed.columns if self.computed is not None else ())
        every = [next(computed) if each.column is None else self.rows.column(each.column) for each in expressions]
        return [column.take(pa.array(places)) for column in every]

    def buffer(self) -> RowBuffer:
        """Returns what finds rows by their hashes. It reads the index where it is, and copies nothing."""
        hashes, places = (column.to_numpy(zero_copy_only=True) for column in self.index.columns)
        found = RowBuffer(_Unindexed())
        found.add(self.rows, Entries(hashes, places))
        return found


def pieces_of(table: pa.Table, keys: Sequence[KeyExpression], sorted_rows: bool) -> list[Piece]:
    """Returns the pieces of a table, in order. With `sorted_rows`, the rows of a piece are in the order of its index,
    and those without a key are left out."""
    found, start = [], 0
    for rows in _cut(table):
        columns = [key.evaluate(rows) for key in keys]
        places = np.flatnonzero(valid(columns, rows.num_rows))
        entries = sort_entries(hashed(columns)[places], positions=places)
        if sorted_rows:
            order = pa.array(entries.positions)
            rows, columns = rows.take(order), [column.take(order) for column in columns]
            entries = Entries(entries.hashes, np.arange(len(entries)))
        computed = {str(at): columns[at] for at, key in enumerate(keys) if key.column is None}
        batch = pa.RecordBatch.from_pydict(computed) if computed else None
        index = pa.RecordBatch.from_arrays([pa.array(entries.hashes), pa.array(entries.positions)], ["hash", "place"])
        found.append(Piece(start, rows, batch, index))
        start += rows.num_rows
    return found


def hashed(columns: Sequence[pa.Array]) -> Hashes:
    """Returns the rotated hashes of rows."""
    hashes = hash_rows(columns)
    rotated: Hashes = (hashes >> np.uint64(8)) | (hashes << np.uint64(56))
    return rotated


def valid(keys: Sequence[pa.Array], size: int) -> Mask:
    """Returns which of the rows have no null key."""
    found = np.ones(size, dtype=np.bool_)
    for key in keys:
        if key.null_count:
            found &= ~null_mask(key)
    return found


def _cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches of about the size of a piece; an empty table has one."""
    count = max(1, -(-table.nbytes // PIECE_BYTES))
    size = max(1, -(-table.num_rows // count))
    for begin in range(0, max(table.num_rows, 1), size):
        batches = table.slice(begin, size).combine_chunks().to_batches()
        yield from batches or [pa.RecordBatch.from_pylist([], schema=table.schema)]


class _Unindexed:
    """The index of a table is built once, and never from stored rows."""

    schema = pa.schema([])
    keys: tuple[str, ...] = ()
    lanes = 1

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Any:
        raise NotImplementedError

    def lanes_of(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        raise NotImplementedError
