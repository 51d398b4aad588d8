"""Aggregates per key without windows: each batch emits one updated row for every key that it touches.

The state is a table with a slot per key. A dictionary finds the slot, with one lookup per distinct key of a batch, not
per row. The partials of all slots are in columns that grow by doubling. A row is emitted as soon as a batch changes it,
so the instance must have all rows of the key and the function stays sequential; partial states can still be merged
when shards move.

The cost of a batch depends on the batch alone, also for distinct values. Quantiles, modes and collected values are the
exception: they read all values of the batch's keys again.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.operators.accumulators import Accumulator, Call
from stretto.operators.accumulators.distinct import CountDistinct, OfDistinct
from stretto.operators.accumulators.listed import list_array
from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.operators.changes.weights import same_values, signs, weighted, weighted_schema
from stretto.operators.frozen import FrozenSlots, Generations, Raw, Slots
from stretto.operators.grouping import (
    Bools,
    Column,
    Groups,
    can_be_unhashed,
    concat_columns,
    fixed_array,
    fixed_values,
    grown,
    hashable_values,
    physical_dtype,
    take_columns,
    unhashed_values,
    valid_rows,
    with_numbers,
)
from stretto.operators.running_spill import RunningSpill
from stretto.operators.user_aggregate import UserAggregate
from stretto.state import Deferred, Fragment, KeyedPart, State, Surveyed
from stretto.state.cold import Cold
from stretto.state.rolling import Rolling
from stretto.state.weighing import OBJECT_ENTRIES, Weighed, Weights, evenly, weights_of

_SLOTS_MIN = 64
_NEVER = -1
_OBJECTS_AT_ONCE = 1 << 14
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
        """Returns the slots of distinct keys; a new key gets the next slot."""
        if self._dtype is not None:
            found = self._from_table(keys[0], self._dtype)
            if found is not None:
                return found
        result = np.fromiter(map(self._numbered.__getitem__, _hashable_rows(keys, rows)), np.intp, rows)
        self._count = len(self._numbered)
        return result

    def has(self, keys: Sequence[Column], rows: int) -> Bools:
        """Returns which of the keys have a slot."""
        if self._dtype is None:
            return np.fromiter(map(self._numbered.__contains__, _hashable_rows(keys, rows)), np.bool_, rows)
        values, valid = fixed_values(keys[0], self._dtype).astype(np.int64), valid_rows(keys[0])
        found: Bools = (values >= self._base) & (values < self._base + len(self._table))
        found &= True if valid is None else valid  # If there is a null key, all keys are hashed.
        found[found] = self._table[values[found] - self._base] >= 0
        return found

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
        """Extend the table to the range; returns False if that is too wide for the number of keys."""
        size = len(self._table)
        if size and low >= self._base and high < self._base + size:
            return True
        least, greatest = (min(low, self._base), max(high, self._base + size - 1)) if size else (low, high)
        width = greatest - least + 1
        limit = max(_RANGE_MIN, _RANGE_FACTOR * (self._count + more))
        if width > limit:
            return False
        # Spare room on the side that grew, so that ascending or descending keys extend the table rarely.
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
    """One partial column with a value per slot, with random access by slot."""

    def __init__(self, kind: pa.DataType, objects: bool) -> None:
        self._kind = kind
        self._objects = objects
        self._dtype = None if objects else physical_dtype(kind)
        # Python's own dates end with the years 1 and 9999, so times inside of lists are kept as numbers.
        self._stored = kind if objects else with_numbers(kind)
        self._values: npt.NDArray[Any] = np.zeros(_SLOTS_MIN, self._dtype or np.dtype(object))
        self._valid: Bools | None = None

    def grow(self, slots: int) -> None:
        if slots > len(self._values):
            self._values = grown(self._values, slots)
            if self._valid is not None:
                self._valid = grown(self._valid, slots, True)

    def read(self, slots: Slots) -> Column:
        return self._values[slots] if self._objects else self.column(self.raw(slots))

    def raw(self, slots: Slots) -> Raw:
        return Raw(self._values[slots], None if self._valid is None else self._valid[slots])

    def column(self, raw: Raw) -> pa.Array:
        if self._dtype is None:
            # In parts, since each call blocks the interpreter for other threads.
            starts = range(0, len(raw.values) or 1, _OBJECTS_AT_ONCE)
            parts = [pa.array(raw.values[n : n + _OBJECTS_AT_ONCE].tolist(), self._stored) for n in starts]
            stored = concat_columns(parts)
            return stored if self._stored == self._kind else stored.cast(self._kind)
        return fixed_array(raw.values, self._kind, raw.valid)

    def write(self, slots: Slots, column: Column) -> None:
        if self._objects:
            self._values[slots] = column
        elif self._dtype is None:
            stored = column if self._stored == self._kind else column.cast(self._stored)
            self._values[slots] = np.fromiter(stored.to_pylist(), object, len(column))
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
        """Merge partials into the slots, of which those in `known` had one already; returns the slots' results."""
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

    def results(self, slots: Slots) -> pa.Array:
        return self._acc.finish(self.read(slots))

    def export(self, total: int) -> list[Column]:
        return self.read(np.arange(total))

    def read(self, slots: Slots) -> list[Column]:
        return [column.read(slots) for column in self._columns]

    def weights(self, slots: Slots) -> Weights:
        """Returns the bytes of each of the slots."""
        return weights_of(self.read(slots), len(slots))

    def copies(self) -> list[_Slotted]:
        """Returns shallow copies of the columns. They use the same memory until the originals grow, and do not get a
        validity mask that is created later."""
        return [copy.copy(column) for column in self._columns]

    def replace(self, slots: Slots, partials: Sequence[Column], total: int) -> None:
        for column, values in zip(self._columns, partials, strict=True):
            column.grow(total)
            column.write(slots, values)


