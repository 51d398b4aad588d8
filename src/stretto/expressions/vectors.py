"""Columns while an expression runs: numpy values with a validity mask, or an Arrow array.

A value is a pair `(values, valid)`. For numbers, booleans, dates, timestamps and decimals, `values` is a numpy array,
or a numpy scalar for a constant, and `valid` is None (no nulls) or a boolean array (or scalar). A value under a null
is arbitrary, so no check may read it. A decimal's values are its unscaled integers: int64 where they fit, else
Python integers in an object array, which is slow and always right. For strings, binaries, arrays, maps and structs,
`values` is an Arrow array or scalar with its own nulls, and `valid` is None.

numpy is used because an operation on a hundred rows costs half a microsecond there and three in Arrow's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types

Value = tuple[Any, Any]

INT64_MAX = 2**63 - 1
_LOW_64_BITS = 2**64 - 1
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DTYPES: dict[pa.DataType, Any] = {
    types.BOOLEAN: np.dtype(np.bool_),
    types.TINYINT: np.dtype(np.int8),
    types.SMALLINT: np.dtype(np.int16),
    types.INT: np.dtype(np.int32),
    types.BIGINT: np.dtype(np.int64),
    types.FLOAT: np.dtype(np.float32),
    types.DOUBLE: np.dtype(np.float64),
    types.DATE: np.dtype(np.int32),
    types.TIMESTAMP: np.dtype(np.int64),
    types.DURATION: np.dtype(np.int64),
    types.MONTHS: np.dtype(np.int64),
    types.NULL: np.dtype(np.bool_),
}


def dtype_of(kind: pa.DataType) -> Any:
    """Returns the numpy type of a canonical Spark type; decimals are int64 while they fit."""
    return _DTYPES.get(kind, np.dtype(np.int64))


def null_of(kind: pa.DataType) -> Value:
    """Returns a constant NULL of this type."""
    if types.is_arrow_kept(kind):
        return pa.scalar(None, kind), None
    return dtype_of(kind).type(0), np.False_


def both_valid(left: Any, right: Any) -> Any:
    """Returns the validity of a result that is null if either side is."""
    if left is None:
        return right
    return left if right is None else left & right


def reader(kind: pa.DataType) -> Callable[[pa.Array], Value]:
    """Returns a function from an Arrow array of this input type to a value of its canonical type."""
    target = types.canonical(kind)
    if types.is_arrow_kept(target):
        return _read_kept if kind == target else lambda array: (array.cast(target), None)
    if target == types.NULL:
        return lambda array: null_of(types.NULL)
    if types.is_decimal(target):
        return _read_decimal if kind == target else lambda array: _read_decimal(array.cast(target))
    if target == types.BOOLEAN:
        return _read_boolean
    if pat.is_timestamp(kind) or pat.is_duration(kind):
        return _time_reader(kind.unit)
    if kind == types.MONTHS:
        return _read_months
    if kind == target:
        return _plain_reader(dtype_of(target))
    read = _plain_reader(dtype_of(target))
    return lambda array: read(array.cast(target))


def _read_kept(array: pa.Array) -> Value:
    return array, None


def _plain_reader(dtype: Any) -> Callable[[pa.Array], Value]:
    size = dtype.itemsize
    frombuffer = np.frombuffer

    def read(array: pa.Array) -> Value:
        count = len(array)
        if count == 0:
            return np.empty(0, dtype), None
        values = frombuffer(array.buffers()[1], dtype, count, array.offset * size)
        return values, (None if array.null_count == 0 else validity(array))

    return read


def _time_reader(unit: str) -> Callable[[pa.Array], Value]:
    read = _plain_reader(np.dtype(np.int64))
    if unit == "us":
        return read
    if unit == "ns":

        def from_nanos(array: pa.Array) -> Value:
            values, valid = read(array)
            return values // 1_000, valid

        return from_nanos
    factor = _MICROS[unit]

    def from_coarse(array: pa.Array) -> Value:
        values, valid = read(array)
        return values * factor, valid

    return from_coarse


def _read_months(array: pa.Array) -> Value:
    """Returns the months of intervals, whose parts are months and days of 32 bits and nanoseconds of 64."""
    count = len(array)
    if count == 0:
        return np.empty(0, np.int64), None
    parts = np.frombuffer(array.buffers()[1], np.int32, 4 * count, array.offset * 16)
    return parts[::4].astype(np.int64), (None if array.null_count == 0 else validity(array))


def _read_boolean(array: pa.Array) -> Value:
    count = len(array)
    if count == 0:
        return np.empty(0, np.bool_), None
    values = _bits(array.buffers()[1], array.offset, count)
    return values, (None if array.null_count == 0 else validity(array))


def _read_decimal(array: pa.Array) -> Value:
    count = len(array)
    if count == 0:
        return np.empty(0, np.int64), None
    pairs = np.frombuffer(array.buffers()[1], np.int64, 2 * count, array.offset * 16).reshape(count, 2)
    low, high = pairs[:, 0], pairs[:, 1]
    valid = None if array.null_count == 0 else validity(array)
    fits = high == low >> 63
    if valid is not None:
        fits |= ~valid
    if fits.all():
        return low.copy(), valid
    return high.astype(object) * 2**64 + low.astype(np.uint64).astype(object), valid


def validity(array: pa.Array) -> Any:
    """Returns true where the array is not null."""
    buffer = array.buffers()[0]
    if buffer is None:
        return np.full(len(array), array.null_count == 0)
    return _bits(buffer, array.offset, len(array))


def _bits(buffer: Any, offset: int, count: int) -> Any:
    # Only the bytes of this slice, so that the cost does not depend on the size of the whole batch.
    first, skip = offset >> 3, offset & 7
    packed = np.frombuffer(buffer, np.uint8, (skip + count + 7) >> 3, first)
    return np.unpackbits(packed, count=skip + count, bitorder="little")[skip:].view(np.bool_)


def from_arrow(result: Any, kind: pa.DataType) -> Value:
    """Returns a kernel's result, array or scalar, as a value of this canonical type."""
    if types.is_arrow_kept(kind):
        return result, None
    if not isinstance(result, pa.Scalar):
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        return reader(result.type)(result)
    if not result.is_valid:
        return null_of(kind)
    values, _ = reader(result.type)(pa.array([result], result.type))
    return values[0], None


