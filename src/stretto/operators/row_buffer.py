"""Rows that wait for a match: a columnar store with an index, searched and cleaned a batch at a time.

Rows are in blocks of geometric sizes, the oldest first, as in a log-structured merge tree. A block keeps its rows in
order of arrival, and entries that point at them, sorted by the hash of their keys. Adding a batch merges the youngest
blocks when needed, so a row is moved O(log n) times. A search does one binary search in each of O(log n) blocks.

An entry has an expiry time. A block is dropped when all its entries have expired. It is rewritten only when it is large
and about a quarter of its entries have expired. So cleaning costs a constant per row, and the size of the store is at
most 4/3 of the live rows, plus a few small blocks.

A tracked buffer also knows which entries are settled (`row_blocks.py`). In a checkpoint, the bits of a block are a
fragment of their own, in the order of the rows and of the windows of each row, since entries are built again from rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.operators import row_blocks
from stretto.operators.row_blocks import Block, Entries, Integers, Mask, merged
from stretto.state import Fragment, KeyedPart, State, Surveyed
from stretto.state.packing import packed, unpacked
from stretto.state.schemas import check_rows
from stretto.state.weighing import Weighed, evenly, weights_of

BLOCK_SHRINK = 4
"""Two neighbours are merged if the older has fewer than this many times the entries of the younger."""

BLOCK_ENTRIES_MAX = 1 << 18
"""Blocks are not merged beyond this size, so that no batch waits for the merge of a large state."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """Rows that can match, their entries, the number of rows that were dropped as late, and for a tracked side the rows
    that are in time and cannot match, because of a null."""

    rows: pa.RecordBatch
    entries: Entries
    late_rows: int = 0
    lonely: Indexed | None = None


_SETTLED = "__settled"


class Indexer(Protocol):
    """How one side of a join reads its rows."""

    schema: pa.Schema
    keys: tuple[str, ...]

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """Returns the rows that can match, with their entries; rows with a null key, for example, are dropped."""
        ...

    @property
    def lanes(self) -> int:
        """The greatest number of entries of one row."""
        ...

    def lanes_of(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        """Returns which of its row's entries each entry is, from 0; it depends on the row and the entry alone."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """Pairs of entries with equal hashes: the i-th pair is `probe[i]` of the search and `stored[i]` of a block."""

    probe: Integers
    stored: Integers
    block: Block


