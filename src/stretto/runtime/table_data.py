"""Reads the data of a table: a DataFrame of Spark or pandas, an Arrow table, rows, or Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.api.memory import canonical_schema, conform
from stretto.api.tables import check_size
from stretto.errors import PlanError, SourceError
from stretto.rendering import error_text, traceback_of
from stretto.runtime.slots import require_free_slot
from stretto.runtime.table_files import parquet_table


def table_data(name: str, data: Any) -> pa.Table:
    """Returns the rows as Arrow, of types that expressions have. A DataFrame of Spark is collected now."""
    table = _read(name, data)
    schema = canonical_schema(table.schema)
    return pa.Table.from_batches([conform(batch, schema) for batch in table.to_batches()], schema)


def rereading(name: str, data: Any, schema: pa.Schema) -> Rereading:
    """Returns how the rows are read again, in any process."""
    if not isinstance(data, str | os.PathLike) and not callable(data):
        raise PlanError(
            f"table '{name}' cannot be refreshed",
            f"a {type(data).__name__} is read once, in this process",
            "Give the path of Parquet files, or a function that returns a pyarrow Table.",
        )
    return Rereading(name, data, schema)


@dataclass(frozen=True)
class Rereading:
    """Reads Parquet files, or calls a function, whenever it is asked."""

    name: str
    data: Any
    schema: pa.Schema

    def read(self) -> pa.Table:
        """Returns the rows of now. Raises a SourceError if they cannot be read, and a PlanError if they do not fit."""
        table = table_data(self.name, self.data)
        if not table.schema.equals(self.schema):
            raise PlanError(
                f"table '{self.name}' has other columns than when it was declared",
                f"{', '.join(map(_shown, table.schema))}; it had {', '.join(map(_shown, self.schema))}",
                "Keep the columns of a table that is refreshed.",
            )
        check_size(self.name, table)
        return table


def _shown(field: pa.Field) -> str:
    return f"{field.name} {field.type}"


def _read(name: str, data: Any) -> pa.Table:
    if callable(data):
        return _read(name, _called(name, data))
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, str | os.PathLike):
        return parquet_table(name, os.fspath(data))
    if hasattr(data, "toArrow"):
        if data.isStreaming:
            raise PlanError(
                f"table '{name}' is a streaming DataFrame", None, "Read it with sources.dataframe, as a stream."
            )
        require_free_slot(data.sparkSession, f"reading table '{name}', a DataFrame,")
        return data.toArrow()
    if hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    raise PlanError(
        f"table '{name}' has no rows that can be read", f"its function returned {data!r:.80}", "Return a pyarrow Table."
    )


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:  # A user's function may raise anything.
        raise SourceError(
            f"table '{name}' cannot be read: its function raised {error_text(error)}",
            traceback_of(error).rstrip(),
            "Give a function without arguments that returns a pyarrow Table.",
        ) from error
