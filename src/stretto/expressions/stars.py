"""`*`, `* EXCEPT (a, b)` and `s.*` in a select list: which columns or fields they stand for."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import structs
from stretto.expressions.binder import bind, resolve
from stretto.expressions.nodes import Site
from stretto.expressions.parse import Parsed, parse
from stretto.expressions.reads import refuse_unread
from stretto.expressions.scalar import quoted

#: sqlglot reads EXCLUDE as EXCEPT; Spark has only the latter.
_EXCLUDE = re.compile(r"\*\s*EXCLUDE\b", re.IGNORECASE)


def star_columns(parsed: Parsed, schema: pa.Schema, text: str) -> list[str]:
    """Returns the columns that a star stands for, in the order of the schema."""
    if parsed.alias is not None:
        raise ExpressionError(f"a star with the name {parsed.alias!r}", f"in {text!r}", "name one column")
    if _EXCLUDE.match(parsed.body):
        raise ExpressionError("EXCLUDE is not Spark SQL", f"in {text!r}", "write * EXCEPT (column, ...)")
    star = parsed.tree.copy()
    excluded = star.args.pop("except_", None) or []
    refuse_unread(star, text)
    left_out = [_excluded(column, schema, text) for column in excluded]
    written = [column.name for column in excluded]
    for name in written:
        # As in Spark, which takes the same name in another case.
        if written.count(name) > 1:
            raise ExpressionError(f"column {name!r} is left out twice", f"in {text!r}", "name it once")
    return [name for name in schema.names if name not in left_out]


def is_struct_star(tree: exp.Expr) -> bool:
    """Whether this is `s.*`."""
    return isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)


def star_fields(parsed: Parsed, schema: pa.Schema, text: str) -> list[str]:
    """Returns an expression for each field of `s.*`."""
    if parsed.alias is not None:
        raise ExpressionError(f"a star with the name {parsed.alias!r}", f"in {text!r}", "name one field")
    refuse_unread(parsed.tree.this, text)
    struct = parsed.body.rstrip("* \t\n").removesuffix(".")
    node = bind(parse(struct).tree, schema, struct)
    return [f"{struct}.{quoted(name)}" for name in structs.names_of(node, Site(parsed.tree, text))]


def _excluded(column: exp.Expr, schema: pa.Schema, text: str) -> str:
    refuse_unread(column, text)
    if not isinstance(column, exp.Column) or len(column.parts) > 1 or isinstance(column.this, exp.Star):
        part = Site(column, text).part
        raise ExpressionError(f"EXCEPT takes names of columns, not {part!r}", f"in {text!r}", "name whole columns")
    return resolve(column.name, schema, text)
