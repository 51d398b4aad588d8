"""Avro in the wire format of schema registries, with a directory as the registry.

A value is a zero byte, the number of its schema in four bytes, and the Avro binary. The directory has one file per
schema, `<number>.avsc`. Schemas are read in the driver and shipped to the workers; a number that is not known there
makes a worker look into the directory again, since a producer may have registered a schema since.

fastavro is optional (the extra `kafka`), so it is imported when a schema is parsed.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from stretto.api.memory import canonical_schema
from stretto.errors import SourceError, UserError
from stretto.rendering import message_of
from stretto.runtime.connectors.kafka.client import EXTRA
from stretto.runtime.connectors.kafka.decoding import Decoded, Decoder, Values, with_gaps

MAGIC = 0
HEADER_BYTES = 5
_FILE = re.compile(r"(\d+)\.avsc")
_UNREADABLE = (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error, pa.ArrowException)

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
}


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise UserError("Avro needs the package fastavro", str(error), EXTRA) from error
    return fastavro


class SchemaDirectory:
    """The schemas of a directory, by their numbers. It is shipped with what it has read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._texts: dict[int, str] = {}
        self._parsed: dict[int, Any] = {}
        self.look()
        if not self._texts:
            raise SourceError(
                f"there is no Avro schema in {self.path}",
                "a schema is a file <number>.avsc",
                "Save each schema of the registry under its number, such as 1.avsc.",
            )

    def look(self) -> None:
        """Reads the schemas that are new."""
        try:
            names = os.listdir(self.path)
        except OSError as error:
            raise SourceError(f"cannot list the directory {self.path}", error.strerror, "Check the path.") from error
        for name in names:
            found = _FILE.fullmatch(name)
            if found is not None and int(found[1]) not in self._texts:
                with open(os.path.join(self.path, name), encoding="utf-8") as file:
                    self._texts[int(found[1])] = file.read()

    @property
    def latest(self) -> int:
        return max(self._texts)

    def schema(self, number: int) -> Any:
        """Returns a parsed schema; raises a SourceError if there is none or it is not Avro's."""
        parsed = self._parsed.get(number)
        if parsed is None:
            if number not in self._texts:
                self.look()
            if number not in self._texts:
                raise SourceError(f"there is no Avro schema {number} in {self.path}")
            parsed = self._parsed[number] = self._parse(number)
        return parsed

    def _parse(self, number: int) -> Any:
        fastavro = _fastavro()
        try:
            parsed = fastavro.parse_schema(json.loads(self._texts[number]), named_schemas={})
        except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise SourceError(f"{self.path}/{number}.avsc is no Avro schema", message_of(error)) from error
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise SourceError(f"{self.path}/{number}.avsc is no record", "a row is a record with named fields")
        return parsed

    def columns(self, number: int) -> pa.Schema:
        """Returns the columns that the records of a schema have."""
        fields = [pa.field(each["name"], self._type(number, each)) for each in self.schema(number)["fields"]]
        return canonical_schema(pa.schema(fields))

    def _type(self, number: int, each: Mapping[str, Any]) -> pa.DataType:
        try:
            return arrow_type(each["type"])
        except ValueError as error:
            raise SourceError(
                f"field '{each['name']}' of {self.path}/{number}.avsc cannot be a column",
                str(error),
                "Read other columns, by naming them in schema=.",
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_parsed": {}}


def arrow_type(avro: Any) -> pa.DataType:
    """Returns the type of a column for an Avro type; raises a ValueError if there is none."""
    if isinstance(avro, list):
        others = [each for each in avro if each != "null"]
        if len(others) != 1:
            raise ValueError(f"a union of {len(others)} types has no type in Arrow")
        return arrow_type(others[0])
    if isinstance(avro, str):
        avro = {"type": avro}
    kind, logical = avro["type"], avro.get("logicalType")
    if isinstance(kind, dict | list):
        return arrow_type(kind)
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if kind in _PLAIN and logical in (None, "uuid"):
        return _PLAIN[kind]
    match kind:
        case "enum":
            return pa.string()
        case "fixed":
            return pa.binary()
        case "array":
            return pa.list_(arrow_type(avro["items"]))
        case "record":
            return pa.struct([pa.field(each["name"], arrow_type(each["type"])) for each in avro["fields"]])
    raise ValueError(f"{logical or kind} is not supported")


class AvroDecoder(Decoder):
    """Avro values; each names the schema that it was written with. Columns are matched by their names; a schema without
    one of them has nulls there."""

    def __init__(self, schema: pa.Schema | None, directory: SchemaDirectory) -> None:
        super().__init__(directory.columns(directory.latest) if schema is None else schema)
        self._directory = directory

    def check(self) -> None:
        known = self._directory.columns(self._directory.latest)
        missing = [name for name in self.schema.names if name not in known.names]
        if missing:
            raise SourceError(
                f"the latest schema in {self._directory.path} has no field '{missing[0]}'",
                f"it has {', '.join(known.names)}",
                "Correct schema=, or leave it out.",
            )

    def decode(self, values: Values) -> Decoded:
        records: list[dict[str, Any]] = []
        present: list[bool] = []
        faults: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                if value is not None:
                    records.append(self._record(value))
                present.append(value is not None)
            except (SourceError, *_UNREADABLE) as error:
                faults[number] = message_of(error)
                present.append(False)
        try:
            rows = pa.RecordBatch.from_pylist(records, schema=self.schema)
        except _UNREADABLE:
            return self._sorted_out(values)
        return Decoded(rows if all(present) else with_gaps(rows, present), None, faults)

    def _record(self, value: bytes) -> dict[str, Any]:
        if len(value) < HEADER_BYTES or value[0] != MAGIC:
            raise ValueError("it does not begin with a zero byte and the number of a schema")
        schema = self._directory.schema(int.from_bytes(value[1:HEADER_BYTES], "big"))
        data = io.BytesIO(value)
        data.seek(HEADER_BYTES)
        record: dict[str, Any] = _fastavro().schemaless_reader(data, schema, None)
        if data.tell() != len(value):
            raise ValueError(f"{len(value) - data.tell()} bytes follow the record")
        return record

    def _sorted_out(self, values: Values) -> Decoded:
        """Returns the same, with the values that do not fit the columns among the faults."""
        rows, faults = [], {}
        for number, value in enumerate(values):
            row: dict[str, Any] = {}
            try:
                if value is not None:
                    row = self._record(value)
                    pa.RecordBatch.from_pylist([row], schema=self.schema)
            except (SourceError, *_UNREADABLE) as error:
                row, faults[number] = {}, message_of(error)
            rows.append(row)
        return Decoded(pa.RecordBatch.from_pylist(rows, schema=self.schema), None, faults)


class AvroEncoder:
    """Rows to Avro values of one schema of a directory."""

    def __init__(self, columns: pa.Schema, directory: SchemaDirectory, number: int | None) -> None:
        self._number = directory.latest if number is None else number
        self._directory = directory
        self._check(columns)

    def _check(self, columns: pa.Schema) -> None:
        fields = {each["name"]: each for each in self._directory.schema(self._number)["fields"]}
        where = f"{self._directory.path}/{self._number}.avsc"
        for column in columns:
            if column.name not in fields:
                raise UserError(
                    f"{where} has no field '{column.name}'", f"it has {', '.join(fields)}", "Drop the column."
                )
            wanted = arrow_type(fields[column.name]["type"])
            if column.type not in (wanted, _NARROWER.get(wanted)):
                raise UserError(
                    f"field '{column.name}' of {where} cannot have these values",
                    f"the column is {column.type}, and the field {wanted}",
                    "Cast the column with select(...).",
                )
        missing = [name for name, each in fields.items() if name not in columns.names and not _may_lack(each)]
        if missing:
            raise UserError(f"there is no column for field '{missing[0]}' of {where}", None, "Add it with select(...).")

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        write, schema = _fastavro().schemaless_writer, self._directory.schema(self._number)
        header = bytes([MAGIC]) + self._number.to_bytes(HEADER_BYTES - 1, "big")
        values = []
        for number, row in enumerate(rows.to_pylist()):
            data = io.BytesIO()
            data.write(header)
            try:
                write(data, schema, row)
            except _UNREADABLE as error:
                raise UserError(
                    f"a row does not fit {self._directory.path}/{self._number}.avsc",
                    f"row {number} of a batch: {message_of(error)}",
                    "Fields that may be null are a union with null.",
                ) from error
            values.append(data.getvalue())
        return values


_NARROWER = {pa.int64(): pa.int32(), pa.float64(): pa.float32()}


def _may_lack(field: Mapping[str, Any]) -> bool:
    return "default" in field or (isinstance(field["type"], list) and "null" in field["type"])
