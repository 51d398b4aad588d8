"""Spilling of a running aggregate: groups that do not fit in memory are rows of bytes in a cold store.

Hot groups stay in the columns of `running.py`. A batch first loads its cold groups, with one lookup for all. Between
two runs, when the columns exceed the budget, the least recently used groups are evicted in one write, and the columns
are rebuilt from the rest. A row of bytes holds values of fixed size as they are in memory, and the others packed.

A checkpoint first writes all groups to the cold store. It then reads from it the changed groups and the next stretch in
the order of keys, in the same fragments as a state that does not spill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.operators.grouping import (
    Bools,
    Column,
    Int64s,
    fixed_array,
    fixed_values,
    grown,
    hashable_values,
    physical_dtype,
    take_columns,
    valid_rows,
    with_numbers,
)
from stretto.state import Fragment
from stretto.state.cold import Cold, key_bytes
from stretto.state.packing import packed, unpacked
from stretto.state.rolling import Rolling
from stretto.state.spilling import SETTLED_FRACTION, size_of

if TYPE_CHECKING:
    from stretto.operators.running import RunningState

SLOT_BYTES = 200
"""The bytes that a group takes in addition to its columns: its key in the directory, and its flags here."""
ROWS_AT_ONCE = 8_192

SIZED_EVERY = 64
"""The number of runs after which the size of a slot is estimated again."""

_SAMPLE = 64
_NONE: npt.NDArray[Any] = np.empty(0)


class RowBytes:
    """Converts rows of a table of keys and partials to bytes, and back."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._kinds = [*(field.type for field in aggregation.key_fields), *aggregation.partial_types]
        dtypes = {place: physical_dtype(kind) for place, kind in enumerate(self._kinds)}
        self._fixed = {place: dtype for place, dtype in dtypes.items() if dtype is not None}
        self._others = [place for place, dtype in dtypes.items() if dtype is None]
        fields = [(f"v{place}", dtype) for place, dtype in self._fixed.items()]
        self._layout = np.dtype([*fields, *((f"n{place}", np.bool_) for place in self._fixed)])

    def of(self, table: Sequence[Column]) -> list[bytes]:
        rows = len(table[0])
        fixed = np.zeros(rows, self._layout)
        for place, dtype in self._fixed.items():
            fixed[f"v{place}"] = fixed_values(table[place], dtype)
            valid = valid_rows(table[place])
            if valid is not None:
                fixed[f"n{place}"] = ~valid
        data, size = fixed.tobytes(), self._layout.itemsize
        parts = [data[start : start + size] for start in range(0, rows * size, size)] if size else [b""] * rows
        if not self._others:
            return parts
        others = zip(*(_plain(table[place]).to_pylist() for place in self._others), strict=True)
        return [part + packed(list(other)) for part, other in zip(parts, others, strict=True)]

    def table(self, rows: Sequence[bytes]) -> list[Column]:
        size = self._layout.itemsize
        fixed: npt.NDArray[Any] = np.frombuffer(b"".join(row[:size] for row in rows), self._layout) if size else _NONE
        columns: dict[int, Column] = {}
        for place in self._fixed:
            null = fixed[f"n{place}"]
            valid = ~null if null.any() else None
            columns[place] = fixed_array(fixed[f"v{place}"].copy(), self._kinds[place], valid)
        others = [unpacked(row[size:]) for row in rows] if self._others else []
        for number, place in enumerate(self._others):
            kind = self._kinds[place]
            stored = pa.array([other[number] for other in others], with_numbers(kind))
            columns[place] = stored if stored.type == kind else stored.cast(kind)
        return [columns[place] for place in range(len(self._kinds))]


