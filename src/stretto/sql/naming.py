"""Which columns a SELECT names: what it needs of its sources, and whether it needs the number of a rank."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stretto.expressions.parse import parse
from stretto.sql.projecting import excepted, is_star, parsed_item
from stretto.sql.script import Piece, Script
from stretto.sql.tree import Join, RankBound, Select, Source
from stretto.sql.words import words_of


def names(text: str, name: str) -> bool:
    """Whether an expression names a column."""
    return any(column.name.lower() == name.lower() for column in parse(text).tree.find_all(exp.Column))


def names_column(select: Select, name: str) -> bool:
    """Whether a SELECT names a column anywhere but in WHERE, or has it by a star."""
    pieces = [item.piece for item in select.items if item.ranked is None]
    for piece in pieces:
        parsed = parsed_item(piece.text)
        if is_star(parsed):
            if name.lower() not in excepted(parsed):
                return True
        elif names(parsed.body, name):
            return True
    others = [piece for each in select.groups or () for one in each.sets for piece in one]
    others += [piece for piece in (select.having, select.qualify) if isinstance(piece, Piece)]
    for item in select.items:
        others += [] if item.ranked is None else [*item.ranked.keys, *item.ranked.orders]
    return any(name.lower() in piece.text.lower() for piece in others)


def named_in(select: Select, on: Sequence[Piece]) -> set[str] | None:
    """Returns all words of a SELECT, in lower case, among which are the names of the columns that it needs; None if it
    has a star."""
    pieces = [item.piece for item in select.items]
    if any(is_star(parsed_item(item.piece.text)) for item in select.items if item.ranked is None):
        return None
    pieces += [piece for each in select.groups or () for one in each.sets for piece in one]
    pieces += [piece for piece in (select.where, select.having, *on) if piece is not None]
    if isinstance(select.qualify, RankBound):
        pieces += [*select.qualify.ranked.keys, *select.qualify.ranked.orders, select.qualify.condition]
    elif select.qualify is not None:
        pieces.append(select.qualify)
    words = {word.value.lower() for piece in pieces for word in words_of(Script(piece.text))}
    return words | set(using_in(select.source))


def using_in(source: Source | None) -> list[str]:
    """Returns the columns of USING in the joins of a source."""
    if not isinstance(source, Join):
        return []
    return [*using_in(source.left), *using_in(source.right), *(name.lower() for name in source.using)]
