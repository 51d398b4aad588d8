"""Rows that wait for a match: a columnar store with an index, searched and cleaned a batch at a time.

Rows are in blocks of geometric sizes, the oldest first, as in a log-structured merge tree. A block keeps its rows in
order of arrival, and entries that point at them, sorted by the hash of their keys. Adding a batch merges the youngest
blocks when needed, so a row is moved O(log n) times. A search does one binary search in each of O(log n) blocks.

An entry has an expiry time. A block is dropped when all its entries have expired. It is rewritten only when it is large
and about a quarter of its entries have expired. So cleaning costs a constant per row, and the size of the store is at
most 4/3 of the live rows, plus a few small blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.partitioning import Hashes
from stretto.state import Fragment, KeyedPart, State
from stretto.state.schemas import check_rows

Integers = npt.NDArray[np.int64]

BLOCK_SHRINK = 4
"""Two neighbours are merged if the older has fewer than this many times the entries of the younger."""

BLOCK_ENTRIES_MAX = 1 << 18
"""Blocks are not merged beyond this size, so that no batch waits for the merge of a large state."""

SMALL_ENTRIES = 1024
"""Up to this size, merging two blocks is cheaper than searching both, and keeping one is cheaper than cleaning it."""

EXPIRY_SAMPLES = 256

_STABLE_SORT_MAX = 1024


@dataclass(frozen=True, slots=True)
class Entries:
    """The index of some rows, sorted by hash; a row in several windows has several entries.

    `marks` is what a join compares besides the keys. An entry cannot match any more once the watermark has reached
    `expires_us`; None is for entries that never expire.
    """

    hashes: Hashes
    positions: Integers
    marks: tuple[Integers, ...] = ()
    expires_us: Integers | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, order: npt.NDArray[Any]) -> Entries:
        """Returns the entries at these places, or where a mask is true."""
        expires_us = None if self.expires_us is None else self.expires_us[order]
        return Entries(self.hashes[order], self.positions[order], tuple(mark[order] for mark in self.marks), expires_us)


@dataclass(frozen=True, slots=True)
class Indexed:
    """Rows that can match, their entries, and the number of rows that were dropped as late."""

    rows: pa.RecordBatch
    entries: Entries
    late_rows: int = 0


class Indexer(Protocol):
    """How one side of a join reads its rows."""

    schema: pa.Schema
    keys: tuple[str, ...]

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """Returns the rows that can match, with their entries; rows with a null key, for example, are dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """Pairs of entries with equal hashes: the i-th pair is `probe[i]` of the search and `stored[i]` of a block."""

    probe: Integers
    stored: Integers
    entries: Entries
    rows: pa.RecordBatch


