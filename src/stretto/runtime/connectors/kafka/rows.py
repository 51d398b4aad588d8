"""Rows of records: the columns of their values, and those of keys, timestamps, headers and places. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.source import MALFORMED
from stretto.errors import SourceError
from stretto.runtime.connectors.kafka.decoding import Decoded, Decoder
from stretto.runtime.connectors.kafka.encoding import HEADERS

TIMESTAMP = pa.timestamp("us", tz="UTC")
SHOWN_BYTES = 80


@dataclass(frozen=True)
class Columns:
    """The names of the columns for what a record has beside its value; None for those that are not wanted."""

    key: str | None = None
    timestamp: str | None = None
    headers: str | None = None
    partition: str | None = None
    offset: str | None = None

    def fields(self) -> list[pa.Field]:
        kinds = {
            self.key: pa.binary(),
            self.timestamp: TIMESTAMP,
            self.headers: HEADERS,
            self.partition: pa.int32(),
            self.offset: pa.int64(),
        }
        return [pa.field(name, kind) for name, kind in kinds.items() if name is not None]


@dataclass
class Records:
    """A batch of records of one partition of a topic. Keys and headers may be left out if nobody wants them."""

    topic: str
    partition: int
    values: list[bytes | None]
    offsets: list[int]
    timestamps_ms: list[int | None]
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]] | None] = field(default_factory=list)


class RowMaker:
    """Turns records into rows of one schema. With `keeps_malformed` a record that cannot be decoded is a row of nulls
    with what is known of it (`MALFORMED`); otherwise it is an error that names it."""

    def __init__(self, decoder: Decoder, columns: Columns, keeps_malformed: bool) -> None:
        self._decoder = decoder
        self._columns = columns
        self._keeps_malformed = keeps_malformed
        beside = [*columns.fields(), *(MALFORMED if keeps_malformed else ())]
        self.schema = pa.schema([*decoder.schema, *beside])
        self.wants_keys = columns.key is not None or keeps_malformed
        self.wants_headers = columns.headers is not None

    def check(self) -> None:
        """Raises a SourceError if two columns have the same name, or the values cannot be decoded so."""
        self._decoder.check()
        twice = [name for name in self.schema.names if self.schema.names.count(name) > 1]
        if twice:
            raise SourceError(
                f"two columns of a topic are named '{twice[0]}'", None, "Give the column beside the value another name."
            )

    def rows(self, records: Records) -> pa.RecordBatch:
        decoded = self._decoder.decode(records.values)
        if decoded.faults and not self._keeps_malformed:
            raise malformed(records, min(decoded.faults), decoded.faults[min(decoded.faults)])
        arrays = [*decoded.rows.columns, *self._beside(records, decoded)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _beside(self, records: Records, decoded: Decoded) -> list[pa.Array]:
        columns = self._columns
        arrays = []
        if columns.key is not None:
            arrays.append(pa.array(records.keys, pa.binary()))
        if columns.timestamp is not None:
            arrays.append(_times(records.timestamps_ms))
        if columns.headers is not None:
            arrays.append(_headers(records.headers))
        if columns.partition is not None:
            arrays.append(pa.array(np.full(len(records.values), records.partition, np.int32)))
        if columns.offset is not None:
            arrays.append(pa.array(records.offsets, pa.int64()))
        if self._keeps_malformed:
            arrays += _known_of(records, decoded.faults)
        if decoded.rows_of is None:
            return arrays
        chosen = pa.array(np.repeat(np.arange(len(decoded.rows_of)), decoded.rows_of))
        return [array.take(chosen) for array in arrays]


def malformed(records: Records, number: int, fault: str) -> SourceError:
    """Returns the error of a record that could not be decoded."""
    value = records.values[number] or b""
    shown = repr(value[:SHOWN_BYTES])[2:-1] + ("..." if len(value) > SHOWN_BYTES else "")
    return SourceError(
        f"a record of topic '{records.topic}' is malformed",
        f"partition {records.partition}, offset {records.offsets[number]}: {fault}; the value is {shown}",
        "Correct its producer; or have such records written elsewhere with dead_letters=.",
    )


def _known_of(records: Records, faults: dict[int, str]) -> list[pa.Array]:
    """Returns the columns of `MALFORMED`, which are null for records that are not."""
    count = len(records.values)
    if not faults:
        return [pa.nulls(count, kind) for kind in MALFORMED.types]

    def where_faulty(values: Sequence[Any]) -> list[Any]:
        return [value if number in faults else None for number, value in enumerate(values)]

    return [
        pa.array([faults.get(number) for number in range(count)], pa.string()),
        pa.array(where_faulty([records.topic] * count), pa.string()),
        pa.array(where_faulty([records.partition] * count), pa.int32()),
        pa.array(where_faulty(records.offsets), pa.int64()),
        _times(where_faulty(records.timestamps_ms)),
        pa.array(where_faulty(records.keys), pa.binary()),
        pa.array(where_faulty(records.values), pa.binary()),
    ]


def _times(timestamps_ms: list[int | None]) -> pa.Array:
    return pa.array(timestamps_ms, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)


def _headers(headers: list[list[tuple[str, bytes | None]] | None]) -> pa.Array:
    rows = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    return pa.array(rows, HEADERS)
