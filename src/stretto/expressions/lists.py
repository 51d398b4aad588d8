"""Arrays and maps taken apart: where each row's elements begin, how many there are, and all elements in one array.

Arrow lets a null row have elements and a slice share the elements of the whole. Here a null row has none, and the
elements are those of the rows at hand, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.expressions.nodes import Site
from stretto.expressions.vectors import validity

#: Arrow counts the elements of a batch with 32 bits, and an array of Spark's has at most so many.
_ELEMENTS_MAX = 2**31 - 16


@dataclass(frozen=True, slots=True)
class Lists:
    """Rows of elements. `offsets` has one entry more than there are rows; `valid` is None if no row is null."""

    offsets: Any
    values: pa.Array
    valid: Any

    @property
    def lengths(self) -> Any:
        return np.diff(self.offsets)

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def parents(self) -> Any:
        """The row of each element."""
        return np.repeat(np.arange(self.rows), self.lengths)

    @property
    def positions(self) -> Any:
        """The place of each element in its row, from 0."""
        return np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def known(self) -> Any:
        """True for the rows that are not null."""
        return np.ones(self.rows, np.bool_) if self.valid is None else self.valid

    def null_elements(self) -> Any:
        """Returns true for each element that is null."""
        return is_missing(self.values)

    def counts(self, mask: Any) -> Any:
        """Returns how many elements of each row a mask selects."""
        return np.diff(np.concatenate(([0], np.cumsum(mask)))[self.offsets])

    def filtered(self, mask: Any) -> Lists:
        """Returns the elements that a mask selects."""
        return of_lengths(self.counts(mask), self.values.filter(pa.array(mask)), self.valid)


def taken_apart(array: pa.Array) -> Lists:
    """Returns the rows of an array of lists or maps; the elements of a map are structs of its key and its value."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    valid = None if array.null_count == 0 else validity(array)
    if valid is not None and np.any(np.diff(offsets)[~valid]):
        lengths = np.where(valid, np.diff(offsets), 0)
        values = array.values.take(pa.array(ranges(offsets[:-1], lengths)))
        return of_lengths(lengths, values, valid)
    return Lists(offsets - offsets[0], array.values.slice(offsets[0], offsets[-1] - offsets[0]), valid)


def of_lengths(lengths: Any, values: pa.Array, valid: Any) -> Lists:
    """Returns rows with so many elements each."""
    return Lists(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), values, valid)


def put_together(lists: Lists, kind: Any) -> pa.Array:
    """Returns an array of lists or maps of this type."""
    offsets = pa.array(lists.offsets, pa.int32())
    mask = None if lists.valid is None or not len(lists.valid) else pa.array(~lists.valid)
    if pat.is_map(kind):
        keys, items = lists.values.field(0), lists.values.field(1)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    return pa.ListArray.from_arrays(offsets, lists.values, type=kind, mask=mask)


def entries(keys: pa.Array, items: pa.Array) -> pa.Array:
    """Returns the elements of a map from its keys and values."""
    fields = [pa.field("key", keys.type, False), pa.field("value", items.type)]
    return pa.StructArray.from_arrays([keys, items], fields=fields)


def is_missing(array: pa.Array) -> Any:
    """Returns true where the array is null, as numpy."""
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    return np.ones(len(array), np.bool_) if pat.is_null(array.type) else ~validity(array)


def ranges(starts: Any, lengths: Any) -> Any:
    """Returns start, start + 1, ... of so many numbers for each row, one row after the other."""
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


def within_bounds(lengths: Any, site: Site) -> Any:
    """Returns the lengths; raises if the rows of a batch would have more elements than Arrow can count."""
    total = int(np.sum(lengths, dtype=np.float64))
    if total > _ELEMENTS_MAX:
        raise site.error("arrays of too many elements", f"{total} in a batch", "make shorter arrays")
    return lengths
