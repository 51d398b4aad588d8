"""Ranks with a bound: top-n, and the first or the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from stretto.api.stream import GroupVerbs, Stream
from stretto.errors import PlanError
from stretto.expressions.parse import parse, split_direction
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import with_parts_replaced
from stretto.sql.ranks import RANK
from stretto.sql.relation import END, START, WINDOW_END, WINDOW_START, Bounds, PendingRank, Relation
from stretto.sql.windows import divided

_RENAMED = {START: f"__{START}_of", END: f"__{END}_of"}
"""What bounds of windows are called where rows of all windows are ranked together."""


def bound_of(text: str, name: str) -> tuple[int, bool] | None:
    """Returns up to which rank a condition keeps rows, and whether that is all it says; None if it is no such bound."""
    tree = parse(text).tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Between):
        low, high = _number(tree.args["low"]), _number(tree.args["high"])
        return (high, low == 1) if _is_rank(tree.this, name) and low is not None and high is not None else None
    if not isinstance(tree, exp.LTE | exp.LT | exp.GTE | exp.GT | exp.EQ):
        return None
    first, second = tree.this, tree.expression
    if isinstance(tree, exp.GTE | exp.GT):
        first, second = second, first
    if isinstance(tree, exp.EQ) and _is_rank(second, name):
        first, second = second, first
    number = _number(second)
    if not _is_rank(first, name) or number is None:
        return None
    most = number - 1 if isinstance(tree, exp.LT | exp.GT) else number
    return most, not isinstance(tree, exp.EQ) or number == 1


def _is_rank(tree: exp.Expr, name: str) -> bool:
    return isinstance(tree, exp.Column) and tree.name.lower() == name.lower()


def _number(tree: exp.Expr) -> int | None:
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None


def ranked(rank: PendingRank, most: int, wanted: bool, arrivals: Sequence[str], name: str | None) -> Relation:
    """Returns the rows of the first ranks, and what the query makes of them. `arrivals` are columns with times of
    arrival: the first row by such a time is the one that arrives first."""
    if most < 1:
        raise PlanError(f"no row has a rank below {most + 1}", f"the rank is {rank.name!r}", "Ranks begin with 1.")
    rows = rank.rows
    keys, in_windows = _without_windows(rank)
    if not in_windows:
        rows = _unnamed(divided(rows))
        if {START, END} <= set(rank.rows.rows.schema.names):
            keys = [renamed_windows(key) for key in keys]
            rank = replace(rank, orders=tuple(map(renamed_windows, rank.orders)))
    place = RANK if wanted else None
    if not in_windows and most == 1 and place is None:
        found = _one_row(rank, rows, keys, arrivals, name)
        if found is not None:
            return rank.finished(replace(rows, rows=found), None)
    stream = rows.stream
    declared = [key if _is_column(key, stream) else f"{key} AS `__part{number}`" for number, key in enumerate(keys)]
    grouped: GroupVerbs = stream.key_by(*declared) if declared else stream
    by = [text if split_direction(text)[1] is not None else f"{text} ASC" for text in rank.orders]
    options: dict[str, Any] = {"by": by, "rank": place, "ranking": rank.function, "name": name}
    if in_windows and rows.pending is not None:
        top = grouped.window(rows.pending.window).top(most, **options)
        rows = _bounded(rows)
    else:
        top = grouped.top(most, **options)
    return rank.finished(replace(rows, rows=top), place)


def _is_column(text: str, stream: Stream) -> bool:
    return any(text == quoted(name) for name in stream.schema.names)


def _without_windows(rank: PendingRank) -> tuple[list[str], bool]:
    """Returns the keys without the bounds of windows, and whether these were among them."""
    bounds = Bounds(WINDOW_START, WINDOW_END) if rank.rows.pending is not None else rank.rows.bounds
    if bounds is None:
        return list(rank.keys), False
    marks = {bounds.sql, quoted(bounds.start), quoted(bounds.end)}
    keys, found = [key for key in rank.keys if key not in marks], marks.intersection(rank.keys)
    if len(found) == 1 and bounds.sql not in found:
        raise PlanError(
            "a rank is partitioned by half of a window", found.pop(), "Write PARTITION BY window_start, window_end, ..."
        )
    return keys, bool(found)


def _unnamed(rows: Relation) -> Relation:
    """Returns rows that are ranked over all windows: `top` ranks those with bounds of windows in each window."""
    stream = rows.stream
    if not {START, END} <= set(stream.schema.names):
        return rows
    columns = []
    for column in rows.columns:
        ref = column.ref
        if isinstance(ref, Bounds):
            columns.append(
                replace(column, ref=Bounds(_RENAMED.get(ref.start, ref.start), _RENAMED.get(ref.end, ref.end)))
            )
        else:
            columns.append(replace(column, ref=_RENAMED.get(ref, ref)))
    return Relation(stream.rename(_RENAMED), tuple(columns))


def renamed_windows(text: str) -> str:
    """Returns a text over a stream with other names for the bounds of windows."""

    def renamed(tree: exp.Expr) -> str | None:
        found = _RENAMED.get(tree.name) if isinstance(tree, exp.Column) and len(tree.parts) == 1 else None
        return None if found is None else quoted(found)

    body, _ = split_direction(text)
    return with_parts_replaced(body, renamed) + text[len(body) :]


def _bounded(rows: Relation) -> Relation:
    marks = {WINDOW_START: START, WINDOW_END: END}
    columns = (
        replace(column, ref=marks.get(column.ref, column.ref)) if isinstance(column.ref, str) else column
        for column in rows.columns
    )
    return Relation(rows.rows, tuple(columns), Bounds(START, END))


def _one_row(
    rank: PendingRank, rows: Relation, keys: Sequence[str], arrivals: Sequence[str], name: str | None
) -> Stream | None:
    """Returns the first row of each key that arrives, or the last one by event time, if that is what is ranked."""
    stream = rows.stream
    if rank.function != "row_number" or len(rank.orders) != 1 or stream.changes or stream.time is None or not keys:
        return None
    body, descending = split_direction(rank.orders[0])
    columns = [column for column in stream.schema.names if quoted(column) in keys]
    if body != quoted(stream.time.column) or len(columns) < len(keys):
        return None
    if descending:
        return stream.drop_duplicates(*columns, keep="last", name=name)
    return stream.drop_duplicates(*columns, name=name) if stream.time.column in arrivals else None
