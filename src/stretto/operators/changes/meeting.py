"""Rows of two sides that have equal keys: which of them are pairs, and how many matches each row has.

Rows are in groups of equal keys, and a group of one side has at most one partner on the other. So without a residual
condition the matches of a row are counted by adding up weights of groups, without a look at any pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import has_codes, hash_rows
from stretto.operators.aggregation import decoded
from stretto.operators.changes.weights import summed, weights_of
from stretto.operators.grouping import Groups, Int64s, group
from stretto.operators.join_base import PAIRS_MAX, RowFilter
from stretto.operators.join_keys import equal_values
from stretto.operators.row_buffer import expand_ranges

Places = npt.NDArray[np.intp]


class KeyedRows:
    """Rows with weights and without a null key, in groups of equal keys."""

    def __init__(self, rows: pa.RecordBatch, keys: Sequence[int]) -> None:
        self.rows = rows
        self.weights = weights_of(rows)
        self._columns = [decoded(rows.column(key)) for key in keys]
        self.groups: Groups = group(self._columns, rows.num_rows)

    def keys(self) -> list[pa.Array]:
        """Returns the keys of each group."""
        return [column.take(pa.array(self.groups.sample)) for column in self._columns]


class Meeting:
    """The rows of one side beside those of the other. `pair` makes rows of pairs, given as many rows of each side."""

    def __init__(
        self,
        mine: KeyedRows,
        theirs: KeyedRows,
        pair: Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch],
        residual: RowFilter | None,
    ) -> None:
        self._mine = mine
        self._theirs = theirs
        self._pair = pair
        self._residual = residual
        self._partner = _partners(mine, theirs)

    def joined(self, send: Callable[[pa.RecordBatch, Int64s], None] | None) -> tuple[Int64s, Int64s]:
        """Sends the pairs with their weights, if somebody wants them. Returns the total weight of the matches of each
        of my rows, and of each of theirs."""
        if self._residual is None:
            if send is not None:
                for at, found in self._pairs():
                    send(self._rows(at, found), self._mine.weights[at] * self._theirs.weights[found])
            return self._totals()
        of_mine = np.zeros(len(self._mine.weights), np.int64)
        of_theirs = np.zeros(len(self._theirs.weights), np.int64)
        for at, found in self._pairs():
            rows = self._rows(at, found)
            mask = self._residual.mask(rows)
            at, found = at[mask], found[mask]
            np.add.at(of_mine, at, self._theirs.weights[found])
            np.add.at(of_theirs, found, self._mine.weights[at])
            if send is not None:
                send(rows.filter(pa.array(mask)), self._mine.weights[at] * self._theirs.weights[found])
        return of_mine, of_theirs

    def _totals(self) -> tuple[Int64s, Int64s]:
        """Returns the total weight of the rows with the keys of each row."""
        mine, theirs = self._mine.groups, self._theirs.groups
        beside_mine = np.append(summed(theirs, self._theirs.weights), 0)[self._partner]  # -1 finds the 0.
        beside_theirs = np.zeros(theirs.count, np.int64)
        known = self._partner >= 0
        beside_theirs[self._partner[known]] = summed(mine, self._mine.weights)[known]
        return beside_mine[mine.index], beside_theirs[theirs.index]

    def _pairs(self) -> Iterator[tuple[Places, Places]]:
        """Yields the places of all pairs with equal keys, at most `PAIRS_MAX` at a time."""
        theirs = self._theirs.groups
        partners = self._partner[self._mine.groups.index]
        (mine,) = np.nonzero(partners >= 0)
        if len(mine):
            partners = partners[mine]
            for at, places in expand_ranges(theirs.starts[partners], theirs.sizes[partners], PAIRS_MAX):
                yield mine[at], theirs.order[places]

    def _rows(self, at: Places, found: Places) -> pa.RecordBatch:
        return self._pair(self._mine.rows.take(pa.array(at)), self._theirs.rows.take(pa.array(found)))


def _partners(mine: KeyedRows, theirs: KeyedRows) -> Places:
    """Returns for each of my groups their group with equal keys, or -1. The types of both may differ."""
    partner = np.full(mine.groups.count, -1, np.intp)
    if not mine.groups.count or not theirs.groups.count:
        return partner
    ours, others = mine.keys(), theirs.keys()
    hashes = hash_rows(others)
    order = np.argsort(hashes, kind="stable")
    hashes, wanted = hashes[order], hash_rows(ours)
    first = hashes.searchsorted(wanted)
    counts = hashes.searchsorted(wanted, side="right") - first
    (some,) = counts.nonzero()
    if not len(some):
        return partner
    for at, places in expand_ranges(first[some], counts[some], PAIRS_MAX):
        one, other = some[at], order[places]
        same = np.ones(len(at), np.bool_)
        for left, right in zip(ours, others, strict=True):
            coded = has_codes(left.type) and has_codes(right.type)
            same &= equal_values(left.take(pa.array(one)), right.take(pa.array(other)), coded)
        partner[one[same]] = other[same]
    return partner
