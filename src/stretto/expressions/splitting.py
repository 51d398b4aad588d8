"""The parts of a condition as texts: its conjuncts, the sides of an equality, and the columns that it names.

A join reads its condition in parts: some are keys of one input, the rest is checked for each pair of rows. Spark must
get the user's own text, so parts are cut out of it, and only the names of columns are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.parse import parse, span_of
from stretto.expressions.scalar import quoted


@dataclass(frozen=True, slots=True)
class Reference:
    """A column as it is written, `left.name` for example: its parts, and where each begins and ends in the text."""

    parts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


def conjuncts(text: str, role: str) -> list[str]:
    """Returns the texts that AND connects at the top of a condition; `role` is its name in an error."""
    parsed = parse(text)
    if parsed.alias is not None:
        raise ExpressionError(
            f"{role} has no name of its own", f"{parsed.alias!r} in the expression {text!r}", "write AND between parts"
        )
    return [_cut(text, tree) for tree in _flattened(parsed.tree)]


def equality(text: str) -> tuple[str, str] | None:
    """Returns both sides of `a = b`, or None for any other text."""
    tree = _bare(parse(text).tree)
    if not isinstance(tree, exp.EQ):
        return None
    try:
        return _cut(text, tree.this), _cut(text, tree.expression)
    except ExpressionError:
        return None


def is_name(text: str) -> bool:
    """Whether an expression is the name of a column and nothing else."""
    tree = parse(text).tree
    return isinstance(tree, exp.Column) and len(tree.parts) == 1 and isinstance(tree.this, exp.Identifier)


def references(text: str) -> list[Reference]:
    """Returns the columns that an expression names, in the order of the text."""
    found = []
    for column in parse(text).tree.find_all(exp.Column):
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        spans = tuple((part.meta["start"], part.meta["end"]) for part in parts)
        found.append(Reference(tuple(part.name for part in parts), spans))
    return sorted(found, key=lambda reference: reference.spans)


def with_columns_named(text: str, named: Callable[[Reference], tuple[str, int]]) -> str:
    """Returns the text with other names for its columns: `named` gives a column's name, and how many parts of the
    reference it replaces."""
    pieces, at = [], 0
    for reference in references(text):
        name, parts = named(reference)
        pieces += [text[at : reference.spans[0][0]], quoted(name)]
        at = reference.spans[parts - 1][1] + 1
    return "".join([*pieces, text[at:]])


def with_parts_replaced(text: str, replace: Callable[[exp.Expr], str | None]) -> str:
    """Returns the text with other texts for its parts: `replace` gives that of a part of the tree, from the whole down,
    or None to look inside of it."""
    found: list[tuple[int, int, str]] = []
    waiting = [parse(text).tree]
    while waiting:
        tree = waiting.pop()
        new = replace(tree)
        if new is None:
            waiting.extend(tree.iter_expressions())
            continue
        first, last = _place(tree, text)
        found.append((first, last, new))
    pieces, at = [], 0
    for first, last, new in sorted(found):
        pieces += [text[at:first], new]
        at = last + 1
    return "".join([*pieces, text[at:]])


def _place(tree: exp.Expr, text: str) -> tuple[int, int]:
    if isinstance(tree, exp.Column):
        parts = [part for part in tree.parts if isinstance(part, exp.Identifier)]
        return parts[0].meta["start"], parts[-1].meta["end"]
    span = span_of(tree)
    try:
        fits = span is not None and parse(text[span[0] : span[1] + 1]).tree == tree
    except ExpressionError:
        fits = False
    if span is None or not fits:
        raise ExpressionError(
            f"cannot divide the expression {text!r}", f"near {tree.sql('spark')!r}", "put parentheses around that part"
        )
    return span


def _flattened(tree: exp.Expr) -> Iterator[exp.Expr]:
    inner = _bare(tree)
    if isinstance(inner, exp.And):
        yield from _flattened(inner.this)
        yield from _flattened(inner.expression)
    else:
        yield tree


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _cut(text: str, tree: exp.Expr) -> str:
    span = span_of(tree)
    part = "" if span is None else text[span[0] : span[1] + 1]
    try:
        fits = bool(part) and parse(part).tree == tree
    except ExpressionError:
        fits = False
    if not fits:
        raise ExpressionError(
            f"cannot divide the condition {text!r}", f"near {part!r}", "put parentheses around each side of AND and ="
        )
    return part
