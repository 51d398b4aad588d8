"""Decimal arithmetic on unscaled integers, with Spark's result types and HALF_UP rounding.

Values are int64 while the bounds show that the result fits; else Python integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.nodes import Node, Site, combine, elementwise
from stretto.expressions.vectors import INT64_MAX, Value, both_valid, bound, is_wide, widened

#: Scala's BigDecimal, in which Spark negates, has so many digits.
_NEGATED_DIGITS = 34
_DIVIDING = ("/", "%", "pmod")
_QUOTIENT_DIGITS = 39  # of the context in which Spark has Java compute a remainder
_QUOTIENT_MAX = 10**_QUOTIENT_DIGITS


class FarApart(ExpressionError):
    """A remainder that Java does not compute, at which try_mod fails too, as in Spark."""


def operand_type(node: Node) -> Any:
    """Returns the decimal type of an operand of a decimal; a literal integer has only the digits it shows.

    Spark has no such rule for a tinyint: 3Y has three digits.
    """
    if node.literal and types.is_integral(node.type) and node.type != types.TINYINT:
        return pa.decimal128(len(str(abs(int(node.constant[0])))), 0)
    return types.as_decimal(node.type)


def result_type(operator: str, left: Any, right: Any) -> Any:
    """Returns the type of `left operator right` for decimals of these types."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = max(s1, s2)
    if operator in "+-":
        return types.bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return types.bounded(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(types.DECIMAL_SCALE_KEPT, s1 + p2 + 1)
        return types.bounded(p1 - s1 + s2 + scale, scale)
    return types.bounded(min(p1 - s1, p2 - s2) + scale, scale)


def scale_up(values: Any, digits: int) -> Any:
    """Returns the values multiplied by a power of ten."""
    if digits == 0:
        return values
    factor = 10**digits
    if not is_wide(values) and factor <= INT64_MAX and bound(values) * factor <= INT64_MAX:
        return values * np.int64(factor)
    return widened(values) * factor


def divide_half_up(values: Any, divisor: Any) -> Any:
    """Returns integer quotients rounded to nearest, ties away from zero. No divisor may be zero."""
    if is_wide(values) or is_wide(divisor) or max(2 * bound(values), bound(divisor)) + bound(divisor) > INT64_MAX:
        values, divisor = widened(values), widened(divisor)
    top, bottom = abs(values), abs(divisor)
    return signed((values < 0) != (divisor < 0), (2 * top + bottom) // (2 * bottom))


def signed(negative: Any, magnitudes: Any) -> Any:
    """Returns the magnitudes, negated where told. A scalar stays a Python integer: numpy would make 2**63 a float."""
    if np.ndim(magnitudes) == 0 and np.ndim(negative) == 0:
        return -magnitudes if negative else magnitudes
    return np.where(negative, -magnitudes, magnitudes)


def rescale(values: Any, old: int, new: int) -> Any:
    """Returns unscaled values at another scale."""
    if new >= old:
        return scale_up(values, new - old)
    if old - new <= 18:
        return divide_half_up(values, np.int64(10 ** (old - new)))
    return divide_half_up(widened(values), 10 ** (old - new))


def fit(values: Any, valid: Any, kind: Any, site: Site) -> Any:
    """Returns the values, as int64 if possible; raises if a value that is not null has too many digits for the type."""
    limit = 10**kind.precision
    largest = bound(values)
    if largest >= limit:
        over = (values >= limit) | (values <= -limit)
        if np.any(over if valid is None else over & valid):
            raise site.error(
                "decimal overflow", f"a value does not fit {types.spark_type_name(kind)}", "CAST to a wider type"
            )
    if is_wide(values) and largest <= INT64_MAX:
        return values.astype(np.int64) if np.ndim(values) else np.int64(int(values))
    return values


def low_64_bits(values: Any) -> Any:
    """Returns integers of any size as int64, wrapped around as Java's `longValue` does."""
    if not is_wide(values):
        return values
    wrapped = (values + 2**63) % 2**64 - 2**63
    return wrapped.astype(np.int64) if np.ndim(wrapped) else np.int64(wrapped)


def _align(left: Any, right: Any, left_scale: int, right_scale: int) -> tuple[Any, Any]:
    scale = max(left_scale, right_scale)
    return scale_up(left, scale - left_scale), scale_up(right, scale - right_scale)


def align(left: Any, right: Any, left_scale: int, right_scale: int) -> tuple[Any, Any]:
    """Returns both at the larger scale, both int64 or both Python integers, ready to compare."""
    left, right = _align(left, right, left_scale, right_scale)
    if is_wide(left) != is_wide(right):
        return widened(left), widened(right)
    return left, right


def _fits_int64(limit: int, *values: Any) -> bool:
    return limit <= INT64_MAX and not any(is_wide(value) for value in values)


def _add(left: Any, right: Any, s1: int, s2: int, negate: bool) -> Any:
    left, right = align(left, right, s1, s2)
    if not _fits_int64(bound(left) + bound(right), left, right):
        left, right = widened(left), widened(right)
    return left - right if negate else left + right


def _multiply(left: Any, right: Any) -> Any:
    if not _fits_int64(bound(left) * bound(right), left, right):
        left, right = widened(left), widened(right)
    return left * right


def _remainder(left: Any, right: Any, s1: int, s2: int) -> Any:
    left, right = align(left, right, s1, s2)
    if not is_wide(left):
        return np.fmod(left, right)
    return signed(left < 0, abs(left) % abs(right))


def _check_quotient(left: Any, right: Any, valid: Any, scales: tuple[int, int], site: Site) -> None:
    """Raises where the whole quotient has more than 39 digits: Java computes no remainder then."""
    left, right = align(left, right, *scales)
    if bound(left) < _QUOTIENT_MAX:
        return
    impossible = _is_too_long(abs(left) // abs(right))
    if np.any(impossible if valid is None else impossible & valid):
        error = site.error(
            "a remainder of numbers too far apart",
            "their quotient has more than 39 digits",
            "CAST the dividend to fewer digits",
        )
        raise FarApart(error.fact, error.detail, error.fix)


def _is_too_long(quotients: Any) -> Any:
    """Whether digits other than zeros follow the first 39."""
    too_long = np.frompyfunc(
        lambda value: value >= _QUOTIENT_MAX and value % 10 ** (len(str(value)) - _QUOTIENT_DIGITS) != 0, 1, 1
    )
    return np.asarray(too_long(quotients), np.bool_)[()]


def _positive_remainder(left: Any, right: Any, s1: int, s2: int) -> Any:
    """Returns `(rest + right) % right` where the rest is negative, exactly: no step is rounded to a type."""
    rest, scale = _remainder(left, right, s1, s2), max(s1, s2)
    lifted = _remainder(_add(rest, right, scale, s2, negate=False), right, scale, s2)
    if np.ndim(rest) == 0:
        return lifted if rest < 0 else rest
    return np.where(rest < 0, lifted, rest)


def _operate(operator: str, s1: int, s2: int, scale: int) -> Callable[[Any, Any], Any]:
    """Returns a function to the unscaled result at its target scale."""
    if operator in "+-":
        exact = max(s1, s2)
        return lambda left, right: rescale(_add(left, right, s1, s2, operator == "-"), exact, scale)
    if operator == "*":
        return lambda left, right: rescale(_multiply(left, right), s1 + s2, scale)
    if operator == "/":
        # The quotient of the unscaled integers has scale s1 - s2, so the dividend is scaled first.
        shift = scale - s1 + s2

        def divide(left: Any, right: Any) -> Any:
            if shift < 0:
                right = scale_up(right, -shift)
            return divide_half_up(scale_up(left, max(shift, 0)), right)

        return divide
    rest = _positive_remainder if operator == "pmod" else _remainder
    return lambda left, right: rescale(rest(left, right, s1, s2), max(s1, s2), scale)


def arithmetic(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns `left operator right` where both are decimals or integers and at least one is a decimal."""
    left_type, right_type = operand_type(left), operand_type(right)
    kind = result_type(operator, left_type, right_type)
    operate = _operate(operator, left_type.scale, right_type.scale, kind.scale)
    first, second, divides, rest = left.run, right.run, operator in _DIVIDING, operator in ("%", "pmod")
    scales = (left_type.scale, right_type.scale)

    def run(batch: pa.RecordBatch) -> Value:
        a, a_valid = first(batch)
        b, b_valid = second(batch)
        valid = both_valid(a_valid, b_valid)
        a, b = _as_int64(a), _as_int64(b)
        if divides:
            b = nonzero(b, valid, site, operator)
        if rest:
            _check_quotient(a, b, valid, scales, site)
        return fit(operate(a, b), valid, kind, site), valid

    return combine(kind, run, site, (left, right), fallible=True)


def negated(node: Node, site: Site, only_negative: bool = False) -> Node:
    """Returns minus the decimal, or its absolute value. Spark rounds what it negates to 34 digits, ties to even."""
    inner, kind = node.run, node.type

    def change(values: Any) -> Any:
        if not is_wide(values):
            if bound(values) <= INT64_MAX:
                return np.abs(values) if only_negative else -values
            values = widened(values)  # The lowest int64 has no opposite among them.
        opposite = _rounded_to_34(-values)
        if not only_negative:
            return opposite
        if np.ndim(values):
            return np.where(values < 0, opposite, values)
        return opposite if values < 0 else values

    if kind.precision <= _NEGATED_DIGITS:
        return elementwise(kind, change, site, (node,))

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        return fit(change(values), valid, kind, site), valid

    return combine(kind, run, site, (node,), fallible=True)


def _rounded_to_34(values: Any) -> Any:
    if bound(values) < 10**_NEGATED_DIGITS:
        return values
    return np.frompyfunc(_round_to_34, 1, 1)(values)


def _round_to_34(value: int) -> int:
    unit = int(10 ** max(0, len(str(abs(value))) - _NEGATED_DIGITS))
    whole, rest = divmod(abs(value), unit)
    whole += 2 * rest > unit or (2 * rest == unit and whole % 2 == 1)
    return whole * unit if value > 0 else -whole * unit


def _as_int64(values: Any) -> Any:
    """Returns integers of any width as int64, so that a product is not computed in int8."""
    return values if is_wide(values) or values.dtype == np.int64 else values.astype(np.int64)


def nonzero(divisor: Any, valid: Any, site: Site, operator: str) -> Any:
    """Returns the divisor with zeros under nulls replaced; raises if a row divides by zero."""
    zero = divisor == 0
    if not np.any(zero):
        return divisor
    if np.any(zero if valid is None else zero & valid):
        fact = "remainder by zero" if operator in ("%", "pmod") else "division by zero"
        raise site.error(fact, None, "guard it with nullif(divisor, 0), which makes the result NULL")
    return np.where(zero, divisor + 1, divisor)[()]


def to_double(values: Any, scale: int) -> Any:
    """Returns the nearest doubles to these decimals."""
    if not is_wide(values) and scale <= 22 and bound(values) <= 2**53:
        return values / np.float64(10**scale)
    # Python divides integers with a single rounding.
    quotient = widened(values) / 10**scale
    return quotient.astype(np.float64) if np.ndim(quotient) else np.float64(quotient)
