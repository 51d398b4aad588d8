"""Which times a question is about: segments outside of them need not be asked.

Only comparisons of the time column with constants count, joined by AND. A condition that is not understood leaves the
range as wide as it is, so a range may be too wide and is never too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import compile_value
from stretto.expressions.parse import parse, span_of
from stretto.expressions.splitting import conjuncts

EARLIEST_US, LATEST_US = -(2**63), 2**63 - 1
_ONE_ROW = pa.record_batch({"row": [0]})
_TURNED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}


@dataclass(frozen=True)
class Span:
    """Times from `first_us` to `last_us`, both included."""

    first_us: int = EARLIEST_US
    last_us: int = LATEST_US

    def meets(self, start_us: int, end_us: int) -> bool:
        """Whether some of the times from a start to before an end are among these."""
        return start_us <= self.last_us and self.first_us < end_us

    def meets_segment(self, start_us: int, segment_us: int) -> bool:
        """Whether some of the rows of a segment may be asked for. Those without a time are in one that starts before
        all others; a condition on the time is never true for them."""
        if start_us == EARLIEST_US:
            return self == EVERY
        return self.meets(start_us, start_us + segment_us)

    def __and__(self, other: Span) -> Span:
        return Span(max(self.first_us, other.first_us), min(self.last_us, other.last_us))


EVERY = Span()
"""All times, and rows without one."""


def span_asked(where: str | None, time: str) -> Span:
    """Returns the times of rows that a condition may be true for."""
    if where is None:
        return EVERY
    try:
        parts = conjuncts(where, "a condition")
    except ExpressionError:
        return EVERY
    found = EVERY
    for text in parts:
        found = found & _of(text, time)
    return found


def _of(text: str, time: str) -> Span:
    tree: exp.Expr = parse(text).tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Between) and _is_time(tree.this, time):
        low, high = (_constant(tree.args[side], text) for side in ("low", "high"))
        return Span(EARLIEST_US if low is None else low, LATEST_US if high is None else high)
    kind = type(tree)
    if kind not in _TURNED:
        return EVERY
    left, right = tree.this, tree.expression
    if _is_time(right, time):
        left, right, kind = right, left, _TURNED[kind]
    bound = _constant(right, text) if _is_time(left, time) else None
    if bound is None:
        return EVERY
    if kind is exp.EQ:
        return Span(bound, bound)
    # A bound that is not included is, here, since a date may stand for a time.
    return Span(first_us=bound) if kind in (exp.GT, exp.GTE) else Span(last_us=bound)


def _is_time(node: exp.Expr, time: str) -> bool:
    return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() == time.lower()


def _constant(node: exp.Expr, text: str) -> int | None:
    """Returns the time that an expression without columns stands for, in microseconds; None if it is none."""
    place = span_of(node)
    if place is None:
        return None
    try:
        value = compile_value(f"CAST(({text[place[0] : place[1] + 1]}) AS TIMESTAMP)", _ONE_ROW.schema, "a bound")
        if value.columns:
            return None
        found = value.evaluate(_ONE_ROW).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())[0].as_py()
    except (ExpressionError, pa.ArrowException):
        return None
    return found if isinstance(found, int) else None
