"""Functions of doubles, and remainders, signs and other functions of numbers. Rounding is in `rounding.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import logic, signs, types
from stretto.expressions.arithmetic import absolute, arithmetic, pmod
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, combine, constant, elementwise
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.rounding import number
from stretto.expressions.vectors import Value

_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)


def of_doubles(apply: Callable[..., Any]) -> Callable[..., Node]:
    """Returns the builder of a numpy function of one or two doubles."""

    def build(site: Site, *nodes: Node) -> Node:
        parts = [cast(number(node, site), types.DOUBLE, site) for node in nodes]
        return elementwise(types.DOUBLE, apply, site, parts)

    return build


def logarithm(apply: Callable[..., Any], pole: float = 0.0) -> Callable[[Site, Node], Node]:
    """Returns the builder of a logarithm, which is null, not NaN, at its pole and below, as in Spark."""

    def build(site: Site, node: Node) -> Node:
        inner = cast(number(node, site), types.DOUBLE, site)
        run_inner = inner.run

        def run(batch: pa.RecordBatch) -> Value:
            values, valid = run_inner(batch)
            outside = values <= pole
            result = apply(np.where(outside, 1.0, values)[()])
            if not np.any(outside):
                return result, valid
            return result, ~outside if valid is None else valid & ~outside

        return combine(types.DOUBLE, run, site, (inner,))

    return build


def log(site: Site, base: Node, node: Node | None = None) -> Node:
    """Returns `log(x)`, or `log(base, x)`; base 1 is no error, but gives infinity or NaN."""
    natural = logarithm(np.log)
    if node is None:
        return natural(site, base)
    return elementwise(types.DOUBLE, np.divide, site, (natural(site, node), natural(site, base)))


def _power(base: Any, exponent: Any) -> Any:
    """Java gives NaN where C, and so numpy, gives 1: 1 to NaN, and 1 or -1 to infinity."""
    result = np.power(base, exponent)
    if np.isfinite(exponent).all():
        return result
    undefined = np.isnan(exponent) | (np.isinf(exponent) & (np.abs(base) == 1))
    return np.where(undefined, np.nan, result)[()]


def _signum(values: Any) -> Any:
    return np.where(values == 0, values, np.sign(values))[()]


def _atanh(values: Any) -> Any:
    return 0.5 * (np.log1p(values) - np.log1p(-values))


def _constant(value: float) -> Function:
    return fixed(lambda site: constant(types.DOUBLE, (np.float64(value), None), site), 0)


def factorial(site: Site, node: Node) -> Node:
    """Returns n! as a bigint, and null where it does not fit."""
    inner = cast(number(node, site, types.INT), types.INT, site)
    run_inner = inner.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = run_inner(batch)
        inside = (values >= 0) & (values < len(_FACTORIALS))
        return _FACTORIALS[np.where(inside, values, 0)], inside if valid is None else inside & valid

    return combine(types.BIGINT, run, site, (inner,))


def is_nan(site: Site, node: Node) -> Node:
    """Returns `isnan(x)`, which is false for a null."""
    inner = node if types.is_fractional(node.type) else cast(number(node, site), types.DOUBLE, site)
    run_inner = inner.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = run_inner(batch)
        found = np.isnan(values)
        return (found if valid is None else found & valid), None

    return combine(types.BOOLEAN, run, site, (inner,))


def nanvl(site: Site, node: Node, other: Node) -> Node:
    """Returns `node`, or `other` where it is NaN."""
    kind = types.FLOAT if node.type == types.FLOAT and other.type in (types.FLOAT, types.NULL) else types.DOUBLE
    first, second = (cast(number(part, site), kind, site) for part in (node, other))
    return logic.case([(is_nan(site, first), second)], first, site)


def width_bucket(site: Site, value: Node, low: Node, high: Node, count: Node) -> Node:
    """Returns in which of `count` equal buckets from `low` to `high` a value is; 0 and count + 1 are outside."""
    parts = [cast(number(node, site), types.DOUBLE, site) for node in (value, low, high)]
    parts.append(cast(number(count, site, types.BIGINT), types.BIGINT, site))
    runs = [part.run for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        pairs = [inner(batch) for inner in runs]
        buckets, defined = _buckets(*(values for values, _ in pairs))
        for _, valid in pairs:
            if valid is not None:
                defined = defined & valid
        return buckets, defined

    return combine(types.BIGINT, run, site, parts)


def _buckets(value: Any, low: Any, high: Any, count: Any) -> tuple[Any, Any]:
    """Returns the buckets, and where there is one. From a high to a low bound, buckets are counted downwards."""
    most = np.iinfo(np.int64).max
    defined = np.isfinite(low) & np.isfinite(high) & (low != high) & ~np.isnan(value) & (count > 0) & (count < most)
    down = low > high
    offset, width = np.where(down, low - value, value - low), np.abs(high - low)
    inside = defined & (offset >= 0) & np.where(down, value > high, value < high)
    with np.errstate(all="ignore"):
        place = np.where(inside, count * offset / width, 0.0)
        # A place beyond a bigint is the largest one in Java, and one more wraps around.
        numbers = np.where(place < 2.0**63, np.where(place < 2.0**63, place, 0).astype(np.int64), most) + 1
    return np.where(inside, numbers, np.where(offset < 0, 0, np.where(defined, count, 0) + 1))[()], defined


_ANGLES: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "cot": lambda values: 1.0 / np.tan(values),
    "sec": lambda values: 1.0 / np.cos(values),
    "csc": lambda values: 1.0 / np.sin(values),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": _atanh,
    "degrees": lambda values: values * 57.29577951308232,
    "radians": lambda values: values * 0.017453292519943295,
}

FUNCTIONS = with_aliases(
    {
        **{name: fixed(of_doubles(apply), 1) for name, apply in _ANGLES.items()},
        "abs": fixed(lambda site, node: absolute(signs.number(node, site), site), 1),
        "atan2": fixed(of_doubles(lambda y, x: np.arctan2(y + 0.0, x + 0.0)), 2),
        "hypot": fixed(of_doubles(np.hypot), 2),
        "sqrt": fixed(of_doubles(np.sqrt), 1),
        "cbrt": fixed(of_doubles(np.cbrt), 1),
        "power": fixed(of_doubles(_power), 2),
        "exp": fixed(of_doubles(np.exp), 1),
        "expm1": fixed(of_doubles(np.expm1), 1),
        "rint": fixed(of_doubles(np.rint), 1),
        "ln": fixed(logarithm(np.log), 1),
        "log10": fixed(logarithm(np.log10), 1),
        "log2": fixed(logarithm(np.log2), 1),
        "log1p": fixed(logarithm(np.log1p, pole=-1.0), 1),
        "log": Function(log, 1, 2),
        "sign": fixed(of_doubles(_signum), 1),
        "e": _constant(math.e),
        "pi": _constant(math.pi),
        "factorial": fixed(factorial, 1),
        "isnan": fixed(is_nan, 1),
        "nanvl": fixed(nanvl, 2),
        "width_bucket": fixed(width_bucket, 4),
        "mod": fixed(lambda site, a, b: arithmetic("%", *signs.numbers(a, b, site), site), 2),
        "pmod": fixed(lambda site, a, b: pmod(*signs.numbers(a, b, site), site), 2),
        "div": fixed(lambda site, a, b: arithmetic("div", *signs.numbers(a, b, site), site), 2),
    },
    pow="power",
    signum="sign",
)
