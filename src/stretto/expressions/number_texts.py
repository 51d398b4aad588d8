"""format_number: a number with commas between thousands, and so many decimals."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from stretto.expressions import types
from stretto.expressions.arguments import whole
from stretto.expressions.java_digits import double_digits
from stretto.expressions.nodes import Node, Site, null
from stretto.expressions.registry import fixed
from stretto.expressions.rows import by_rows

_EXACT = Context(prec=800)
_DOUBLE_DECIMALS_MAX = 340
"""Java writes no more decimals of what is no decimal."""
_DECIMALS_MAX = 1_000_000
_DIGITS_MAX = 40
"""Digits of a decimal before and behind its point, with a carry."""


def format_number(site: Site, node: Node, places: Node) -> Node:
    """Returns the text of a number, rounded half to even; null for a negative number of decimals."""
    if places.type == types.STRING:
        raise site.error("a pattern in format_number is not supported", None, "give the number of decimals")
    if node.type == types.NULL:
        return null(types.STRING, site)
    if not types.is_numeric(node.type):
        raise site.wrong_type("a number", node.type)
    fractional = types.is_fractional(node.type)

    def of_row(value: Any, count: int) -> str | None:
        if count < 0:
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        if not types.is_decimal(node.type):
            count = min(count, _DOUBLE_DECIMALS_MAX)
        if count > _DECIMALS_MAX:
            raise site.error(f"{count} decimals", f"there may be {_DECIMALS_MAX}", "ask for fewer")
        number = _of_double(value, count) if fractional else Decimal(value)
        context = _EXACT if count + _DIGITS_MAX <= _EXACT.prec else Context(prec=count + _DIGITS_MAX)
        rounded = number.quantize(Decimal(1).scaleb(-count, context), ROUND_HALF_EVEN, context)
        return f"{rounded:,f}"

    return by_rows(types.STRING, of_row, site, (node, whole(places, site)))


def _of_double(value: float, count: int) -> Decimal:
    """Returns a double as the digits that Java writes, or exactly if some of them are to be rounded away."""
    digits, point = double_digits(abs(value)) if value else ("0", 1)
    if len(digits) - point > count:
        return Decimal(value)
    return Decimal((int(math.copysign(1.0, value) < 0), tuple(map(int, digits)), point - len(digits)))


FUNCTIONS = {"format_number": fixed(format_number, 2)}
