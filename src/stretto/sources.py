"""The sources a user can name: where the rows of a stream come from.

from stretto import sources

bids = app.source("bids", sources.parquet("/data/bids", time="dateTime", speed=10))
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.api.arguments import COLUMN, COUNT, DURATION, OPTIONS, PATH, SCHEMA, TEXT, Kind, is_count, takes
from stretto.api.memory import Item, MemorySource
from stretto.errors import SourceError
from stretto.operators.windows import Duration
from stretto.runtime.connectors.dataframe import DataFrameSource
from stretto.runtime.connectors.files import FileSource
from stretto.runtime.connectors.kafka.decoding import ValueFormat
from stretto.runtime.connectors.kafka.rows import Columns
from stretto.runtime.connectors.kafka.source import KafkaSource, decoder_of
from stretto.runtime.connectors.kafka.starting import Start
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


@takes(
    brokers=TEXT,
    topic=TEXT,
    value=TEXT,
    schema=SCHEMA.optional(),
    schemas=PATH.optional(),
    start=Kind(
        "'earliest', 'latest', a time, or offsets by partition",
        lambda value: isinstance(value, str | datetime.datetime | Mapping),
    ),
    until=TEXT.optional(),
    key=COLUMN.optional(),
    timestamp=COLUMN.optional(),
    headers=COLUMN.optional(),
    partition=COLUMN.optional(),
    offset=COLUMN.optional(),
    dead_letters=Kind("a sink", lambda value: isinstance(value, Sink)).optional(),
    poll=DURATION,
    discover=DURATION,
    options=OPTIONS.optional(),
)
def kafka(
    brokers: str,
    topic: str,
    value: ValueFormat = "json",
    schema: pa.Schema | str | None = None,
    *,
    schemas: str | os.PathLike[str] | None = None,
    start: Start = "earliest",
    until: Literal["latest"] | None = None,
    key: str | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    partition: str | None = None,
    offset: str | None = None,
    dead_letters: Sink | None = None,
    poll: Duration = "2 ms",
    discover: Duration = "10 seconds",
    options: Mapping[str, Any] | None = None,
) -> KafkaSource:
    """The records of a Kafka topic, read inside the workers. It needs the extra `kafka`.

    `value` is the format of the records' values: JSON objects, Avro with the number of its schema in front (see
    `schemas`), Arrow IPC streams, or "raw", which is one column `value` of type binary. `schema` names the columns to
    read. `schemas` is a directory with the Avro schemas, as `<number>.avsc`.

    `start` is "earliest", "latest", a time, or a dict of offsets by partition; it is looked up now. A job that resumes
    from a checkpoint starts there instead, and partitions that were added since are read from their beginning. They are
    looked for every `discover`. With `until="latest"` the source ends at what is the end now.

    `key`, `timestamp`, `headers`, `partition` and `offset` are names for columns with these. A record that cannot be
    decoded fails the job; with `dead_letters` it goes to that sink instead, with what is wrong and where it is.
    `options` are settings of librdkafka, such as those of security."""
    if until not in (None, "latest"):
        raise SourceError("a topic cannot be read until there", repr(until), "Use until='latest', or leave it out.")
    return KafkaSource(
        {"bootstrap.servers": brokers, **(options or {})},
        topic,
        decoder_of(value, schema, schemas),
        Columns(key, timestamp, headers, partition, offset),
        start,
        until is not None,
        dead_letters,
        poll,
        discover,
    )


@takes(df=Kind("a Spark DataFrame", lambda value: hasattr(value, "mapInArrow")))
def dataframe(df: DataFrame) -> DataFrameSource:
    """The rows of a Spark DataFrame, batch or streaming, read through the driver. It needs one Spark slot in addition
    to those of the workers."""
    return DataFrameSource(df)
