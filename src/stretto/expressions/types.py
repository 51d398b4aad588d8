"""Spark's types as Arrow types: which are numeric, the common type of two, and Spark's names.

The rules are those of ANSI mode (Spark 4's default). Arrow has more types than Spark (unsigned integers, large
strings, seconds and nanoseconds); `canonical` returns the Spark type for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import ExpressionError

BOOLEAN = pa.bool_()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
STRING, BINARY = pa.string(), pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
NULL = pa.null()
#: Spark's INTERVAL DAY TO SECOND and INTERVAL YEAR TO MONTH.
DURATION = pa.duration("us")
MONTHS = pa.month_day_nano_interval()

DECIMAL_DIGITS_MAX = 38
#: Digits after the point that Spark keeps when a result needs more than 38 digits.
DECIMAL_SCALE_KEPT = 6

_INTEGRAL = (TINYINT, SMALLINT, INT, BIGINT)
_INTEGRAL_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_NAMES = {
    BOOLEAN: "boolean",
    TINYINT: "tinyint",
    SMALLINT: "smallint",
    INT: "int",
    BIGINT: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BINARY: "binary",
    DATE: "date",
    NULL: "void",
    DURATION: "interval day to second",
    MONTHS: "interval year to month",
}


def is_integral(kind: pa.DataType) -> bool:
    return kind in _INTEGRAL


def loses_fraction(value: Any, kind: pa.DataType) -> bool:
    """Whether Arrow would drop the fraction of a number: 1.5 in a column of integers becomes 1, without an error."""
    return is_integral(kind) and isinstance(value, float | np.floating) and value % 1 != 0


def is_fractional(kind: pa.DataType) -> bool:
    return kind in (FLOAT, DOUBLE)


def has_fractions(kind: pa.DataType) -> bool:
    """Whether this is a float or a double, or has one inside."""
    if is_nested(kind):
        return any(has_fractions(kind.field(place).type) for place in range(kind.num_fields))
    return is_fractional(kind)


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pat.is_decimal128(kind))


def is_numeric(kind: pa.DataType) -> bool:
    return is_integral(kind) or is_fractional(kind) or is_decimal(kind)


def is_temporal(kind: pa.DataType) -> bool:
    return kind in (DATE, TIMESTAMP)


def is_nested(kind: pa.DataType) -> bool:
    return bool(pat.is_list(kind) or pat.is_struct(kind) or pat.is_map(kind))


def is_orderable(kind: pa.DataType) -> bool:
    """Whether values of this type are equal, less or greater; maps are not, nor is what contains one."""
    if pat.is_list(kind):
        return is_orderable(kind.value_type)
    if pat.is_struct(kind):
        return all(is_orderable(field.type) for field in kind)
    return not pat.is_map(kind) and kind != MONTHS


def is_arrow_kept(kind: pa.DataType) -> bool:
    """Whether values of this type stay Arrow arrays during evaluation; all others become numpy arrays."""
    return kind in (STRING, BINARY) or is_nested(kind)


_WIDENED = {
    pa.uint8(): SMALLINT,
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): FLOAT,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
}


@lru_cache(maxsize=1024)
def canonical(kind: pa.DataType) -> pa.DataType:
    """Returns the Arrow type used for `kind` in expressions: the nearest type that Spark has."""
    if kind in _WIDENED:
        return _WIDENED[kind]
    if pat.is_timestamp(kind):
        return TIMESTAMP
    if pat.is_duration(kind):
        return DURATION
    if pat.is_fixed_size_binary(kind):
        return BINARY
    if pat.is_decimal(kind):
        if kind.precision > DECIMAL_DIGITS_MAX:
            raise ExpressionError(
                f"type {kind} is too wide", "Spark's decimals have at most 38 digits", "cast it first"
            )
        return pa.decimal128(kind.precision, kind.scale)
    if pat.is_dictionary(kind):
        return canonical(kind.value_type)
    if pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind):
        return pa.list_(canonical(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([pa.field(f.name, canonical(f.type)) for f in kind])
    if pat.is_map(kind):
        return pa.map_(canonical(kind.key_type), canonical(kind.item_type))
    return kind


def spark_type_name(kind: pa.DataType) -> str:
    """Returns Spark's name of this type, e.g. "bigint", "decimal(24,3)", "array<string>"."""
    if pat.is_timestamp(kind):
        return "timestamp"
    kind = canonical(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pat.is_list(kind):
        return f"array<{spark_type_name(kind.value_type)}>"
    if pat.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{spark_type_name(f.type)}" for f in kind) + ">"
    if pat.is_map(kind):
        return f"map<{spark_type_name(kind.key_type)},{spark_type_name(kind.item_type)}>"
    raise ExpressionError(f"Spark has no type for Arrow's {kind}", None, "cast the column to a type that Spark has")


def as_decimal(kind: pa.DataType) -> Any:
    """Returns the decimal type that holds every value of an integral type; a decimal type is returned as it is."""
    return kind if is_decimal(kind) else pa.decimal128(_INTEGRAL_DIGITS[kind], 0)


def bounded(precision: int, scale: int) -> pa.DataType:
    """Returns a decimal of at most 38 digits; the scale is reduced first, but not below six (precision-loss rule)."""
    if precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(precision, scale)
    integer_digits = precision - scale
    kept = max(DECIMAL_DIGITS_MAX - integer_digits, min(scale, DECIMAL_SCALE_KEPT))
    return pa.decimal128(DECIMAL_DIGITS_MAX, kept)


def wider_decimal(left: Any, right: Any) -> pa.DataType:
    """Returns the common type of two decimals; integer digits are kept if 38 do not suffice."""
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale)
    if digits + scale > DECIMAL_DIGITS_MAX:
        return pa.decimal128(DECIMAL_DIGITS_MAX, max(0, DECIMAL_DIGITS_MAX - digits))
    return pa.decimal128(digits + scale, scale)