class RowBuffer(State):
    """The rows of one side of a join, in order of arrival; not combinable.

    A `tracked` buffer keeps a flag per entry; with `drops_settled`, entries need not be kept once they are settled."""

    indivisible = None

    def __init__(self, indexer: Indexer, tracked: bool = False, drops_settled: bool = False) -> None:
        self._indexer = indexer
        self.tracked = tracked
        self._drops_settled = drops_settled
        self._blocks: list[Block] = []
        self._numbered = 0

    def fresh(self) -> RowBuffer:
        return RowBuffer(self._indexer, self.tracked, self._drops_settled)

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """Returns the rows of a batch that can match, with their entries; nothing is stored."""
        return self._indexer.index(rows, watermark_us)

    @property
    def schema(self) -> pa.Schema:
        return self._indexer.schema

    @property
    def num_rows(self) -> int:
        """The number of rows held, including expired ones that were not cleaned yet."""
        return sum(block.rows.num_rows for block in self._blocks)

    def add(self, rows: pa.RecordBatch, entries: Entries, settled: Mask | None = None) -> None:
        if self.tracked and settled is None:
            settled = np.zeros(len(entries), dtype=np.bool_)
        self._add(Block(rows, entries, settled))

    def _add(self, block: Block) -> None:
        if self._drops_settled:
            block = _unsettled(block)
        if len(block):
            self._push(block)

    def settle_due(self, watermark_us: int) -> Iterator[tuple[Block, Integers]]:
        """Yields the entries that have expired and were not settled, as places in their block, and settles them."""
        for block in self._blocks:
            yield block, block.settle_due(watermark_us)

    def settle_all(self) -> Iterator[tuple[Block, Integers]]:
        """Yields all entries that were not settled, and settles them."""
        for block in self._blocks:
            yield block, block.settle_all()

    def clear(self) -> None:
        self._blocks = []

    def search(self, probe: Entries, pairs_max: int) -> Iterator[Match]:
        """Yields all pairs of a probe and a stored entry with equal hashes, at most `pairs_max` at a time."""
        for block in self._blocks:
            hashes = block.entries.hashes
            first = hashes.searchsorted(probe.hashes)
            first[first == len(hashes)] = 0
            (found,) = (hashes[first] == probe.hashes).nonzero()
            if not len(found):
                continue
            first = first[found]
            counts = hashes.searchsorted(probe.hashes[found], side="right") - first
            for at, stored in expand_ranges(first, counts, pairs_max):
                yield Match(found[at], stored, block)

    def advance(self, watermark_us: int) -> None:
        """Drop expired rows, where it is worth it."""
        before = self._blocks
        after = [block.cleaned(watermark_us) for block in before]
        if after == before:
            return
        self._blocks = []
        for block in after:
            if block is not None:
                self._push(block)

    def export(self) -> pa.Table:
        """Returns the rows in order of arrival, with the settled bits of each row if it is tracked; `restore` builds
        the index again."""
        schema = self._indexer.schema
        if not self.tracked:
            return pa.Table.from_batches([block.rows for block in self._blocks], schema)
        blocks = [_unsettled(block) if self._drops_settled else block for block in self._blocks]
        marks = np.concatenate([np.empty(0, np.bool_), *map(self._marks, blocks)])
        bits = pa.FixedSizeListArray.from_arrays(pa.array(marks), self._indexer.lanes)
        return pa.Table.from_batches([block.rows for block in blocks], schema).append_column(_SETTLED, bits)

    def restore(self, content: pa.Table) -> None:
        rows, marks = content, None
        if self.tracked:
            marks = content.column(content.num_columns - 1).combine_chunks().flatten().to_numpy(zero_copy_only=False)
            rows = content.remove_column(content.num_columns - 1)
        check_rows(rows, self._indexer.schema)
        self.clear()
        for batch in rows.combine_chunks().to_batches():
            self._add(self._built(batch, marks))

    def fragments(self) -> list[Fragment]:
        """Returns one fragment per block; its rows never change, so they are written once. For a tracked buffer, those
        of the settled bits follow."""
        schema = self._indexer.schema
        found, marks = [], []
        for block in self._blocks:
            if block.number is None:
                block.number = self._next_number()
            found.append(Fragment(block.number, pa.Table.from_batches([block.rows], schema)))
            if self.tracked:
                if block.marks_number is None:
                    block.marks_number = self._next_number()
                content = packed({"of": block.number, "settled": _packed(self._marks(block))})
                marks.append(Fragment(block.marks_number, content))
        return found + marks

    def _next_number(self) -> int:
        self._numbered += 1
        return self._numbered

    def rebuild(self, fragments: list[Fragment]) -> None:
        self.clear()
        marks = {}
        for fragment in fragments:
            if self.tracked and isinstance(fragment.content, bytes):
                content = unpacked(fragment.content)
                marks[content["of"]] = (fragment.number, content["settled"])
        for fragment in fragments:
            if self.tracked and isinstance(fragment.content, bytes):
                continue
            check_rows(fragment.content, self._indexer.schema)
            assert isinstance(fragment.content, pa.Table)
            (rows,) = fragment.content.combine_chunks().to_batches()
            number, settled = marks[fragment.number] if self.tracked else (None, b"")
            block = self._built(rows, self._unpacked(settled, rows) if self.tracked else None)
            if len(block):
                block.number, block.marks_number = fragment.number, number
                self._blocks.append(block)
        self._numbered = max((fragment.number for fragment in fragments), default=0)

    def _built(self, rows: pa.RecordBatch, marks: Mask | None) -> Block:
        """Returns a block of rows that were stored before; `marks` has the settled bits of each row."""
        indexed = self._indexer.index(rows, EVENT_TIME_MIN_US)
        if marks is None:
            return Block(indexed.rows, indexed.entries)
        if indexed.rows.num_rows != rows.num_rows:
            raise ValueError("some of the rows cannot have been stored")
        return Block(indexed.rows, indexed.entries, marks[self._slots(indexed.rows, indexed.entries)])

    def _slots(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        lanes = self._indexer.lanes
        if lanes == 1:
            return entries.positions
        return entries.positions * lanes + self._indexer.lanes_of(rows, entries)

    def _marks(self, block: Block) -> Mask:
        """Returns a bit for each entry that a row can have; those that the block does not have are settled."""
        assert block.settled is not None
        marks = np.ones(block.rows.num_rows * self._indexer.lanes, dtype=np.bool_)
        marks[self._slots(block.rows, block.entries)] = block.settled
        return marks

    def _unpacked(self, settled: bytes, rows: pa.RecordBatch) -> Mask:
        size = rows.num_rows * self._indexer.lanes
        bits = np.unpackbits(np.frombuffer(settled, dtype=np.uint8))[:size].astype(np.bool_)
        if len(bits) != size:
            raise ValueError(f"{rows.num_rows} rows have {len(bits)} bits of settled entries")
        return bits

    def describe(self) -> dict[str, Any]:
        schema = self._indexer.schema
        return {"kind": "rows", "keys": list(self._indexer.keys), "types": schema.serialize().to_pybytes()}

    @property
    def layout(self) -> str:
        rows = "rows of " + ", ".join(f"{field.name} {field.type}" for field in self._indexer.schema)
        return f"{rows}, with {self._indexer.lanes} settled bits each" if self.tracked else rows

    def keep(self, part: KeyedPart) -> None:
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            mine = part.mine(dict(zip(block.rows.schema.names, block.rows.columns, strict=True)))
            marks = self._marks(block).reshape(-1, self._indexer.lanes)[mine].ravel() if self.tracked else None
            self._add(self._built(block.rows.filter(pa.array(mine)), marks))

    def survey(self, keys: pa.Schema) -> Surveyed:
        columns = [dict(zip(block.rows.schema.names, block.rows.columns, strict=True)) for block in self._blocks]
        return Surveyed(columns, self.fresh().export())

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        for block in self._blocks:
            rows = evenly(block.rows.num_rows)
            sample = block.rows.take(pa.array(rows))
            each = weights_of(sample.columns, len(rows)) * (block.rows.num_rows / max(1, len(rows)))
            yield Weighed(dict(zip(sample.schema.names, sample.columns, strict=True)), each)

    def take_in(self, other: RowBuffer) -> None:
        for block in other._blocks:
            self._add(Block(block.rows, block.entries, block.settled))

    def _push(self, block: Block) -> None:
        start, size = len(self._blocks), len(block)
        while start:
            older = len(self._blocks[start - 1])
            if older + size > (BLOCK_ENTRIES_MAX if older < BLOCK_SHRINK * size else row_blocks.SMALL_ENTRIES):
                break
            start -= 1
            size += older
        block = merged([*self._blocks[start:], block])
        if start < len(self._blocks) and self._drops_settled:
            block = _unsettled(block)
        self._blocks[start:] = [block] if len(block) else []


def _unsettled(block: Block) -> Block:
    """Returns the block without settled entries, which may be none at all."""
    return block.only(~block.settled) if block.settled is not None and block.settled.any() else block


def _packed(marks: Mask) -> bytes:
    return np.packbits(marks).tobytes()


def expand_ranges(first: Integers, counts: Integers, limit: int) -> Iterator[tuple[Integers, Integers]]:
    """Yields the ranges first[i] .. first[i] + counts[i] as pairs (i, place), at most `limit` pairs at a time."""
    ends = counts.cumsum()
    total = int(ends[-1])
    if total == len(counts):
        # One match each, the common case of a join with a dimension table.
        places = np.arange(total)
        for begin in range(0, total, limit):
            yield places[begin : begin + limit], first[begin : begin + limit]
        return
    begins = ends - counts
    shift = first - begins
    for begin in range(0, total, limit):
        end = min(begin + limit, total)
        low = int(ends.searchsorted(begin, side="right"))
        high = int(ends.searchsorted(end)) + 1
        inside = np.minimum(ends[low:high], end) - np.maximum(begins[low:high], begin)
        at = np.arange(low, high).repeat(inside)
        yield at, shift[at] + np.arange(begin, end)
