"""The first and the last value in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.accumulators.base import Accumulator, cast_to
from stretto.operators.grouping import Column, Groups, fixed_array, fixed_values, take_column, valid_rows

_BYTES = np.dtype(np.int8)


class Arrival(Accumulator):
    """first(x) and last(x). A second input marks the rows that count with a value that is not null.

    Partials: the value, and 1 if there is one, which may be null itself. They must be merged in the order of their
    rows, so the function must have all rows of a key, in their order: only running aggregates do."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, last: bool, marked: bool) -> None:
        super().__init__(name, result, [item, pa.int8()])
        self.arity = 2 if marked else 1
        self._last = last

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        counted = np.arange(len(groups.index))
        if self.arity == 2 and (valid := valid_rows(inputs[1])) is not None:
            counted = np.flatnonzero(valid)
        return self._chosen(groups, inputs[0], counted)

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        return self._chosen(groups, partials[0], np.flatnonzero(fixed_values(partials[1], _BYTES)))

    def _chosen(self, groups: Groups, values: Column, counted: npt.NDArray[np.intp]) -> list[Column]:
        ordered = counted if self._last else counted[::-1]
        rows = np.zeros(groups.count, np.intp)
        found = np.zeros(groups.count, np.bool_)
        rows[groups.index[ordered]] = ordered  # The last of several assignments stays.
        found[groups.index[ordered]] = True
        chosen = take_column(values, rows, None if found.all() else found)
        return [chosen, fixed_array(found.astype(np.int8), pa.int8())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0], self.result)
