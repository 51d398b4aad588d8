"""What every accumulator is made of: its interface, and values reduced by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretto.operators.grouping import (
    Bools,
    Column,
    Groups,
    fixed_array,
    fixed_values,
    physical_dtype,
    valid_rows,
)

INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)


class Scalar(Protocol):
    """A compiled expression: one value per row."""

    @property
    def type(self) -> pa.DataType: ...

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array: ...


class Call(Protocol):
    """A compiled call of an aggregate function, such as `expressions.AggregateCall`."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def argument(self) -> Scalar | None: ...
    @property
    def ordering(self) -> Scalar | None: ...
    @property
    def parameter(self) -> Any: ...
    @property
    def type(self) -> pa.DataType: ...


class Accumulator:
    """One aggregate over groups of rows. `arity` is the number of input columns, `width` that of partial columns.

    `objects` is true if partials are Python objects, in numpy arrays rather than in Arrow arrays.
    """

    arity = 1
    objects = False

    def __init__(self, name: str, result: pa.DataType, partials: Sequence[pa.DataType]) -> None:
        self.name = name
        self.result = result
        self.partials = tuple(partials)

    @property
    def width(self) -> int:
        return len(self.partials)

    def lift(self, groups: Groups, inputs: Sequence[Column]) -> list[Column]:
        """Returns a partial of each group from its rows."""
        raise NotImplementedError

    def merge(self, groups: Groups, partials: Sequence[Column]) -> list[Column]:
        """Returns one partial of each group from several; by default partials are merged like rows."""
        return self.lift(groups, partials)

    def finish(self, partials: Sequence[Column]) -> pa.Array:
        """Returns the results, of the declared type."""
        raise NotImplementedError


def reduced(
    ufunc: Any, groups: Groups, values: npt.NDArray[Any], valid: Bools | None, identity: Any
) -> tuple[npt.NDArray[Any], Bools | None]:
    """Returns the values of each group reduced by the ufunc, and which groups had any value (None: all)."""
    index = groups.index
    if valid is not None:
        values, index = values[valid], index[valid]
    if groups.count == 1 and len(values):
        return np.array([ufunc.reduce(values)], values.dtype), None
    result = np.full(groups.count, identity, values.dtype)
    with np.errstate(invalid="ignore"):  # NaN is an ordinary value here
        ufunc.at(result, index, values)
    return result, None if valid is None else np.bincount(index, minlength=groups.count) > 0


def numbers_of(array: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    dtype = physical_dtype(array.type)
    if dtype is None:
        array = array.cast(pa.float64() if pa.types.is_decimal(array.type) else pa.int64())
        dtype = np.dtype(np.float64 if pa.types.is_floating(array.type) else np.int64)
    return fixed_values(array, dtype), valid_rows(array)


def cast_to(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the array in the declared type; times are truncated to microseconds, as in Spark."""
    if array.type == kind:
        return array
    if pa.types.is_timestamp(kind) and array.type.unit == "ns":
        return fixed_array(fixed_values(array, INT64) // 1_000, pa.timestamp("us"), valid_rows(array)).cast(kind)
    return pc.cast(array, kind)
