"""Aggregates that keep a list of values for each group: its size depends on the rows of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.accumulators.base import Accumulator, cast_to
from stretto.operators.grouping import (
    Column,
    Groups,
    order_codes,
    take_column,
    valid_rows,
)


def without_nulls(index: npt.NDArray[Any], values: Column) -> tuple[npt.NDArray[Any], Column]:
    """Returns the groups of the values that are not null, and these values."""
    return (index[valid_rows(values)], values.drop_null()) if values.null_count else (index, values)


def list_array(sizes: npt.NDArray[Any], values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns lists of these sizes from the values of all of them."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=kind)


class Listed(Accumulator):
    """Aggregates that keep a list of values per group."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType) -> None:
        super().__init__(name, result, [pa.large_list(item)])
        self._item = item

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        index, values = without_nulls(groups.index, inputs[0])
        return [self._listed(Groups(index, groups.count), cast_to(values, self._item))]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        lengths = partials[0].value_lengths().to_numpy()
        return [self._listed(Groups(np.repeat(groups.index, lengths), groups.count), partials[0].flatten())]

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        return self._lists(groups.sizes, take_column(values, groups.order))

    def _lists(self, sizes: npt.NDArray[Any], values: pa.Array) -> pa.Array:
        return list_array(sizes, values, self.partials[0])

    def _sorted(self, lists: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Returns the lengths of the lists, and their values sorted within each."""
        lengths = lists.value_lengths().to_numpy()
        values = lists.flatten()
        owner = np.repeat(np.arange(len(lists)), lengths)
        return lengths, take_column(values, np.lexsort((order_codes(values), owner)))


class TopK(Listed):
    """The k greatest values, in descending order."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, k: int) -> None:
        super().__init__(name, result, item)
        self._k = k

    def _listed(self, groups: Groups, values: pa.Array) -> pa.Array:
        order = np.lexsort((~order_codes(values), groups.index))
        place = np.arange(len(order)) - np.repeat(groups.starts[:-1], groups.sizes)
        return self._lists(np.minimum(groups.sizes, self._k), take_column(values, order[place < self._k]))

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0], self.result)


class Collect(Listed):
    """All values, sorted: sort_array(collect_list(x))."""

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, values = self._sorted(partials[0])
        return cast_to(self._lists(lengths, values), self.result)


class ListAgg(Listed):
    """The texts of the group in the order of other values, joined by a delimiter; null if there are none.

    Partials: a list of pairs of what orders a text and the text. Texts of one order are in their own order."""

    arity = 2

    def __init__(
        self, name: str, result: pa.DataType, by: pa.DataType, delimiter: str, descending: bool, distinct: bool
    ) -> None:
        super().__init__(name, result, pa.struct([("o", by), ("v", pa.string())]))
        self._delimiter, self._descending, self._distinct = delimiter, descending, distinct

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        texts, by = inputs
        rows = np.arange(len(groups.index)) if (valid := valid_rows(texts)) is None else np.flatnonzero(valid)
        pairs = pa.StructArray.from_arrays([take_column(by, rows), take_column(texts, rows)], ["o", "v"])
        return [self._listed(Groups(groups.index[rows], groups.count), cast_to(pairs, self._item))]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, pairs = self._sorted(partials[0])
        texts: list[str] = pairs.field("v").to_pylist()
        found: list[str | None] = []
        start = 0
        for length in lengths.tolist():
            group_texts = texts[start : start + length]
            start += length
            if self._distinct:
                group_texts = list(dict.fromkeys(group_texts))
            if self._descending:
                group_texts.reverse()
            found.append(self._delimiter.join(group_texts) if length else None)
        return pa.array(found, self.result)
