"""A list of expressions that make a new batch, like `SELECT`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.generators import Generator, generator
from stretto.expressions.parse import Parsed, parse
from stretto.expressions.scalar import Scalar, compile_scalar, quoted
from stretto.expressions.setting import Compiled, Setting
from stretto.expressions.stars import is_struct_star, star_columns, star_fields


class Projection(Compiled):
    """Columns computed from a batch. Make one with `compile_projection`."""

    __slots__ = (
        "_evaluates",
        "_parts",
        "expressions",
        "generator",
        "input_schema",
        "passthrough",
        "scalars",
        "schema",
        "setting",
        "sql",
    )

    def __init__(self, expressions: Sequence[str], schema: pa.Schema) -> None:
        if isinstance(expressions, str):
            raise ExpressionError("a projection is a list", f"got the string {expressions!r}", "put it in a list")
        self.expressions = tuple(expressions)
        self.input_schema = schema
        self.setting = Setting.here()
        self._parts = [part for text in self.expressions for part in _expanded(text, schema)]
        self.scalars: tuple[Scalar, ...] = tuple(part for part in self._parts if isinstance(part, Scalar))
        #: The function that makes rows, such as explode.
        self.generator: Generator | None = self._only_generator()
        fields = [(field, part.text) for part in self._parts for field in _fields(part, schema)]
        _refuse_duplicates(fields)
        self.schema: pa.Schema = pa.schema([field for field, _ in fields])
        #: Output columns that are input columns, untouched; a row of them may come several times, or not at all.
        self.passthrough: dict[str, str] = {s.name: s.column for s in self.scalars if s.column is not None}
        #: For `DataFrame.selectExpr(*sql)`.
        self.sql: list[str] = [_sql(part) for part in self._parts]
        self._evaluates = [scalar.evaluate for scalar in self.scalars]

    def evaluate(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the projected batch; bare columns are not copied."""
        if self.generator is not None:
            return self._generated(self.generator, batch)
        return pa.RecordBatch.from_arrays([evaluate(batch) for evaluate in self._evaluates], schema=self.schema)

    def _generated(self, making: Generator, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows that the generator makes. The other expressions run for the rows that it makes any of."""
        parents, made = making.run(batch)
        used, places = np.unique(parents, return_inverse=True)
        rows = batch if len(used) == batch.num_rows else batch.take(pa.array(used))
        again = pa.array(places)
        columns: list[pa.Array] = []
        for part in self._parts:
            columns += [part.evaluate(rows).take(again)] if isinstance(part, Scalar) else made
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _only_generator(self) -> Generator | None:
        found = [part for part in self._parts if isinstance(part, Generator)]
        if len(found) > 1:
            raise ExpressionError(
                "two functions that make rows in one select",
                " and ".join(repr(part.text) for part in found),
                "select one, and the other from its result",
            )
        return found[0] if found else None

    def __repr__(self) -> str:
        return f"Projection({list(self.expressions)!r})"

    def recipe(self) -> tuple[Any, ...]:
        return compile_projection, (self.expressions, self.input_schema)


def compile_projection(expressions: Sequence[str], schema: pa.Schema) -> Projection:
    """Returns a compiled select list; `*` stands for all input columns, `* EXCEPT (a, b)` for all but those, `s.*` for
    the fields of a struct. One of the expressions may make rows, such as `explode(tags) AS tag`."""
    return Projection(expressions, schema)


def column_sql(text: str, schema: pa.Schema) -> str:
    """Returns Spark SQL, without an alias, for an expression that makes one column."""
    parsed = parse(text, several=True)
    made = generator(parsed, schema, text)
    return compile_scalar(text, schema).sql if made is None else parsed.body


def _expanded(text: str, schema: pa.Schema) -> list[Scalar | Generator]:
    parsed = parse(text, several=True)
    if isinstance(parsed.tree, exp.Star):
        return [compile_scalar(quoted(name), schema) for name in star_columns(parsed, schema, text)]
    if is_struct_star(parsed.tree):
        return [compile_scalar(field, schema) for field in star_fields(parsed, schema, text)]
    made = generator(parsed, schema, text)
    if made is not None:
        return [made]
    return [Scalar(text, schema, _with_one_name(parsed, text))]


def _with_one_name(parsed: Parsed, text: str) -> Parsed:
    if parsed.aliases:
        raise ExpressionError(f"several names for {parsed.body!r}", f"in {text!r}", "give one name: AS name")
    return parsed


def _fields(part: Scalar | Generator, schema: pa.Schema) -> Sequence[pa.Field]:
    if isinstance(part, Generator):
        return part.fields
    nullable = True if part.column is None else schema.field(part.column).nullable
    return [pa.field(part.name, part.type, nullable)]


def _sql(part: Scalar | Generator) -> str:
    return part.sql if isinstance(part, Generator) else f"{part.sql} AS {quoted(part.name)}"


def _refuse_duplicates(fields: Sequence[tuple[pa.Field, str]]) -> None:
    if not fields:
        raise ExpressionError("a projection of no columns", None, "select at least one expression")
    seen: dict[str, str] = {}
    for field, text in fields:
        key = field.name.lower()
        if key in seen:
            raise ExpressionError(
                f"two columns are named {field.name!r}", f"{seen[key]!r} and {text!r}", "use AS to rename one"
            )
        seen[key] = text
