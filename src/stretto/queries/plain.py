"""The rows of an answer as JSON has them.

What JSON or a reader of it cannot express is text: decimals, integers beyond 2^53, numbers that are not finite. Times
are text as in ISO 8601, also those that Python's calendar does not have; bytes are base64; a map is a list of pairs.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import ExpressionError
from stretto.expressions.types import DURATION, spark_type_name

EXACT_MAX = 2**53
"""Integers beyond this are not exact in the numbers of JavaScript, and of many readers of JSON."""


def plain_columns(schema: pa.Schema) -> list[dict[str, str]]:
    """Returns the names of columns with their types in Spark's words."""
    return [{"name": field.name, "type": _type_name(field.type)} for field in schema]


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """Returns the rows, each as a list of values that JSON has."""
    columns = [[value for chunk in column.chunks for value in _plain(chunk)] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


def _type_name(kind: pa.DataType) -> str:
    try:
        return spark_type_name(kind)
    except ExpressionError:
        return str(kind)


def _plain(array: pa.Array) -> list[Any]:
    kind = array.type
    if pat.is_struct(kind):
        return _structs(array)
    if pat.is_map(kind):
        return _lists(array, [list(pair) for pair in zip(_plain(array.keys), _plain(array.items), strict=True)])
    if pat.is_list(kind) or pat.is_large_list(kind):
        return _lists(array, _plain(array.values))
    if pat.is_timestamp(kind):
        return _times(array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()), "us", "Z")
    if pat.is_date(kind):
        return _times(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), "D", "")
    if pat.is_duration(kind):
        return _each(array.cast(DURATION).cast(pa.int64()), _integer)
    if pat.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    return _each(array, _scalar_of(kind))


def _scalar_of(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Returns what makes a value of this type one that JSON has; None if it is one already."""
    if pat.is_int64(kind) or pat.is_uint64(kind):
        return _integer
    if pat.is_floating(kind):
        return _number
    if pat.is_decimal(kind):
        return lambda value: format(value, "f")
    if pat.is_binary(kind) or pat.is_large_binary(kind) or pat.is_fixed_size_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    if pat.is_interval(kind):
        return lambda value: value.months
    return None if pat.is_boolean(kind) or pat.is_integer(kind) or pat.is_null(kind) else str


def _each(array: pa.Array, convert: Callable[[Any], Any] | None) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _integer(value: int) -> int | str:
    return value if abs(value) <= EXACT_MAX else str(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _times(numbers: pa.Array, unit: str, zone: str) -> list[Any]:
    texts = np.datetime_as_string(numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]"))
    return [
        text + zone if valid else None
        for text, valid in zip(texts.tolist(), numbers.is_valid().to_pylist(), strict=True)
    ]


def _lists(array: pa.Array, values: list[Any]) -> list[Any]:
    """Returns the lists of an array whose values are these; it may be a part of a longer one."""
    ends = array.offsets.to_pylist()
    bounds = zip(array.is_valid().to_pylist(), ends[:-1], ends[1:], strict=True)
    return [values[first:last] if valid else None for valid, first, last in bounds]


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    if not names:
        return [{} if valid else None for valid in array.is_valid().to_pylist()]
    fields = zip(*(_plain(array.field(place)) for place in range(len(names))), strict=True)
    rows = zip(array.is_valid().to_pylist(), fields, strict=True)
    return [dict(zip(names, values, strict=True)) if valid else None for valid, values in rows]