_OFFSET_BYTES = 4.0
"""A list has so many bytes besides its values."""


class _Distinct:
    """The distinct values of all slots: a set of (slot, value) pairs, and what is computed from the values that are
    new: the count of each slot, or the partials of another aggregate."""

    def __init__(self, acc: CountDistinct | OfDistinct) -> None:
        self._acc = acc
        self._item = acc.partials[0].value_type
        self._pairs: dict[tuple[int, Any], None] = {}
        self._counts = np.zeros(_SLOTS_MIN, np.int64)
        self._partials = _Partials(acc.of) if isinstance(acc, OfDistinct) else None

    def update(self, slots: Slots, known: npt.NDArray[Any], partials: Sequence[Column], total: int) -> pa.Array:
        owners = np.repeat(slots, partials[0].value_lengths().to_numpy()).tolist()
        pairs = zip(owners, hashable_values(partials[0].flatten()), strict=True)
        fresh = dict.fromkeys(pair for pair in pairs if pair not in self._pairs)
        self._pairs.update(fresh)
        fresh_slots = np.fromiter((slot for slot, _ in fresh), np.intp, len(fresh))
        if self._partials is not None and isinstance(self._acc, OfDistinct):
            lists = self._lists(slots, fresh_slots, [value for _, value in fresh])
            return self._partials.update(slots, known, self._acc.lifted(lists), total)
        self._counts = grown(self._counts, total)
        np.add.at(self._counts, fresh_slots, 1)
        return self.results(slots)

    def results(self, slots: Slots) -> pa.Array:
        if self._partials is not None:
            return self._partials.results(slots)
        return fixed_array(self._counts[slots], pa.int64()).cast(self._acc.result)

    def _lists(self, slots: Slots, owners: Slots, values: list[Any]) -> Column:
        """Returns the values of each of the slots as a list."""
        order = np.argsort(slots)
        places = order[np.searchsorted(slots[order], owners)]
        by_place = np.argsort(places, kind="stable")
        ordered = take_columns([unhashed_values(values, self._item)], by_place)[0]
        return list_array(np.bincount(places, minlength=len(slots)), ordered, self._acc.partials[0])

    def weights(self, slots: Slots) -> Weights:
        """Returns the bytes of each of the slots: those of its values, as many as a sample of the pairs has."""
        if not self._pairs:
            return np.zeros(len(slots))
        sample = list(islice(self._pairs, OBJECT_ENTRIES))
        owners = np.fromiter((slot for slot, _ in sample), np.intp, len(sample))
        each = weights_of([unhashed_values([value for _, value in sample], self._item)], len(sample))
        total = each * (len(self._pairs) / len(sample))
        found: Weights = np.full(len(slots), _OFFSET_BYTES)
        found += np.bincount(owners, total, int(max(owners.max(), slots.max())) + 1)[slots]
        return found

    def export(self, total: int) -> list[Column]:
        owners = np.fromiter((slot for slot, _ in self._pairs), np.intp, len(self._pairs))
        values = unhashed_values([value for _, value in self._pairs], self._item)
        return self._acc.merge(Groups(owners, total), [_singletons(values, self._acc.partials[0])])


