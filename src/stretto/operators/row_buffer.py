"""Rows that wait for a match: a columnar store with an index, searched and cleaned a batch at a time.

Rows lie in runs of geometric sizes, the oldest first, as in a log-structured merge tree. A run keeps its rows in order
of arrival and, sorted by the hash of their keys, entries that point at them. Adding a batch merges the youngest runs
when that is due, so a row is moved O(log n) times; searching looks into O(log n) runs with one binary search each.

An entry says when it expires. A run is dropped when all its entries have expired, and rewritten only when it is large
and about a quarter of them have, so cleaning costs each row a constant, and the store stays within 4/3 of what is alive
and a few small runs.
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

Integers = npt.NDArray[np.int64]

RUN_SHRINK = 4
"""An older run has at least so many times the entries of the next younger one, or both are merged."""

RUN_ENTRIES_MAX = 1 << 18
"""Runs are not merged beyond this, so that no single batch waits for the merge of a large state."""

SMALL_ENTRIES = 1024
"""Up to this, one run is cheaper to merge than two are to search, and cheaper to keep than to clean."""

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
        """The entries at these places, or where a mask is true."""
        expires_us = None if self.expires_us is None else self.expires_us[order]
        return Entries(self.hashes[order], self.positions[order], tuple(mark[order] for mark in self.marks), expires_us)


@dataclass(frozen=True, slots=True)
class Indexed:
    """Rows that can match, their entries, and how many rows were left out because they came too late."""

    rows: pa.RecordBatch
    entries: Entries
    late_rows: int = 0


class Indexer(Protocol):
    """How one side of a join reads its rows."""

    schema: pa.Schema
    keys: tuple[str, ...]

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """Leaves out rows that cannot match anything, such as those with a null key."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """Pairs of entries with equal hashes: the i-th pair is entry `probe[i]` of the search and `stored[i]` of a run."""

    probe: Integers
    stored: Integers
    entries: Entries
    rows: pa.RecordBatch


class Run:
    """Rows in order of arrival and their entries; never changed once made."""

    __slots__ = ("_clean_us", "_last_us", "entries", "number", "rows")

    def __init__(self, rows: pa.RecordBatch, entries: Entries) -> None:
        self.rows = rows
        self.entries = entries
        self.number: int | None = None
        """Its number in checkpoints, once it is in one."""
        self._clean_us: int | None = None
        self._last_us = EVENT_TIME_MAX_US

    def __len__(self) -> int:
        return len(self.entries)

    def cleaned(self, watermark_us: int) -> Run | None:
        """This run when cleaning is not worth it yet, a run without the expired entries, or None when all have."""
        if self._clean_us is None:
            self._clean_us, self._last_us = self._plan_cleaning()
        if watermark_us < self._clean_us:
            return self
        return None if watermark_us >= self._last_us else self._without_expired(watermark_us)

    def _plan_cleaning(self) -> tuple[int, int]:
        """When a quarter of the entries will have expired, by a sample, and when all will have. As entries are sorted
        by hash, every n-th one is as good a sample as any."""
        expires_us = self.entries.expires_us
        if expires_us is None:
            return EVENT_TIME_MAX_US, EVENT_TIME_MAX_US
        last_us = int(expires_us.max())
        if len(self) <= SMALL_ENTRIES:
            return last_us, last_us
        sample = expires_us[:: len(self) // EXPIRY_SAMPLES]
        quarter = len(sample) // 4
        return int(np.partition(sample, quarter)[quarter]), last_us

    def _without_expired(self, watermark_us: int) -> Run:
        assert self.entries.expires_us is not None
        entries = self.entries.take(self.entries.expires_us > watermark_us)
        kept = np.zeros(self.rows.num_rows, dtype=np.bool_)
        kept[entries.positions] = True
        moved = np.cumsum(kept) - 1
        rows = self.rows.take(pa.array(np.flatnonzero(kept)))
        return Run(rows, Entries(entries.hashes, moved[entries.positions], entries.marks, entries.expires_us))


class RowBuffer(State):
    """The rows of one side of a join. Neither combinable nor ordered by anything but arrival."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._runs: list[Run] = []
        self._numbered = 0

    def fresh(self) -> RowBuffer:
        return RowBuffer(self._indexer)

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        """The rows as this side reads them; nothing is stored."""
        return self._indexer.index(rows, watermark_us)

    @property
    def num_rows(self) -> int:
        """Rows held, with those that have expired and were not cleaned yet."""
        return sum(run.rows.num_rows for run in self._runs)

    def add(self, rows: pa.RecordBatch, entries: Entries) -> None:
        if len(entries):
            self._push(Run(rows, entries))

    def clear(self) -> None:
        self._runs = []

    def search(self, probe: Entries, pairs_max: int) -> Iterator[Match]:
        """All pairs of a probe and a stored entry with equal hashes, at most `pairs_max` at a time."""
        for run in self._runs:
            hashes = run.entries.hashes
            first = hashes.searchsorted(probe.hashes)
            first[first == len(hashes)] = 0
            (found,) = (hashes[first] == probe.hashes).nonzero()
            if not len(found):
                continue
            first = first[found]
            counts = hashes.searchsorted(probe.hashes[found], side="right") - first
            for at, stored in expand_ranges(first, counts, pairs_max):
                yield Match(found[at], stored, run.entries, run.rows)

    def advance(self, watermark_us: int) -> None:
        """Clean up after the watermark, where it is worth it."""
        before = self._runs
        after = [run.cleaned(watermark_us) for run in before]
        if after == before:
            return
        self._runs = []
        for run in after:
            if run is not None:
                self._push(run)

    def export(self) -> pa.Table:
        """The rows in order of arrival; the index is made anew by `restore`."""
        return pa.Table.from_batches([run.rows for run in self._runs], schema=self._indexer.schema)

    def restore(self, content: pa.Table) -> None:
        self.clear()
        for rows in content.combine_chunks().to_batches():
            indexed = self._indexer.index(rows, EVENT_TIME_MIN_US)
            self.add(indexed.rows, indexed.entries)

    def fragments(self) -> list[Fragment]:
        """Each run is one; it never changes, so it is written once."""
        for run in self._runs:
            if run.number is None:
                self._numbered += 1
                run.number = self._numbered
        schema = self._indexer.schema
        return [Fragment(run.number or 0, pa.Table.from_batches([run.rows], schema)) for run in self._runs]

    def rebuild(self, fragments: list[Fragment]) -> None:
        self.clear()
        for fragment in fragments:
            assert isinstance(fragment.content, pa.Table)
            (rows,) = fragment.content.combine_chunks().to_batches()
            indexed = self._indexer.index(rows, EVENT_TIME_MIN_US)
            if len(indexed.entries):
                run = Run(indexed.rows, indexed.entries)
                run.number = fragment.number
                self._runs.append(run)
        self._numbered = max((fragment.number for fragment in fragments), default=0)

    def describe(self) -> dict[str, Any]:
        schema = self._indexer.schema
        return {"kind": "rows", "keys": list(self._indexer.keys), "types": schema.serialize().to_pybytes()}

    @property
    def layout(self) -> str:
        return "rows of " + ", ".join(f"{field.name} {field.type}" for field in self._indexer.schema)

    def keep(self, part: KeyedPart) -> None:
        runs, self._runs = self._runs, []
        for run in runs:
            mine = part.mine(dict(zip(run.rows.schema.names, run.rows.columns, strict=True)))
            indexed = self._indexer.index(run.rows.filter(pa.array(mine)), EVENT_TIME_MIN_US)
            self.add(indexed.rows, indexed.entries)

    def take_in(self, other: RowBuffer) -> None:
        for run in other._runs:
            self.add(run.rows, run.entries)

    def _push(self, run: Run) -> None:
        start, size = len(self._runs), len(run)
        while start:
            older = len(self._runs[start - 1])
            if older + size > (RUN_ENTRIES_MAX if older < RUN_SHRINK * size else SMALL_ENTRIES):
                break
            start -= 1
            size += older
        self._runs[start:] = [_merged([*self._runs[start:], run])]


