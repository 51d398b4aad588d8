"""The greatest and the least values, of the group or by another value, and bits of all values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.accumulators.base import Accumulator, cast_to, reduced
from stretto.operators.grouping import (
    Bools,
    Column,
    Groups,
    Int64s,
    fixed_array,
    fixed_values,
    order_codes,
    physical_dtype,
    take_column,
    valid_rows,
)


def _identity(dtype: np.dtype[Any], largest: bool) -> Any:
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    info = np.iinfo(dtype)
    return info.min if largest else info.max


def extremes(
    groups: Groups, values: npt.NDArray[Any], valid: Bools | None, largest: bool
) -> tuple[npt.NDArray[Any], Bools | None]:
    """Returns the greatest or least value of each group, with NaN as the greatest, and which groups had any."""
    ufunc = np.maximum if largest else np.minimum
    if not largest and values.dtype.kind == "f":
        missing = np.isnan(values)
        if missing.any():
            return _least_with_nan(groups, values, missing, valid)
    return reduced(ufunc, groups, values, valid, _identity(values.dtype, largest))


def _least_with_nan(
    groups: Groups, values: npt.NDArray[Any], missing: Bools, valid: Bools | None
) -> tuple[npt.NDArray[Any], Bools | None]:
    numbers = ~missing if valid is None else valid & ~missing
    least, found = reduced(np.minimum, groups, values, numbers, np.inf)
    if found is not None:
        least[~found] = np.nan
    if valid is None:
        return least, None
    return least, np.bincount(groups.index[valid], minlength=groups.count) > 0


class Extreme(Accumulator):
    """min and max of ordered values."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType, largest: bool) -> None:
        super().__init__(name, result, [argument])
        self._largest = largest
        self._dtype = physical_dtype(argument)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array = inputs[0]
        if self._dtype is None:
            rows, found = winners(groups, order_codes(array), valid_rows(array), self._largest)
            return [take_column(array, rows, found)]
        values, found = extremes(groups, fixed_values(array, self._dtype), valid_rows(array), self._largest)
        return [fixed_array(values, array.type, found)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0], self.result)


def winners(
    groups: Groups, codes: Int64s, valid: Bools | None, largest: bool
) -> tuple[npt.NDArray[np.intp], Bools | None]:
    """Returns for each group a row with the greatest or least code, and which groups have one."""
    best, found = extremes(groups, codes, valid, largest)
    hit = codes == best[groups.index]
    if valid is not None:
        hit &= valid
    hits = np.flatnonzero(hit)
    rows = np.zeros(groups.count, np.intp)
    rows[groups.index[hits]] = hits
    return rows, found


class ExtremeBy(Accumulator):
    """max_by and min_by; of tied values the greatest or the least, so that the order of arrival does not matter."""

    arity = 2

    def __init__(
        self, name: str, result: pa.DataType, argument: pa.DataType, ordering: pa.DataType, largest: bool
    ) -> None:
        super().__init__(name, result, [argument, ordering])
        self._largest = largest

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, ordering = inputs
        valid = valid_rows(ordering)
        codes = order_codes(ordering)
        best, _ = extremes(groups, codes, valid, self._largest)
        hit = codes == best[groups.index]
        if valid is not None:
            hit &= valid
        hits = np.flatnonzero(hit)
        ties = Groups(groups.index[hits], groups.count)
        chosen, _ = winners(ties, order_codes(take_column(values, hits)), None, self._largest)
        found = None if valid is None else ties.sizes > 0
        rows = hits[chosen] if len(hits) else chosen
        return [take_column(values, rows, found), take_column(ordering, rows, found)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0], self.result)


_BITS: dict[str, tuple[Any, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
}
"""For each function the operation, and the value that changes nothing."""


class Bits(Accumulator):
    """bit_and, bit_or and bit_xor of whole numbers."""

    def __init__(self, name: str, result: pa.DataType, function: str) -> None:
        super().__init__(name, result, [result])
        self._operation, self._identity = _BITS[function]

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array = cast_to(inputs[0], self.result)
        dtype = physical_dtype(self.result)
        assert dtype is not None
        values, found = reduced(self._operation, groups, fixed_values(array, dtype), valid_rows(array), self._identity)
        return [fixed_array(values, self.result, found)]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return partials[0]
