"""Group rows by key columns: any number of columns of any type, in a few numpy passes.

Each column becomes integer codes (equal codes for equal values, one code for null); the codes of several columns are
packed into one integer; and the packed integers become dense group numbers, by counting if their range is small,
else by sorting. Keys compare as in Spark: null equals null, NaN equals NaN, -0.0 equals 0.0.

Columns are Arrow arrays; values without an Arrow type are in a numpy array of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column = Any

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
# Packed codes stay below this, so that adding the next column cannot overflow.
_PACKED_MAX = 2**62
# A range of codes up to this many times the number of rows is counted rather than sorted.
_DENSE_FACTOR = 4
_DENSE_MIN = 1024

_PHYSICAL: dict[int, np.dtype[Any]] = {}
for _type, _name in (
    (pa.int8(), "i1"), (pa.int16(), "i2"), (pa.int32(), "i4"), (pa.int64(), "i8"),
    (pa.uint8(), "u1"), (pa.uint16(), "u2"), (pa.uint32(), "u4"), (pa.uint64(), "u8"),
    (pa.float32(), "f4"), (pa.float64(), "f8"),
    (pa.date32(), "i4"), (pa.date64(), "i8"), (pa.time32("s"), "i4"), (pa.time64("us"), "i8"),
    (pa.timestamp("us"), "i8"), (pa.duration("us"), "i8"),
):  # fmt: skip
    _PHYSICAL[_type.id] = np.dtype(_name)


def grown(values: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Returns an array of at least `size` values: itself, or one at least twice as long, so that growing is cheap."""
    if size <= len(values):
        return values
    more = max(2 * len(values), size) - len(values)
    return np.concatenate([values, np.full(more, fill, values.dtype)])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type without dictionary encoding."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def physical_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """Returns the numpy type of the values in memory, for types of a fixed number of bytes; else None."""
    return _PHYSICAL.get(kind.id)


def fixed_values(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns the values of an array as they are in memory, without a copy; values under nulls are arbitrary."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def with_numbers(kind: pa.DataType) -> pa.DataType:
    """Returns a type with whole numbers in place of dates, timestamps and durations inside of lists and structs.

    Python has no dates before the year 1."""
    if pa.types.is_large_list(kind):
        return pa.large_list(with_numbers(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(with_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_numbers(field.type)) for field in kind])
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind


def valid_rows(array: pa.Array) -> Bools | None:
    """Returns which rows are not null, or None if no row is null."""
    if not array.null_count:
        return None
    result: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return result


def fixed_array(values: npt.NDArray[Any], kind: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """Returns an array over numpy values, without a copy; null where not valid."""
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])


def concat_columns(columns: Sequence[Column]) -> Column:
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return pa.concat_arrays(columns)


def take_column(column: Column, rows: npt.NDArray[Any], found: Bools | None = None) -> Column:
    """Returns the column at the rows; null where not found."""
    if isinstance(column, np.ndarray):
        return column[rows]
    if found is not None:
        return column.take(pa.array(rows, pa.int64(), mask=~found))
    dtype = _PHYSICAL.get(column.type.id)
    if dtype is not None and not column.null_count:
        return fixed_array(fixed_values(column, dtype)[rows], column.type)
    return column.take(pa.array(rows, pa.int64()))


def take_columns(columns: Sequence[Column], rows: npt.NDArray[Any]) -> list[Column]:
    return [take_column(column, rows) for column in columns]


def slice_column(column: Column, start: int, stop: int) -> Column:
    if isinstance(column, np.ndarray):
        return column[start:stop]
    return column.slice(start, stop - start)


class Groups:
    """Rows in groups numbered from 0, in ascending order of the first key."""

    __slots__ = ("_first", "_order", "_sizes", "_starts", "count", "index")

    def __init__(self, index: npt.NDArray[np.intp], count: int) -> None:
        self.index = index
        self.count = count
        self._sizes: npt.NDArray[np.intp] | None = None
        self._first: npt.NDArray[np.intp] | None = None
        self._order: npt.NDArray[np.intp] | None = None
        self._starts: npt.NDArray[np.intp] | None = None

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """The number of rows of each group."""
        if self._sizes is None:
            self._sizes = np.bincount(self.index, minlength=self.count)
        return self._sizes

    @property
    def sample(self) -> npt.NDArray[np.intp]:
        """One row of each group, from which its keys can be read."""
        if self._first is None:
            self._first = np.empty(self.count, np.intp)
            self._first[self.index] = np.arange(len(self.index))
        return self._first

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """The rows sorted by group; rows of one group keep their order."""
        if self._order is None:
            if self.count == 1:
                self._order = np.arange(len(self.index))
            elif self.count <= 1 << 16:  # numpy sorts 16-bit integers by radix, several times as fast
                self._order = np.argsort(self.index.astype(np.uint16), kind="stable")
            else:
                self._order = np.argsort(self.index, kind="stable")
        return self._order

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """Where in `order` each group starts, and at the end where the last one stops."""
        if self._starts is None:
            self._starts = np.zeros(self.count + 1, np.intp)
            np.cumsum(self.sizes, out=self._starts[1:])
        return self._starts


def group(columns: Sequence[Column], rows: int, leading: npt.NDArray[np.int64] | None = None) -> Groups:
    """Group `rows` rows by the columns; groups are in ascending order of `leading`, if it is given."""
    packed: npt.NDArray[Any] | None = None
    span = 1
    if leading is not None:
        packed, span = _ranged(leading, rows)
    for column in columns:
        codes, width = equality_codes(column)
        if packed is None or span == 1:
            packed, span = codes, width
            continue
        if width == 1:
            continue
        if span * width > _PACKED_MAX:
            dense = _dense(packed, span, rows)
            packed, span = dense.index, dense.count
        if span * width > _PACKED_MAX:
            dense = _dense(codes, width, rows)
            codes, width = dense.index, dense.count
        packed = packed * width + codes
        span *= width
    if packed is None:
        return Groups(np.zeros(rows, np.intp), min(rows, 1))
    return _dense(packed, span, rows)


def order_within(groups: Groups, codes: Int64s) -> npt.NDArray[np.intp]:
    """Returns the rows sorted by group and, within each, by code."""
    moved, width = _ranged(codes, len(codes))
    if groups.count * width > _PACKED_MAX:
        return np.lexsort((moved, groups.index))
    return np.argsort(groups.index * width + moved)


def equality_codes(array: Column) -> tuple[npt.NDArray[Any], int]:
    """Returns codes from 0 to below a width, equal exactly where the values are, and the width."""
    kind = array.type
    dtype = _PHYSICAL.get(kind.id)
    if dtype is None:
        return _hashed(array)
    values = fixed_values(array, dtype)
    if dtype.kind == "f":
        values = sortable_floats(values)
    elif dtype == np.uint64:
        values = values.view(np.int64)
    valid = valid_rows(array)
    if valid is None:
        return _ranged(values, len(values))
    codes = np.zeros(len(values), np.int64)
    inner, width = _ranged(values[valid], int(valid.sum()))
    codes[valid] = inner
    codes[valid] += 1
    return codes, width + 1


def sortable_floats(values: npt.NDArray[Any]) -> Int64s:
    """Returns integers in the order of the floats, with -0.0 equal to 0.0 and every NaN equal and greatest."""
    bits: Int64s = (values.astype(np.float64) + 0.0).view(np.int64)
    result: Int64s = np.where(bits < 0, bits ^ INT64_MAX, bits)
    missing = np.isnan(values)
    if missing.any():
        result[missing] = INT64_MAX
    return result


def order_codes(array: Column) -> Int64s:
    """Returns integers in the order of the values, NaN greatest; null is the least, as in Spark."""
    dtype = physical_dtype(array.type)
    if dtype is not None:
        values = fixed_values(array, dtype)
        codes = sortable_floats(values) if dtype.kind == "f" else values.astype(np.int64, copy=False)
        valid = valid_rows(array)
        if valid is None:
            return codes
        ranks = np.zeros(len(codes), np.int64)
        ranks[valid] = np.unique(codes[valid], return_inverse=True)[1] + 1
        return ranks
    return _ranked(array)


def _ranked(array: Column) -> Int64s:
    """Returns ranks of values that are not fixed-width: strings, decimals, booleans and nested types."""
    if pa.types.is_boolean(array.type):
        return order_codes(array.cast(pa.int8()))
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if pa.types.is_struct(array.type):
        return _ranked_structs(array)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _ranked_lists(array)
    encoded = array.dictionary_encode()
    dictionary = encoded.dictionary
    ranks = np.empty(len(dictionary) + 1, np.int64)
    ranks[pc.sort_indices(dictionary).to_numpy()] = np.arange(1, len(dictionary) + 1)
    ranks[-1] = 0
    indices = fixed_values(encoded.indices, np.dtype(np.int32)).astype(np.int64)
    valid = valid_rows(encoded.indices)
    if valid is not None:
        indices[~valid] = -1
    return ranks[indices]


def _ranked_structs(array: Column) -> Int64s:
    """Returns ranks of structs: by the first field, then by the second, and so on."""
    keys = [array.is_valid().to_numpy(zero_copy_only=False), *map(order_codes, array.flatten())]
    order = np.lexsort(keys[::-1])
    higher = np.zeros(len(order), np.bool_)
    for key in keys:
        ordered = key[order]
        higher[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(higher)
    return ranks


def _ranked_lists(array: Column) -> Int64s:
    """Returns ranks of lists: by the first item, then by the second; a list that another begins with is less."""
    items = order_codes(array.flatten()).tolist()
    lists: list[tuple[int, ...]] = []
    start = 0
    for length in array.value_lengths().to_pylist():  # Lists are of any length: numpy cannot compare them.
        # No item is before the mark of a list, and a null is before that.
        lists.append(() if length is None else (0, *items[start : start + length]))
        start += length or 0
    rank_of = {each: rank for rank, each in enumerate(sorted(set(lists)))}
    return np.fromiter((rank_of[each] for each in lists), np.int64, len(lists))


def _comparable(value: Any) -> Any:
    """Returns a nested value as tuples that Python can compare: null first, fields in order."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *(_comparable(part) for part in value.values()))
    if isinstance(value, list | tuple):
        return (1, *(_comparable(part) for part in value))
    if isinstance(value, float) and value != value:
        return (2, 0)
    return (1, value)


