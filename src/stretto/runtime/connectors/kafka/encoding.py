"""Rows to records: the key, the value, the headers and the timestamp of each. Nothing here knows Kafka."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import UserError
from stretto.runtime.connectors.file_kinds import JSON_LINES, spark_text
from stretto.runtime.connectors.kafka.avro import AvroEncoder, SchemaDirectory
from stretto.runtime.connectors.kafka.decoding import ValueFormat

ARROW_BYTES_MAX = 512 << 10
"""The number of bytes of rows in one value; brokers refuse records of more than a megabyte."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""The type of a column of headers, as Spark has it."""

Record = tuple[bytes | None, bytes, int, list[tuple[str, bytes]] | None]
"""Key, value, timestamp in milliseconds (0: now), headers."""


@dataclass(frozen=True)
class Layout:
    """Which columns are what. Those of the key are in the value too, unless the value is raw."""

    value: ValueFormat = "json"
    key: tuple[str, ...] = ()
    timestamp: str | None = None
    headers: str | None = None

    def values(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of the value."""
        apart = {self.timestamp, self.headers, *(self.key if self.value == "raw" else ())}
        return pa.schema([column for column in schema if column.name not in apart])

    def check(self, schema: pa.Schema) -> None:
        """Raises a UserError if rows of the schema cannot be written so."""
        for what, name in (
            *(("key", name) for name in self.key),
            ("timestamp", self.timestamp),
            ("headers", self.headers),
        ):
            if name is not None and name not in schema.names:
                raise UserError(
                    f"there is no column '{name}' for the {what} of a record",
                    f"the stream has {', '.join(schema.names)}",
                    "Correct the name, or add the column with select(...).",
                )
        if self.timestamp is not None and not pat.is_timestamp(schema.field(self.timestamp).type):
            raise UserError(f"column '{self.timestamp}' is no timestamp", str(schema.field(self.timestamp).type))
        if self.headers is not None and not schema.field(self.headers).type.equals(HEADERS):
            raise UserError(
                f"column '{self.headers}' has no headers",
                f"it is {schema.field(self.headers).type}",
                "Headers are array<struct<key: string, value: binary>>.",
            )
        values = self.values(schema)
        if self.value == "raw" and (len(values) != 1 or values.types[0] not in (pa.binary(), pa.string())):
            raise UserError(
                "a raw value is one column of type binary or string",
                f"there are {', '.join(f'{each.name} {each.type}' for each in values) or 'none'}",
                "Choose it with select(...); those of the key, timestamp and headers do not count.",
            )
        if self.value == "arrow" and (self.key or self.timestamp or self.headers):
            raise UserError(
                "a value of Arrow has many rows, and no key, timestamp or headers", None, "Use another format."
            )


class Encoder:
    """Turns batches of rows into records."""

    def __init__(
        self, layout: Layout, schema: pa.Schema, directory: SchemaDirectory | None, number: int | None = None
    ) -> None:
        layout.check(schema)
        self._layout = layout
        self._values = layout.values(schema)
        self._avro = AvroEncoder(self._values, directory, number) if layout.value == "avro" and directory else None

    def records(self, rows: pa.RecordBatch) -> Iterator[Record]:
        layout = self._layout
        values = self._encoded(rows.select(self._values.names))
        if layout.value == "arrow":
            for value in values:
                yield None, value, 0, None
            return
        keys = _keys(rows, layout.key) if layout.key else [None] * rows.num_rows
        stamps = _milliseconds(rows.column(layout.timestamp)) if layout.timestamp is not None else [0] * rows.num_rows
        if layout.headers is None:
            for key, value, stamp in zip(keys, values, stamps, strict=True):
                yield key, value, stamp, None
            return
        for key, value, stamp, headers in zip(
            keys, values, stamps, rows.column(layout.headers).to_pylist(), strict=True
        ):
            yield key, value, stamp, [(each["key"], each["value"]) for each in headers or ()] or None

    def _encoded(self, rows: pa.RecordBatch) -> list[bytes]:
        if self._avro is not None:
            return self._avro.encode(rows)
        match self._layout.value:
            case "raw":
                return _bytes_of(rows.column(0), "the value")
            case "arrow":
                return list(_streams(rows))
        return _objects(rows)


def _objects(rows: pa.RecordBatch) -> list[bytes]:
    """Returns each row as a JSON object, as JSON-lines files have them."""
    file = io.BytesIO()
    writer = JSON_LINES.opened(file, rows.schema)
    writer.write(pa.Table.from_batches([rows]))
    return file.getvalue().split(b"\n")[:-1]


def _streams(rows: pa.RecordBatch) -> Iterator[bytes]:
    pieces = max(1, -(-rows.nbytes // ARROW_BYTES_MAX))
    size = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, size):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as writer:
            # Copied, because a slice would be written with the whole batch's buffers of nested columns.
            writer.write_batch(pa.concat_batches([rows.slice(start, size)]))
        yield out.getvalue().to_pybytes()


def _keys(rows: pa.RecordBatch, names: tuple[str, ...]) -> list[Any]:
    if len(names) > 1:
        return _objects(rows.select(list(names)))
    column = rows.column(names[0])
    if not (pat.is_binary(column.type) or pat.is_string(column.type)):
        column = spark_text(column)
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


def _bytes_of(column: pa.Array, what: str) -> list[bytes]:
    if column.null_count:
        raise UserError(f"{what} of a record is null", None, "Filter such rows out before the sink.")
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


def _milliseconds(column: pa.Array) -> list[int]:
    millis = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return [0 if value is None else value for value in millis.to_pylist()]
