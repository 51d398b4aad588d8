"""The verbs that apply a Python function to batches, without state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api import plan
from stretto.api.arguments import FUNCTION, SCHEMA, takes
from stretto.api.step import Verbs, declared_schema
from stretto.errors import PlanError
from stretto.rendering import error_text

if TYPE_CHECKING:
    from stretto.api.stream import Stream


class PythonVerbs(Verbs):
    """Each gives batches to a function of the user's."""

    @takes(function=FUNCTION, schema=SCHEMA.optional())
    def map(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        schema: pa.Schema | str | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Applies a Python function from a record batch to a record batch with as many rows.

        Without `schema`, the function is called once, now, with an empty batch to infer its schema."""
        return self._python("map", function, schema, name, parallelism)

    @takes(function=FUNCTION, schema=SCHEMA.optional())
    def flat_map(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: pa.Schema | str | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Applies a Python function from a record batch to a batch, or an iterable of batches, of any size."""
        return self._python("flat_map", function, schema, name, parallelism)

    def _python(
        self,
        verb: str,
        function: Callable[[pa.RecordBatch], Any],
        schema: pa.Schema | str | None,
        name: str | None,
        parallelism: int | None,
    ) -> Stream:
        self._step.only_added(verb)
        if name is None:
            named = getattr(function, "__name__", verb)
            name = self._step.app.free_name(named if named.isidentifier() else f"{self.name}.{verb}")
        declared = declared_schema(schema) if schema is not None else self._learn_schema(verb, name, function)
        return self._step.add(
            plan.MapNode,
            verb,
            name,
            schema=declared,
            time=self._step.time_in(declared),
            parallelism=parallelism,
            function=function,
            rows_kept=verb == "map",
        ).stream

    def _learn_schema(self, verb: str, name: str, function: Callable[[pa.RecordBatch], Any]) -> pa.Schema:
        empty = pa.RecordBatch.from_pylist([], schema=self.schema)
        try:
            result = function(empty)
            if not isinstance(result, pa.RecordBatch | pa.Table) and isinstance(result, Iterable):
                result = next(iter(result), None)
        except Exception as error:
            raise PlanError(
                f"{verb} function '{name}' has no schema, and calling it with an empty batch raised",
                error_text(error),
                "Pass schema='column type, ...', or let the function accept an empty batch.",
            ) from error
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise PlanError(
                f"{verb} function '{name}' has no schema, and none can be inferred from an empty batch",
                f"it returned {type(result).__name__}",
                "Pass schema='column type, ...'.",
            )
        return result.schema
