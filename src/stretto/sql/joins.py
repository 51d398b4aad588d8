"""Joins: of streams, within an interval of time or in windows if the condition says so, and with a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from stretto.api.joining import joined_schema
from stretto.api.stream import Stream
from stretto.api.tables import Table
from stretto.errors import ExpressionError, PlanError
from stretto.expressions.parse import parse
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import with_parts_replaced
from stretto.operators.windows import Window
from stretto.sql.relation import (
    END,
    START,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Bounds,
    Column,
    Ref,
    Relation,
    parts_of,
)
from stretto.sql.times import limits
from stretto.sql.windows import divided

SUFFIX = "_right"
LEFT, RIGHT = "__left", "__right"
"""The sides, in conditions that name them."""
_SWAPPED = {"inner": "inner", "left": "right", "right": "left", "full": "full"}


@dataclass(frozen=True, slots=True)
class _Sided:
    """A column of one of two sides."""

    side: int
    ref: Ref


class Pair:
    """The columns of both sides of a join, by their names in SQL."""

    def __init__(self, left: Relation, right: Relation) -> None:
        self.sides = (left, right)
        self._both = Relation(left.rows, (*left.columns, *right.columns))

    def find(self, tree: exp.Expr) -> _Sided | None:
        """Returns the side of a column, and what the tree names there; None for other expressions."""
        if not isinstance(tree, exp.Column) or parts_of(tree)[0] in (LEFT, RIGHT):
            return None
        side = self._side(tree)
        ref = self.sides[side].ref(tree)
        return None if ref is None else _Sided(side, ref)

    def sided(self, tree: exp.Expr) -> str | None:
        """Returns `left`.`x` or `right`.`y` for a column."""
        if not isinstance(tree, exp.Column):
            return None
        side, parts = self._side(tree), parts_of(tree)
        if parts[0] in (LEFT, RIGHT):
            ref = next(c.ref for c in self.sides[side].columns if c.name.lower() == parts[1].lower())
            text: str | None = quoted(str(ref))
        else:
            text = self.sides[side].replacement(tree)
        if text is None or text.startswith("named_struct("):
            raise PlanError("a window is compared with something else than a window", tree.sql("spark"), None)
        return f"`{('left', 'right')[side]}`.{text}"

    def _side(self, tree: exp.Column) -> int:
        """Returns the side that has a column. Of two with its name, that of its table is meant."""
        parts = parts_of(tree)
        if parts[0] in (LEFT, RIGHT):
            return int(parts[0] == RIGHT)
        found = self._both.find(parts)
        if found is None:
            raise self._both.unknown(parts)
        column, used = found
        places = [side for side in (0, 1) if self.sides[side].find(parts) is not None]
        if len(places) > 1 and used == 1:
            raise ExpressionError(f"column {parts[0]!r} is in several tables", None, "write its table before it")
        return next(side for side in places if column in self.sides[side].columns)


def joined(left: Relation, right: Relation, how: str, conjuncts: Sequence[str], name: str | None) -> Relation:
    """Returns the join of two relations on all of these conditions, which are written with names of SQL."""
    pair = Pair(left, right)
    rest, marks = _without_windows(pair, conjuncts)
    if marks == {"start", "end"}:
        return _window_join(left, right, how, rest, name)
    if marks:
        raise PlanError(
            "a join in windows has half of a window",
            f"window_{min(marks)} is compared, and the other bound is not",
            "Write ON a.window_start = b.window_start AND a.window_end = b.window_end AND ...",
        )
    left, right = divided(left), divided(right)
    pair = Pair(left, right)
    sided = [with_parts_replaced(text, pair.sided) for text in conjuncts]
    streams = (left.stream, apart(right.stream, left.stream))
    if streams[0].changes or streams[1].changes or any(stream.time is None for stream in streams):
        return _all_pairs(left, right, streams, how, sided, name)
    found = limits(sided, streams)
    if found is None or (found.over == 1 and how not in _SWAPPED):
        return _all_pairs(left, right, streams, how, sided, name)
    kept = [text for text in sided if text not in found.used]
    options: dict[str, Any] = {
        "lower": found.lower,
        "upper": found.upper,
        "upper_inclusive": found.upper_inclusive,
        "name": name,
        "suffix": SUFFIX,
    }
    if found.over == 0:
        pairs = streams[0].interval_join(streams[1], conjunction(kept), how=how, **options)
        return result_of(pairs, left, right, how)
    swapped = [_swapped(text) for text in kept]
    pairs = streams[1].interval_join(streams[0], conjunction(swapped), how=_SWAPPED[how], **options)
    result = result_of(pairs, right, left, _SWAPPED[how])
    split = len(right.columns)
    return replace(result, columns=(*result.columns[split:], *result.columns[:split]))


def _without_windows(pair: Pair, conjuncts: Sequence[str]) -> tuple[list[str], set[str]]:
    """Returns the conditions without those that say that both rows are of one window, and what these compare."""
    rest, marks = [], set()
    bounds = [Bounds(WINDOW_START, WINDOW_END) if each.pending else each.bounds for each in pair.sides]
    for text in conjuncts:
        tree = parse(text).tree
        found = [pair.find(side) for side in (tree.this, tree.expression)] if isinstance(tree, exp.EQ) else []
        mark = _mark([each for each in found if each is not None], bounds)
        if mark:
            marks |= mark
        else:
            rest.append(text)
    return rest, marks


def _mark(found: Sequence[_Sided], bounds: Sequence[Bounds | None]) -> set[str]:
    if len(found) != 2 or {each.side for each in found} != {0, 1} or None in bounds:
        return set()
    named = []
    for each in found:
        own = bounds[each.side]
        assert own is not None
        known: dict[Ref, frozenset[str]] = {
            own: frozenset(("start", "end")),
            own.start: frozenset(("start",)),
            own.end: frozenset(("end",)),
        }
        named.append(known.get(each.ref, frozenset()))
    return set(named[0]) if named[0] == named[1] else set()


def _window_join(left: Relation, right: Relation, how: str, rest: Sequence[str], name: str | None) -> Relation:
    window: Window | None = None
    if left.pending is not None and left.pending == right.pending:
        window = left.pending.window
        left, right = _undivided(left), _undivided(right)
    else:
        left, right = divided(left), divided(right)
    pair = Pair(left, right)
    condition = conjunction([with_parts_replaced(text, pair.sided) for text in rest])
    streams = (left.stream, apart(right.stream, left.stream))
    pairs = streams[0].window_join(streams[1], condition, window, how=how, name=name, suffix=SUFFIX)
    result = result_of(pairs, left, right, how)
    if window is None:
        return result if how not in ("right", "full") else replace(result, bounds=None)
    marks = {WINDOW_START: START, WINDOW_END: END}
    columns = tuple(
        replace(c, ref=marks.get(c.ref, c.ref)) if isinstance(c.ref, str) else c
        for c in result.columns
        if c.ref != WINDOW_TIME
    )
    return replace(result, columns=columns, bounds=Bounds(START, END))


def _undivided(relation: Relation) -> Relation:
    return replace(relation, pending=None)


def _all_pairs(
    left: Relation, right: Relation, streams: tuple[Stream, Stream], how: str, sided: list[str], name: str | None
) -> Relation:
    pairs = streams[0].join(streams[1], conjunction(sided), how=how, name=name, suffix=SUFFIX)
    return replace(result_of(pairs, left, right, how), bounds=None)


def with_table(
    left: Relation, right: Relation, table: Table, how: str, conjuncts: Sequence[str], name: str | None
) -> Relation:
    """Returns the join of a stream with a table."""
    left = divided(left)
    pair = Pair(left, right)
    sided = [with_parts_replaced(text, pair.sided) for text in conjuncts]
    pairs = left.stream.join(table, conjunction(sided), how=how, name=name, suffix=SUFFIX)
    return result_of(pairs, left, right, how)


def result_of(pairs: Stream, left: Relation, right: Relation, how: str) -> Relation:
    """Returns the pairs with the names that both sides have in SQL."""
    if how in ("semi", "anti"):
        return Relation(pairs, left.columns, left.bounds)
    rows = left.rows.schema, right.rows.schema
    names = joined_schema(*rows, SUFFIX).names[len(rows[0]) :]
    new = dict(zip(rows[1].names, names, strict=True))
    columns = [*left.columns, *(replace(column, ref=_renamed(column.ref, new)) for column in right.columns)]
    return Relation(pairs, tuple(columns), left.bounds)


def _renamed(ref: Ref, new: dict[str, str]) -> Ref:
    if isinstance(ref, Bounds):
        return Bounds(new.get(ref.start, ref.start), new.get(ref.end, ref.end))
    return new.get(ref, ref)


def conjunction(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts)


def _swapped(text: str) -> str:
    return text.replace("`left`.", "`\0`.").replace("`right`.", "`left`.").replace("`\0`.", "`right`.")


def apart(stream: Stream, other: Stream) -> Stream:
    """Returns the same rows under another name, if both are one stream."""
    return stream.select(*map(quoted, stream.schema.names)) if stream.name == other.name else stream


def using(columns: Sequence[str], left: Relation, right: Relation, how: str) -> tuple[Relation, Relation, list[str]]:
    """Returns both sides of JOIN ... USING (columns), and the conditions. One of two equal columns needs its table."""
    for column in columns:
        for side in (left, right):
            if side.find([column]) is None:
                raise side.unknown([column])
    names = {column.lower() for column in columns}

    def hidden(relation: Relation) -> Relation:
        shown = tuple(replace(c, hidden=c.hidden or c.name.lower() in names) for c in relation.columns)
        return replace(relation, columns=shown)

    conjuncts = [f"{LEFT}.{quoted(column)} = {RIGHT}.{quoted(column)}" for column in columns]
    if how == "full":
        return left, right, conjuncts
    return (hidden(left), right, conjuncts) if how == "right" else (left, hidden(right), conjuncts)


def columns_of(relations: Sequence[Relation]) -> tuple[Column, ...]:
    """Returns the columns of several relations side by side."""
    return tuple(column for relation in relations for column in relation.columns)
