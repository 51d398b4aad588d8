"""`+ - * / % div` and unary minus over numbers, with Spark's promotion, overflow and division rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import decimals, types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, combine, elementwise, null
from stretto.expressions.vectors import (
    INT64_MAX,
    Value,
    arrow_operand,
    both_valid,
    bound,
    dtype_of,
    from_arrow,
    widened,
)

_DECIMAL_MAX = 10**types.DECIMAL_DIGITS_MAX
_UFUNCS: dict[str, Callable[..., Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def arithmetic(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns `left operator right` for numbers; `operator` is one of + - * / % div."""
    if operator == "/" and left.type == types.NULL and types.is_decimal(right.type):
        right = cast(right, types.DOUBLE, site)  # Only beside a decimal on the left an untyped NULL is one too.
    left, right = _numbers(left, right, site)
    if left.type == types.NULL:
        return null(types.BIGINT if operator == "div" else types.DOUBLE, site)
    if operator == "div":
        return _integral_division(left, right, site)
    if types.is_fractional(left.type) or types.is_fractional(right.type):
        return _fractional(operator, left, right, site)
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return decimals.arithmetic(operator, left, right, site)
    if operator == "/":
        return _fractional("/", left, right, site)
    return _integral(operator, left, right, site)


def _numbers(left: Node, right: Node, site: Site) -> tuple[Node, Node]:
    """Returns both operands; one that is NULL gets the type of the other. Raises if one is not a number."""
    for side in (left, right):
        if side.type != types.NULL and not types.is_numeric(side.type):
            raise site.mismatch(left.type, right.type)
    if left.type == types.NULL:
        left = null(right.type, left.site)
    if right.type == types.NULL:
        right = null(left.type, right.site)
    return left, right


def _fractional(operator: str, left: Node, right: Node, site: Site) -> Node:
    kind = types.DOUBLE if operator == "/" else (types.wider(left.type, right.type) or types.DOUBLE)
    left, right = cast(left, kind, site), cast(right, kind, site)
    if operator in _UFUNCS:
        return elementwise(kind, _UFUNCS[operator], site, (left, right))
    return _dividing(kind, np.divide if operator == "/" else np.fmod, operator, left, right, site)