def _partials_of(acc: Accumulator) -> _Partials | _Distinct:
    if isinstance(acc, CountDistinct | OfDistinct) and can_be_unhashed(acc.partials[0].value_type):
        return _Distinct(acc)
    return _Partials(acc)


def _singletons(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(values) + 1)), values, type=kind)


class RunningState(State):
    """The slot of each key, and the partials of all slots."""

    indivisible = None

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation
        self._slots = _Directory([field.type for field in aggregation.key_fields])
        self._keys: list[list[Column]] = []
        self._partials = [_partials_of(acc) for acc in aggregation.accumulators]
        self._rolling = Rolling()
        self._written: Generations | None = None
        """The generation in which each slot was last written; None before the first checkpoint."""
        self._generation = 0
        """The number of marks so far."""
        self._changed: list[Slots] = []
        """The slots written in this generation."""
        self._all_due = True
        """Whether the next checkpoint must write everything."""
        self._frozen: list[weakref.ref[FrozenSlots]] = []
        """Frozen slots that checkpoints may still read."""
        self._spill: RunningSpill | None = None
        self._hot_changed: Bools | None = None
        """If it spills: slots written since the last checkpoint; None if the next one writes everything."""

    def fresh(self) -> RunningState:
        return RunningState(self._aggregation)

    def __len__(self) -> int:
        return len(self._slots) if self._spill is None else self._spill.groups

    def absorb(self, table: Sequence[Column]) -> list[pa.Array]:
        """Merge a table of partials, with one row per key, into the slots; returns the new results of these keys."""
        slots, known = self._claimed(table)
        return self._merged(table, slots, known)

    def replace(self, table: Sequence[Column]) -> tuple[Slots, list[pa.Array], list[pa.Array]]:
        """Merge as `absorb` does. Returns which rows of the table have a key that had a result, these results, and the
        new results of all keys."""
        slots, known = self._claimed(table)
        before = [partials.results(slots[known]) for partials in self._partials]
        return known, before, self._merged(table, slots, known)

    def _claimed(self, table: Sequence[Column]) -> tuple[Slots, Slots]:
        """Returns the slot of each key, and the rows whose keys had one before."""
        keys = table[: self._aggregation.keys]
        rows = len(table[0]) if table else 0
        if self._spill is not None:
            self._spill.recall(keys, rows)
        before = len(self._slots)
        slots = self._slots.slots(keys, rows)
        known = np.flatnonzero(slots < before)
        if len(known) < rows:
            self._remember(keys, slots, before)
        return slots, known

    def _merged(self, table: Sequence[Column], slots: Slots, known: Slots) -> list[pa.Array]:
        self._note_changed(slots)
        total, place, results = len(self._slots), self._aggregation.keys, []
        for partials, acc in zip(self._partials, self._aggregation.accumulators, strict=True):
            results.append(partials.update(slots, known, table[place : place + acc.width], total))
            place += acc.width
        return results

    def _remember(self, keys: Sequence[Column], slots: Slots, before: int) -> None:
        """Keep the key columns of new slots, in the order of the slots."""
        if not keys:
            return
        self._keys.append(take_columns(keys, np.flatnonzero(slots >= before)))
        # Chunks of similar length are merged, so there are few, and no key is copied often.
        first = len(self._keys) - 1
        length = len(self._keys[first][0])
        while first and len(self._keys[first - 1][0]) <= 2 * length:
            first -= 1
            length += len(self._keys[first][0])
        self._keys[first:] = [_concatenated(self._keys[first:])]

    def _all_keys(self) -> list[Column]:
        return _concatenated(self._keys)

    def _table(self) -> list[Column]:
        if self._spill is not None:
            return self._spill.everything()
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
            self.absorb(columns_of(content, self._aggregation.types, self._aggregation.objects))

    @property
    def layout(self) -> str:
        return self._aggregation.layout

    def keep(self, part: KeyedPart) -> None:
        if len(self):
            table = self._table()
            rows = np.flatnonzero(part.mine(self._aggregation.named_keys(table)))
            given = self._rolling.given
            self.__dict__.update(self.fresh().__dict__)
            self._rolling = Rolling(given=given)  # Its next fragments are not taken for those that are stored.
            if len(rows):
                self.absorb(take_columns(table, rows))

    def survey(self, keys: pa.Schema) -> Surveyed:
        return Surveyed([self._aggregation.named_keys(self._all_keys())] if len(self) else [], None)

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        if self._spill is not None or not len(self):
            return  # What spills is not read for this.
        slots = evenly(len(self._slots))
        columns = take_columns(self._all_keys(), slots)
        each = weights_of(columns, len(slots))
        for partials in self._partials:
            each += partials.weights(slots)
        yield Weighed(self._aggregation.named_keys(columns), each * (len(self._slots) / len(slots)))

    # Checkpoints: the changed slots, and a stretch of the rest.

    def _note_changed(self, slots: Slots) -> None:
        """Record that these slots are about to be written."""
        if self._spill is not None:
            self._spill.touch(slots)
            self._note_hot(slots)
            return
        if self._written is None:
            return
        self._written = grown(self._written, len(self._slots), _NEVER)
        written = self._written[slots]
        first = written < self._generation
        slots, written = slots[first], written[first]
        if not len(slots):
            return
        self._written[slots] = self._generation
        self._changed.append(slots)
        if self._frozen:
            alive = [(each, frozen) for each in self._frozen if (frozen := each()) is not None]
            self._frozen = [each for each, _ in alive]
            for _, frozen in alive:
                frozen.save(slots, written)

    @property
    def _is_columnar(self) -> bool:
        """Whether slots can be read and written individually."""
        return not self._aggregation.objects and all(isinstance(each, _Partials) for each in self._partials)

    def fragments(self) -> list[Fragment]:
        if not self._is_columnar:
            return super().fragments()
        if self._spill is not None:
            return self._spilling_fragments(self._spill)
        if self._all_due:
            self._rolling = Rolling(given=self._rolling.given)
            self._all_due = False
        elif not self._changed:
            return self._rolling.fragments()
        if self._written is None:
            self._written = np.zeros(len(self), np.int32)
        frozen = self._freeze(self._rolling.stretch(len(self)))
        self._frozen.append(weakref.ref(frozen))
        self._rolling.add(frozen)
        self._generation += 1
        self._changed = []
        return self._rolling.fragments()

    def _freeze(self, stretch: range) -> FrozenSlots:
        columns: list[_Slotted] = []
        for partials in self._partials:
            assert isinstance(partials, _Partials)
            columns += partials.copies()
        kinds = [field.type for field in self._aggregation.key_fields]
        empty: list[Column] = [pa.array([], kind) for kind in kinds]
        return FrozenSlots(self._generation, self._changed, stretch, [empty, *self._keys], columns)

    def forget_fragments(self) -> None:
        self._all_due, self._hot_changed = True, None

    def rebuild(self, fragments: list[Fragment]) -> None:
        if not self._is_columnar:
            super().rebuild(fragments)
            return
        if self._spill is not None:
            self._spill.rebuild(fragments)
            self.reset(None, np.zeros(0, np.bool_))
            self._rolling = Rolling(fragments, start=b"")
            return
        self.__dict__.update(self.fresh().__dict__)
        for fragment in fragments:
            content = fragment.content.table() if isinstance(fragment.content, Deferred) else fragment.content
            self._replace(columns_of({"table": content, "objects": {}}, self._aggregation.types))
        self._rolling = Rolling(fragments)
        self._written, self._generation, self._all_due = np.zeros(len(self), np.int32), 1, False

    def _replace(self, table: Sequence[Column]) -> None:
        """Set the partials of keys."""
        rows, before = len(table[0]), len(self._slots)
        keys, place = table[: self._aggregation.keys], self._aggregation.keys
        slots = self._slots.slots(keys, rows)
        if len(self._slots) > before:
            self._remember(keys, slots, before)
        for partials, acc in zip(self._partials, self._aggregation.accumulators, strict=True):
            assert isinstance(partials, _Partials)
            partials.replace(slots, table[place : place + acc.width], len(self._slots))
            place += acc.width

    def describe(self) -> dict[str, Any]:
        return {"kind": "running", **self._aggregation.describe()}

    # Spilling: only hot groups have slots; the others are in the cold store (`running_spill.py`).

    @property
    def spills(self) -> bool:
        return self._is_columnar

    def spill_to(self, cold: Cold, budget_bytes: int) -> None:
        self._spill = RunningSpill(self, self._aggregation, cold, budget_bytes)
        self._hot_changed = None

    def _note_hot(self, slots: Slots) -> None:
        if self._hot_changed is None:
            return
        self._hot_changed = grown(self._hot_changed, len(self._slots))
        self._hot_changed[slots] = True

    def settle(self) -> None:
        if self._spill is not None:
            self._spill.settle()

    def _spilling_fragments(self, spill: RunningSpill) -> list[Fragment]:
        if self._hot_changed is None:
            self._rolling = Rolling(given=self._rolling.given, start=b"")
            spill.forget_changes()
            self._hot_changed = np.zeros(len(self._slots), np.bool_)
        elif not self._hot_changed.any() and not spill.has_changes:
            return self._rolling.fragments()
        self._rolling.add(spill.written(self._rolling, self._hot_changed[: len(self._slots)]))
        self._hot_changed[:] = False
        return self._rolling.fragments()

    @property
    def slots(self) -> int:
        return len(self._slots)

    def has(self, keys: Sequence[Column], rows: int) -> Bools:
        """Returns which of the keys have a slot."""
        return self._slots.has(keys, rows)

    def rows(self, slots: Slots) -> pa.Table:
        """Returns the keys and partials of slots."""
        places = pa.array(slots)
        columns = [
            pa.chunked_array([chunk[n] for chunk in self._keys], field.type).take(places).combine_chunks()
            for n, field in enumerate(self._aggregation.key_fields)
        ]
        for partials in self._partials:
            assert isinstance(partials, _Partials)
            columns += partials.read(slots)
        table: pa.Table = table_of(columns, ())["table"]
        return table

    def put(self, table: Sequence[Column]) -> None:
        """Add slots for the keys of a table, which have none, with its partials."""
        self._replace(table)

    def changed_slots(self) -> Bools | None:
        """Returns which slots changed since the last checkpoint; None if the next one writes everything."""
        return None if self._hot_changed is None else self._hot_changed[: len(self._slots)]

    def reset(self, table: Sequence[Column] | None, changed: Bools | None) -> None:
        """Replace all slots by those of this table."""
        self._slots = _Directory([field.type for field in self._aggregation.key_fields])
        self._keys, self._partials = [], [_partials_of(acc) for acc in self._aggregation.accumulators]
        if table is not None and len(table[0]):
            self._replace(table)
        self._hot_changed = changed


