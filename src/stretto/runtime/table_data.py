"""Reads the data of a table: a DataFrame of Spark or pandas, an Arrow table, rows, or Parquet files."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from stretto.api.memory import canonical_schema, conform
from stretto.errors import PlanError, SourceError
from stretto.rendering import error_text


def table_data(name: str, data: Any) -> pa.Table:
    """Returns the rows as Arrow, of types that expressions have. A DataFrame of Spark is collected now."""
    table = _read(name, data)
    schema = canonical_schema(table.schema)
    return pa.Table.from_batches([conform(batch, schema) for batch in table.to_batches()], schema)


def _read(name: str, data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, str | os.PathLike):
        return _parquet(name, os.fspath(data))
    if hasattr(data, "toArrow"):
        if data.isStreaming:
            raise PlanError(
                f"table '{name}' is a streaming DataFrame", None, "Read it with sources.dataframe, as a stream."
            )
        return data.toArrow()
    return pa.Table.from_pandas(data, preserve_index=False)


def _parquet(name: str, path: str) -> pa.Table:
    try:
        return ds.dataset(path, format="parquet").to_table()
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"table '{name}' cannot be read", error_text(error), "Give the path of Parquet files."
        ) from error
