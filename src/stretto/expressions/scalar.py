"""A compiled scalar expression: text and schema in, one Arrow array per batch out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import vectors
from stretto.expressions.binder import bind, resolve
from stretto.expressions.nodes import Node
from stretto.expressions.parse import Parsed, parse, split_direction
from stretto.expressions.setting import Compiled, Setting
from stretto.expressions.vectors import Value


class Scalar(Compiled):
    """An expression over the rows of a batch. Make one with `compile_scalar`."""

    __slots__ = ("_node", "column", "columns", "name", "schema", "setting", "sql", "text", "type")

    def __init__(self, text: str, schema: pa.Schema, parsed: Parsed) -> None:
        node = bind(parsed.tree, schema, text)
        self.text = text
        self.schema = schema
        self.setting = Setting.here()
        #: Spark SQL for the value, without an alias.
        self.sql = parsed.body
        #: The input column, when the expression is just that.
        self.column = _bare_column(parsed.tree, schema, text)
        self.name = parsed.alias or _spark_name(parsed)
        # A bare column keeps its type, even if Spark does not have it.
        self.type: pa.DataType = schema.field(self.column).type if self.column else node.type
        self.columns: frozenset[str] = node.columns
        self._node: Node = node

    @property
    def may_fail(self) -> bool:
        """Whether there are values for which it raises."""
        return self._node.fallible

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns one value for each row of the batch."""
        if self.column is not None:
            return batch.column(self.column)
        if not batch.num_rows:
            return pa.array([], self.type)  # A constant that fails has no row to fail for.
        return vectors.to_arrow(self.run(batch), self.type, batch.num_rows)

    def run(self, batch: pa.RecordBatch) -> Value:
        """Returns the values in this room's form (`vectors.py`)."""
        if not self._node.fractional:
            return self._node.run(batch)
        # Infinity and NaN are ordinary results in Spark.
        with np.errstate(all="ignore"):
            return self._node.run(batch)

    def __repr__(self) -> str:
        return f"Scalar({self.text!r}: {self.type})"

    def recipe(self) -> tuple[Any, ...]:
        return compile_scalar, (self.text, self.schema)


def compile_scalar(text: str, schema: pa.Schema) -> Scalar:
    """Returns one expression, which may have an alias, parsed, type-checked and compiled."""
    return Scalar(text, schema, parse(text))


def compile_value(text: str, schema: pa.Schema, role: str) -> Scalar:
    """Returns one expression that must not have an alias, since nothing would have that name."""
    parsed = parse(text)
    if parsed.alias is not None:
        raise ExpressionError(
            f"{role} has no name of its own",
            f"{parsed.alias!r} after {parsed.body!r}, in the expression {text!r}",
            f"leave out {parsed.alias!r}",
        )
    return Scalar(text, schema, parsed)


def compile_order(text: str, schema: pa.Schema) -> tuple[Scalar, bool | None]:
    """Returns an expression to order by, and whether the text ends with DESC (true), ASC (false) or neither (None)."""
    body, descending = split_direction(text)
    return compile_value(body, schema, "an order"), descending


def quoted(name: str) -> str:
    """Returns a name in backticks, which Spark reads with any characters."""
    return "`" + name.replace("`", "``") + "`"


def _bare_column(tree: exp.Expression, schema: pa.Schema, text: str) -> str | None:
    if isinstance(tree, exp.Column) and len(tree.parts) == 1:
        return resolve(tree.name, schema, text)
    return None


def _spark_name(parsed: Parsed) -> str:
    if isinstance(parsed.tree, (exp.Column, exp.Dot)):
        return parsed.tree.name
    return parsed.body
