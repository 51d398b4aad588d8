"""round, bround, floor and ceil, of each type of number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stretto.expressions import decimals, types
from stretto.expressions.arithmetic import overflow
from stretto.expressions.casts import cast
from stretto.expressions.java_digits import java_decimal
from stretto.expressions.nodes import Folds, Node, Site, combine, constant_argument, elementwise, null
from stretto.expressions.registry import Function, with_aliases
from stretto.expressions.vectors import INT64_MAX, Value, bound, dtype_of, is_wide, widened

Divide = Callable[[Any, int], Any]
"""Divides integers by a power of ten and rounds in some way."""

#: Beyond these digits every double is zero, or the same again.
_DIGITS_MIN, _DIGITS_MAX = -310, 345
_EXACT = Context(prec=700)
_FLOAT_AS_DECIMAL = {types.FLOAT: pa.decimal128(14, 7), types.DOUBLE: pa.decimal128(30, 15)}


def number(node: Node, site: Site, text_as: pa.DataType = types.DOUBLE) -> Node:
    """Returns the node; a string is cast, as in Spark. Raises if it is not a number."""
    if node.type in (types.NULL, types.STRING):
        return cast(node, text_as, site)
    if not types.is_numeric(node.type):
        raise site.wrong_type("a number", node.type)
    return node


def _divisible(values: Any, divisor: int) -> Any:
    """Returns values that numpy can divide by the divisor without wrapping around."""
    return widened(values) if is_wide(values) or 2 * divisor > INT64_MAX or bound(values) == INT64_MAX + 1 else values


def _half_up(values: Any, divisor: int) -> Any:
    return decimals.divide_half_up(values, np.int64(divisor) if divisor <= INT64_MAX else divisor)


def _half_even(values: Any, divisor: int) -> Any:
    values = _divisible(values, divisor)
    quotient = values // divisor
    twice = 2 * (values - quotient * divisor)
    return quotient + ((twice > divisor) | ((twice == divisor) & (quotient % 2 == 1)))


def _down(values: Any, divisor: int) -> Any:
    return _divisible(values, divisor) // divisor


def _up(values: Any, divisor: int) -> Any:
    return -(-_divisible(values, divisor) // divisor)


def _rounded_to(divide: Divide, rounding: str) -> Callable[..., Node]:
    """Returns the builder of `round(x, digits)`, for one way to round a tie."""

    def build(site: Site, node: Node, digits: Node | None = None) -> Node:
        node = number(node, site)
        scale = 0 if digits is None else _digits(digits)
        if scale is None:  # No constant, if the number is none: Spark evaluates what is beside it.
            return replace(null(build(site, node).type, site), columns=node.columns)
        if types.is_decimal(node.type):
            return _round_decimal(node, scale, divide, site)
        if types.is_fractional(node.type):
            kind, dtype = node.type, dtype_of(node.type)
            return elementwise(kind, lambda values: _round_doubles(values, scale, dtype, rounding), site, (node,))
        return _round_integral(node, scale, divide, site)

    return build


def _digits(node: Node) -> Any:
    if node.columns or node.folds is not Folds.ANALYSED or node.site.tree.find(exp.Column):  # Also NULL + i.
        raise node.site.error("the number of digits is no plain constant", None, "write a number")
    if types.is_integral(node.type):
        node = cast(node, types.INT, node.site)
    return constant_argument(node, types.INT, "the number of digits")


def _round_decimal(node: Node, digits: int, divide: Divide, site: Site) -> Node:
    """Returns a rounded decimal, whose type has the remaining digits and one more for a carry."""
    source, inner = node.type, node.run
    integer_digits = source.precision - source.scale + 1
    if digits < 0:
        kind = pa.decimal128(min(max(integer_digits, -digits + 1), types.DECIMAL_DIGITS_MAX), 0)
    else:
        scale = min(source.scale, digits)
        kind = pa.decimal128(min(integer_digits + scale, types.DECIMAL_DIGITS_MAX), scale)
    dropped = source.scale - digits

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if dropped > 0:
            # More than 38 digits leave nothing, or a one where ceil rounds up.
            values = divide(values, 10 ** min(dropped, types.DECIMAL_DIGITS_MAX + 1))
        return decimals.fit(decimals.scale_up(values, max(0, -digits)), valid, kind, site), valid

    return combine(kind, run, site, (node,), fallible=True)


def _round_integral(node: Node, digits: int, divide: Divide, site: Site) -> Node:
    if digits >= 0:
        return node
    inner, kind, dtype = node.run, node.type, dtype_of(node.type)
    low, high, unit = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), 10**-digits

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        rounded = divide(widened(values), unit) * unit
        over = (rounded > high) | (rounded < low)
        if np.any(over if valid is None else over & valid):
            raise overflow(kind, site)
        return np.asarray(np.where(over, 0, rounded)).astype(dtype)[()], valid

    return combine(kind, run, site, (node,), fallible=True)


def _round_doubles(values: Any, digits: int, dtype: Any, rounding: str) -> Any:
    """Returns rounded doubles. Java rounds the decimal text (1.005 becomes 1.01), which is read only near ties."""
    digits = min(max(digits, _DIGITS_MIN), _DIGITS_MAX)
    values = np.asarray(values)
    with np.errstate(all="ignore"):
        unit = np.float64(10.0) ** abs(digits)
        scaled = np.abs(values.astype(np.float64))
        scaled = scaled * unit if digits >= 0 else scaled / unit
        whole = np.floor(scaled)
        rest = scaled - whole
        up = whole + (rest >= 0.5)
        # Java has no negative zero here, since no decimal has.
        result = np.copysign(up / unit if digits >= 0 else up * unit, values) + 0.0
        doubtful = np.isfinite(values) & ((np.abs(rest - 0.5) < 1e-4) | (scaled > 2.0**36) | (abs(digits) > 15))
    result = np.where(np.isfinite(values), result, values).astype(dtype)
    if doubtful.any():
        step = Decimal(1).scaleb(-digits)
        exact = np.frompyfunc(lambda v: float(java_decimal(float(v)).quantize(step, rounding, _EXACT)) + 0.0, 1, 1)
        result[doubtful] = exact(values[doubtful])
    return result[()]


def _whole(apply: Callable[..., Any], divide: Divide) -> Callable[..., Node]:
    """Returns the builder of floor or ceil."""

    def build(site: Site, node: Node, digits: Node | None = None) -> Node:
        node = number(node, site, types.DOUBLE if digits is None else pa.decimal128(38, 18))
        if digits is not None:
            return _whole_at(node, _digits(digits), divide, site)
        if types.is_integral(node.type):
            return cast(node, types.BIGINT, site)
        if types.is_fractional(node.type):
            return _whole_double(cast(node, types.DOUBLE, site), apply, site)
        return _whole_decimal(node, divide, site)

    return build


def _whole_double(node: Node, apply: Callable[..., Any], site: Site) -> Node:
    """Returns a double as a bigint. Java takes NaN for 0 here, though not in a cast."""
    inner = node.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        values = apply(values)
        inside = (values >= -(2.0**63)) & (values < 2.0**63)
        if valid is None and np.all(inside):
            return values.astype(np.int64), None
        fits = inside | np.isnan(values)
        if not np.all(fits if valid is None else fits | ~valid):
            raise overflow(types.BIGINT, site)
        return np.where(inside, values, 0.0).astype(np.int64)[()], valid

    return combine(types.BIGINT, run, site, (node,), fallible=True)


def _whole_decimal(node: Node, divide: Divide, site: Site) -> Node:
    source = node.type
    # One more digit for the carry; a decimal of scale 0 needs none.
    digits = source.precision - source.scale + (1 if source.scale else 0)
    kind = pa.decimal128(min(digits, types.DECIMAL_DIGITS_MAX), 0)
    return elementwise(kind, lambda values: divide(values, 10**source.scale), site, (node,))


def _whole_at(node: Node, digits: int | None, divide: Divide, site: Site) -> Node:
    """Returns floor or ceil at a number of digits, which Spark computes in decimals."""
    kind = _FLOAT_AS_DECIMAL[node.type] if types.is_fractional(node.type) else types.as_decimal(node.type)
    exact = cast(node, kind, site)
    if digits is None:
        raise site.error("the number of digits is NULL", None, "write a number")
    return _round_decimal(exact, digits, divide, site)


FUNCTIONS = with_aliases(
    {
        "round": Function(_rounded_to(_half_up, ROUND_HALF_UP), 1, 2),
        "bround": Function(_rounded_to(_half_even, ROUND_HALF_EVEN), 1, 2),
        "floor": Function(_whole(np.floor, _down), 1, 2),
        "ceil": Function(_whole(np.ceil, _up), 1, 2),
    },
    ceiling="ceil",
)
