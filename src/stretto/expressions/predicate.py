"""A condition that selects rows of a batch, like `WHERE`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.scalar import compile_value
from stretto.expressions.setting import Compiled, Setting


class Predicate(Compiled):
    """A boolean expression over the rows of a batch. Make one with `compile_predicate`."""

    __slots__ = ("_run", "columns", "schema", "setting", "sql", "text")

    def __init__(self, text: str, schema: pa.Schema) -> None:
        scalar = compile_value(text, schema, "a condition")
        if scalar.type != types.BOOLEAN:
            raise ExpressionError(
                f"the condition {text!r} is not a boolean",
                f"it is {types.spark_type_name(scalar.type)}",
                "compare it, for example with = or IS NOT NULL",
            )
        self.text = text
        self.schema = schema
        self.setting = Setting.here()
        self.sql = scalar.sql
        self.columns = scalar.columns
        self._run = scalar.run

    def mask(self, batch: pa.RecordBatch) -> Any:
        """Returns a numpy boolean per row: true where the condition is true, false where it is false or null."""
        if not batch.num_rows:
            return np.zeros(0, np.bool_)
        values, valid = self._run(batch)
        if valid is not None:
            values = values & valid
        return np.full(batch.num_rows, values) if np.ndim(values) == 0 else values

    def evaluate(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows where the condition is true; the same batch if that is all of them."""
        mask = self.mask(batch)
        kept = int(np.count_nonzero(mask))
        rows = batch.num_rows
        if kept == rows:
            return batch
        if kept == 0:
            return batch.slice(0, 0)
        first = int(mask.argmax())
        # Adjacent rows are a view: no column is copied. One row in a hundred is the common case.
        if kept == 1 or mask[first : first + kept].all():
            return batch.slice(first, kept)
        return batch.filter(pa.array(mask))

    def __repr__(self) -> str:
        return f"Predicate({self.text!r})"

    def recipe(self) -> tuple[Any, ...]:
        return compile_predicate, (self.text, self.schema)


def compile_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Returns a condition, parsed, type-checked and compiled."""
    return Predicate(text, schema)
