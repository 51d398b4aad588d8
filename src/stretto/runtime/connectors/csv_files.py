"""CSV files, read with Arrow's parser. The first line has the names of the columns.

A field that is empty and not quoted is null. Quotes inside quotes are doubled, and a quoted field may have line ends.
Times are read as Spark casts texts, in UTC where they name no zone. Columns that are not in the schema are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.types as pat

from stretto.api.memory import conform
from stretto.errors import ExpressionError, SourceError
from stretto.expressions import Projection, compile_projection
from stretto.expressions.scalar import quoted
from stretto.expressions.types import canonical, spark_type_name
from stretto.runtime.connectors.formats import Format, Skip, reading

BLOCK_BYTES = 1 << 20
_TESTS = (pat.is_boolean, pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_string, pat.is_date, pat.is_timestamp)


class CsvFormat(Format):
    name = "CSV"
    suffixes = (".csv", ".csv.gz")

    def learn(self, path: str) -> pa.Schema | None:
        """Returns the schema of the first block. A column without any value there is text."""
        with reading(path, "its first lines"):
            with pa.input_stream(path) as stream:
                if not stream.read(1):
                    return None
            with _opened(path, None) as reader:
                return pa.schema([pa.field(field.name, _learned(field.type)) for field in reader.schema])

    def check(self, path: str, schema: pa.Schema, reference: str, *, exact: bool) -> None:
        """Raises unless the first block can be read as `schema`."""
        for field in schema:
            if not any(test(field.type) for test in _TESTS):
                raise SourceError(
                    f"CSV cannot be read as {field.type}",
                    f"column '{field.name}' of {path}",
                    "Read it as string, and convert it with select(...).",
                )
        next(self.batches(path, schema, Skip()), None)

    def batches(
        self, path: str, schema: pa.Schema, skip: Skip, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        parsed = pa.schema([field.with_type(_parsed_as(field.type)) for field in schema])
        times = _times(schema, parsed)
        with reading(path, "its first lines"):
            reader = _opened(path, parsed)
        with reader:
            while (batch := _next(reader, path)) is not None:
                with reading(path, "a time"):
                    rows = conform(batch if times is None else times.evaluate(batch), schema)
                yield skip.part(rows)


def _opened(path: str, schema: pa.Schema | None) -> Any:
    """Returns a reader of record batches; without a schema it infers one."""
    convert = pa.csv.ConvertOptions(
        column_types=schema,
        include_columns=None if schema is None else schema.names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    read = pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
    return pa.csv.open_csv(path, read, pa.csv.ParseOptions(newlines_in_values=True), convert)


def _next(reader: Any, path: str) -> pa.RecordBatch | None:
    with reading(path, "its rows"):
        try:
            batch: pa.RecordBatch = reader.read_next_batch()
        except StopIteration:
            return None
        return batch


def _parsed_as(kind: pa.DataType) -> pa.DataType:
    """Returns the type that Arrow parses: its own form of times is narrower than Spark's."""
    return pa.string() if pat.is_timestamp(kind) or pat.is_date(kind) else kind


def _times(schema: pa.Schema, parsed: pa.Schema) -> Projection | None:
    """Returns the casts of texts to times, if there are any."""
    if schema.equals(parsed):
        return None
    texts = [
        f"CAST({quoted(field.name)} AS {spark_type_name(canonical(field.type))}) AS {quoted(field.name)}"
        if field.type != parsed.field(field.name).type
        else quoted(field.name)
        for field in schema
    ]
    return compile_projection(texts, parsed)


def _learned(kind: pa.DataType) -> pa.DataType:
    try:
        return canonical(kind) if any(test(kind) for test in _TESTS) else pa.string()
    except ExpressionError:
        return pa.string()
