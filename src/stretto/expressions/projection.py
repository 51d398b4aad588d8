"""A list of expressions that make a new batch, like `SELECT`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.parse import parse
from stretto.expressions.scalar import Scalar, compile_scalar, quoted
from stretto.expressions.stars import star_columns
from stretto.expressions.udf import compiled_again, known_udfs


class Projection:
    """Columns computed from a batch. Make one with `compile_projection`."""

    __slots__ = ("_evaluates", "_udfs", "expressions", "input_schema", "passthrough", "scalars", "schema", "sql")

    def __init__(self, expressions: Sequence[str], schema: pa.Schema) -> None:
        if isinstance(expressions, str):
            raise ExpressionError("a projection is a list", f"got the string {expressions!r}", "put it in a list")
        self.expressions = tuple(expressions)
        self.input_schema = schema
        self._udfs = known_udfs()
        self.scalars: tuple[Scalar, ...] = tuple(
            scalar for text in self.expressions for scalar in _expanded(text, schema)
        )
        self._refuse_duplicates()
        self.schema: pa.Schema = pa.schema([_field(scalar, schema) for scalar in self.scalars])
        #: Output columns that are input columns, untouched.
        self.passthrough: dict[str, str] = {s.name: s.column for s in self.scalars if s.column is not None}
        #: For `DataFrame.selectExpr(*sql)`.
        self.sql: list[str] = [f"{scalar.sql} AS {quoted(scalar.name)}" for scalar in self.scalars]
        self._evaluates = [scalar.evaluate for scalar in self.scalars]

    def evaluate(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the projected batch; bare columns are not copied."""
        return pa.RecordBatch.from_arrays([evaluate(batch) for evaluate in self._evaluates], schema=self.schema)

    def _refuse_duplicates(self) -> None:
        if not self.scalars:
            raise ExpressionError("a projection of no columns", None, "select at least one expression")
        seen: dict[str, str] = {}
        for scalar in self.scalars:
            key = scalar.name.lower()
            if key in seen:
                raise ExpressionError(
                    f"two columns are named {scalar.name!r}",
                    f"{seen[key]!r} and {scalar.text!r}",
                    "use AS to rename one",
                )
            seen[key] = scalar.text

    def __repr__(self) -> str:
        return f"Projection({list(self.expressions)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return compiled_again, (self._udfs, compile_projection, (self.expressions, self.input_schema))


def compile_projection(expressions: Sequence[str], schema: pa.Schema) -> Projection:
    """Returns a compiled select list; `*` stands for all input columns, `* EXCEPT (a, b)` for all but those."""
    return Projection(expressions, schema)


def _expanded(text: str, schema: pa.Schema) -> list[Scalar]:
    parsed = parse(text)
    if isinstance(parsed.tree, exp.Star):
        return [compile_scalar(quoted(name), schema) for name in star_columns(parsed, schema, text)]
    return [Scalar(text, schema, parsed)]


def _field(scalar: Scalar, schema: pa.Schema) -> pa.Field:
    nullable = True if scalar.column is None else schema.field(scalar.column).nullable
    return pa.field(scalar.name, scalar.type, nullable)
