"""Arrow arrays as plain Python values and back: times are numbers, since Python's dates end in the year 9999."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pat


def plain_values(array: pa.Array) -> list[Any]:
    """Returns the values of an array; dates are days and timestamps microseconds since 1970, intervals are months.

    A struct is a tuple, because two of its fields may have one name."""
    kind = array.type
    if pat.is_struct(kind):
        fields = [plain_values(array.field(place)) for place in range(kind.num_fields)]
        rows = zip(*fields, strict=True) if fields else [()] * len(array)
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pat.is_list(kind) or pat.is_map(kind):  # The elements of a map are structs: tuples of its key and its value.
        return [None if item is None else plain_values(item) for item in _items(array)]
    if pat.is_string(kind):
        # Spark's strings may be of any bytes: CAST(X'FF' AS string).
        return [None if each is None else each.decode("utf-8", "surrogateescape") for each in _bytes(array)]
    if pat.is_interval(kind):
        return [None if each is None else each.months for each in array.to_pylist()]
    raw = _raw_type(kind)
    values: list[Any] = (array if raw == kind else array.cast(raw)).to_pylist()
    return values


def _bytes(array: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = array.cast(pa.binary()).to_pylist()
    return found


def _items(array: pa.Array) -> list[pa.Array | None]:
    return [scalar.values if scalar.is_valid else None for scalar in array]


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns an array of plain values; the inverse of `plain_values`."""
    raw = _raw_type(kind)
    array = pa.array([_named(value, kind) for value in values], raw)
    return array if raw == kind else array.cast(kind)


def _named(value: Any, kind: pa.DataType) -> Any:
    """Returns a value in which structs are dictionaries, which Arrow reads."""
    if value is None:
        return None
    if pat.is_struct(kind):
        return {field.name: _named(each, field.type) for field, each in zip(kind, value, strict=True)}
    if pat.is_list(kind):
        return [_named(each, kind.value_type) for each in value]
    return value


def _raw_type(kind: pa.DataType) -> pa.DataType:
    if pat.is_timestamp(kind) or pat.is_duration(kind):
        return pa.int64()
    if pat.is_date32(kind):
        return pa.int32()
    if pat.is_list(kind):
        return pa.list_(_raw_type(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([pa.field(field.name, _raw_type(field.type)) for field in kind])
    if pat.is_map(kind):
        return pa.map_(_raw_type(kind.key_type), _raw_type(kind.item_type))
    return kind
