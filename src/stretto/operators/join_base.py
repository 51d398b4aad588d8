"""The common part of all joins: match each batch with the rows of the other side, send the pairs, keep the batch.

An inner join only adds results, so any kind of join sends a pair as soon as both rows have arrived. The kinds differ in
which pairs match and in when a row can be dropped. No code here runs once per row.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.actors.partitioning import codes_of, has_codes, hash_columns, null_mask
from stretto.errors import InvariantError, PlanError
from stretto.operators.row_buffer import Entries, Indexed, Indexer, Integers, Match, RowBuffer, sort_entries

LEFT = "left"
RIGHT = "right"
PAIRS_MAX = 65_536
"""The limit of rows in one batch of output; a key with many rows on both sides makes many batches."""

On = tuple[tuple[str, str], ...]
Mask = npt.NDArray[np.bool_]


class RowFilter(Protocol):
    """A compiled predicate: the rows of a batch for which it is true."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


class Join(Function):
    """The base of a join of the inputs `left` and `right`.

    `output` names the columns: left's, right's, and then those of `_appended`.
    """

    order_matters = False

    def __init__(
        self, left: Indexer, right: Indexer, on: On, output: pa.Schema, residual: RowFilter | None, appended: int = 0
    ) -> None:
        self._keys = [_key(left.schema, right.schema, pair) for pair in on]
        self.schema = _checked_output(left.schema, right.schema, output, appended)
        self._residual = residual
        self.left = RowBuffer(left)
        self.right = RowBuffer(right)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        mine, theirs = self._sides(ctx)
        indexed = mine.index(batch, ctx.watermark_us)
        if indexed.late_rows:
            ctx.count("late_rows", indexed.late_rows)
        if not len(indexed.entries):
            return
        self._send_matches(indexed, theirs, ctx)
        mine.add(indexed.rows, indexed.entries)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self.left.advance(watermark_us)
        self.right.advance(watermark_us)

    def on_end(self, ctx: Context) -> None:
        self.left.clear()
        self.right.clear()

    def input_of(self, state: str) -> str:
        return state

    def _pairs_match(self, probe: Entries, match: Match, from_left: bool) -> Mask | None:
        """Returns which pairs of entries match by their marks; None if all do."""
        return None

    def _appended(self, probe: Entries, places: Integers) -> list[pa.Array]:
        """Returns the columns after left's and right's, given the entry of the arriving row in each pair."""
        return []

    def _sides(self, ctx: Context) -> tuple[RowBuffer, RowBuffer]:
        if ctx.input == LEFT:
            return self.left, self.right
        if ctx.input == RIGHT:
            return self.right, self.left
        raise InvariantError("a join got a batch on an input that it does not have", f"'{ctx.input}'")

    def _send_matches(self, indexed: Indexed, theirs: RowBuffer, ctx: Context) -> None:
        probe, from_left = indexed.entries, ctx.input == LEFT
        places: list[Integers] = []
        stored: list[pa.RecordBatch] = []
        waiting = 0
        for match in theirs.search(probe, PAIRS_MAX):
            at, found = match.probe, match.stored
            mask = self._pairs_match(probe, match, from_left)
            if mask is not None and not mask.all():
                at, found = at[mask], found[mask]
            if not len(at):
                continue
            if waiting + len(at) > PAIRS_MAX:
                self._send_pairs(indexed, places, stored, ctx)
                places, stored, waiting = [], [], 0
            places.append(at)
            stored.append(match.rows.take(pa.array(match.entries.positions[found])))
            waiting += len(at)
        if waiting:
            self._send_pairs(indexed, places, stored, ctx)

    def _send_pairs(self, indexed: Indexed, places: list[Integers], stored: list[pa.RecordBatch], ctx: Context) -> None:
        at = places[0] if len(places) == 1 else np.concatenate(places)
        theirs = stored[0] if len(stored) == 1 else pa.concat_batches(stored)
        mine = indexed.rows.take(pa.array(indexed.entries.positions[at]))
        left, right = (mine, theirs) if ctx.input == LEFT else (theirs, mine)
        columns = [*left.columns, *right.columns, *self._appended(indexed.entries, at)]
        batch = self._with_equal_keys(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        ctx.send(batch if self._residual is None else self._residual.evaluate(batch))

    def _with_equal_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch without pairs whose hashes collided. A hash of one 64-bit word has no collisions."""
        if not self._keys or (len(self._keys) == 1 and self._hash_is_of_key_alone() and self._keys[0][2]):
            return batch
        mask: Mask | None = None
        for left, right, coded in self._keys:
            equal = _equal(batch.column(left), batch.column(right), coded)
            mask = equal if mask is None else mask & equal
        assert mask is not None
        return batch if mask.all() else batch.filter(pa.array(mask))

    def _hash_is_of_key_alone(self) -> bool:
        """Whether the entries' hashes are of the keys and nothing else."""
        return True


class KeyedSide:
    """One side of a join that keeps its rows forever."""

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...]) -> None:
        self.schema = schema
        self.keys = keys

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        rows = rows_where(rows, self.valid_keys(rows))
        return Indexed(rows, sort_entries(hash_columns(rows, self.keys)))

    def valid_keys(self, rows: pa.RecordBatch) -> Mask | None:
        """Returns which rows have no null among their keys; None if no row has one."""
        mask: Mask | None = None
        for key in self.keys:
            column = rows.column(key)
            if column.null_count:
                mask = all_of(mask, ~null_mask(column))
        return mask