def _concatenated(chunks: Sequence[Sequence[Column]]) -> list[Column]:
    return [concat_columns(parts) for parts in zip(*chunks, strict=True)]


def _hashable_rows(keys: Sequence[Column], rows: int) -> Any:
    if not keys:
        return [()] * rows
    if len(keys) == 1:
        return hashable_values(keys[0])
    return zip(*(hashable_values(key) for key in keys), strict=True)


class RunningAggregate(Function):
    """Aggregates per key over all rows so far. Columns out: keys, one per call; later rows replace earlier ones. If it
    `retracts`, rows have weights (`changes/weights.py`), and the row that is replaced is removed."""

    order_matters = False

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[str, ...],
        calls: tuple[Call | UserAggregate, ...],
        retracts: bool = False,
    ) -> None:
        self._aggregation = Aggregation(schema, keys, calls)
        self._retracts = retracts
        plain = pa.schema([*self._aggregation.key_fields, *self._aggregation.result_fields])
        self.schema = weighted_schema(plain) if retracts else plain
        self.totals = RunningState(self._aggregation)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not batch.num_rows:
            return
        columns = self._aggregation.rows(batch)
        groups = self._aggregation.group(batch.num_rows, columns, None)
        table = self._aggregation.lift(groups, columns)
        if self._retracts:
            self._send_changes(table, ctx)
            return
        results = self.totals.absorb(table)
        ctx.send(pa.RecordBatch.from_arrays([*table[: self._aggregation.keys], *results], schema=self.schema))

    def _send_changes(self, table: Sequence[Column], ctx: Context) -> None:
        """Send what is replaced, as removed, and the new rows. A row that stays as it is, is not sent."""
        known, before, after = self.totals.replace(table)
        keys = table[: self._aggregation.keys]
        same = same_values(before, take_columns(after, known))
        new = np.ones(len(after[0]), np.bool_)
        new[known[same]] = False
        gone, added = known[~same], np.flatnonzero(new)
        if not len(added):
            return
        removed = [*take_columns(keys, gone), *take_columns(before, np.flatnonzero(~same))]
        rows = [*take_columns(keys, added), *take_columns(after, added)]
        columns = [concat_columns(pair) for pair in zip(removed, rows, strict=True)]
        ctx.send(weighted(columns, signs(len(gone), len(added)), self.schema))
