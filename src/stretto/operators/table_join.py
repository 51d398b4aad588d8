"""The join of a stream with a table that does not change: a stateless step with an index of the table.

Rows leave in the order in which they came, those of the table that match one row in the order of the table. Nothing is
remembered of the stream, so event time, order and the meaning of updates stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stretto.actors.partitioning import has_codes, hash_rows, null_mask
from stretto.operators.changes.weights import weighted, weighted_schema, weights_of
from stretto.operators.join_base import PAIRS_MAX, RowFilter
from stretto.operators.join_keys import equal_values
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_sides import all_of
from stretto.operators.row_blocks import Entries, Integers, Mask, sort_entries
from stretto.operators.row_buffer import RowBuffer


class KeyExpression(Protocol):
    """A compiled expression: one value per row."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array: ...


class TableJoin:
    """A transform. `pair` has the stream's columns, then the table's; semi and anti joins send the stream's alone."""

    def __init__(
        self,
        table: pa.Table,
        keys: Sequence[tuple[KeyExpression, KeyExpression]],
        pair: pa.Schema,
        residual: RowFilter | None,
        how: JoinKind,
    ) -> None:
        self.table = table
        self.keys = tuple(keys)
        self.pair = pair
        self.residual = residual
        self.how = how

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def __deepcopy__(self, memo: Any) -> TableJoin:
        return self  # It never changes; all instances on a worker share the index.

    def over(self, table: pa.Table) -> TableJoin:
        """Returns the same join with another table of the same columns."""
        return TableJoin(table, self.keys, self.pair, self.residual, self.how)

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [rows for rows, _ in self.joined(batch)]

    def joined(self, batch: pa.RecordBatch) -> list[tuple[pa.RecordBatch, Integers]]:
        """Returns the rows to send, and for each of them the row of the batch that it was made of."""
        at, found = self._matches(batch)
        if not self.how.sends_pairs:
            matched = np.zeros(batch.num_rows, dtype=np.bool_)
            matched[at] = True
            places = np.flatnonzero(matched if self.how is JoinKind.SEMI else ~matched)
            return [(batch if len(places) == batch.num_rows else batch.take(pa.array(places)), places)]
        if self.how is JoinKind.LEFT:
            at, found = _with_unmatched(at, found, batch.num_rows)
        pieces = [slice(begin, begin + PAIRS_MAX) for begin in range(0, len(at), PAIRS_MAX)]
        return [(self._pairs(batch, at[piece], found[piece]), at[piece]) for piece in pieces]

    def _matches(self, batch: pa.RecordBatch) -> tuple[Integers, Integers]:
        """Returns all pairs that match: places in the batch, in their order, and places in the table."""
        _, keys, index = self._index
        mine = [key.evaluate(batch) for key, _ in self.keys]
        valid = np.flatnonzero(_valid(mine, batch.num_rows))
        probe = Entries(hash_rows(mine)[valid], valid)
        ats, founds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for match in index.search(probe, PAIRS_MAX):
            at, found = valid[match.probe], match.block.entries.positions[match.stored]
            mask = self._equal_keys(mine, keys, at, found)
            if mask is not None:
                at, found = at[mask], found[mask]
            if self.residual is not None and len(at):
                mask = self.residual.mask(self._pairs(batch, at, found))
                at, found = at[mask], found[mask]
            ats.append(at)
            founds.append(found)
        return np.concatenate(ats), np.concatenate(founds)

    def _equal_keys(self, mine: list[pa.Array], keys: list[pa.Array], at: Integers, found: Integers) -> Mask | None:
        """Returns which pairs have equal keys; None if equal hashes mean equal keys."""
        coded = [has_codes(one.type) and has_codes(other.type) for one, other in zip(mine, keys, strict=True)]
        if coded == [True]:
            return None
        mask: Mask | None = None
        for one, other, words in zip(mine, keys, coded, strict=True):
            mask = all_of(mask, equal_values(one.take(pa.array(at)), other.take(pa.array(found)), words))
        return mask

    def _pairs(self, batch: pa.RecordBatch, at: Integers, found: Integers) -> pa.RecordBatch:
        rows = self._index[0]
        own = batch if len(at) == batch.num_rows and (at == np.arange(len(at))).all() else batch.take(pa.array(at))
        theirs = rows.take(pa.array(found, mask=found < 0))
        return pa.RecordBatch.from_arrays([*own.columns, *theirs.columns], schema=self.pair)

    @cached_property
    def _index(self) -> tuple[pa.RecordBatch, list[pa.Array], RowBuffer]:
        """The table as one batch, its keys, and the index of rows without a null key."""
        batches = self.table.combine_chunks().to_batches()
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.table.schema)
        keys = [key.evaluate(rows) for _, key in self.keys]
        places = np.flatnonzero(_valid(keys, rows.num_rows))
        index = RowBuffer(_Unindexed())
        index.add(rows, sort_entries(hash_rows(keys)[places], positions=places))
        return rows, keys, index


class WeightedTableJoin:
    """A transform of rows with weights: each row that is made of one has its weight."""

    def __init__(self, join: TableJoin, schema: pa.Schema) -> None:
        self.join = join
        self._schema = weighted_schema(schema)

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        weights = weights_of(batch)
        plain = batch.select(list(range(batch.num_columns - 1)))
        return [weighted(rows.columns, weights[at], self._schema) for rows, at in self.join.joined(plain)]


class _Unindexed:
    """The table's index is built once, and never from stored rows."""

    schema = pa.schema([])
    keys: tuple[str, ...] = ()
    lanes = 1

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Any:
        raise NotImplementedError

    def lanes_of(self, rows: pa.RecordBatch, entries: Entries) -> Integers:
        raise NotImplementedError


def _valid(keys: list[pa.Array], size: int) -> Mask:
    valid = np.ones(size, dtype=np.bool_)
    for key in keys:
        if key.null_count:
            valid &= ~null_mask(key)
    return valid


def _with_unmatched(at: Integers, found: Integers, size: int) -> tuple[Integers, Integers]:
    """Returns the pairs and, in their places, the rows without a match, paired with -1."""
    alone = np.ones(size, dtype=np.bool_)
    alone[at] = False
    if not alone.any():
        return at, found
    rest = np.flatnonzero(alone)
    at, found = np.concatenate([at, rest]), np.concatenate([found, np.full(len(rest), -1, np.int64)])
    order = np.argsort(at, kind="stable")
    return at[order], found[order]
