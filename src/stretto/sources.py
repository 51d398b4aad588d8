"""The sources a user can name: where the rows of a stream come from.

from stretto import sources

bids = app.source("bids", sources.parquet("/data/bids", time="dateTime", speed=10))
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stretto.api.arguments import COLUMN, COUNT, DURATION, PATH, SCHEMA, TEXT, Kind, is_count, takes
from stretto.api.memory import Item, MemorySource
from stretto.operators.windows import Duration
from stretto.runtime.connectors.dataframe import DataFrameSource
from stretto.runtime.connectors.files import FileSource
from stretto.runtime.connectors.watched import WatchedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPEED = Kind("a number, such as 10 for ten times as fast", lambda value: is_count(value) or isinstance(value, float))
ROWS = Kind(
    "a pyarrow Table or RecordBatch, or a list of dicts or record batches",
    lambda value: isinstance(value, pa.Table | pa.RecordBatch | list | tuple),
)


@takes(rows=ROWS, schema=SCHEMA.optional(), batch_rows=COUNT.optional())
def memory(
    rows: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any] | Item],
    schema: pa.Schema | str | None = None,
    batch_rows: int | None = None,
) -> MemorySource:
    """Rows that are already in memory: a table, record batches, or dicts. For tests, `MemorySource.Pause(ms)` and
    `MemorySource.Fail(message)` may be placed between them. A schema may be Arrow's or DDL ('id long, name string')."""
    return MemorySource(rows, schema, batch_rows)


@takes(format=TEXT.optional(), path=PATH, schema=SCHEMA.optional(), time=COLUMN.optional(), speed=SPEED.optional())
def files(
    path: str | os.PathLike[str],
    format: Literal["parquet", "jsonl", "csv", "arrow"] | None = None,
    schema: pa.Schema | str | None = None,
    time: str | None = None,
    speed: float | None = None,
) -> FileSource:
    """Replay a file, or all files of a directory in the order of their names. `format` defaults to that of the suffix.

    With `speed`, rows are emitted at the pace of the timestamp column `time`: 1.0 is the original pace, 10 is ten times
    faster. Without it, rows are emitted as fast as they can be read.
    """
    return FileSource(path, format, schema, time, speed)


@takes(path=PATH, schema=SCHEMA.optional(), time=COLUMN.optional(), speed=SPEED.optional())
def parquet(
    path: str | os.PathLike[str],
    schema: pa.Schema | str | None = None,
    time: str | None = None,
    speed: float | None = None,
) -> FileSource:
    """Replay Parquet files (see `files`). The row groups of one large file are divided among partitions."""
    return FileSource(path, "parquet", schema, time, speed)


@takes(path=PATH, schema=SCHEMA.optional(), time=COLUMN.optional(), speed=SPEED.optional())
def jsonl(
    path: str | os.PathLike[str],
    schema: pa.Schema | str | None = None,
    time: str | None = None,
    speed: float | None = None,
) -> FileSource:
    """Replay files of JSON objects, one on each line (see `files`). Without a schema, it is inferred from the first
    lines. Fields that are not in the schema are ignored."""
    return FileSource(path, "jsonl", schema, time, speed)


@takes(path=PATH, schema=SCHEMA.optional(), time=COLUMN.optional(), speed=SPEED.optional())
def csv(
    path: str | os.PathLike[str],
    schema: pa.Schema | str | None = None,
    time: str | None = None,
    speed: float | None = None,
) -> FileSource:
    """Replay CSV files whose first line has the names of the columns (see `files`). Without a schema, it is inferred
    from the first lines. A field that is empty and not quoted is null. Columns that are not in the schema are
    ignored."""
    return FileSource(path, "csv", schema, time, speed)


@takes(path=PATH, schema=SCHEMA.optional(), time=COLUMN.optional(), speed=SPEED.optional())
def arrow(
    path: str | os.PathLike[str],
    schema: pa.Schema | str | None = None,
    time: str | None = None,
    speed: float | None = None,
) -> FileSource:
    """Replay Arrow IPC files or streams (see `files`)."""
    return FileSource(path, "arrow", schema, time, speed)


@takes(directory=PATH, format=TEXT, schema=SCHEMA.optional(), poll=DURATION)
def watch(
    directory: str | os.PathLike[str],
    format: Literal["parquet", "jsonl", "csv", "arrow"] = "parquet",
    schema: pa.Schema | str | None = None,
    poll: Duration = "2 ms",
) -> WatchedFiles:
    """Read the files of a directory as they appear, in the order of their names, until a file `_SUCCESS` appears too.

    A file must be complete when it appears: write it under a name that begins with `_` or `.` and rename it. A
    directory that is empty at first needs a schema. The directory is listed every `poll`."""
    return WatchedFiles(directory, format, schema, poll)


@takes(df=Kind("a Spark DataFrame", lambda value: hasattr(value, "mapInArrow")))
def dataframe(df: DataFrame) -> DataFrameSource:
    """The rows of a Spark DataFrame, batch or streaming, read through the driver. It needs one Spark slot in addition
    to those of the workers."""
    return DataFrameSource(df)
