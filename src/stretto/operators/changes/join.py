"""Joins whose results change: of rows that change, or unbounded in time with rows that are sent without a match.

The result of a join is a function of the rows of both sides, so a batch of changes on one side changes it by what the
rows of the batch make of the other side's rows (DBSP 3.2, 4.2): pairs have the product of the weights of their rows. A
row without a match is in the result as long as the weights of its matches add up to nothing; it is removed when a match
comes, and comes back when the last one goes.

The state has all rows of both sides. A batch costs what it has, the pairs that it makes, and the rows of its keys where
matches are counted. With a residual condition, counting takes all pairs of the rows of a key that a change concerns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.actors.partitioning import hash_columns
from stretto.operators.changes.meeting import KeyedRows, Meeting
from stretto.operators.changes.multiset import Multiset
from stretto.operators.changes.weights import weighted, weighted_schema, weights_of
from stretto.operators.grouping import Int64s
from stretto.operators.join_base import PAIRS_MAX, Matching, checked_pair, without_right
from stretto.operators.join_keys import LEFT, RIGHT, compared_key, side_keys
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_sides import without_nulls


class ChangingJoin(Function):
    """Every pair of rows with equal keys, and rows without a match, with weights.

    `weighted_inputs` says which inputs have weights; rows of the others are only ever added."""

    order_matters = False

    def __init__(
        self, left: pa.Schema, right: pa.Schema, matching: Matching, weighted_inputs: tuple[bool, bool] = (True, True)
    ) -> None:
        self._how = matching.how
        self._residual = matching.residual
        compared = [compared_key(left, right, pair) for pair in matching.on]
        self._key_places = [key[0] for key in compared], [key[1] for key in compared]
        self._key_names = side_keys(matching.on, LEFT), side_keys(matching.on, RIGHT)
        self._weighted_inputs = weighted_inputs
        self._tracked = matching.how.tracks_left, matching.how.tracks_right
        self._widths = len(left) - matching.hidden[0], len(right) - matching.hidden[1]
        self._pair = checked_pair(left, right, self._widths, matching.pair, 0)
        out = self._pair if matching.how.sends_pairs else without_right(self._pair, self._widths)
        self.schema = weighted_schema(out)
        self.left = Multiset(left, self._key_names[0])
        self.right = Multiset(right, self._key_names[1])

    def input_of(self, state: str) -> str:
        return state

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        side = 0 if ctx.input == LEFT else 1
        mine, theirs = (self.left, self.right) if side == 0 else (self.right, self.left)
        rows = batch
        if not self._weighted_inputs[side]:
            rows = weighted(batch.columns, np.ones(batch.num_rows, np.int64), mine.schema)
        results = _Results(self.schema, ctx)
        rows = self._matchable(rows, side, results)
        if rows.num_rows:
            self._join(rows, mine, theirs, side, results)
            mine.put(rows)
        results.send()

    def _matchable(self, rows: pa.RecordBatch, side: int, results: _Results) -> pa.RecordBatch:
        """Returns the rows without a null key. The others never have a match."""
        valid = without_nulls(rows, self._key_names[side])
        if valid is None:
            return rows
        if self._tracked[side] and self._how is not JoinKind.SEMI:
            lonely = rows.filter(pa.array(~valid))
            self._alone(lonely, weights_of(lonely), side, results)
        return rows.filter(pa.array(valid))

    def _join(self, rows: pa.RecordBatch, mine: Multiset, theirs: Multiset, side: int, results: _Results) -> None:
        """Adds what changed rows of one side make of the other side's rows."""
        hashes = np.unique(hash_columns(rows, self._key_names[side]))
        others = theirs.of_hashes(hashes)
        meeting = self._meeting(rows, others, side)
        if not any(self._tracked):
            meeting.joined(results.add)
            return
        of_mine, of_others = meeting.joined(results.add if self._how.sends_pairs else None)
        if self._tracked[side]:
            wanted = np.flatnonzero((of_mine > 0) == (self._how is JoinKind.SEMI))
            self._alone(rows.take(pa.array(wanted)), weights_of(rows)[wanted], side, results)
        (touched,) = np.nonzero(of_others)
        if self._tracked[1 - side] and len(touched):
            others = others.take(pa.array(touched))
            _, before = self._meeting(mine.of_hashes(hashes), others, side).joined(None)
            self._turn(others, before, before + of_others[touched], 1 - side, results)

    def _turn(self, rows: pa.RecordBatch, before: Int64s, after: Int64s, side: int, results: _Results) -> None:
        """Adds the stored rows of a side that have no match any more, and removes those that had none; in a semi join
        the other way round."""
        sign = (after > 0).astype(np.int64) - (before > 0)
        if self._how is not JoinKind.SEMI:
            sign = -sign
        (turned,) = sign.nonzero()
        self._alone(rows.take(pa.array(turned)), (sign * weights_of(rows))[turned], side, results)

    def _meeting(self, mine: pa.RecordBatch, theirs: pa.RecordBatch, side: int) -> Meeting:
        def pair(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
            left, right = (one, other) if side == 0 else (other, one)
            columns = [*left.columns[: self._widths[0]], *right.columns[: self._widths[1]]]
            return pa.RecordBatch.from_arrays(columns, schema=self._pair)

        keyed = KeyedRows(mine, self._key_places[side]), KeyedRows(theirs, self._key_places[1 - side])
        return Meeting(*keyed, pair, self._residual)

    def _alone(self, rows: pa.RecordBatch, weights: Int64s, side: int, results: _Results) -> None:
        """Adds rows of one side without a partner: with nulls, or in semi and anti joins by themselves."""
        if not rows.num_rows:
            return
        columns = rows.columns[: self._widths[side]]
        if self._how.sends_pairs:
            width = self._widths[0]
            others = self._pair.types[width:] if side == 0 else self._pair.types[:width]
            nulls = [pa.nulls(rows.num_rows, kind) for kind in others]
            columns = [*columns, *nulls] if side == 0 else [*nulls, *columns]
        results.add(pa.RecordBatch.from_arrays(columns, schema=self.schema.remove(len(columns))), weights)


class _Results:
    """Rows to send, in batches of about `PAIRS_MAX` at most."""

    def __init__(self, schema: pa.Schema, ctx: Context) -> None:
        self._schema = schema
        self._ctx = ctx
        self._parts: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, rows: pa.RecordBatch, weights: Int64s) -> None:
        if self._size + rows.num_rows > PAIRS_MAX:
            self.send()
        if rows.num_rows:
            self._parts.append(weighted(rows.columns, weights, self._schema))
            self._size += rows.num_rows

    def send(self) -> None:
        if self._parts:
            self._ctx.send(self._parts[0] if len(self._parts) == 1 else pa.concat_batches(self._parts))
        self._parts, self._size = [], 0
