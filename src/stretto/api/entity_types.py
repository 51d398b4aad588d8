"""Which columns fit the parameters of an entity's method, and the type of the column that its results make."""

from __future__ import annotations

import datetime
import decimal
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin

import pyarrow as pa

from stretto.expressions.types import TIMESTAMP

_EXACT = pa.decimal128(38, 18)
_FITS: dict[Any, Callable[[pa.DataType], bool]] = {
    bool: pa.types.is_boolean,
    int: pa.types.is_integer,
    float: lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind),
    str: lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    bytes: lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    decimal.Decimal: lambda kind: pa.types.is_decimal(kind) or pa.types.is_integer(kind),
    datetime.datetime: pa.types.is_timestamp,
    datetime.date: pa.types.is_date,
}
_MAKES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    decimal.Decimal: _EXACT,
    datetime.datetime: TIMESTAMP,
    datetime.date: pa.date32(),
}
KNOWN = "bool, int, float, str, bytes, Decimal, datetime, date, lists of these, and any of them or None"


def fits(annotation: Any, kind: pa.DataType) -> bool:
    """Whether the values of a column, where they are not null, fit a parameter."""
    annotation = _plain(annotation)
    if annotation is Any:
        return any(test(kind) for test in _FITS.values()) or (pa.types.is_list(kind) and fits(Any, kind.value_type))
    item = _item(annotation)
    if item is not None:
        return bool(pa.types.is_list(kind)) and fits(item, kind.value_type)
    test = _FITS.get(annotation)
    return test is not None and bool(test(kind))


def column_of(annotation: Any) -> pa.DataType | None:
    """Returns the type of the column that results make; None if they make none."""
    annotation = _plain(annotation)
    item = _item(annotation)
    if item is not None:
        inner = column_of(item)
        return None if inner is None else pa.list_(inner)
    return _MAKES.get(annotation)


def _item(annotation: Any) -> Any:
    """Returns the annotation of the items of a list; None if it is no list."""
    return (get_args(annotation) or (Any,))[0] if get_origin(annotation) is list or annotation is list else None


def _plain(annotation: Any) -> Any:
    """Returns an annotation without the None that nulls are, and without what it is annotated with."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        others = [each for each in get_args(annotation) if each is not type(None)]
        return _plain(others[0]) if len(others) == 1 else None
    return annotation
