"""The common part of all joins: match each batch with the rows of the other side, send the pairs, keep the batch.

A pair is final, so any kind of join sends it as soon as both rows have arrived. A row without a match is sent with
nulls once the watermark has passed all rows that it could match. The kinds of time differ in which pairs match and in
when a row can be dropped; the kinds of join (`join_kinds.py`) in what is sent. No code here runs once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.errors import InvariantError
from stretto.operators.join_keys import LEFT, RIGHT, On, compared_key, equal_values
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_sides import all_of, rows_where
from stretto.operators.row_blocks import Block, Entries, Integers, Mask
from stretto.operators.row_buffer import Indexed, Indexer, Match, RowBuffer

PAIRS_MAX = 65_536
"""The limit of rows in one batch of output; a key with many rows on both sides makes many batches."""


class RowFilter(Protocol):
    """A compiled predicate: for which rows of a batch it is true."""

    def mask(self, batch: pa.RecordBatch) -> Any: ...


@dataclass(frozen=True)
class Matching:
    """Which pairs of rows a join matches, and what it makes of them.

    `pair` names the columns of a pair: left's, right's, and then those of the window, if the join assigns windows.
    `hidden` is the number of columns at the end of each input that are only keys and belong to no pair. The residual is
    over the columns of a pair."""

    on: On
    pair: pa.Schema
    residual: RowFilter | None = None
    how: JoinKind = JoinKind.INNER
    hidden: tuple[int, int] = (0, 0)


class Join(Function):
    """The base of a join of the inputs `left` and `right`.

    The columns out are those of a pair; for semi and anti joins, without right's."""

    order_matters = False

    def __init__(self, left: Indexer, right: Indexer, matching: Matching, appended: int = 0) -> None:
        self._how = how = matching.how
        self._keys = [compared_key(left.schema, right.schema, pair) for pair in matching.on]
        self._widths = len(left.schema) - matching.hidden[0], len(right.schema) - matching.hidden[1]
        self._pair = checked_pair(left.schema, right.schema, self._widths, matching.pair, appended)
        self.schema = self._pair if how.sends_pairs else without_right(self._pair, self._widths)
        self._residual = matching.residual
        self.left = RowBuffer(left, how.tracks_left, drops_settled=not how.sends_pairs)
        self.right = RowBuffer(right, how.tracks_right)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        mine, theirs = self._sides(ctx)
        indexed = mine.index(batch, ctx.watermark_us)
        if indexed.late_rows:
            ctx.count("late_rows", indexed.late_rows)
        if indexed.lonely is not None and self._how.is_outer:
            lonely = indexed.lonely
            self._send_alone(lonely.rows, lonely.entries, np.arange(len(lonely.entries)), ctx.input == LEFT, ctx)
        if len(indexed.entries):
            self._arrived(indexed, mine, theirs, ctx)

    def _arrived(self, indexed: Indexed, mine: RowBuffer, theirs: RowBuffer, ctx: Context) -> None:
        """Sends the matches of rows that have arrived, and stores them."""
        matched = np.zeros(len(indexed.entries), dtype=np.bool_) if mine.tracked else None
        self._send_matches(indexed, theirs, matched, ctx)
        if matched is not None and self._how is JoinKind.SEMI:
            self._send_alone(indexed.rows, indexed.entries, np.flatnonzero(matched), True, ctx)
        mine.add(indexed.rows, indexed.entries, matched)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if self._how.is_outer:
            self._send_unmatched(ctx, lambda side: side.settle_due(watermark_us))
        self.left.advance(watermark_us)
        self.right.advance(watermark_us)

    def on_end(self, ctx: Context) -> None:
        if self._how.is_outer:
            self._send_unmatched(ctx, RowBuffer.settle_all)
        self.left.clear()
        self.right.clear()

    def input_of(self, state: str) -> str:
        return state

    def _pairs_match(self, probe: Entries, match: Match, from_left: bool) -> Mask | None:
        """Returns which pairs of entries match by their marks; None if all do."""
        return None

    def _appended(self, entries: Entries, places: Integers) -> list[pa.Array]:
        """Returns the columns after left's and right's, given one entry of each row that is sent."""
        return []

    def _sides(self, ctx: Context) -> tuple[RowBuffer, RowBuffer]:
        if ctx.input == LEFT:
            return self.left, self.right
        if ctx.input == RIGHT:
            return self.right, self.left
        raise InvariantError("a join got a batch on an input that it does not have", f"'{ctx.input}'")

    def _send_matches(self, indexed: Indexed, theirs: RowBuffer, matched: Mask | None, ctx: Context) -> None:
        probe, from_left = indexed.entries, ctx.input == LEFT
        found: list[_Found] = []
        waiting = 0
        for match in theirs.search(probe, PAIRS_MAX):
            at, stored = match.probe, match.stored
            mask = self._pairs_match(probe, match, from_left)
            if not self._how.sends_pairs and match.block.settled is not None:
                mask = all_of(mask, ~match.block.settled[stored])
            if mask is not None and not mask.all():
                at, stored = at[mask], stored[mask]
            if not len(at):
                continue
            if waiting + len(at) > PAIRS_MAX:
                self._take_pairs(indexed, found, matched, ctx)
                found, waiting = [], 0
            found.append(_Found(at, match.block, stored))
            waiting += len(at)
        if waiting:
            self._take_pairs(indexed, found, matched, ctx)

    def _take_pairs(self, indexed: Indexed, found: list[_Found], matched: Mask | None, ctx: Context) -> None:
        """Sends the pairs whose keys are equal and that pass the residual, and settles their entries."""
        at = found[0].at if len(found) == 1 else np.concatenate([part.at for part in found])
        rows = [part.block.rows.take(pa.array(part.block.entries.positions[part.stored])) for part in found]
        theirs = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
        mine = indexed.rows.take(pa.array(indexed.entries.positions[at]))
        left, right = (mine, theirs) if ctx.input == LEFT else (theirs, mine)
        mask = self._equal_keys(left, right)
        if mask is not None and not mask.all():
            left, right, at, found = rows_where(left, mask), rows_where(right, mask), at[mask], _narrowed(found, mask)
        if self._how.sends_pairs or self._residual is not None:
            batch = self._pairs(left, right, self._appended(indexed.entries, at))
            if self._residual is not None:
                mask = self._residual.mask(batch)
                if not mask.all():
                    batch, at, found = rows_where(batch, mask), at[mask], _narrowed(found, mask)
            if self._how.sends_pairs:
                ctx.send(batch)
        if matched is not None:
            matched[at] = True
        for part in found:
            if part.block.settled is not None:
                self._settle(part.block, part.stored, ctx)

    def _settle(self, block: Block, places: Integers, ctx: Context) -> None:
        assert block.settled is not None
        if self._how is JoinKind.SEMI:
            first = np.unique(places[~block.settled[places]])
            self._send_alone(block.rows, block.entries, first, True, ctx)
        block.settle(places)

    def _send_unmatched(self, ctx: Context, settle: Callable[[RowBuffer], Iterable[tuple[Block, Integers]]]) -> None:
        for side, is_left in ((self.left, True), (self.right, False)):
            if side.tracked:
                for block, places in settle(side):
                    self._send_alone(block.rows, block.entries, places, is_left, ctx)

    def _send_alone(
        self, rows: pa.RecordBatch, entries: Entries, places: Integers, is_left: bool, ctx: Context
    ) -> None:
        """Sends rows of one side without a partner: with nulls, or in semi and anti joins by themselves."""
        for begin in range(0, len(places), PAIRS_MAX):
            some = places[begin : begin + PAIRS_MAX]
            own = rows.take(pa.array(entries.positions[some])).columns[: self._widths[0 if is_left else 1]]
            if self._how.sends_pairs:
                width = self._widths[0]
                others = self._pair.types[width : sum(self._widths)] if is_left else self._pair.types[:width]
                nulls = [pa.nulls(len(some), kind) for kind in others]
                own = [*own, *nulls] if is_left else [*nulls, *own]
            columns = [*own, *self._appended(entries, some)]
            ctx.send(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _pairs(self, left: pa.RecordBatch, right: pa.RecordBatch, appended: list[pa.Array]) -> pa.RecordBatch:
        columns = [*left.columns[: self._widths[0]], *right.columns[: self._widths[1]], *appended]
        return pa.RecordBatch.from_arrays(columns, schema=self._pair)

    def _equal_keys(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Mask | None:
        """Returns which pairs have equal keys, and not just equal hashes. None if there is no need to look: a hash of
        one 64-bit word has no collisions."""
        if not self._keys or (len(self._keys) == 1 and self._hash_is_of_key_alone() and self._keys[0][2]):
            return None
        mask: Mask | None = None
        for one, other, coded in self._keys:
            mask = all_of(mask, equal_values(left.column(one), right.column(other), coded))
        return mask

    def _hash_is_of_key_alone(self) -> bool:
        """Whether the entries' hashes are of the keys and nothing else."""
        return True


@dataclass(frozen=True, slots=True)
class _Found:
    """Pairs of entries of the arriving batch and of one block."""

    at: Integers
    block: Block
    stored: Integers


def _narrowed(found: list[_Found], mask: Mask) -> list[_Found]:
    """Returns the pairs for which a mask over all of them is true."""
    ends = np.cumsum([len(part.at) for part in found])[:-1]
    masks = np.split(mask, ends)
    return [_Found(p.at[m], p.block, p.stored[m]) for p, m in zip(found, masks, strict=True)]


def checked_pair(
    left: pa.Schema, right: pa.Schema, widths: tuple[int, int], pair: pa.Schema, appended: int
) -> pa.Schema:
    """Returns the columns of a pair, which must be those of both inputs and then the appended ones."""
    expected = [*left.types[: widths[0]], *right.types[: widths[1]]]
    given = pair.types[: len(pair) - appended]
    if given != expected:
        raise InvariantError(
            "the output schema of a join does not follow its inputs",
            f"expected types {', '.join(map(str, expected))}; got {', '.join(map(str, given))}",
        )
    return pair


def without_right(pair: pa.Schema, widths: tuple[int, int]) -> pa.Schema:
    """Returns the columns of a pair without those of the right input."""
    fields = list(pair)
    return pa.schema(fields[: widths[0]] + fields[sum(widths) :])
