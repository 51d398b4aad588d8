"""The join of a stream with a table that does not change: a stateless step with an index of the table.

Rows leave in the order in which they came, those of the table that match one row in the order of the table. Nothing is
remembered of the stream, so event time, order and the meaning of updates stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.partitioning import has_codes
from stretto.operators.changes.weights import weighted, weighted_schema, weights_of
from stretto.operators.join_base import PAIRS_MAX, RowFilter
from stretto.operators.join_keys import equal_values
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_sides import all_of
from stretto.operators.row_blocks import Entries, Integers, Mask
from stretto.operators.row_buffer import RowBuffer
from stretto.operators.stateless import StatelessFunction
from stretto.operators.table_index import KeyExpression, Piece, hashed, pieces_of, valid


class TableJoin:
    """A transform. `pair` has the stream's columns, then the table's; semi and anti joins send the stream's alone."""

    def __init__(
        self,
        table: pa.Table,
        keys: Sequence[tuple[KeyExpression, KeyExpression]],
        pair: pa.Schema,
        residual: RowFilter | None,
        how: JoinKind,
        sorted_rows: bool = False,
    ) -> None:
        self.table = table
        self.keys = tuple(keys)
        self.pair = pair
        self.residual = residual
        self.how = how
        self.sorted_rows = sorted_rows

    def __getstate__(self) -> dict[str, Any]:
        """Returns the join with its index, which is in Arrow files then, as the rows are; see `table_index.py`."""
        pieces = self.__dict__.get("_pieces") or pieces_of(self.table, [key for _, key in self.keys], self.sorted_rows)
        kept = {name: value for name, value in self.__dict__.items() if name != "_buffers"}
        return {**kept, "table": self.table.schema.empty_table(), "_pieces": pieces}

    def __deepcopy__(self, memo: Any) -> TableJoin:
        return self  # It never changes; all instances on a worker share the index.

    def over(self, table: pa.Table) -> TableJoin:
        """Returns the same join with another table of the same columns."""
        return TableJoin(table, self.keys, self.pair, self.residual, self.how, self.sorted_rows)

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
        mine = [key.evaluate(batch) for key, _ in self.keys]
        present = np.flatnonzero(valid(mine, batch.num_rows))
        probe = Entries(hashed(mine)[present], present)
        ats, founds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for piece, buffer in zip(self._pieces, self._buffers, strict=True):
            for match in buffer.search(probe, PAIRS_MAX):
                at, places = present[match.probe], match.block.entries.positions[match.stored]
                mask = self._equal_keys(mine, piece, at, places)
                if mask is not None:
                    at, places = at[mask], places[mask]
                found = places + piece.start if piece.start else places
                if self.residual is not None and len(at):
                    mask = self.residual.mask(self._pairs(batch, at, found))
                    at, found = at[mask], found[mask]
                ats.append(at)
                founds.append(found)
        at, found = np.concatenate(ats), np.concatenate(founds)
        if len(self._pieces) == 1:
            return at, found
        order = np.argsort(at, kind="stable")
        return at[order], found[order]

    def _equal_keys(self, mine: list[pa.Array], piece: Piece, at: Integers, places: Integers) -> Mask | None:
        """Returns which pairs have equal keys; None if equal hashes mean equal keys."""
        if self._coded == [True]:
            return None
        mask: Mask | None = None
        theirs = piece.keys([key for _, key in self.keys], places)
        for one, other, coded in zip(mine, theirs, self._coded, strict=True):
            mask = all_of(mask, equal_values(one.take(pa.array(at)), other, coded))
        return mask

    def _pairs(self, batch: pa.RecordBatch, at: Integers, found: Integers) -> pa.RecordBatch:
        own = batch if len(at) == batch.num_rows and (at == np.arange(len(at))).all() else batch.take(pa.array(at))
        return pa.RecordBatch.from_arrays([*own.columns, *self._rows(found).columns], schema=self.pair)

    def _rows(self, found: Integers) -> pa.RecordBatch:
        """Returns the rows at some places of the table; those at -1 are NULL."""
        if len(self._pieces) == 1:
            return self._pieces[0].rows.take(pa.array(found, mask=found < 0))
        starts = np.array([piece.start for piece in self._pieces])
        of = np.maximum(np.searchsorted(starts, found, side="right") - 1, 0)
        order = np.argsort(of, kind="stable")
        parts = []
        for number, piece in enumerate(self._pieces):
            places = found[of == number]
            parts.append(piece.rows.take(pa.array(places - piece.start, mask=places < 0)))
        back = np.empty(len(found), np.int64)
        back[order] = np.arange(len(found))
        return pa.concat_batches(parts).take(pa.array(back))

    @cached_property
    def _coded(self) -> list[bool]:
        """Which keys are equal if their hashes are."""
        return [has_codes(one.type) and has_codes(other.type) for one, other in self.keys]

    @cached_property
    def _pieces(self) -> list[Piece]:
        return pieces_of(self.table, [key for _, key in self.keys], self.sorted_rows)

    @cached_property
    def _buffers(self) -> list[RowBuffer]:
        return [piece.buffer() for piece in self._pieces]


class PartitionedTableJoin(StatelessFunction):
    """The join of a stream with a table in partitions by the key. The stream's last columns are its keys, if they are
    computed; they are `hidden`. A worker reads the rows of its own partitions only, since they are sorted by them."""

    def __init__(self, join: TableJoin, hidden: int) -> None:
        super().__init__(join)
        self._hidden = hidden

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        super().process(batch.select(list(range(batch.num_columns - self._hidden))), ctx)

    @property
    def inelastic_because(self) -> str | None:
        return "each partition has its part of a table"


class WeightedTableJoin:
    """A transform of rows with weights: each row that is made of one has its weight."""

    def __init__(self, join: TableJoin, schema: pa.Schema) -> None:
        self.join = join
        self._schema = weighted_schema(schema)

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        weights = weights_of(batch)
        plain = batch.select(list(range(batch.num_columns - 1)))
        return [weighted(rows.columns, weights[at], self._schema) for rows, at in self.join.joined(plain)]


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
