"""`*` and `* EXCEPT (a, b)` in a select list: which columns they stand for."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.binder import resolve
from stretto.expressions.nodes import Site
from stretto.expressions.parse import Parsed
from stretto.expressions.reads import refuse_unread

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


def _excluded(column: exp.Expr, schema: pa.Schema, text: str) -> str:
    refuse_unread(column, text)
    if not isinstance(column, exp.Column) or len(column.parts) > 1 or isinstance(column.this, exp.Star):
        part = Site(column, text).part
        raise ExpressionError(f"EXCEPT takes names of columns, not {part!r}", f"in {text!r}", "name whole columns")
    return resolve(column.name, schema, text)