class RunningSpill:
    """The cold part of a running state. For each hot slot it keeps the last use and what the cold store has of it."""

    def __init__(self, state: RunningState, aggregation: Aggregation, cold: Cold, budget_bytes: int) -> None:
        self._state = state
        self._keys = aggregation.keys
        self._types = aggregation.types
        self._bytes = RowBytes(aggregation)
        self._cold = cold
        self._budget = budget_bytes
        self._used = False
        self._count = 0
        """The number of groups in the cold store, in any version."""
        self._runs = 0
        self._slot_bytes = SLOT_BYTES
        self._touched: Int64s = np.zeros(0, np.int64)
        self._fresh: Bools = np.zeros(0, np.bool_)
        """Whether the cold store has the current version of a slot."""
        self._known: Bools = np.zeros(0, np.bool_)
        """Whether the cold store has any version of a slot."""
        self._changed: set[bytes] = set()
        """Groups that changed since the last checkpoint and have been evicted."""

    def recall(self, keys: Sequence[Column], rows: int) -> None:
        """Load the cold ones of these groups."""
        if not self._used:
            return
        away = np.flatnonzero(~self._state.has(keys, rows))
        if not len(away):
            return
        records = self._cold.get_many(_codes(take_columns(keys, away)))
        found = [record for record in records if record is not None]
        if found:
            self._put_in(self._bytes.table(found))

    def _put_in(self, table: Sequence[Column]) -> None:
        new = slice(self._state.slots, self._state.slots + len(table[0]))
        self._state.put(table)
        self._grow(self._state.slots)
        self._touched[new] = self._runs
        self._fresh[new] = self._known[new] = True

    def touch(self, slots: npt.NDArray[Any]) -> None:
        """Mark these slots as changed and used."""
        self._grow(self._state.slots)
        self._touched[slots] = self._runs
        self._fresh[slots] = False

    def _grow(self, slots: int) -> None:
        self._touched = grown(self._touched, slots)
        self._fresh, self._known = (grown(each, slots) for each in self._flags)

    @property
    def _flags(self) -> tuple[Bools, Bools]:
        return self._fresh, self._known

    # Between runs.

    def settle(self) -> None:
        slots = self._state.slots
        if self._runs % SIZED_EVERY == 0:
            self._slot_bytes = self._estimated()
        self._runs += 1
        if slots * self._slot_bytes <= self._budget:
            return
        left = int(self._budget * SETTLED_FRACTION) // self._slot_bytes
        order = np.argsort(self._touched[:slots], kind="stable")
        going, staying = np.sort(order[: slots - left]), np.sort(order[slots - left :])
        self._write(going[~self._fresh[going]])
        changed = self._state.changed_slots()
        if changed is not None:
            self._changed.update(_codes(self._key_columns(going[changed[going]])))
        table = columns_of({"table": self._state.rows(staying), "objects": {}}, self._types)
        self._touched = self._touched[staying]
        self._fresh, self._known = (each[staying] for each in self._flags)
        self._state.reset(table, None if changed is None else changed[staying])

    def _estimated(self) -> int:
        """Returns the size of a slot, estimated from a sample of the newest."""
        if not self._state.slots:
            return SLOT_BYTES
        sample = np.arange(max(0, self._state.slots - _SAMPLE), self._state.slots)
        table = self._state.rows(sample)
        # Values that are not of a fixed size are Python objects in the columns.
        sizes = sum(
            sum(map(size_of, _plain(column).to_pylist())) if physical_dtype(column.type) is None else column.nbytes
            for column in table.columns
        )
        return SLOT_BYTES + 2 * int(sizes) // len(sample)

    def _write(self, slots: npt.NDArray[Any]) -> None:
        for start in range(0, len(slots), ROWS_AT_ONCE):
            part = slots[start : start + ROWS_AT_ONCE]
            table = columns_of({"table": self._state.rows(part), "objects": {}}, self._types)
            self._cold.write(zip(_codes(table[: self._keys]), self._bytes.of(table), strict=True))
            self._used = True
        self._count += int(np.count_nonzero(~self._known[slots]))
        self._fresh[slots] = self._known[slots] = True

    def _key_columns(self, slots: npt.NDArray[Any]) -> list[Column]:
        return columns_of({"table": self._state.rows(slots), "objects": {}}, self._types)[: self._keys]

    def _write_all(self) -> None:
        slots = self._state.slots
        self._grow(slots)
        self._write(np.flatnonzero(~self._fresh[:slots]))

    # Checkpoints.

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def forget_changes(self) -> None:
        """Forget which groups changed, since the next checkpoint writes everything."""
        self._changed = set()

    def written(self, rolling: Rolling, changed: Bools) -> pa.Table:
        """Returns the changed groups and a stretch of the rest."""
        self._write_all()
        codes = list({*self._changed, *_codes(self._key_columns(np.flatnonzero(changed)))})
        self._changed = set()
        found = dict(zip(codes, self._cold.get_many(codes), strict=True))
        wanted, passed, last = rolling.stretch_size(self._count), 0, b""
        for code, record in self._cold.scan(rolling.place):
            if passed == wanted:
                rolling.reach(last)
                break
            found[code] = record
            passed, last = passed + 1, code
        else:
            rolling.end_round()
        records = [record for record in found.values() if record is not None]
        assert len(records) == len(found)
        table: pa.Table = table_of(self._bytes.table(records), ())["table"]
        return table

    def rebuild(self, fragments: Iterable[Fragment]) -> None:
        """Replace the content by fragments, where later ones overwrite earlier ones; all groups are cold then."""
        self._cold.clear()
        self._used, self._count, self._changed = True, 0, set()
        self._touched, self._fresh, self._known = self._touched[:0], self._fresh[:0], self._known[:0]
        for fragment in fragments:
            assert isinstance(fragment.content, pa.Table)
            for start in range(0, fragment.content.num_rows, ROWS_AT_ONCE):
                part = fragment.content.slice(start, ROWS_AT_ONCE)
                table = columns_of({"table": part, "objects": {}}, self._types)
                codes = _codes(table[: self._keys])
                self._count += sum(record is None for record in self._cold.get_many(codes))
                self._cold.write(zip(codes, self._bytes.of(table), strict=True))

    @property
    def groups(self) -> int:
        """The number of groups, hot and cold."""
        slots = self._state.slots
        self._grow(slots)
        return self._count + int(np.count_nonzero(~self._known[:slots]))

    def everything(self) -> list[Column]:
        """Returns all groups as one table, which may be larger than memory."""
        self._write_all()
        return self._bytes.table([record for _, record in self._cold.scan()])


def _plain(column: Column) -> Column:
    """Returns a column with numbers in place of the dates and times inside of it."""
    kind = with_numbers(column.type)
    return column if kind == column.type else column.cast(kind)


def _codes(keys: Sequence[Column]) -> list[bytes]:
    if len(keys) == 1:
        return [key_bytes((value,)) for value in hashable_values(keys[0])]
    return [key_bytes(row) for row in zip(*map(hashable_values, keys), strict=True)]
