"""Texts of what a user's code has made: exceptions, tracebacks, values and rows, for error messages.

Nothing here raises, because a report of an error that fails hides the error and may end a worker. An exception's own
`__str__`, a value's `__repr__` and a conversion of rows to Python may all raise, and may return a text of any length,
or one that has no encoding.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pyarrow as pa

MESSAGE_CHARS_MAX = 10_000
"""The length of the text of an exception, and of its traceback ..."""
VALUE_CHARS_MAX = 1_000
"""... and of one value. What is longer is cut in its middle."""
ROWS_CHARS_MAX = 2_000
ROWS_SHOWN = 3


def message_of(error: BaseException) -> str:
    """Returns the text of an exception."""
    return _guarded(str, error)


def error_text(error: BaseException) -> str:
    """Returns the type and the text of an exception."""
    return f"{type(error).__name__}: {message_of(error)}"


def traceback_of(error: BaseException, entry: TracebackType | None = None) -> str:
    """Returns the traceback of an exception, from an entry on if one is given."""
    begin = entry or error.__traceback__
    return _guarded(lambda each: "".join(traceback.format_exception(type(each), each, begin)), error)


def shown(value: Any) -> str:
    """Returns the representation of a value."""
    return _cut(_guarded(repr, value), VALUE_CHARS_MAX)


def rows_shown(batch: pa.RecordBatch, indent: str = "") -> str:
    """Returns the first rows of a batch, a line each, and how many follow."""
    rows = [indent + _cut(_row(batch, row), ROWS_CHARS_MAX) for row in range(min(batch.num_rows, ROWS_SHOWN))]
    more = batch.num_rows - ROWS_SHOWN
    return "\n".join(rows)[:ROWS_CHARS_MAX] + (f"\n{indent}... {more} more rows" if more > 0 else "")


def megabytes(size_bytes: int) -> str:
    """Returns a size as text."""
    return f"{size_bytes / 1e6:,.1f} MB"


def sendable(text: str) -> str:
    """Returns a text that any peer can be sent: not too long, and with escapes for what has no encoding (lone
    surrogates, as in a file name that is not UTF-8)."""
    return _cut(text, MESSAGE_CHARS_MAX).encode(errors="backslashreplace").decode()


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Returns the values of a column to show them; those that Python does not have, such as times after the year 9999,
    as texts."""
    try:
        values: list[Any] = column.to_pylist()
    except Exception:
        values = [_value(column, row) for row in range(len(column))]
    return values


def _value(column: pa.Array | pa.ChunkedArray, row: int) -> Any:
    try:
        return column[row].as_py()
    except Exception:
        return shown(column[row])


def _row(batch: pa.RecordBatch, row: int) -> str:
    values = [values_of(column)[0] for column in batch.slice(row, 1)]
    return _guarded(repr, dict(zip(batch.schema.names, values, strict=True)))


def _guarded(render: Callable[[Any], str], value: Any) -> str:
    try:
        return sendable(render(value))
    except BaseException as failed:  # A user's method may raise anything.
        return f"<{type(value).__name__} that cannot be shown: {type(failed).__name__}>"


def _cut(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters more ... {text[-half:]}"
