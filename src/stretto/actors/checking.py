"""Batches that a user's code gives to the engine, checked against the declared schema.

Whatever is behind this check reads columns by their declared places and types, and channels carry batches without their
schemas. A batch of another schema would be read as other values, so it must not get any further. The schemas of a
stream's batches are mostly one object in Arrow, so the check is a comparison of two pointers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.errors import FunctionError

COLUMNS_SHOWN = 8
"""The number of columns of a schema in an error message."""


def checked_batch(given: Any, declared: pa.Schema, giver: str, gave: str) -> pa.RecordBatch:
    """Returns what a user's code has given as a batch of the declared schema; a table becomes one batch.

    `giver` and `gave` begin the error message, such as "function 'jumps'" and "sent"."""
    if type(given) is pa.RecordBatch and given.schema.equals(declared):
        return given
    if isinstance(given, pa.Table):
        given = _joined(given, giver, gave)
    if not isinstance(given, pa.RecordBatch):
        raise FunctionError(
            f"{giver} {gave} {_kind(given)}, not a record batch", None, f"{_way_out(given)} {_shown(declared)}."
        )
    if given.schema.equals(declared):
        return given
    difference = _difference(declared, given.schema, gave)
    if difference is not None:
        raise FunctionError(
            f"{giver} {gave} the wrong schema", difference, "Correct the function or its declared schema."
        )
    # The same columns and types; only what is said about nulls differs.
    return pa.RecordBatch.from_arrays(given.columns, schema=declared)


def _joined(table: pa.Table, giver: str, gave: str) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:  # A column of strings has at most 2 GB in one batch.
        raise FunctionError(f"{giver} {gave} a table that is too large for one batch", None, "Divide it into batches.")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _difference(declared: pa.Schema, given: pa.Schema, gave: str) -> str | None:
    if given.names != declared.names:
        missing = [name for name in declared.names if name not in given.names]
        if missing:
            return f"declared columns {_names(declared.names)}; missing {_names(missing)}"
        return f"declared columns {_names(declared.names)}; {gave} columns {_names(given.names)}"
    for wanted, found in zip(declared, given, strict=True):
        if wanted.type != found.type:
            return f"column '{found.name}' is declared {wanted.type} and was {gave} as {found.type}"
    return None


def _names(names: list[str]) -> str:
    more = len(names) - COLUMNS_SHOWN
    return ", ".join(names[:COLUMNS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _shown(declared: pa.Schema) -> str:
    return _names([f"{field.name} {field.type}" for field in declared])


def _kind(given: Any) -> str:
    name = type(given).__name__
    if given is None:
        return "None"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _way_out(given: Any) -> str:
    """Returns how to make a batch of this, up to the columns."""
    module = type(given).__module__.partition(".")[0]
    if given is None:
        return "Give a batch without rows, or nothing at all, where there are no rows. The columns are"
    if isinstance(given, dict):
        return "Use pyarrow.RecordBatch.from_pydict(columns, schema) with the columns"
    if isinstance(given, list | tuple):
        return "Use pyarrow.RecordBatch.from_pylist(rows, schema) with the columns"
    if module == "pandas":
        return "Use pyarrow.RecordBatch.from_pandas(frame, schema) with the columns"
    return "Give a pyarrow RecordBatch or Table with the columns"
