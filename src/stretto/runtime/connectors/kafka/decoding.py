"""Values of records to rows: JSON, Arrow, or the bytes themselves; Avro is in `avro.py`. Nothing here knows Kafka.

A whole batch of values is decoded at once. Only if that fails is each value looked at by itself, to find those that are
wrong. A value that cannot be decoded has a row of nulls, so that rows and records stay in step, and says what is wrong.
A record without a value (a tombstone, in a topic that is compacted) has nulls too, and nothing is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.api.memory import conform
from stretto.errors import SourceError, StrettoError
from stretto.rendering import message_of
from stretto.runtime.connectors.json_lines import can_read, fault_of, parse_lines

Values = Sequence[bytes | None]
ValueFormat = Literal["json", "avro", "arrow", "raw"]

_LOST = (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError)
"""The errors that decoding raises for a value that is wrong."""


@dataclass
class Decoded:
    """The rows of a batch of values. `rows_of` is how many rows each value has; None if each has one. `faults` says, by
    the number of a value, what is wrong with it."""

    rows: pa.RecordBatch
    rows_of: npt.NDArray[np.int64] | None = None
    faults: dict[int, str] = field(default_factory=dict)


class Decoder:
    """Decodes values to rows of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def check(self) -> None:
        """Raises a SourceError if values cannot be decoded to this schema."""

    def decode(self, values: Values) -> Decoded:
        raise NotImplementedError


class RawDecoder(Decoder):
    """The bytes themselves, in one column."""

    def check(self) -> None:
        if len(self.schema) != 1 or self.schema.types[0] not in (pa.binary(), pa.string()):
            raise SourceError(
                "raw values have one column",
                f"the schema has {', '.join(f'{each.name} {each.type}' for each in self.schema)}",
                "Name one column of type binary or string, or leave the schema out.",
            )

    def decode(self, values: Values) -> Decoded:
        if self.schema.types[0] == pa.binary():
            return Decoded(pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], schema=self.schema))
        try:
            return Decoded(_texts(values, self.schema))
        except UnicodeDecodeError:
            return one_by_one(values, self.schema, lambda value: _texts([value], self.schema))


class JsonDecoder(Decoder):
    """One object per value, read with Arrow's parser. Fields that are not in the schema are ignored, and those that are
    missing are null."""

    def check(self) -> None:
        for column in self.schema:
            if not can_read(column.type):
                raise SourceError(
                    f"JSON cannot be read as {column.type}",
                    f"column '{column.name}'",
                    "Read it as string, and convert it with select(...).",
                )

    def decode(self, values: Values) -> Decoded:
        try:
            return Decoded(self._parsed(values))
        except _LOST:
            return one_by_one(values, self.schema, lambda value: self._parsed([value]), self._fault)

    def _parsed(self, values: Values) -> pa.RecordBatch:
        if None in values:
            present = [value for value in values if value is not None]
            return with_gaps(self._parsed(present), [value is not None for value in values])
        if not values:
            return _empty(self.schema)
        data = b"\n".join(values)  # type: ignore[arg-type]
        if data.count(b"\n") >= len(values):
            # In JSON a line end is white space.
            data = b"\n".join(value.replace(b"\n", b" ") for value in values if value is not None)
        if not data.isascii():
            data.decode("utf-8")  # Arrow would accept broken text.
        if not all(value and value.lstrip()[:1] == b"{" for value in values):
            raise ValueError("a value is not an object")
        rows = parse_lines(data, self.schema)
        if rows.num_rows != len(values):
            raise ValueError("a value is not one object")
        return rows

    def _fault(self, value: bytes, error: Exception) -> str:
        if not value.strip():
            return "it is empty"
        fault = fault_of("", "it", value, self.schema)
        return message_of(error) if fault is None else str(fault.detail).removeprefix("it ").removeprefix("it, ")


class ArrowDecoder(Decoder):
    """An Arrow IPC stream per value, with any number of rows."""

    def decode(self, values: Values) -> Decoded:
        batches: list[pa.RecordBatch] = []
        rows_of = np.zeros(len(values), np.int64)
        faults: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                batch = _nulls(self.schema) if value is None else self._stream(value)
            except _LOST as error:
                batch, faults[number] = _nulls(self.schema), _said(error)
            rows_of[number] = batch.num_rows
            batches.append(batch)
        table = pa.Table.from_batches(batches, self.schema).combine_chunks()
        rows = table.to_batches()[0] if table.num_rows else _empty(self.schema)
        return Decoded(rows, rows_of, faults)

    def _stream(self, value: bytes) -> pa.RecordBatch:
        with pa.ipc.open_stream(value) as reader:
            table = reader.read_all()
        table.validate(full=True)
        missing = [name for name in self.schema.names if name not in table.column_names]
        if missing:
            raise ValueError(f"it has no column '{missing[0]}'; it has {', '.join(table.column_names) or 'none'}")
        chosen = table.select(self.schema.names).combine_chunks().to_batches()
        return conform(chosen[0], self.schema) if chosen else _empty(self.schema)


def one_by_one(
    values: Values,
    schema: pa.Schema,
    decode: Callable[[bytes], pa.RecordBatch],
    fault: Callable[[bytes, Exception], str] | None = None,
) -> Decoded:
    """Returns the rows of values that are decoded one by one, since some of them are wrong."""
    batches: list[pa.RecordBatch] = []
    faults: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            batches.append(_nulls(schema) if value is None else decode(value))
        except _LOST as error:
            assert value is not None
            faults[number] = _said(error) if fault is None else fault(value, error)
            batches.append(_nulls(schema))
    rows = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return Decoded(rows[0] if rows else _empty(schema), None, faults)


def with_gaps(rows: pa.RecordBatch, present: list[bool]) -> pa.RecordBatch:
    """Returns rows of nulls between the others, where nothing is present."""
    there = np.array(present)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    columns = [column.take(places) if len(column) else pa.nulls(len(present), column.type) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _texts(values: Values, schema: pa.Schema) -> pa.RecordBatch:
    texts = [None if value is None else value.decode("utf-8") for value in values]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=schema)


def _nulls(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, each.type) for each in schema], schema=schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _said(error: Exception) -> str:
    return message_of(error) if isinstance(error, StrettoError) else f"{error}" or type(error).__name__