_NAN = float("nan")


def hashable_values(array: Column) -> list[Any]:
    """Returns Python values that are equal exactly where the array's are, and can be keys of a dictionary."""
    dtype = physical_dtype(array.type)
    if dtype is None:
        return _hashable_others(array)
    raw = fixed_values(array, dtype)
    values: list[Any] = raw.tolist()
    if dtype.kind == "f":  # NaN equals itself only where it is the same object
        for row in np.flatnonzero(np.isnan(raw)).tolist():
            values[row] = _NAN
    if array.null_count:
        for row in np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False)).tolist():
            values[row] = None
    return values


def _hashable_others(array: Column) -> list[Any]:
    if pa.types.is_struct(array.type) and array.type.num_fields:
        rows: list[Any] = list(zip(*map(hashable_values, array.flatten()), strict=True))
        if array.null_count:
            for row in np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False)).tolist():
                rows[row] = None
        return rows
    values: list[Any] = array.to_pylist()
    return list(map(_comparable, values)) if pa.types.is_nested(array.type) else values


def can_be_unhashed(kind: pa.DataType) -> bool:
    """Whether `unhashed_values` returns the values of `hashable_values` of this type."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(can_be_unhashed(field.type) for field in kind)
    return not pa.types.is_nested(kind)


def unhashed_values(values: Sequence[Any], kind: pa.DataType) -> Column:
    """Returns the array for values of `hashable_values`, of a type that `can_be_unhashed`."""
    valid = np.array([value is not None for value in values], np.bool_) if None in values else None
    if pa.types.is_struct(kind):
        nothing = (None,) * kind.num_fields
        rows = values if valid is None else [nothing if value is None else value for value in values]
        columns = list(zip(*rows, strict=True)) if rows else [()] * kind.num_fields
        arrays = [unhashed_values(column, field.type) for column, field in zip(columns, kind, strict=True)]
        mask = None if valid is None else pa.array(~valid)
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)
    dtype = physical_dtype(kind)
    if dtype is None:
        return pa.array(values, kind)
    known = values if valid is None else [0 if value is None else value for value in values]
    return fixed_array(np.array(known, dtype), kind, valid)


def _has_map(kind: pa.DataType) -> bool:
    """Whether a map is in the type: maps have no order."""
    if pa.types.is_struct(kind):
        return any(_has_map(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_map(kind.value_type)
    return bool(pa.types.is_nested(kind))


def _hashed(array: Column) -> tuple[npt.NDArray[Any], int]:
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64), 1
    if pa.types.is_nested(kind):
        if not _has_map(kind):
            codes = order_codes(array)
            return codes, int(codes.max(initial=0)) + 1
        number: dict[Any, int] = {}
        values = [number.setdefault(_comparable(value), len(number)) for value in array.to_pylist()]
        return np.array(values, np.int64), max(len(number), 1)
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        if physical_dtype(array.type) is not None:
            return equality_codes(array)
    encoded = array.dictionary_encode(null_encoding="encode")
    codes = fixed_values(encoded.indices, np.dtype(np.int32)).astype(np.int64)
    return codes, max(len(encoded.dictionary), 1)


def _ranged(values: npt.NDArray[Any], rows: int) -> tuple[npt.NDArray[Any], int]:
    """Returns integers moved to start at 0, and the width of their range, at most `_PACKED_MAX`."""
    if not rows:
        return np.zeros(0, np.int64), 1
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if width > _PACKED_MAX:
        distinct, index = np.unique(values, return_inverse=True)
        return index, len(distinct)
    if values.dtype != np.int64:
        values = values.astype(np.int64)
    return (values - low if low else values), width


def _dense(packed: npt.NDArray[Any], span: int, rows: int) -> Groups:
    """Returns dense group numbers, ascending with the packed codes, which are from 0 to below `span`."""
    if span == 1 or not rows:
        return Groups(np.zeros(rows, np.intp), min(rows, 1))
    if span <= max(_DENSE_FACTOR * rows, _DENSE_MIN):
        return _counted(packed)
    order = np.argsort(packed)
    ordered = packed[order]
    number = np.empty(rows, np.intp)
    number[0] = 0
    np.cumsum(ordered[1:] != ordered[:-1], out=number[1:])
    index = np.empty(rows, np.intp)
    index[order] = number
    return Groups(index, int(number[-1]) + 1)


def _counted(packed: npt.NDArray[Any]) -> Groups:
    sizes = np.bincount(packed)
    used = np.flatnonzero(sizes)
    if len(used) == len(sizes):
        groups = Groups(packed.astype(np.intp, copy=False), len(used))
        groups._sizes = sizes
        return groups
    number = np.empty(len(sizes), np.intp)
    number[used] = np.arange(len(used))
    groups = Groups(number[packed], len(used))
    groups._sizes = sizes[used]
    return groups
