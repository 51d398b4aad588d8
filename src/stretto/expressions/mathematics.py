"""round, floor, ceil and the functions of a double."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import decimals, types
from stretto.expressions.arithmetic import absolute, arithmetic, overflow, pmod
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, combine, constant_argument, elementwise
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.vectors import Value, dtype_of, widened

_EXACT = Context(prec=400)


def number(node: Node, site: Site) -> Node:
    """Returns the node; raises if it is not a number."""
    if node.type == types.NULL:
        return cast(node, types.DOUBLE, site)
    if not types.is_numeric(node.type):
        raise site.wrong_type("a number", node.type)
    return node


def of_doubles(apply: Callable[..., Any]) -> Callable[..., Node]:
    """Returns the builder of a numpy function of one or two doubles."""

    def build(site: Site, *nodes: Node) -> Node:
        parts = [cast(number(node, site), types.DOUBLE, site) for node in nodes]
        return elementwise(types.DOUBLE, apply, site, parts)

    return build


def logarithm(apply: Callable[..., Any]) -> Callable[[Site, Node], Node]:
    """Returns the builder of a logarithm, which is null, not NaN, at zero and below, as in Spark."""

    def build(site: Site, node: Node) -> Node:
        inner = cast(number(node, site), types.DOUBLE, site)
        run_inner = inner.run

        def run(batch: pa.RecordBatch) -> Value:
            values, valid = run_inner(batch)
            outside = values <= 0
            result = apply(np.where(outside, 1.0, values)[()])
            if not np.any(outside):
                return result, valid
            return result, ~outside if valid is None else valid & ~outside

        return combine(types.DOUBLE, run, site, (inner,))

    return build


def round_half_up(site: Site, node: Node, digits: Node | None = None) -> Node:
    """Returns `round(x, digits)`, ties away from zero."""
    node = number(node, site)
    scale = 0 if digits is None else constant_argument(digits, types.INT, "the digits of round")
    if types.is_decimal(node.type):
        return _round_decimal(node, scale, site)
    if types.is_fractional(node.type):
        kind = node.type
        return elementwise(kind, lambda values: _round_doubles(values, scale, dtype_of(kind)), site, (node,))
    return _round_integral(node, scale, site)


def _round_decimal(node: Node, digits: int, site: Site) -> Node:
    """Returns a rounded decimal, whose type has the remaining digits and one more for a carry."""
    source, inner = node.type, node.run
    integer_digits = source.precision - source.scale + 1
    if digits < 0:
        kind = types.bounded(max(integer_digits, -digits + 1), 0)
    else:
        scale = min(source.scale, digits)
        kind = pa.decimal128(min(integer_digits + scale, types.DECIMAL_DIGITS_MAX), scale)

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        rounded = decimals.rescale(values, source.scale, min(source.scale, digits))
        return decimals.fit(decimals.scale_up(rounded, max(0, -digits)), valid, kind, site), valid

    return combine(kind, run, site, (node,), fallible=True)


def _round_integral(node: Node, digits: int, site: Site) -> Node:
    if digits >= 0:
        return node
    inner, kind, dtype = node.run, node.type, dtype_of(node.type)
    info = np.iinfo(dtype)

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        rounded = decimals.divide_half_up(widened(values), 10**-digits) * 10**-digits
        over = (rounded > int(info.max)) | (rounded < int(info.min))
        if np.any(over if valid is None else over & valid):
            raise overflow(kind, site)
        return np.asarray(np.where(over, 0, rounded)).astype(dtype)[()], valid

    return combine(kind, run, site, (node,), fallible=True)


def _round_doubles(values: Any, digits: int, dtype: Any) -> Any:
    """Returns rounded doubles. Java rounds the shortest decimal text (1.005 becomes 1.01), used only near ties."""
    values = np.asarray(values)
    with np.errstate(all="ignore"):
        scaled = np.abs(values.astype(np.float64)) * 10.0**digits
        whole = np.floor(scaled)
        rest = scaled - whole
        up = whole + (rest >= 0.5)
        result = np.copysign(up / 10.0**digits if digits >= 0 else up * 10.0**-digits, values)
        doubtful = np.isfinite(values) & ((np.abs(rest - 0.5) < 1e-4) | (scaled > 2.0**40) | (abs(digits) > 15))
    result = np.where(np.isfinite(values), result, values).astype(dtype)
    if doubtful.any():
        step = Decimal(1).scaleb(-digits)
        exact = np.frompyfunc(lambda v: float(Decimal(str(v)).quantize(step, ROUND_HALF_UP, _EXACT)), 1, 1)
        result[doubtful] = exact(values[doubtful])
    return result[()]


def floor(site: Site, node: Node) -> Node:
    return _to_whole(node, np.floor, up=False, site=site)


def ceil(site: Site, node: Node) -> Node:
    return _to_whole(node, np.ceil, up=True, site=site)


def _to_whole(node: Node, apply: Callable[..., Any], up: bool, site: Site) -> Node:
    node = number(node, site)
    if types.is_integral(node.type):
        return cast(node, types.BIGINT, site)
    if types.is_fractional(node.type):
        whole = elementwise(types.DOUBLE, apply, site, (cast(node, types.DOUBLE, site),))
        return cast(whole, types.BIGINT, site)
    source = node.type
    # One more digit for the carry; a decimal of scale 0 needs none.
    digits = source.precision - source.scale + (1 if source.scale else 0)
    kind = pa.decimal128(min(digits, types.DECIMAL_DIGITS_MAX), 0)
    divisor = 10**source.scale

    def whole_decimal(values: Any) -> Any:
        if source.scale > 18:
            values = widened(values)
        return -(-values // divisor) if up else values // divisor

    return elementwise(kind, whole_decimal, site, (node,))


def sign(site: Site, node: Node) -> Node:
    return elementwise(types.DOUBLE, np.sign, site, (cast(number(node, site), types.DOUBLE, site),))


def log(site: Site, base: Node, node: Node | None = None) -> Node:
    """Returns `log(x)`, or `log(base, x)`."""
    natural = logarithm(np.log)
    if node is None:
        return natural(site, base)
    return arithmetic("/", natural(site, node), natural(site, base), site)


FUNCTIONS = with_aliases(
    {
        "abs": fixed(lambda site, node: absolute(node, site), 1),
        "round": Function(round_half_up, 1, 2),
        "floor": fixed(floor, 1),
        "ceil": fixed(ceil, 1),
        "sqrt": fixed(of_doubles(np.sqrt), 1),
        "power": fixed(of_doubles(np.power), 2),
        "exp": fixed(of_doubles(np.exp), 1),
        "ln": fixed(logarithm(np.log), 1),
        "log10": fixed(logarithm(np.log10), 1),
        "log2": fixed(logarithm(np.log2), 1),
        "log": Function(log, 1, 2),
        "sign": fixed(sign, 1),
        "mod": fixed(lambda site, a, b: arithmetic("%", a, b, site), 2),
        "pmod": fixed(lambda site, a, b: pmod(a, b, site), 2),
    },
    pow="power",
    ceiling="ceil",
    signum="sign",
)
