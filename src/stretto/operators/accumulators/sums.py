"""Counts, sums and averages: partials of constant size, exact for whole numbers and decimals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions.types import spark_type_name
from stretto.operators.accumulators.base import INT64, Accumulator, cast_to, numbers_of, reduced
from stretto.operators.grouping import (
    INT64_MAX,
    Bools,
    Column,
    Groups,
    Int64s,
    fixed_array,
    fixed_values,
    take_column,
    valid_rows,
)

_LOW_32 = 0xFFFFFFFF


class Count(Accumulator):
    """count(*) and count(x)."""

    def __init__(self, name: str, result: pa.DataType, counts_values: bool) -> None:
        super().__init__(name, result, [pa.int64()])
        self.arity = 1 if counts_values else 0

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        if inputs and inputs[0].null_count:
            counts = np.bincount(groups.index[valid_rows(inputs[0])], minlength=groups.count)
        else:
            counts = groups.sizes
        return [fixed_array(counts.astype(np.int64, copy=False), pa.int64())]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        counts, _ = reduced(np.add, groups, fixed_values(partials[0], INT64), None, 0)
        return [fixed_array(counts, pa.int64())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        return cast_to(partials[0], self.result)


class Sum(Accumulator):
    """sum of integers, exact, or of floats, in doubles.

    An integer sum is kept in 64 bits and a carry, so that only a final result that does not fit raises, as in Spark's
    ANSI mode, and not a partial sum.
    """

    def __init__(self, name: str, result: pa.DataType, tolerant: bool = False) -> None:
        """With `tolerant`, a sum that does not fit is null."""
        self._tolerant = tolerant
        self._floating = pa.types.is_floating(result)
        super().__init__(name, result, [pa.float64()] if self._floating else [pa.int64(), pa.int64()])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, valid = numbers_of(inputs[0])
        if self._floating:
            return [_float_sums(groups, values.astype(np.float64, copy=False), valid)]
        return _carried_sums(groups, values.astype(np.int64, copy=False), valid)

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        sums = self.lift(groups, partials[:1])
        if self._floating:
            return sums
        carries = fixed_values(partials[1], INT64)
        if carries.any():
            more, _ = reduced(np.add, groups, carries, None, 0)
            sums[1] = fixed_array(fixed_values(sums[1], INT64) + more, pa.int64())
        return sums

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        if self._floating or not (carries := fixed_values(partials[1], INT64)).any():
            return cast_to(partials[0], self.result)
        if self._tolerant:
            return cast_to(take_column(partials[0], np.arange(len(carries)), carries == 0), self.result)
        raise ExpressionError(
            f"a sum does not fit into {spark_type_name(self.result)}",
            f"the aggregate '{self.name}'",
            "CAST the argument to DOUBLE or a DECIMAL.",
        )


def _float_sums(groups: Groups, values: npt.NDArray[np.float64], valid: Bools | None) -> pa.Array:
    if valid is None:
        return fixed_array(np.bincount(groups.index, values, groups.count), pa.float64())
    index = groups.index[valid]
    sums = np.bincount(index, values[valid], groups.count)
    return fixed_array(sums, pa.float64(), np.bincount(index, minlength=groups.count) > 0)


def _carried_sums(groups: Groups, values: Int64s, valid: Bools | None) -> list[Column]:
    """Returns the low 64 bits of each sum, and how often 2**64 must be added."""
    if len(values) and max(-int(values.min()), int(values.max())) * len(values) > INT64_MAX:
        low, found = reduced(np.add, groups, values & _LOW_32, valid, 0)
        high, _ = reduced(np.add, groups, values >> 32, valid, 0)
        high = high + (low >> 32)
        sums = (high << 32) | (low & _LOW_32)
        carries = (high - (sums >> 32)) >> 32
    else:
        sums, found = reduced(np.add, groups, values, valid, 0)
        carries = np.zeros(groups.count, np.int64)
    return [fixed_array(sums, pa.int64(), found), fixed_array(carries, pa.int64())]


class Average(Accumulator):
    """avg of numbers, as a double."""

    def __init__(self, name: str, result: pa.DataType) -> None:
        super().__init__(name, result, [pa.float64(), pa.int64()])

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        values, valid = numbers_of(inputs[0])
        index = groups.index
        if valid is None:
            counts = groups.sizes
        else:
            values, index = values[valid], index[valid]
            counts = np.bincount(index, minlength=groups.count)
        sums = np.bincount(index, values.astype(np.float64, copy=False), groups.count)
        return [fixed_array(sums, pa.float64()), fixed_array(counts.astype(np.int64, copy=False), pa.int64())]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        sums = np.bincount(groups.index, fixed_values(partials[0], np.dtype(np.float64)), groups.count)
        counts, _ = reduced(np.add, groups, fixed_values(partials[1], INT64), None, 0)
        return [fixed_array(sums, pa.float64()), fixed_array(counts, pa.int64())]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        sums = fixed_values(partials[0], np.dtype(np.float64))
        counts = fixed_values(partials[1], INT64)
        found = counts > 0
        averages = sums / np.maximum(counts, 1)
        return cast_to(fixed_array(averages, pa.float64(), None if found.all() else found), self.result)


class DurationAverage(Accumulator):
    """avg of intervals of days to seconds, rounded half up."""

    def __init__(self, name: str, result: pa.DataType) -> None:
        super().__init__(name, result, [pa.int64(), pa.int64(), pa.int64()])
        self._sum = Sum(name, pa.int64())

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        return [*self._sum.lift(groups, inputs), value_counts(groups, inputs[0])]

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        return [*self._sum.merge(groups, partials[:2]), merged_counts(groups, partials[2])]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        # One division per group, in Python, where sums of more than 64 bits are integers like others.
        averages = [
            None if total is None else _half_up(total + (carry << 64), count)
            for total, carry, count in zip(*(column.to_pylist() for column in partials), strict=True)
        ]
        return pa.array(averages, pa.int64()).cast(self.result)


def _half_up(total: int, count: int) -> int:
    rounded = (2 * abs(total) + count) // (2 * count)
    return rounded if total >= 0 else -rounded


def value_counts(groups: Groups, values: Column) -> pa.Array:
    """Returns the number of values of each group that are not null."""
    valid = valid_rows(values)
    counts = groups.sizes if valid is None else np.bincount(groups.index[valid], minlength=groups.count)
    return fixed_array(counts.astype(np.int64, copy=False), pa.int64())


def merged_counts(groups: Groups, counts: Column) -> pa.Array:
    return fixed_array(reduced(np.add, groups, fixed_values(counts, INT64), None, 0)[0], pa.int64())
