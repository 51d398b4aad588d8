"""Sums and averages of decimals, exact."""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions.types import spark_type_name
from stretto.operators.accumulators.base import Accumulator, reduced
from stretto.operators.accumulators.sums import merged_counts, value_counts
from stretto.operators.grouping import Bools, Column, Groups, fixed_values, valid_rows

_LOW_32 = 0xFFFFFFFF
_WIDE = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
_DIGITS_MAX = 38
# A sum of so many digits less than 38 cannot need more than 38 digits: no group has 10**10 rows.
_SPARE_DIGITS = 10


def _partial_type(argument: pa.DataType) -> pa.DataType:
    """Returns the type of a sum, wide enough that only a final result may not fit, and not a partial one."""
    if argument.precision + _SPARE_DIGITS > _DIGITS_MAX:
        return pa.decimal256(76, argument.scale)
    return pa.decimal128(_DIGITS_MAX, argument.scale)


class DecimalSum(Accumulator):
    """sum of decimals. With `tolerant`, one that does not fit its type is null."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType, tolerant: bool = False) -> None:
        super().__init__(name, result, [_partial_type(argument)])
        self._tolerant = tolerant

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        return [_sums(groups, inputs[0], self.partials[0])]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        try:
            return partials[0].cast(self.result)
        except pa.ArrowInvalid:
            return _fitted(self.name, "sum", partials[0].to_pylist(), self.result, self._tolerant)


class DecimalAverage(Accumulator):
    """avg of decimals: the exact sum by the count, rounded half up to the declared scale."""

    def __init__(self, name: str, result: pa.DataType, argument: pa.DataType, tolerant: bool = False) -> None:
        super().__init__(name, result, [_partial_type(argument), pa.int64()])
        self._tolerant = tolerant

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        return [_sums(groups, inputs[0], self.partials[0]), value_counts(groups, inputs[0])]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        return [_sums(groups, partials[0], self.partials[0]), merged_counts(groups, partials[1])]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        unit = decimal.Decimal(1).scaleb(-self.result.scale)
        averages = [
            None if total is None else _WIDE.divide(total, decimal.Decimal(count)).quantize(unit, context=_WIDE)
            for total, count in zip(partials[0].to_pylist(), partials[1].to_pylist(), strict=True)
        ]
        return _fitted(self.name, "average", averages, self.result, self._tolerant)


def _fitted(
    name: str, what: str, values: Sequence[decimal.Decimal | None], kind: pa.DataType, tolerant: bool
) -> pa.Array:
    """Returns values of a type; one that does not fit is an error, or null."""
    limit = decimal.Decimal(10) ** (kind.precision - kind.scale)
    found: list[decimal.Decimal | None] = []
    for value in values:
        fits = value is None or abs(value) < limit
        if not fits and not tolerant:
            raise ExpressionError(
                f"the {what} does not fit {spark_type_name(kind)}",
                f"{value}, of the aggregate '{name}'",
                "CAST the argument to DOUBLE.",
            )
        found.append(value if fits else None)
    return pa.array(found, kind)


def _sums(groups: Groups, array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns exact sums: each 32-bit limb of a decimal is summed in 64 bits, and Python combines the limbs."""
    count = kind.bit_width // 64
    words = fixed_values(array.cast(kind), np.dtype(",".join(["<u8"] * count)))
    valid = valid_rows(array)
    found: Bools | None = None
    totals = np.zeros(groups.count, object)
    mask = np.uint64(_LOW_32)
    for place in range(count):
        word = words[f"f{place}"]
        low = (word & mask).astype(np.int64)
        # The sign is in the highest limb.
        high = word.view(np.int64) >> 32 if place == count - 1 else (word >> np.uint64(32)).astype(np.int64)
        for half, limb in enumerate((low, high)):
            sums, found = reduced(np.add, groups, limb, valid, 0)
            totals += sums.astype(object) * (1 << (64 * place + 32 * half))
    values = [decimal.Decimal(total).scaleb(-kind.scale, _WIDE) for total in totals]
    return pa.array(values, kind, mask=None if found is None else ~found)
