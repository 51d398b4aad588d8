"""Quantiles: exact, from all values of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.operators.accumulators.base import FLOAT64, INT64, cast_to
from stretto.operators.accumulators.listed import Listed, list_array
from stretto.operators.grouping import (
    Column,
    Groups,
    fixed_array,
    fixed_values,
    physical_dtype,
    take_column,
    valid_rows,
)

# Integers of this many decimal digits are exact in a double.
_EXACT_DIGITS = 15
_EXACT_INTEGER = 2**53


class _Fractions(Listed):
    """One quantile for each group, or a list of them."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, fractions: float | list[float]) -> None:
        super().__init__(name, result, item)
        self._several = isinstance(fractions, list)
        self._fractions: list[float] = fractions if isinstance(fractions, list) else [fractions]

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        lengths, ordered = self._sorted(partials[0])
        found = lengths > 0
        if not len(ordered):
            return pa.nulls(len(lengths), self.result)
        starts = np.cumsum(lengths) - lengths
        quantiles = [self._quantile(ordered, starts, lengths, fraction) for fraction in self._fractions]
        valid = None if found.all() else found
        if not self._several:
            (values,) = quantiles
            return cast_to(values if valid is None else _null_where(values, found), self.result)
        count, size = len(lengths), len(quantiles)
        every = pa.concat_arrays(quantiles).take(pa.array(np.arange(count * size).reshape(size, count).T.ravel()))
        lists = list_array(np.full(count, size), every, pa.large_list(every.type))
        return cast_to(lists if valid is None else _null_where(lists, found), self.result)

    def _sorted(self, lists: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Returns the values sorted within each list, -0.0 before 0.0 as in Java."""
        lengths, ordered = super()._sorted(lists)
        dtype = physical_dtype(ordered.type)
        if dtype is None or dtype.kind != "f":
            return lengths, ordered
        values = fixed_values(ordered, dtype)
        zeros = values == 0
        if not zeros.any():
            return lengths, ordered
        owner = np.repeat(np.arange(len(lengths)), lengths)[zeros]
        values = values.copy()
        values[zeros] = values[zeros][np.lexsort((~np.signbit(values[zeros]), owner))]
        return lengths, fixed_array(values, ordered.type)

    def _quantile(
        self, ordered: pa.Array, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], fraction: float
    ) -> pa.Array:
        """Returns one quantile of each group; that of a group without values is of no meaning."""
        raise NotImplementedError


def _null_where(values: pa.Array, found: Any) -> pa.Array:
    return take_column(values, np.arange(len(values)), found)


class Quantile(_Fractions):
    """A quantile with linear interpolation, as Spark's percentile."""

    def __init__(self, name: str, result: pa.DataType, fractions: float | list[float]) -> None:
        super().__init__(name, result, pa.float64(), fractions)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        array = inputs[0]
        array = doubles_of(array) if pa.types.is_decimal(array.type) else array.cast(pa.float64(), safe=False)
        return super().lift(groups, [array])

    def _quantile(
        self, ordered: pa.Array, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], fraction: float
    ) -> pa.Array:
        values = fixed_values(ordered, FLOAT64)
        position = np.where(lengths > 0, fraction * (lengths - 1), 0.0)
        below, above = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        last = len(values) - 1
        low, high = values[np.minimum(starts + below, last)], values[np.minimum(starts + above, last)]
        with np.errstate(invalid="ignore"):
            between = low + (high - low) * (position - below)
            quantiles = np.where((below == above) | (low == high), low, between)
        return fixed_array(quantiles, pa.float64())


class PercentileApprox(_Fractions):
    """The least value such that at least this fraction of the values is not greater: one of the group's own."""

    def __init__(self, name: str, result: pa.DataType, item: pa.DataType, fractions: float | list[float]) -> None:
        super().__init__(name, result, item, fractions)

    def _quantile(
        self, ordered: pa.Array, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], fraction: float
    ) -> pa.Array:
        ranks = np.maximum(np.ceil(fraction * lengths).astype(np.int64) - 1, 0)
        chosen = take_column(ordered, np.minimum(starts + ranks, len(ordered) - 1))
        return _through_doubles(chosen) if chosen.type == pa.int64() or pa.types.is_timestamp(chosen.type) else chosen


def _through_doubles(array: pa.Array) -> pa.Array:
    """Returns integers or timestamps as they are after a double, with which Spark's percentile_approx computes."""
    values = fixed_values(array, INT64)
    large = np.abs(values) > _EXACT_INTEGER
    if not large.any():
        return array
    # As in Java, a double beyond the greatest integer becomes the greatest one.
    rounded = [min(int(float(value)), 2**63 - 1) for value in values[large].tolist()]
    values = values.copy()
    values[large] = rounded
    return fixed_array(values, array.type, valid_rows(array))


def doubles_of(array: pa.Array) -> pa.Array:
    """Returns the nearest doubles to decimals; Arrow's own cast is sometimes off by one bit."""
    if array.type.precision > _EXACT_DIGITS:
        return pa.array([None if value is None else float(value) for value in array.to_pylist()], pa.float64())
    units = fixed_values(array.cast(pa.decimal128(38, array.type.scale)), np.dtype("<i8,<i8"))["f0"]
    return fixed_array(units / 10.0**array.type.scale, pa.float64(), valid_rows(array))
