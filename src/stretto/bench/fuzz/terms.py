"""Expressions as trees, which render to Spark SQL and can be taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.types as pat

from stretto.expressions import spark_type_name

COLUMN, LITERAL = "column", "literal"
DECIMAL = "decimal"


def family(kind: pa.DataType) -> str:
    """Returns Spark's name of a type; all decimals are one family, since a function that takes one takes them all."""
    return DECIMAL if pat.is_decimal(kind) else spark_type_name(kind)


@dataclass(frozen=True)
class Term:
    """An expression: the texts before, between and after its arguments, which are one more than the arguments.

    `family` is the type that the vocabulary expects of it; the compiler may say a narrower one. `fixed` terms are
    constants that the function around them needs, such as the unit of date_trunc."""

    label: str
    pieces: tuple[str, ...]
    arguments: tuple[Term, ...] = ()
    family: str = ""
    fixed: bool = False

    @cached_property
    def text(self) -> str:
        parts = [self.pieces[0]]
        for argument, piece in zip(self.arguments, self.pieces[1:], strict=True):
            parts += (argument.text, piece)
        return "".join(parts)

    @cached_property
    def size(self) -> int:
        return 1 + sum(argument.size for argument in self.arguments)

    @property
    def depth(self) -> int:
        return 1 + max((argument.depth for argument in self.arguments), default=0) if self.arguments else 0

    @property
    def shape(self) -> str:
        """The term with families in place of its leaves: what two terms of one cause share."""
        return f"{self.label}({', '.join(each.shape if each.arguments else each.family for each in self.arguments)})"

    @property
    def head(self) -> str:
        """The label with the families of the arguments."""
        return f"{self.label}({', '.join(each.family for each in self.arguments)})"

    def nodes(self) -> Iterator[Term]:
        """Yields this term and all terms in it."""
        yield self
        for argument in self.arguments:
            yield from argument.nodes()

    def inner(self) -> list[Term]:
        """Returns the terms in this one, without itself and without leaves."""
        return [node for node in self.nodes() if node is not self and node.arguments]

    def columns(self) -> list[str]:
        """Returns the names of the columns that the term reads, each once."""
        return list(dict.fromkeys(node.text for node in self.nodes() if node.label == COLUMN))

    def places(self) -> Iterator[tuple[tuple[int, ...], Term]]:
        """Yields every term in this one, without itself, with the path to it."""
        for place, argument in enumerate(self.arguments):
            yield (place,), argument
            for path, inner in argument.places():
                yield (place, *path), inner

    def with_replaced(self, path: tuple[int, ...], term: Term) -> Term:
        """Returns this term with another one at the path."""
        if not path:
            return term
        inner = self.arguments[path[0]].with_replaced(path[1:], term)
        return replace(self, arguments=(*self.arguments[: path[0]], inner, *self.arguments[path[0] + 1 :]))


def column(name: str, of: str) -> Term:
    return Term(COLUMN, (name,), family=of)


def literal(text: str, of: str, fixed: bool = False) -> Term:
    return Term(LITERAL, (text,), family=of, fixed=fixed)
