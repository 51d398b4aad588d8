"""Slots of a running aggregate as they were at a mark, read by another thread while the aggregate continues.

A checkpoint of a large state must not delay rows, so nothing is copied at the mark. Before a slot is written for the
first time after the mark, its values are saved. The reader gathers all slots first, and then overwrites them with the
saved values. If it has read a value that was written after the mark, the former value was saved before that write. So
the two threads never wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.grouping import Bools, Column, concat_columns, take_columns
from stretto.state import Deferred

Slots = npt.NDArray[np.intp]
Generations = npt.NDArray[np.int32]


class Raw(NamedTuple):
    """Values as they are in memory, and which of them are not null; None if none is null."""

    values: npt.NDArray[Any]
    valid: Bools | None


class SlotColumn(Protocol):
    """A column with a value per slot."""

    def raw(self, slots: Slots) -> Raw: ...
    def column(self, raw: Raw) -> pa.Array: ...


class FrozenSlots(Deferred):
    """The slots that changed in a generation, and a stretch of the others. A generation is the time between two marks.

    `keys` are the key columns of all slots, in one or more chunks. `columns` use the same memory as the aggregate's."""

    def __init__(
        self,
        generation: int,
        changed: Sequence[Slots],
        stretch: range,
        keys: Sequence[Sequence[Column]],
        columns: Sequence[SlotColumn],
    ) -> None:
        self._generation = generation
        self._changed = changed
        self._stretch = stretch
        self._keys = keys
        self._columns = columns
        self._saved: list[tuple[Slots, list[Raw]]] = []

    def save(self, slots: Slots, written: Generations) -> None:
        """Save these slots before they are written; `written` are the generations in which they were last written."""
        stretch = (slots >= self._stretch.start) & (slots < self._stretch.stop) & (written <= self._generation)
        concerned = slots[stretch | (written == self._generation)]
        if len(concerned):
            self._saved.append((concerned, [column.raw(concerned) for column in self._columns]))

    def table(self) -> pa.Table:
        slots = self._slots()
        gathered = [column.raw(slots) for column in self._columns]
        for saved, raws in tuple(self._saved):
            places = np.searchsorted(slots, saved)
            for found, was in zip(gathered, raws, strict=True):
                found.values[places] = was.values
                if found.valid is not None and was.valid is not None:
                    found.valid[places] = was.valid
        partials = [column.column(raw) for column, raw in zip(self._columns, gathered, strict=True)]
        return pa.table({f"c{n}": column for n, column in enumerate((*self._keys_at(slots), *partials))})

    def _slots(self) -> Slots:
        """Returns the slots in ascending order."""
        stretch = np.arange(self._stretch.start, self._stretch.stop)
        if not self._changed:
            return stretch
        changed = np.sort(np.concatenate(self._changed))
        below, above = np.searchsorted(changed, (self._stretch.start, self._stretch.stop))
        return np.concatenate([changed[:below], stretch, changed[above:]])

    def _keys_at(self, slots: Slots) -> list[Column]:
        """Returns the keys of slots; chunks are in the order of the slots."""
        first_slot = first = 0
        found = []
        for chunk in self._keys if self._keys[0] else ():
            end_slot = first_slot + len(chunk[0])
            last = int(np.searchsorted(slots, end_slot))
            found.append(take_columns(chunk, slots[first:last] - first_slot))
            first_slot, first = end_slot, last
        return [concat_columns(parts) for parts in zip(*found, strict=True)]
