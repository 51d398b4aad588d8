"""How often each value occurs in a group: the distinct values, and their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.expressions.zeros import one_zero
from stretto.operators.accumulators.base import INT64, Accumulator, cast_to
from stretto.operators.accumulators.listed import list_array, without_nulls
from stretto.operators.grouping import (
    Column,
    Groups,
    Int64s,
    fixed_values,
    group,
    order_codes,
    take_column,
)


class Mode(Accumulator):
    """The most frequent value; of several the least, or the greatest. Partials: the distinct values, their counts."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, greatest: bool) -> None:
        super().__init__(name, result, [pa.large_list(item), pa.large_list(pa.int64())])
        self._greatest = greatest

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        index, values = without_nulls(groups.index, inputs[0])
        values = one_zero(values)
        return self._counted(index, groups.count, values, np.ones(len(values), np.int64))

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        values, counts = (column.flatten() for column in partials)
        index = np.repeat(groups.index, partials[0].value_lengths().to_numpy())
        return self._counted(index, groups.count, values, fixed_values(counts, INT64))

    def _counted(self, index: npt.NDArray[Any], count: int, values: Column, counts: Int64s) -> list[Column]:
        pairs = group([values], len(values), index.astype(np.int64, copy=False))
        rows = pairs.sample
        sums = np.zeros(pairs.count, np.int64)
        np.add.at(sums, pairs.index, counts)
        sizes = np.bincount(index[rows], minlength=count)
        found = list_array(sizes, take_column(values, rows), self.partials[0])
        return [found, list_array(sizes, pa.array(sums), self.partials[1])]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths = partials[0].value_lengths().to_numpy()
        values, counts = partials[0].flatten(), fixed_values(partials[1].flatten(), INT64)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        codes = order_codes(values)
        # The last row of each group in this order: the greatest count, then the least value.
        order = np.lexsort((codes if self._greatest else ~codes, counts, owner))
        rows = np.zeros(len(lengths), np.intp)
        rows[owner[order]] = order
        found = lengths > 0
        return cast_to(take_column(values, rows, None if found.all() else found), self.result)
