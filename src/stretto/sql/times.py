"""Bounds in time in the condition of a join: which parts of it make an interval join, and of which side.

An interval join wants the time of a right row between two expressions over the left row. A condition may say that as
BETWEEN, as two comparisons, in either direction, or about the time of the left row; the last is turned around if its
bounds are the right time plus constants, or else the sides are swapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.types as pat
from sqlglot import exp

from stretto.api.joining import constant_offset_us
from stretto.api.stream import Stream
from stretto.expressions import compile_value
from stretto.expressions.parse import parse, span_of
from stretto.expressions.scalar import quoted
from stretto.operators.windows import EventTime

_COMPARISONS: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.LTE: (False, False),
    exp.LT: (False, True),
    exp.GTE: (True, False),
    exp.GT: (True, True),
}
"""Whether the first operand is the greater one, and whether both must differ."""


@dataclass(frozen=True, slots=True)
class Sided:
    """An expression over the columns of one side, as it is written in the condition, and the column if it is one."""

    text: str
    side: int
    column: str | None


@dataclass(frozen=True, slots=True)
class Order:
    """`low <= high`, or `low < high` if it is strict, found in this conjunct."""

    low: Sided
    high: Sided
    strict: bool
    conjunct: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Both bounds of an interval over the columns of a side, for the time of the other one, and the conjuncts that say
    no more than these."""

    over: int
    lower: str
    upper: str
    upper_inclusive: bool
    used: frozenset[str]


def limits(conjuncts: Sequence[str], sides: tuple[Stream, Stream]) -> Limits | None:
    """Returns the bounds that a condition has in time, if it has both. Columns are `left`.`x` and `right`.`y`."""
    times = tuple(stream.time for stream in sides)
    if any(time is None or time.offset_us for time in times):
        return None
    found = [order for text in conjuncts for order in _orders(text)]
    for over in (0, 1):
        timed = times[1 - over]
        assert timed is not None
        lows = [_over(o, o.low, o.high, over, timed.column, sides) for o in found]
        highs = [_over(o, o.high, o.low, over, timed.column, sides) for o in found]
        low = next((each for each in lows if each is not None), None)
        high = next((each for each in highs if each is not None), None)
        if low is not None and high is not None:
            return _limits(over, low, high, conjuncts)
    return None


def order_of_times(text: str, sides: tuple[Stream, Stream]) -> Order | None:
    """Returns the order that a condition says of the event times of both sides; None if it says something else."""
    times = tuple(stream.time for stream in sides)
    if any(time is None or time.offset_us for time in times):
        return None
    orders = list(_orders(text))
    if len(orders) != 1 or any(each.column != _name(times[each.side]) for each in (orders[0].low, orders[0].high)):
        return None
    return orders[0]


def _name(time: EventTime | None) -> str | None:
    return None if time is None else time.column


def _limits(over: int, low: tuple[str, Order], high: tuple[str, Order], conjuncts: Sequence[str]) -> Limits:
    """Returns both bounds. A lower bound is inclusive in a join, so a strict one remains a condition."""
    orders = {low[1].conjunct: [low[1]]}
    orders.setdefault(high[1].conjunct, []).append(high[1])
    used = set()
    for text in conjuncts:
        all_used = len(orders.get(text, ())) == len(list(_orders(text)))
        if text in orders and all_used and not (low[1].conjunct == text and low[1].strict):
            used.add(text)
    return Limits(over, low[0], high[0], not high[1].strict, frozenset(used))


def _over(
    order: Order, bound: Sided, timed: Sided, over: int, time: str, sides: tuple[Stream, Stream]
) -> tuple[str, Order] | None:
    """Returns the bound as an expression over one side for the time of the other one, if it is such a bound."""
    if bound.side == over and timed.side == 1 - over and timed.column == time:
        return _bare(bound.text), order
    own = sides[over].time
    assert own is not None
    if bound.column != own.column or bound.side != over or timed.side != 1 - over:
        return None
    # The own time is compared with the other time plus a constant: turn it around.
    other = sides[1 - over]
    assert other.time is not None
    scalar = compile_value(_bare(timed.text), other.schema, "a bound")
    if not pat.is_timestamp(scalar.type):
        return None
    offset_us = constant_offset_us(scalar, other.time, other.schema)
    if offset_us is None:
        return None
    sign = "-" if offset_us >= 0 else "+"
    return f"{quoted(own.column)} {sign} INTERVAL {abs(offset_us)} MICROSECONDS", order


def _orders(text: str) -> Iterator[Order]:
    """Yields the comparisons of a conjunct between expressions of different sides."""
    tree = parse(text).tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    for kind, (greater_first, strict) in _COMPARISONS.items():
        if isinstance(tree, kind):
            first, second = tree.this, tree.expression
            pairs.append((second, first, strict) if greater_first else (first, second, strict))
    if isinstance(tree, exp.Between):
        pairs = [(tree.args["low"], tree.this, False), (tree.this, tree.args["high"], False)]
    for low, high, strict in pairs:
        one, other = _sided(low, text), _sided(high, text)
        if one is not None and other is not None and one.side != other.side:
            yield Order(one, other, strict, text)


def _sided(tree: exp.Expr, text: str) -> Sided | None:
    columns = list(tree.find_all(exp.Column))
    sides = {column.table for column in columns}
    if len(sides) != 1 or not sides <= {"left", "right"}:
        return None
    while isinstance(tree, exp.Paren):
        tree = tree.this
    column = tree.name if isinstance(tree, exp.Column) else None
    if column is not None:
        return Sided(f"`{sides.pop()}`.{quoted(column)}", 0 if columns[0].table == "left" else 1, column)
    span = span_of(tree)
    if span is None or parse(text[span[0] : span[1] + 1]).tree != tree:
        return None
    return Sided(text[span[0] : span[1] + 1], 0 if sides == {"left"} else 1, None)


def _bare(text: str) -> str:
    """Returns an expression over one side without the names of sides."""
    return text.replace("`left`.", "").replace("`right`.", "")
