"""The kinds of files that sinks write: Parquet, CSV and JSON-lines, each with a writer of tables.

CSV and JSON-lines have texts that Spark reads back with the same types: a null is an empty field that is not quoted, or
one that is left out; doubles, timestamps and binaries are written as Spark writes them, to the microsecond.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as pat

from stretto.errors import UserError


class TableWriter(Protocol):
    """Writes tables to an open file."""

    def write(self, table: pa.Table) -> None: ...
    def close(self) -> None: ...


class FileKind:
    """A kind of files: its name, its suffix, and how to write one."""

    def __init__(self, name: str, suffix: str, opened: Callable[[IO[bytes], pa.Schema], TableWriter]) -> None:
        self.name = name
        self.suffix = suffix
        self.opened = opened

    def check(self, schema: pa.Schema) -> None:
        """Raises a UserError if files of this kind cannot hold these columns."""
        try:
            self.opened(pa.BufferOutputStream(), schema).close()
        except pa.ArrowException as error:
            raise UserError(
                f"{self.name} cannot hold these columns", str(error), "Cast them, or leave them out."
            ) from error


class _Parquet:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        self._writer.close()


class _Csv:
    """The first line has the names of the columns. All texts are in quotes, which are doubled inside."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        for field in schema:
            if pat.is_nested(field.type) or pat.is_binary(field.type):
                raise pa.ArrowInvalid(f"column '{field.name}' is {field.type}, and a field of CSV is one text")
        self._plain = [_is_plain(field.type) for field in schema]
        texts = [
            field if plain else field.with_type(pa.string()) for field, plain in zip(schema, self._plain, strict=True)
        ]
        self._schema = pa.schema(texts)
        self._writer = pa.csv.CSVWriter(file, self._schema)

    def write(self, table: pa.Table) -> None:
        columns = [
            column if plain else spark_text(column) for column, plain in zip(table.columns, self._plain, strict=True)
        ]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _JsonLines:
    """One object on each line, without its nulls."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        self._names = [json.dumps(name, ensure_ascii=False) for name in schema.names]

    def write(self, table: pa.Table) -> None:
        fields = [
            pc.coalesce(pc.binary_join_element_wise(f",{name}:", json_text(column), ""), "")
            for name, column in zip(self._names, table.combine_chunks().columns, strict=True)
        ]
        objects = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*fields, ""), 1)  # Without the first comma.
        for chunk in pc.binary_join_element_wise("{", objects, "}\n", "").chunks:
            if len(chunk):
                # The lines are one behind the other in the array's data.
                _, offsets, data = chunk.buffers()
                ends = np.frombuffer(offsets, np.int32)
                self._file.write(memoryview(data)[ends[chunk.offset] : ends[chunk.offset + len(chunk)]])

    def close(self) -> None:
        """There is nothing to complete."""


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Arrow's text of a value is Spark's."""
    return bool(pat.is_integer(kind) or pat.is_boolean(kind) or pat.is_decimal(kind) or pat.is_string(kind))


def spark_text(column: Any) -> Any:
    """Returns the values as texts that Spark reads back."""
    kind = column.type
    if pat.is_timestamp(kind):
        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    if pat.is_date(kind):
        return pc.strftime(column, "%Y-%m-%d")
    if pat.is_floating(kind):
        text = column.cast(pa.string())
        for arrow, spark in (("nan", "NaN"), ("-nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            text = pc.if_else(pc.equal(text, arrow), spark, text)
        return text
    if pat.is_binary(kind):
        return _mapped(column, lambda value: base64.b64encode(value).decode())
    return column.cast(pa.string())


def json_text(column: Any) -> Any:
    """Returns the values as JSON."""
    kind = column.type
    if pat.is_integer(kind) or pat.is_boolean(kind) or pat.is_decimal(kind):
        return column.cast(pa.string())
    if pat.is_floating(kind):
        text = spark_text(column)
        return pc.if_else(pc.is_finite(column), text, pc.binary_join_element_wise('"', text, '"', ""))
    if pat.is_struct(kind) or pat.is_list(kind):
        return _nested_text(column)
    if not pat.is_string(kind):
        return pc.binary_join_element_wise('"', spark_text(column), '"', "")
    return _mapped(column, lambda value: json.dumps(value, ensure_ascii=False))


def _nested_text(column: Any) -> Any:
    """Returns nested values as JSON, value by value: their parts have no columns of their own."""
    return pa.array([None if value is None else _json_of(value) for value in column.to_pylist()], pa.string())


def _json_of(value: Any) -> str:
    if isinstance(value, dict):
        fields = (f"{json.dumps(k, ensure_ascii=False)}:{_json_of(v)}" for k, v in value.items() if v is not None)
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_of, value)) + "]"
    return "null" if value is None else str(json_text(pa.array([value]))[0])


def _mapped(column: Any, text: Callable[[Any], str]) -> Any:
    """Returns a Python function of each distinct value."""
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = encoded.dictionary_encode()
    texts = pa.array([None if value is None else text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


PARQUET = FileKind("Parquet", ".parquet", _Parquet)
CSV = FileKind("CSV", ".csv", _Csv)
JSON_LINES = FileKind("JSON-lines", ".jsonl", _JsonLines)