def beside_string(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type that a string gets in an operation with this type, or None if there is no such operation."""
    if kind in (STRING, NULL):
        return STRING
    if is_integral(kind):
        return BIGINT
    if is_fractional(kind) or is_decimal(kind):
        return DOUBLE
    return kind if kind in (BOOLEAN, BINARY) or is_temporal(kind) else None


def wider(left: pa.DataType, right: pa.DataType, strings: bool = False) -> pa.DataType | None:
    """Returns the common type of both, or None if there is none. `strings` says whether a string inside of an array,
    a map or a struct becomes what is beside it."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if is_numeric(left) and is_numeric(right):
        if is_integral(left) and is_integral(right):
            return max(left, right, key=_INTEGRAL.index)
        if is_fractional(left) or is_fractional(right):
            # A float with any other type becomes double, so that no digit of an integer is lost.
            return DOUBLE
        return wider_decimal(as_decimal(left), as_decimal(right))
    if is_temporal(left) and is_temporal(right):
        return TIMESTAMP
    if is_nested(left) and is_nested(right):
        return _wider_nested(left, right, strings)
    return None


def tightest(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type of both in which no value is changed, or None: for elements of arrays and what is beside them.

    No decimal is widened for it, and an integer beside a float becomes a float."""
    if is_nested(left) and is_nested(right):
        return _nested_of(left, right, tightest)
    if is_decimal(left) or is_decimal(right):
        return _tightest_decimal(left, right)
    if {left, right} <= {FLOAT, *_INTEGRAL}:
        return FLOAT if FLOAT in (left, right) else max(left, right, key=_INTEGRAL.index)
    return wider(left, right)


def sought(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which a value is looked for among others, or None: the tightest one, or a wider decimal."""
    if is_nested(left) and is_nested(right):
        return _nested_of(left, right, sought)
    return tightest(left, right) or wider(left, right)


def _tightest_decimal(left: Any, right: Any) -> pa.DataType | None:
    if left == right or NULL in (left, right):
        return wider(left, right)
    decimal, other = (left, right) if is_decimal(left) else (right, left)
    fits = is_integral(other) and decimal.precision - decimal.scale >= _INTEGRAL_DIGITS[other]
    return decimal if fits else None


def _wider_nested(left: Any, right: Any, strings: bool) -> pa.DataType | None:
    return _nested_of(left, right, lambda one, other: _wider_inside(one, other, strings))


def _nested_of(
    left: Any, right: Any, united: Callable[[pa.DataType, pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Returns the common type of two arrays, maps or structs; `united` returns that of what is inside."""
    if pat.is_struct(left) and pat.is_struct(right):
        if [field.name.lower() for field in left] != [field.name.lower() for field in right]:
            return None
        kinds = [united(mine.type, theirs.type) for mine, theirs in zip(left, right, strict=True)]
        if None in kinds:
            return None
        return pa.struct([pa.field(mine.name, kind) for mine, kind in zip(left, kinds, strict=True)])
    if pat.is_list(left) and pat.is_list(right):
        inner = united(left.value_type, right.value_type)
        return None if inner is None else pa.list_(inner)
    if pat.is_map(left) and pat.is_map(right):
        # No key is made of a string, or a string of it: two keys could become one.
        key = (
            None
            if STRING in (left.key_type, right.key_type) and left.key_type != right.key_type
            else united(left.key_type, right.key_type)
        )
        item = united(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def _wider_inside(left: pa.DataType, right: pa.DataType, strings: bool) -> pa.DataType | None:
    if strings and STRING in (left, right):
        return beside_string(left if right == STRING else right)
    return wider(left, right, strings)


def same_structure(left: Any, right: Any) -> bool:
    """Whether both types differ at most in the names of fields."""
    if pat.is_struct(left) and pat.is_struct(right):
        pairs = zip(left, right, strict=False)
        return left.num_fields == right.num_fields and all(same_structure(a.type, b.type) for a, b in pairs)
    if pat.is_list(left) and pat.is_list(right):
        return same_structure(left.value_type, right.value_type)
    return bool(left == right)
