"""Stateless steps: select, filter and a user's Python function on a batch, each a transform that can be fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

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
        if isinstance(result, pa.RecordBatch | pa.Table):
            return [self._checked(result)]
        if result is None or not isinstance(result, Iterable):
            raise self._wrong(f"it returned {type(result).__name__}, not a RecordBatch or an iterable of them")
        return [self._checked(item) for item in result]

    def _checked(self, result: Any) -> pa.RecordBatch:
        if isinstance(result, pa.Table):
            combined = result.combine_chunks().to_batches()
            result = combined[0] if combined else pa.RecordBatch.from_pylist([], schema=result.schema)
        if not isinstance(result, pa.RecordBatch):
            raise self._wrong(f"it returned {type(result).__name__}, not a RecordBatch")
        if result.schema.equals(self.schema):
            return result
        if result.schema.names != self.schema.names:
            raise self._wrong(
                f"declared columns {', '.join(self.schema.names)}; returned columns {', '.join(result.schema.names)}"
            )
        for declared, given in zip(self.schema, result.schema, strict=True):
            if declared.type != given.type:
                raise self._wrong(f"column '{given.name}' is declared {declared.type} and was returned as {given.type}")
        return pa.RecordBatch.from_arrays(result.columns, schema=self.schema)

    def _wrong(self, detail: str) -> FunctionError:
        return FunctionError(
            f"function '{self.name}' returned the wrong schema", detail, "Correct the function or its declared schema."
        )


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
