"""Stateless steps: select, filter and a user's Python function on a batch, each a transform that can be fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from stretto.actors.checking import checked_batch
from stretto.actors.context import Context
from stretto.actors.deployment import Transform
from stretto.actors.function import Function
from stretto.errors import FunctionError
from stretto.expressions import Predicate, Projection


class Select:
    """Columns by SQL expressions."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [self.projection.evaluate(batch)]


class Filter:
    """Rows for which a SQL expression is true."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [self.predicate.evaluate(batch)]


class PythonStep:
    """A user's function on a batch, with its output checked against the declared schema."""

    def __init__(self, name: str, function: Callable[..., Any], schema: pa.Schema, rows_kept: bool) -> None:
        self.name = name
        self.function = function
        self.schema = schema
        self.rows_kept = rows_kept

    def __call__(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        result = self.function(batch)
        if self.rows_kept:
            checked = self._checked(result)
            if checked.num_rows != batch.num_rows:
                raise FunctionError(
                    f"map function '{self.name}' changed the number of rows",
                    f"{batch.num_rows} in, {checked.num_rows} out",
                    "A map returns one row per row; use flat_map to return more or fewer.",
                )
            return [checked]
        if isinstance(result, Iterable) and not isinstance(result, Mapping) and not hasattr(result, "columns"):
            return [self._checked(item) for item in result]
        return [self._checked(result)]  # One batch or table; iterating over it would give its columns.

    def _checked(self, result: Any) -> pa.RecordBatch:
        return checked_batch(result, self.schema, f"function '{self.name}'", "returned")


class StatelessFunction(Function):
    """A stateless step that is not fused, because it has a parallelism of its own."""

    def __init__(self, transform: Transform | None) -> None:
        self.transform = transform

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if self.transform is None:
            ctx.send(batch)
            return
        for result in self.transform(batch):
            ctx.send(result)
