"""Immutable blocks of rows with an index, and the marks of the rows that are settled.

A block keeps its rows in order of arrival, and entries that point at them, sorted by the hash of their keys. What can
change is only whether an entry is settled: a join that must know which rows have had a match settles an entry when it
finds one, or when it has sent the row without one. It is one bit per entry beside the rows, so that a checkpoint writes
rows once and writes only the bits again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.partitioning import Hashes

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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


class Block:
    """Rows in order of arrival and their entries. `settled` has a flag per entry; None if nobody asks for it."""

    __slots__ = (
        "_clean_us",
        "_due",
        "_due_from",
        "_due_us",
        "_last_us",
        "entries",
        "marks_number",
        "number",
        "rows",
        "settled",
    )

    def __init__(self, rows: pa.RecordBatch, entries: Entries, settled: Mask | None = None) -> None:
        self.rows = rows
        self.entries = entries
        self.settled = settled
        self.number: int | None = None
        """Its fragment number, once it is in a checkpoint."""
        self.marks_number: int | None = None
        """The fragment number of its settled entries, if a checkpoint has them as they are."""
        self._clean_us: int | None = None
        self._last_us = EVENT_TIME_MAX_US
        self._due_us: int | None = None
        self._due: tuple[Integers, Integers] | None = None
        self._due_from = 0

    def __len__(self) -> int:
        return len(self.entries)

    def settle(self, places: Integers) -> None:
        """Mark the entries at these places as settled."""
        assert self.settled is not None
        if len(places):
            self.settled[places] = True
            self.marks_number = None

    def settle_due(self, watermark_us: int) -> Integers:
        """Returns the places of entries that have expired and were not settled, in order of expiry, and settles
        them."""
        expires_us = self.entries.expires_us
        if self._due_us is None:
            self._due_us = EVENT_TIME_MAX_US if expires_us is None else int(expires_us.min())
        if expires_us is None or watermark_us < self._due_us:
            return np.empty(0, np.int64)
        if self._due is None:
            order = np.argsort(expires_us, kind="stable")
            self._due = order, expires_us[order]
        order, in_order = self._due
        until = int(in_order.searchsorted(watermark_us, side="right"))
        places, self._due_from = order[self._due_from : until], max(until, self._due_from)
        return self._settled_now(places)

    def settle_all(self) -> Integers:
        """Returns the places of entries that were not settled, and settles them."""
        return self._settled_now(np.arange(len(self)))

    def _settled_now(self, places: Integers) -> Integers:
        assert self.settled is not None
        places = places[~self.settled[places]]
        self.settle(places)
        return places

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
        return self.only(self.entries.expires_us > watermark_us)

    def only(self, wanted: Mask) -> Block:
        """Returns a block with some of the entries, and the rows that they point at."""
        entries = self.entries.take(wanted)
        kept = np.zeros(self.rows.num_rows, dtype=np.bool_)
        kept[entries.positions] = True
        moved = np.cumsum(kept) - 1
        rows = self.rows.take(pa.array(np.flatnonzero(kept)))
        settled = None if self.settled is None else self.settled[wanted]
        return Block(
            rows, Entries(entries.hashes, moved[entries.positions], entries.marks, entries.expires_us), settled
        )


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


def merged(blocks: list[Block]) -> Block:
    """Returns one block of all rows, in their order."""
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(block.rows.num_rows for block in blocks[:-1])])
    all_entries = [block.entries for block in blocks]
    hashes = np.concatenate([entries.hashes for entries in all_entries])
    # Timsort finds the sorted parts and merges them, in time linear in the entries.
    order = np.argsort(hashes, kind="stable")
    marks = zip(*(entries.marks for entries in all_entries), strict=True)
    expires_us = [entries.expires_us for entries in all_entries if entries.expires_us is not None]
    settled = [block.settled for block in blocks if block.settled is not None]
    return Block(
        pa.concat_batches([block.rows for block in blocks]),
        Entries(
            hashes[order],
            np.concatenate([e.positions + start for e, start in zip(all_entries, starts, strict=True)])[order],
            tuple(np.concatenate(mark)[order] for mark in marks),
            np.concatenate(expires_us)[order] if expires_us else None,
        ),
        np.concatenate(settled)[order] if settled else None,
    )