class Block:
    """Rows in order of arrival and their entries; immutable."""

    __slots__ = ("_clean_us", "_last_us", "entries", "number", "rows")

    def __init__(self, rows: pa.RecordBatch, entries: Entries) -> None:
        self.rows = rows
        self.entries = entries
        self.number: int | None = None
        """Its fragment number, once it is in a checkpoint."""
        self._clean_us: int | None = None
        self._last_us = EVENT_TIME_MAX_US

    def __len__(self) -> int:
        return len(self.entries)

    def cleaned(self, watermark_us: int) -> Block | None:
        """Returns this block if cleaning is not due, a block without expired entries, or None if all have expired."""
        if self._clean_us is None:
            self._clean_us, self._last_us = self._plan_cleaning()
        if watermark_us < self._clean_us:
            return self
        return None if watermark_us >= self._last_us else self._without_expired(watermark_us)

    def _plan_cleaning(self) -> tuple[int, int]:
        """Returns when a quarter of the entries will have expired, by a sample, and when all will have. Entries are
        sorted by hash, so every n-th one is a fair sample."""
        expires_us = self.entries.expires_us
        if expires_us is None:
            return EVENT_TIME_MAX_US, EVENT_TIME_MAX_US
        last_us = int(expires_us.max())
        if len(self) <= SMALL_ENTRIES:
            return last_us, last_us
        sample = expires_us[:: len(self) // EXPIRY_SAMPLES]
        quarter = len(sample) // 4
        return int(np.partition(sample, quarter)[quarter]), last_us

    def _without_expired(self, watermark_us: int) -> Block:
        assert self.entries.expires_us is not None
        entries = self.entries.take(self.entries.expires_us > watermark_us)
        kept = np.zeros(self.rows.num_rows, dtype=np.bool_)
        kept[entries.positions] = True
        moved = np.cumsum(kept) - 1
        rows = self.rows.take(pa.array(np.flatnonzero(kept)))
        return Block(rows, Entries(entries.hashes, moved[entries.positions], entries.marks, entries.expires_us))


class RowBuffer(State):
    """The rows of one side of a join, in order of arrival; not combinable."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._blocks: list[Block] = []
        self._numbered = 0

    def fresh(self) -> RowBuffer:
        return RowBuffer(self._indexer)

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """Returns the rows of a batch that can match, with their entries; nothing is stored."""
        return self._indexer.index(rows, watermark_us)

    @property
    def num_rows(self) -> int:
        """The number of rows held, including expired ones that were not cleaned yet."""
        return sum(block.rows.num_rows for block in self._blocks)

    def add(self, rows: pa.RecordBatch, entries: Entries) -> None:
        if len(entries):
            self._push(Block(rows, entries))

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
                yield Match(found[at], stored, block.entries, block.rows)

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
        """Returns the rows in order of arrival; `restore` builds the index again."""
        return pa.Table.from_batches([block.rows for block in self._blocks], schema=self._indexer.schema)

    def restore(self, content: pa.Table) -> None:
        check_rows(content, self._indexer.schema)
        self.clear()
        for rows in content.combine_chunks().to_batches():
            indexed = self._indexer.index(rows, EVENT_TIME_MIN_US)
            self.add(indexed.rows, indexed.entries)

    def fragments(self) -> list[Fragment]:
        """Returns one fragment per block; a block never changes, so it is written once."""
        for block in self._blocks:
            if block.number is None:
                self._numbered += 1
                block.number = self._numbered
        schema = self._indexer.schema
        return [Fragment(block.number or 0, pa.Table.from_batches([block.rows], schema)) for block in self._blocks]

    def rebuild(self, fragments: list[Fragment]) -> None:
        self.clear()
        for fragment in fragments:
            check_rows(fragment.content, self._indexer.schema)
            assert isinstance(fragment.content, pa.Table)
            (rows,) = fragment.content.combine_chunks().to_batches()
            indexed = self._indexer.index(rows, EVENT_TIME_MIN_US)
            if len(indexed.entries):
                block = Block(indexed.rows, indexed.entries)
                block.number = fragment.number
                self._blocks.append(block)
        self._numbered = max((fragment.number for fragment in fragments), default=0)

    def describe(self) -> dict[str, Any]:
        schema = self._indexer.schema
        return {"kind": "rows", "keys": list(self._indexer.keys), "types": schema.serialize().to_pybytes()}

    @property
    def layout(self) -> str:
        return "rows of " + ", ".join(f"{field.name} {field.type}" for field in self._indexer.schema)

    def keep(self, part: KeyedPart) -> None:
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            mine = part.mine(dict(zip(block.rows.schema.names, block.rows.columns, strict=True)))
            indexed = self._indexer.index(block.rows.filter(pa.array(mine)), EVENT_TIME_MIN_US)
            self.add(indexed.rows, indexed.entries)

    def take_in(self, other: RowBuffer) -> None:
        for block in other._blocks:
            self.add(block.rows, block.entries)

    def _push(self, block: Block) -> None:
        start, size = len(self._blocks), len(block)
        while start:
            older = len(self._blocks[start - 1])
            if older + size > (BLOCK_ENTRIES_MAX if older < BLOCK_SHRINK * size else SMALL_ENTRIES):
                break
            start -= 1
            size += older
        self._blocks[start:] = [_merged([*self._blocks[start:], block])]


def sort_entries(
    hashes: Hashes,
    marks: tuple[Integers, ...] = (),
    expires_us: Integers | None = None,
    positions: Integers | None = None,
) -> Entries:
    """Returns entries sorted by hash; without `positions`, the i-th entry is of the i-th row."""
    order = stable_order(hashes)
    return Entries(
        hashes[order],
        order if positions is None else positions[order],
        tuple(mark[order] for mark in marks),
        None if expires_us is None else expires_us[order],
    )


def stable_order(hashes: Hashes) -> Integers:
    """Returns a stable argsort. For large arrays it is the faster unstable sort, then a sort of places among equals."""
    size = len(hashes)
    if size <= _STABLE_SORT_MAX:
        return np.argsort(hashes, kind="stable")
    order = np.argsort(hashes)
    in_order = hashes[order]
    group = np.zeros(size, dtype=np.int64)
    np.cumsum(in_order[1:] != in_order[:-1], out=group[1:])
    if group[-1] == size - 1:
        return order
    group *= size
    order = group + order
    order.sort()
    order -= group
    return order


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


def _merged(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(block.rows.num_rows for block in blocks[:-1])])
    all_entries = [block.entries for block in blocks]
    hashes = np.concatenate([entries.hashes for entries in all_entries])
    # Timsort finds the sorted parts and merges them, in time linear in the entries.
    order = np.argsort(hashes, kind="stable")
    marks = zip(*(entries.marks for entries in all_entries), strict=True)
    expires_us = [entries.expires_us for entries in all_entries if entries.expires_us is not None]
    return Block(
        pa.concat_batches([block.rows for block in blocks]),
        Entries(
            hashes[order],
            np.concatenate([e.positions + start for e, start in zip(all_entries, starts, strict=True)])[order],
            tuple(np.concatenate(mark)[order] for mark in marks),
            np.concatenate(expires_us)[order] if expires_us else None,
        ),
    )
