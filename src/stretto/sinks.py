"""The sinks a user can name: where the rows of a stream go.

from stretto import sinks

stream.sink(sinks.parquet("/data/out"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from stretto.api.arguments import COLUMN, COLUMNS, COUNT, OPTIONS, PATH, TEXT, Kind, takes
from stretto.api.memory import CollectSink, NullSink
from stretto.runtime.connectors.delta import DeltaSink
from stretto.runtime.connectors.epochs import EpochSink
from stretto.runtime.connectors.kafka.avro import SchemaDirectory
from stretto.runtime.connectors.kafka.decoding import ValueFormat
from stretto.runtime.connectors.kafka.encoding import Layout
from stretto.runtime.connectors.kafka.sink import Guarantee, KafkaSink
from stretto.runtime.connectors.sinks import (
    ROWS_PER_FILE,
    CallbackSink,
    ConsoleSink,
    CsvSink,
    JsonLinesSink,
    ParquetSink,
)

Mode = Literal["error", "append", "overwrite"]


def collect() -> CollectSink:
    """Keep the rows in the driver's memory; `job.results()` returns them as a table."""
    return CollectSink()


@takes(directory=PATH, mode=TEXT, rows_per_file=COUNT, changelog=COLUMN.optional(), partition_by=COLUMNS.optional())
def parquet(
    directory: str | os.PathLike[str],
    mode: Mode = "error",
    rows_per_file: int = ROWS_PER_FILE,
    changelog: str | None = None,
    partition_by: str | Sequence[str] | None = None,
) -> ParquetSink:
    """Write the rows to Parquet files in a directory; a file becomes visible only when it is complete.

    A file is closed after `rows_per_file` rows and at the end of the input. A directory with files in it is refused
    unless `mode` says to append to them or to overwrite them. With `partition_by`, rows are in directories by the
    values of these columns, such as `day=2026-01-01/`, as Spark writes and reads them.

    Rows that replace earlier ones, such as those of a running aggregate, are refused, because files only add rows. With
    a `changelog` all of them are written, with a bigint column of that name that increases: of the rows of a key, the
    one with the greatest number is the last. If rows can also be removed, as by a filter after an aggregate, the column
    has 1 for an added row and -1 for a removed one, and rows whose numbers add up to more than 0 are there.
    """
    return ParquetSink(directory, mode, rows_per_file, changelog, _names(partition_by))


@takes(directory=PATH, mode=TEXT, rows_per_file=COUNT, changelog=COLUMN.optional(), partition_by=COLUMNS.optional())
def csv(
    directory: str | os.PathLike[str],
    mode: Mode = "error",
    rows_per_file: int = ROWS_PER_FILE,
    changelog: str | None = None,
    partition_by: str | Sequence[str] | None = None,
) -> CsvSink:
    """Write the rows to CSV files, with the names of the columns in the first line (see `parquet`).

    Texts are in quotes, which are doubled inside; a null is an empty field without quotes. Spark reads them with
    `spark.read.csv(directory, schema, header=True, escape='"')`, an empty text as null; `sources.csv` tells them
    apart."""
    return CsvSink(directory, mode, rows_per_file, changelog, _names(partition_by))


@takes(directory=PATH, mode=TEXT, rows_per_file=COUNT, changelog=COLUMN.optional(), partition_by=COLUMNS.optional())
def jsonl(
    directory: str | os.PathLike[str],
    mode: Mode = "error",
    rows_per_file: int = ROWS_PER_FILE,
    changelog: str | None = None,
    partition_by: str | Sequence[str] | None = None,
) -> JsonLinesSink:
    """Write the rows to files of JSON objects, one on each line, without their nulls (see `parquet`)."""
    return JsonLinesSink(directory, mode, rows_per_file, changelog, _names(partition_by))


@takes(
    brokers=TEXT,
    topic=TEXT,
    value=TEXT,
    key=COLUMNS.optional(),
    timestamp=COLUMN.optional(),
    headers=COLUMN.optional(),
    guarantee=TEXT,
    schemas=PATH.optional(),
    schema_number=COUNT.optional(),
    options=OPTIONS.optional(),
)
def kafka(
    brokers: str,
    topic: str,
    value: ValueFormat = "json",
    *,
    key: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    guarantee: Guarantee = "exactly-once",
    schemas: str | os.PathLike[str] | None = None,
    schema_number: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> KafkaSink:
    """Write the rows as records of a Kafka topic. It needs the extra `kafka`.

    `value` is their format: JSON objects, Avro by a schema of the directory `schemas` (`schema_number`, or the
    greatest), Arrow IPC streams of many rows each, or "raw", the bytes or text of the one column that is left. `key`
    names the columns of the key: bytes or text as they are, or a JSON object if there are several. With a key, rows may
    replace earlier ones of their key, as those of a running aggregate do. `timestamp` and `headers` name columns for
    these.

    "exactly-once" writes the rows of each checkpoint in one transaction, when it is complete; readers must use
    `isolation.level=read_committed`. It needs a job with checkpoints, and such a job cannot go back to an earlier
    checkpoint. "at-least-once" sends each row at once; after a failure some are there twice."""
    return KafkaSink(
        {"bootstrap.servers": brokers, **(options or {})},
        topic,
        Layout(value, _names(key), timestamp, headers),
        guarantee,
        None if schemas is None else SchemaDirectory(schemas),
        schema_number,
    )


@takes(
    table=PATH,
    partition_by=COLUMNS.optional(),
    options=OPTIONS.optional(),
)
def delta(
    table: str | os.PathLike[str],
    partition_by: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DeltaSink:
    """Add the rows to a Delta table, a path or a URI, which is made if there is none. It needs the extra `delta`.

    The rows of each checkpoint are added in one commit per partition of the sink, when it is complete: exactly once. It
    needs a job with checkpoints, and such a job cannot go back to an earlier one. `options` are those of deltalake for
    the storage."""
    return DeltaSink(table, _names(partition_by), options)


@takes(directory=PATH)
def stream(directory: str | os.PathLike[str]) -> EpochSink:
    """Write the rows for Spark queries that continue from them with `job.stream("out")` or `streams.read(...)`.

    The rows of each checkpoint are in one file per partition, which appears when the checkpoint is complete. It needs a
    job with checkpoints, and such a job cannot go back to an earlier one. Files are never removed."""
    return EpochSink(directory)


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


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns or ())
