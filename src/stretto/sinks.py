"""The sinks a user can name: where the rows of a stream go.

from stretto import sinks

stream.sink(sinks.parquet("/data/out"))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from stretto.api.arguments import COLUMN, COUNT, PATH, TEXT, Kind, takes
from stretto.api.memory import CollectSink, NullSink
from stretto.runtime.connectors.sinks import ROWS_PER_FILE, CallbackSink, ConsoleSink, ParquetSink


def collect() -> CollectSink:
    """Keep the rows in the driver's memory; `job.results()` returns them as a table."""
    return CollectSink()


@takes(directory=PATH, mode=TEXT, rows_per_file=COUNT, changelog=COLUMN.optional())
def parquet(
    directory: str | os.PathLike[str],
    mode: Literal["error", "append", "overwrite"] = "error",
    rows_per_file: int = ROWS_PER_FILE,
    changelog: str | None = None,
) -> ParquetSink:
    """Write the rows to Parquet files in a directory; a file becomes visible only when it is complete.

    A file is closed after `rows_per_file` rows and at the end of the input. A directory with files in it is refused
    unless `mode` says to append to them or to overwrite them.

    Rows that replace earlier ones, such as those of a running aggregate, are refused, because files only add rows. With
    a `changelog` all of them are written, with a bigint column of that name that increases: of the rows of a key, the
    one with the greatest number is the last.
    """
    return ParquetSink(directory, mode, rows_per_file, changelog)


@takes(limit=COUNT)
def console(limit: int = 20) -> ConsoleSink:
    """Print each batch as a table in the driver's terminal, at most `limit` rows of each."""
    return ConsoleSink(limit)


def null() -> NullSink:
    """Count the rows and discard them, on the workers; for benchmarks."""
    return NullSink()


@takes(function=Kind("a Python function", callable), per=TEXT)
def callback(function: Callable[[Any], object], per: Literal["batch", "row"] = "batch") -> CallbackSink:
    """Call `function` in the driver with each pyarrow RecordBatch, or with each row as a dict. An exception that it
    raises fails the job."""
    return CallbackSink(function, per)