def sort_entries(
    hashes: Hashes,
    marks: tuple[Integers, ...] = (),
    expires_us: Integers | None = None,
    positions: Integers | None = None,
) -> Entries:
    """Entries by hash; without `positions`, the i-th entry is of the i-th row."""
    order = stable_order(hashes)
    return Entries(
        hashes[order],
        order if positions is None else positions[order],
        tuple(mark[order] for mark in marks),
        None if expires_us is None else expires_us[order],
    )


def stable_order(hashes: Hashes) -> Integers:
    """As a stable argsort, but for large arrays by the fast unstable one and then a sort of places among equals."""
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
    """The ranges first[i] .. first[i] + counts[i], written out as pairs (i, place), at most `limit` pairs at a time."""
    ends = counts.cumsum()
    total = int(ends[-1])
    if total == len(counts):
        # One match each, the common case of a join with a dimension.
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


def _merged(runs: list[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    starts = np.cumsum([0, *(run.rows.num_rows for run in runs[:-1])])
    all_entries = [run.entries for run in runs]
    hashes = np.concatenate([entries.hashes for entries in all_entries])
    # Timsort finds the sorted runs and merges them, in time linear in the entries.
    order = np.argsort(hashes, kind="stable")
    marks = zip(*(entries.marks for entries in all_entries), strict=True)
    expires_us = [entries.expires_us for entries in all_entries if entries.expires_us is not None]
    return Run(
        pa.concat_batches([run.rows for run in runs]),
        Entries(
            hashes[order],
            np.concatenate([e.positions + start for e, start in zip(all_entries, starts, strict=True)])[order],
            tuple(np.concatenate(mark)[order] for mark in marks),
            np.concatenate(expires_us)[order] if expires_us else None,
        ),
    )
