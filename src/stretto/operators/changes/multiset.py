"""The rows of a stream that changes, with their weights, found by key: the state of every function in this room.

Rows are in blocks, the oldest first, each with an index of its rows sorted by the hash of their keys. A removal is a
row with a negative weight in a younger block. When blocks are merged, equal rows become one, and those whose weights
cancel out are dropped. A block is merged before the younger ones have a quarter of its rows, so a row is moved O(log n)
times and the state has at most about a third more rows than are there. A block never changes, so a checkpoint writes it
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import Hashes, hash_columns
from stretto.operators.changes.weights import consolidated, weighted_schema
from stretto.operators.grouping import Int64s, fixed_values
from stretto.state import Fragment, KeyedPart, State, Surveyed
from stretto.state.schemas import check_rows
from stretto.state.weighing import Weighed, evenly, weights_of

SHRINK = 4
"""Two neighbours are merged if the older has fewer than this many times the rows of the younger."""
SMALL_ROWS = 1024
"""Up to this size, merging two blocks is cheaper than searching both."""

_INT64 = np.dtype(np.int64)


class _Block:
    """Rows, and the hashes of their keys in ascending order with the rows that have them; immutable."""

    __slots__ = ("_times", "hashes", "number", "places", "rows")

    def __init__(self, rows: pa.RecordBatch, keys: tuple[str, ...], number: int | None = None) -> None:
        hashes = hash_columns(rows, keys)
        self.rows = rows
        self.places: npt.NDArray[np.intp] = np.argsort(hashes, kind="stable")
        self.hashes: Hashes = hashes[self.places]
        self.number = number
        """Its fragment number, once it is in a checkpoint."""
        self._times: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def find(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """Returns the places of the rows with one of these hashes, which are distinct."""
        first = self.hashes.searchsorted(hashes)
        counts = self.hashes.searchsorted(hashes, side="right") - first
        begins = np.cumsum(counts) - counts
        return self.places[np.repeat(first - begins, counts) + np.arange(int(counts.sum()))]

    def times(self, column: str) -> tuple[int, int]:
        """Returns a time below which a quarter of the rows are, and the last time."""
        if self._times is None:
            values = fixed_values(self.rows.column(column), _INT64)
            quarter = len(values) // 4
            self._times = int(np.partition(values, quarter)[quarter]), int(values.max())
        return self._times


class Multiset(State):
    """Rows with their weights, by key. Equal rows may be in it several times, with weights that add up."""

    indivisible = None

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self.schema = weighted_schema(schema)
        self._plain = schema
        self._keys = keys
        self._blocks: list[_Block] = []
        self._numbered = 0
        hash_columns(pa.RecordBatch.from_pylist([], schema=schema), keys)  # Refuses types that cannot be keys.

    def fresh(self) -> Multiset:
        return Multiset(self._plain, self._keys)

    @property
    def num_rows(self) -> int:
        """The number of rows, also of those that cancel out and are not merged yet."""
        return sum(map(len, self._blocks))

    def put(self, rows: pa.RecordBatch) -> None:
        """Add rows with their weights."""
        if not rows.num_rows:
            return
        merged, size = [rows], rows.num_rows
        while self._blocks:
            older = len(self._blocks[-1])
            if older >= SHRINK * size and older + size > SMALL_ROWS:
                break
            merged.append(self._blocks.pop().rows)
            size += older
        if len(merged) > 1:
            rows = consolidated(pa.concat_batches(merged[::-1]))
        if rows.num_rows:
            self._blocks.append(_Block(rows, self._keys))

    def of_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns all rows of the keys of these rows, and perhaps of other keys with the same hash, then also all."""
        return self.of_hashes(np.unique(hash_columns(rows, self._keys)))

    def of_hashes(self, hashes: Hashes) -> pa.RecordBatch:
        """Returns all rows whose keys have one of these hashes, which are distinct."""
        found = [(block, block.find(hashes)) for block in self._blocks]
        parts = [block.rows.take(pa.array(places)) for block, places in found if len(places)]
        if not parts:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        return consolidated(parts[0] if len(parts) == 1 else pa.concat_batches(parts))

    def forget(self, column: str, before: int) -> None:
        """Drop rows whose value in a column is less than this, where it is worth it."""
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            quarter, last = block.times(column)
            if last < before:
                continue
            if quarter < before and len(block) > SMALL_ROWS:
                values: Int64s = fixed_values(block.rows.column(column), _INT64)
                block = _Block(block.rows.filter(pa.array(values >= before)), self._keys)
            self._blocks.append(block)

    # Checkpoints.

    def export(self) -> pa.Table:
        return pa.Table.from_batches([block.rows for block in self._blocks], schema=self.schema)

    def restore(self, content: pa.Table) -> None:
        check_rows(content, self.schema)
        self._blocks = []
        for rows in content.combine_chunks().to_batches():
            self.put(rows)

    def fragments(self) -> list[Fragment]:
        for block in self._blocks:
            if block.number is None:
                self._numbered += 1
                block.number = self._numbered
        return [Fragment(block.number or 0, pa.Table.from_batches([block.rows])) for block in self._blocks]

    def rebuild(self, fragments: list[Fragment]) -> None:
        self._blocks = []
        for fragment in fragments:
            check_rows(fragment.content, self.schema)
            assert isinstance(fragment.content, pa.Table)
            for rows in fragment.content.combine_chunks().to_batches():
                self._blocks.append(_Block(rows, self._keys, fragment.number))
        self._numbered = max((fragment.number for fragment in fragments), default=0)

    def describe(self) -> dict[str, Any]:
        return {"kind": "multiset", "keys": list(self._keys), "types": self._plain.serialize().to_pybytes()}

    @property
    def layout(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._plain)
        return f"rows of {columns} with their weights"

    def keep(self, part: KeyedPart) -> None:
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            mine = part.mine(dict(zip(block.rows.schema.names, block.rows.columns, strict=True)))
            self.put(block.rows.filter(pa.array(mine)))

    def survey(self, keys: pa.Schema) -> Surveyed:
        columns = [dict(zip(block.rows.schema.names, block.rows.columns, strict=True)) for block in self._blocks]
        return Surveyed(columns, self.fresh().export())

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        for block in self._blocks:
            rows = evenly(block.rows.num_rows)
            sample = block.rows.take(pa.array(rows))
            each = weights_of(sample.columns, len(rows)) * (block.rows.num_rows / max(1, len(rows)))
            yield Weighed(dict(zip(sample.schema.names, sample.columns, strict=True)), each)

    def take_in(self, other: Multiset) -> None:
        for block in other._blocks:
            self.put(block.rows)
