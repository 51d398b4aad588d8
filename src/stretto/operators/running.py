"""Aggregates per key without windows: each batch emits one updated row for every key that it touches.

The state is a table with a slot per key: a dictionary finds the slot (one lookup per distinct key of a batch, not per
row), and the partials of all slots lie in columns that grow by doubling. Since a row is emitted as soon as a batch
changes it, the instance must have seen all rows of the key, so the function stays sequential; partial states can
still be merged when shards move.

What a batch costs depends on the batch alone, also for count(distinct). Quantiles and collected values are the
exception: they look at all values of the touched keys again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.accumulators import Accumulator, Call, CountDistinct
from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.operators.grouping import (
    Bools,
    Column,
    Groups,
    concat_columns,
    fixed_array,
    fixed_values,
    hashable_values,
    physical_dtype,
    take_columns,
    unhashed_values,
    valid_rows,
)
from stretto.operators.user_aggregate import UserAggregate
from stretto.state import State

Slots = npt.NDArray[np.intp]
_SLOTS_MIN = 64
_KEY_CHUNKS_MAX = 64
# Integer keys are looked up in a table as long as their range, up to this many times the number of keys.
_RANGE_FACTOR = 16
_RANGE_MIN = 1 << 18


class _Numbered(dict[Any, int]):
    """Numbers keys from 0 as they are first looked up."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class _Directory:
    """Finds the slot of each key: in a table over the range of integer keys while that is small, else by hashing."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        dtype = physical_dtype(kinds[0]) if len(kinds) == 1 else None
        self._dtype = dtype if dtype is not None and dtype.kind == "i" else None
        self._base = 0
        self._table: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._numbered = _Numbered()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def slots(self, keys: Sequence[Column], rows: int) -> Slots:
        """The slots of keys that differ from each other; a new key gets the next slot."""
        if self._dtype is not None:
            found = self._from_table(keys[0], self._dtype)
            if found is not None:
                return found
        result = np.fromiter(map(self._numbered.__getitem__, _hashable_rows(keys, rows)), np.intp, rows)
        self._count = len(self._numbered)
        return result

    def _from_table(self, key: Column, dtype: np.dtype[Any]) -> Slots | None:
        if not len(key):
            return np.empty(0, np.intp)
        values = fixed_values(key, dtype)
        low, high = int(values.min()), int(values.max())
        if key.null_count or not self._cover(low, high, len(key)):
            self._hash_from_now_on()
            return None
        places = values.astype(np.int64) - self._base
        slots = self._table[places].astype(np.intp)
        new = np.flatnonzero(slots < 0)
        slots[new] = np.arange(self._count, self._count + len(new))
        self._table[places[new]] = slots[new]
        self._count += len(new)
        return slots

    def _cover(self, low: int, high: int, more: int) -> bool:
        """Make the table cover the range, if that is not too wide for the number of keys."""
        size = len(self._table)
        if size and low >= self._base and high < self._base + size:
            return True
        least, greatest = (min(low, self._base), max(high, self._base + size - 1)) if size else (low, high)
        width = greatest - least + 1
        limit = max(_RANGE_MIN, _RANGE_FACTOR * (self._count + more))
        if width > limit:
            return False
        # Room on the side that it grew to, so that keys that count up or down extend the table rarely.
        spare = min(limit - width, width)
        base = least - spare if size and low < self._base else least
        table = np.full(width + spare, -1, np.int32)
        table[self._base - base : self._base - base + size] = self._table
        self._base, self._table = base, table
        return True

    def _hash_from_now_on(self) -> None:
        self._dtype = None
        used = np.flatnonzero(self._table >= 0)
        slots = self._table[used]
        for place in np.argsort(slots).tolist():
            self._numbered[int(used[place]) + self._base] = int(slots[place])
        self._table = np.empty(0, np.int32)


class _Slotted:
    """One partial column with a value per slot, which can be read and written at some slots."""

    def __init__(self, kind: pa.DataType, objects: bool) -> None:
        self._kind = kind
        self._objects = objects
        self._dtype = None if objects else physical_dtype(kind)
        self._values: npt.NDArray[Any] = np.zeros(_SLOTS_MIN, self._dtype or np.dtype(object))
        self._valid: Bools | None = None

    def grow(self, slots: int) -> None:
        if slots > len(self._values):
            more = max(2 * len(self._values), slots) - len(self._values)
            self._values = np.concatenate([self._values, np.zeros(more, self._values.dtype)])
            if self._valid is not None:
                self._valid = np.concatenate([self._valid, np.ones(more, np.bool_)])

    def read(self, slots: Slots) -> Column:
        values = self._values[slots]
        if self._objects:
            return values
        if self._dtype is None:
            return pa.array(values.tolist(), self._kind)
        return fixed_array(values, self._kind, None if self._valid is None else self._valid[slots])

    def write(self, slots: Slots, column: Column) -> None:
        if self._objects:
            self._values[slots] = column
        elif self._dtype is None:
            self._values[slots] = np.fromiter(column.to_pylist(), object, len(column))
        else:
            self._values[slots] = fixed_values(column, self._dtype)
            valid = valid_rows(column)
            if valid is not None and self._valid is None:
                self._valid = np.ones(len(self._values), np.bool_)
            if self._valid is not None:
                self._valid[slots] = True if valid is None else valid


class _Partials:
    """The partials of one aggregate for all slots."""

    def __init__(self, acc: Accumulator) -> None:
        self._acc = acc
        self._columns = [_Slotted(kind, acc.objects) for kind in acc.partials]

    def update(self, slots: Slots, known: npt.NDArray[Any], partials: Sequence[Column], total: int) -> pa.Array:
        """Merge partials into the slots, of which those in `known` had one already; the results of these slots."""
        for column in self._columns:
            column.grow(total)
        if len(known):
            groups = Groups(np.concatenate([known, np.arange(len(slots))]), len(slots))
            before = [column.read(slots[known]) for column in self._columns]
            both = [concat_columns(pair) for pair in zip(before, partials, strict=True)]
            partials = self._acc.merge(groups, both)
        for column, values in zip(self._columns, partials, strict=True):
            column.write(slots, values)
        return self._acc.finish(partials)

    def export(self, total: int) -> list[Column]:
        return [column.read(np.arange(total)) for column in self._columns]


class _Distinct:
    """The distinct values of all slots: a set of pairs, and how many there are of each slot."""

    def __init__(self, acc: CountDistinct) -> None:
        self._acc = acc
        self._item = acc.partials[0].value_type
        self._pairs: dict[tuple[int, Any], None] = {}
        self._counts = np.zeros(_SLOTS_MIN, np.int64)

    def update(self, slots: Slots, known: npt.NDArray[Any], partials: Sequence[Column], total: int) -> pa.Array:
        if total > len(self._counts):
            more = max(2 * len(self._counts), total) - len(self._counts)
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        owners = np.repeat(slots, partials[0].value_lengths().to_numpy()).tolist()
        pairs = zip(owners, hashable_values(partials[0].flatten()), strict=True)
        fresh = dict.fromkeys(pair for pair in pairs if pair not in self._pairs)
        self._pairs.update(fresh)
        np.add.at(self._counts, np.fromiter((slot for slot, _ in fresh), np.intp, len(fresh)), 1)
        return fixed_array(self._counts[slots], pa.int64()).cast(self._acc.result)

    def export(self, total: int) -> list[Column]:
        owners = np.fromiter((slot for slot, _ in self._pairs), np.intp, len(self._pairs))
        values = unhashed_values([value for _, value in self._pairs], self._item)
        return self._acc.merge(Groups(owners, total), [_singletons(values, self._acc.partials[0])])


def _partials_of(acc: Accumulator) -> _Partials | _Distinct:
    if isinstance(acc, CountDistinct) and not pa.types.is_nested(acc.partials[0].value_type):
        return _Distinct(acc)
    return _Partials(acc)


def _singletons(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(values) + 1)), values, type=kind)


class RunningState(State):
    """A slot for each key, and the partials of all slots."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation
        self._slots = _Directory([field.type for field in aggregation.key_fields])
        self._keys: list[list[Column]] = []
        self._partials = [_partials_of(acc) for acc in aggregation.accumulators]

    def fresh(self) -> RunningState:
        return RunningState(self._aggregation)

    def __len__(self) -> int:
        return len(self._slots)

    def absorb(self, table: Sequence[Column]) -> list[pa.Array]:
        """Merge a table of partials, with one row per key, into the slots; the new results of these keys."""
        aggregation = self._aggregation
        keys = table[: aggregation.keys]
        rows = len(table[0]) if table else 0
        before = len(self._slots)
        slots = self._slots.slots(keys, rows)
        known = np.flatnonzero(slots < before)
        if len(known) < rows:
            self._remember(keys, slots, before)
        total, place, results = len(self._slots), aggregation.keys, []
        for partials, acc in zip(self._partials, aggregation.accumulators, strict=True):
            results.append(partials.update(slots, known, table[place : place + acc.width], total))
            place += acc.width
        return results

    def _remember(self, keys: Sequence[Column], slots: Slots, before: int) -> None:
        """Keep the key columns of new slots, in the order of the slots."""
        self._keys.append(take_columns(keys, np.flatnonzero(slots >= before)))
        if len(self._keys) > _KEY_CHUNKS_MAX:
            self._keys = [self._all_keys()]

    def _all_keys(self) -> list[Column]:
        return [concat_columns(parts) for parts in zip(*self._keys, strict=True)]

    def _table(self) -> list[Column]:
        table = self._all_keys()
        for partials in self._partials:
            table += partials.export(len(self._slots))
        return table

    def merge(self, other: RunningState) -> None:
        if len(other):
            self.absorb(other._table())

    def export(self) -> dict[str, Any] | None:
        return table_of(self._table(), self._aggregation.objects) if len(self) else None

    def restore(self, content: dict[str, Any] | None) -> None:
        self.__dict__.update(self.fresh().__dict__)
        if content is not None:
            self.absorb(columns_of(content))


def _hashable_rows(keys: Sequence[Column], rows: int) -> Any:
    if not keys:
        return [()] * rows
    if len(keys) == 1:
        return hashable_values(keys[0])
    return zip(*(hashable_values(key) for key in keys), strict=True)


class RunningAggregate(Function):
    """Aggregates per key over all rows so far. Columns out: keys, one per call; later rows replace earlier ones."""

    order_matters = False

    def __init__(self, schema: pa.Schema, keys: tuple[str, ...], calls: tuple[Call | UserAggregate, ...]) -> None:
        self._aggregation = Aggregation(schema, keys, calls)
        self.schema = pa.schema([*self._aggregation.key_fields, *self._aggregation.result_fields])
        self.totals = RunningState(self._aggregation)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not batch.num_rows:
            return
        columns = self._aggregation.rows(batch)
        groups = self._aggregation.group(batch.num_rows, columns, None)
        table = self._aggregation.lift(groups, columns)
        results = self.totals.absorb(table)
        ctx.send(pa.RecordBatch.from_arrays([*table[: self._aggregation.keys], *results], schema=self.schema))