def all_of(one: Mask | None, other: Mask | None) -> Mask | None:
    """Returns the conjunction of two masks, where None is a mask that is true everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def rows_where(rows: pa.RecordBatch, mask: Mask | None) -> pa.RecordBatch:
    return rows if mask is None or mask.all() else rows.filter(pa.array(mask))


def side_keys(on: On, side: str) -> tuple[str, ...]:
    """Returns the key columns of one side."""
    return tuple(pair[0] if side == LEFT else pair[1] for pair in on)


def _key(left: pa.Schema, right: pa.Schema, pair: tuple[str, str]) -> tuple[int, int, bool]:
    """Returns the places of a pair of keys in the output, and whether their values compare as 64-bit words."""
    places = []
    for schema, name, side in ((left, pair[0], LEFT), (right, pair[1], RIGHT)):
        if name not in schema.names:
            raise PlanError(
                f"the {side} input of a join has no column '{name}'",
                f"it has {', '.join(schema.names)}",
                "Correct the name in the join's condition.",
            )
        places.append(schema.get_field_index(name))
    one, other = left.field(places[0]).type, right.field(places[1]).type
    if _family(one) != _family(other):
        raise PlanError(
            "a join compares columns of different kinds",
            f"left '{pair[0]}' is {one}, right '{pair[1]}' is {other}",
            "Cast one of them before the join.",
        )
    return places[0], len(left) + places[1], has_codes(one) and has_codes(other)


def _family(kind: pa.DataType) -> str:
    """Returns the family of a type: values of one family can be equal, and then have equal hashes."""
    types = pa.types
    if types.is_dictionary(kind):
        return _family(kind.value_type)
    if types.is_integer(kind):
        return "uint64" if types.is_uint64(kind) else "integer"
    for family, is_one in _FAMILIES.items():
        if is_one(kind):
            return family
    return str(kind)


_FAMILIES: dict[str, Any] = {
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "timestamp": pa.types.is_timestamp,
    "duration": pa.types.is_duration,
    "string": lambda kind: kind in (pa.string(), pa.large_string()),
    "binary": lambda kind: kind in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(kind),
}


def _equal(left: pa.Array, right: pa.Array, coded: bool) -> Mask:
    if coded:
        words: Mask = codes_of(left) == codes_of(right)
        return words
    equal = pc.equal(_plain(left), _plain(right))
    mask: Mask = equal.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _plain(array: pa.Array) -> pa.Array:
    """Returns the array in a form that Arrow can compare with others of its family."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    return array.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else array


def _checked_output(left: pa.Schema, right: pa.Schema, output: pa.Schema, appended: int) -> pa.Schema:
    expected = [*left.types, *right.types]
    given = output.types[: len(output) - appended]
    if given != expected:
        raise InvariantError(
            "the output schema of a join does not follow its inputs",
            f"expected types {', '.join(map(str, expected))}; got {', '.join(map(str, given))}",
        )
    return output