def _dividing(kind: pa.DataType, apply: Callable[..., Any], operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns a division, which raises where the divisor is zero; a constant divisor is checked once."""
    first, second = left.run, right.run
    if not right.columns and not right.fallible and right.constant[1] is None and right.constant[0] != 0:
        return elementwise(kind, apply, site, (left, right))

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        b, b_valid = second(batch)
        valid = both_valid(a_valid, b_valid)
        return apply(a, decimals.nonzero(b, valid, site, operator)), valid

    return combine(kind, run, site, (left, right), fallible=True)


def _integral(operator: str, left: Node, right: Node, site: Site) -> Node:
    kind = types.wider(left.type, right.type)
    left, right = cast(left, kind, site), cast(right, kind, site)
    if operator == "%":
        return _dividing(kind, np.fmod, operator, left, right, site)
    return _checked(kind, operator, left, right, site)


def _checked(kind: pa.DataType, operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns an operation that may overflow; the bounds of both sides usually show that it does not."""
    first, second = left.run, right.run
    apply, checked, info = _UFUNCS[operator], _CHECKED[operator], np.iinfo(dtype_of(kind))

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        b, b_valid = second(batch)
        valid = both_valid(a_valid, b_valid)
        if _stays_within(operator, a, b, int(info.min), int(info.max)):
            return apply(a, b), valid
        try:
            result = checked(arrow_operand((a, valid), kind), arrow_operand((b, valid), kind))
        except pa.ArrowInvalid:
            raise overflow(kind, site) from None
        return from_arrow(result, kind)

    return combine(kind, run, site, (left, right), fallible=True)


def _extremes(values: Any) -> tuple[int, int]:
    if np.ndim(values) == 0:
        return int(values), int(values)
    return int(values.min()), int(values.max())


def _stays_within(operator: str, a: Any, b: Any, low: int, high: int) -> bool:
    if np.size(a) == 0 or np.size(b) == 0:
        return True
    (a_min, a_max), (b_min, b_max) = _extremes(a), _extremes(b)
    if operator == "+":
        return a_min + b_min >= low and a_max + b_max <= high
    if operator == "-":
        return a_min - b_max >= low and a_max - b_min <= high
    corners = (a_min * b_min, a_min * b_max, a_max * b_min, a_max * b_max)
    return min(corners) >= low and max(corners) <= high


def overflow(kind: pa.DataType, site: Site) -> Exception:
    name = types.spark_type_name(kind)
    return site.error(f"{name} overflow", f"a result does not fit {name}", "CAST an operand to a wider type")


def truncated_quotient(a: Any, b: Any) -> Any:
    """Returns an integer quotient rounded towards zero; numpy rounds down."""
    quotient = a // b  # Not by numpy, which takes no integers of more than 64 bits.
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def _integral_division(left: Node, right: Node, site: Site) -> Node:
    """Returns `left div right`, which is always a bigint."""
    if types.is_fractional(left.type) or types.is_fractional(right.type):
        raise site.mismatch(left.type, right.type)
    if types.is_decimal(left.type) or types.is_decimal(right.type):
        return _decimal_division(left, right, site)
    first, second = cast(left, types.BIGINT, site).run, cast(right, types.BIGINT, site).run
    lowest = np.iinfo(np.int64).min

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        b, b_valid = second(batch)
        valid = both_valid(a_valid, b_valid)
        b = decimals.nonzero(b, valid, site, "div")
        over = (b == -1) & (a == lowest)
        if np.any(over if valid is None else over & valid):
            raise overflow(types.BIGINT, site)
        return truncated_quotient(a, b), valid

    return combine(types.BIGINT, run, site, (left, right), fallible=True)


def _decimal_division(left: Node, right: Node, site: Site) -> Node:
    """Returns a quotient of decimals as a bigint. Spark takes its low 64 bits, whether it fits or not.

    But one of more than 38 digits fails, since it is a decimal first."""
    s1, s2 = decimals.operand_type(left).scale, decimals.operand_type(right).scale
    first, second = left.run, right.run

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        b, b_valid = second(batch)
        valid = both_valid(a_valid, b_valid)
        a, b = decimals.align(a, decimals.nonzero(b, valid, site, "div"), s1, s2)
        if bound(a) > INT64_MAX:  # The lowest int64 by -1 is no int64.
            a, b = widened(a), widened(b)
        quotients = truncated_quotient(a, b)
        if bound(quotients) >= _DECIMAL_MAX:
            over = abs(quotients) >= _DECIMAL_MAX
            if np.any(over if valid is None else over & valid):
                raise overflow(types.BIGINT, site)
        return decimals.low_64_bits(quotients), valid

    return combine(types.BIGINT, run, site, (left, right), fallible=True)


def negate(node: Node, site: Site) -> Node:
    """Returns unary minus."""
    if types.is_decimal(node.type):
        return decimals.negated(node, site)
    return sign_changing(np.negative, node, site)


def absolute(node: Node, site: Site) -> Node:
    if types.is_decimal(node.type):
        return decimals.negated(node, site, only_negative=True)
    return sign_changing(np.abs, node, site)


def sign_changing(apply: Callable[..., Any], node: Node, site: Site) -> Node:
    """Returns minus or abs; both overflow only for the lowest integer, or interval, of a type."""
    if node.type == types.NULL:
        return null(types.DOUBLE, site)
    is_interval = node.type in (types.DURATION, types.MONTHS)
    if not is_interval and not types.is_numeric(node.type):
        raise site.wrong_type("a number", node.type)
    if not is_interval and not types.is_integral(node.type):
        return elementwise(node.type, apply, site, (node,))
    inner, kind = node.run, node.type
    lowest = -(2**31) if kind == types.MONTHS else np.iinfo(dtype_of(kind)).min

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        lows = values == lowest
        if np.any(lows if valid is None else lows & valid):
            raise overflow(kind, site)
        if np.ndim(values) == 0 and lows:
            return values, valid
        return apply(values), valid  # Under a null, the lowest one wraps around.

    return replace(combine(kind, run, site, (node,), fallible=True), fields=node.fields)


def pmod(left: Node, right: Node, site: Site) -> Node:
    """Returns the positive remainder: `(a % b + b) % b` where `a % b` is negative."""
    left, right = _numbers(left, right, site)
    if left.type == types.NULL:
        return null(types.DOUBLE, site)
    if not (types.is_fractional(left.type) or types.is_fractional(right.type)) and (
        types.is_decimal(left.type) or types.is_decimal(right.type)
    ):
        return decimals.arithmetic("pmod", left, right, site)
    kind = types.wider(left.type, right.type)
    return _dividing(kind, _positive_remainder, "pmod", cast(left, kind, site), cast(right, kind, site), site)


def _positive_remainder(a: Any, b: Any) -> Any:
    """Java adds bytes and shorts as ints, and ints and longs wrap around."""
    dtype = np.result_type(a, b)
    if dtype.kind == "i" and dtype.itemsize < 4:
        a, b = np.asarray(a, np.int32)[()], np.asarray(b, np.int32)[()]
    rest = np.fmod(a, b)
    negative = rest < 0
    if not np.any(negative):
        return rest.astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        return np.where(negative, np.fmod(rest + b, b), rest).astype(dtype)[()]