def to_arrow(value: Value, kind: pa.DataType, count: int) -> pa.Array:
    """Returns a value of this canonical type as an Arrow array of `count` rows."""
    values, valid = value
    if types.is_arrow_kept(kind):
        if isinstance(values, pa.Scalar):
            # Arrow cannot repeat an array no times.
            return pa.repeat(values, count) if values.is_valid and count else pa.nulls(count, kind)
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if kind == types.NULL:
        return pa.nulls(count)
    if kind == types.MONTHS:
        return _months_array(values, valid, count)
    if np.ndim(values) == 0:
        values = np.full(count, values, object if is_wide(values) else dtype_of(kind))
    bitmap = None
    if valid is not None:
        if np.ndim(valid) == 0:
            valid = np.full(count, valid)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if types.is_decimal(kind):
        data = _decimal_words(values, valid)
    elif kind == types.BOOLEAN:
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values, dtype_of(kind))
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(data)])


def _months_array(values: Any, valid: Any, count: int) -> pa.Array:
    months = np.broadcast_to(values, count).tolist()
    known = [True] * count if valid is None else np.broadcast_to(valid, count).tolist()
    return pa.array([(each, 0, 0) if there else None for each, there in zip(months, known, strict=True)], types.MONTHS)


def _decimal_words(values: Any, valid: Any) -> Any:
    words = np.empty((len(values), 2), np.int64)
    if not is_wide(values):
        words[:, 0] = values
        words[:, 1] = values >> 63
        return words
    if valid is not None:
        values = np.where(valid, values, 0)
    words[:, 0] = (values & _LOW_64_BITS).astype(np.uint64).view(np.int64)
    words[:, 1] = (values >> 64).astype(np.int64)
    return words


def arrow_operand(value: Value, kind: pa.DataType) -> Any:
    """Returns a value in the form that a kernel takes: an array, or a scalar for a constant."""
    values, valid = value
    if types.is_arrow_kept(kind):
        return values
    if np.ndim(values) == 0 and (valid is None or np.ndim(valid) == 0):
        return to_arrow(value, kind, 1)[0]
    return to_arrow(value, kind, np.size(values) if np.ndim(values) else np.size(valid))


def is_wide(values: Any) -> bool:
    """Whether these unscaled decimals are Python integers rather than int64."""
    dtype = getattr(values, "dtype", None)
    return dtype is None or dtype.kind == "O"


def widened(values: Any) -> Any:
    """Returns unscaled decimals or integers as Python integers, for results that int64 may not hold."""
    if np.ndim(values) == 0:
        return int(values)
    return values if values.dtype == object else values.astype(object)


def bound(values: Any) -> int:
    """Returns the largest magnitude among integer values, nulls included (so it can only be too large)."""
    if np.ndim(values) == 0:
        return abs(int(values))
    if values.size == 0:
        return 0
    return max(-int(values.min()), int(values.max()))


def is_constant(value: Value, kind: pa.DataType) -> bool:
    """Whether a value is one for all rows."""
    values, valid = value
    if types.is_arrow_kept(kind):
        return isinstance(values, pa.Scalar)
    return np.ndim(values) == 0 and (valid is None or np.ndim(valid) == 0)


def arrow_mask(mask: Any) -> Any:
    """Returns a boolean numpy array, or scalar, for Arrow."""
    return pa.scalar(bool(mask)) if np.ndim(mask) == 0 else pa.array(mask)


def is_null(value: Value, kind: pa.DataType) -> Any:
    """Returns true where the value is null; a scalar for a constant or if nothing can be null."""
    values, valid = value
    if types.is_arrow_kept(kind):
        if isinstance(values, pa.Scalar):
            return np.bool_(not values.is_valid)
        return np.False_ if values.null_count == 0 else ~_arrow_validity(values)
    if valid is None:
        return np.False_
    return ~valid


def _arrow_validity(array: Any) -> Any:
    return from_arrow(pc.is_valid(array), types.BOOLEAN)[0]
