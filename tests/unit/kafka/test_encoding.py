"""Rows to records and back: what the encoder writes, the decoder of the same format reads."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import SourceError, UserError
from stretto.runtime.connectors.kafka.avro import AvroDecoder, SchemaDirectory
from stretto.runtime.connectors.kafka.decoding import ArrowDecoder, JsonDecoder
from stretto.runtime.connectors.kafka.encoding import HEADERS, Encoder, Layout

UTC = datetime.UTC
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("x", pa.float64())])
ROWS = [
    {"n": 1, "s": 'a"\n', "t": datetime.datetime(2026, 1, 1, 0, 0, 0, 5, UTC), "x": 0.5},
    {"n": None, "s": None, "t": None, "x": None},
]
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "x", "type": ["null", "double"]},
    ],
}


def batch(rows: list[dict[str, Any]] = ROWS, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def directory(path: Path, **schemas: Any) -> SchemaDirectory:
    for name, schema in schemas.items():
        (path / f"{name.removeprefix('s')}.avsc").write_text(json.dumps(schema))
    return SchemaDirectory(path)


def values(layout: Layout, rows: pa.RecordBatch, known: SchemaDirectory | None = None) -> list[bytes]:
    return [value for _, value, _, _ in Encoder(layout, rows.schema, known).records(rows)]


def test_json_is_read_back() -> None:
    assert JsonDecoder(SCHEMA).decode(values(Layout("json"), batch())).rows.to_pylist() == ROWS


def test_arrow_is_read_back_in_pieces_that_a_broker_takes() -> None:
    wide = batch([{"n": n, "s": "x" * 1000, "t": None, "x": None} for n in range(2000)])
    pieces = values(Layout("arrow"), wide)
    assert len(pieces) > 1
    assert max(map(len, pieces)) < 1 << 20
    assert ArrowDecoder(SCHEMA).decode(pieces).rows.to_pylist() == wide.to_pylist()


def test_avro_is_read_back(tmp_path: Path) -> None:
    known = directory(tmp_path, s7=AVRO)
    written = values(Layout("avro"), batch(), known)
    assert written[0][:5] == b"\0\0\0\0\x07"
    decoder = AvroDecoder(None, known)
    decoder.check()
    assert decoder.schema == SCHEMA
    assert decoder.decode([*written, None]).rows.to_pylist() == [*ROWS, dict.fromkeys(SCHEMA.names)]


def test_avro_that_is_wrong_is_named(tmp_path: Path) -> None:
    known = directory(tmp_path, s7=AVRO)
    (good, _) = values(Layout("avro"), batch(), known)
    wrong = [b"", b"\1" + good[1:], good[:7], good + b"x", b"\0\0\0\0\x09" + good[5:]]
    decoded = AvroDecoder(None, known).decode([good, *wrong])
    assert sorted(decoded.faults) == [1, 2, 3, 4, 5]
    assert decoded.faults[4] == "1 bytes follow the record"
    assert decoded.faults[5].startswith("there is no Avro schema 9 in ")
    assert decoded.rows.to_pylist()[0] == ROWS[0]


def test_a_schema_that_is_registered_later_is_found(tmp_path: Path) -> None:
    known = directory(tmp_path, s1=AVRO)
    decoder = AvroDecoder(None, known)
    later = directory(tmp_path, s2={**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "int"}]})
    schema = SCHEMA.append(pa.field("more", pa.int32()))
    written = values(Layout("avro"), batch([{**ROWS[0], "more": 1}], schema), later)
    assert decoder.decode(written).rows.to_pylist() == [ROWS[0]]


def test_logical_and_nested_types_of_avro(tmp_path: Path) -> None:
    fields = [
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "r", "type": {"type": "record", "name": "R", "fields": [{"name": "i", "type": "long"}]}},
    ]
    known = directory(tmp_path, s1={"type": "record", "name": "Row", "fields": fields})
    schema = AvroDecoder(None, known).schema
    row = {"d": datetime.date(2026, 1, 2), "m": Decimal("1.25"), "a": [1, 2], "e": "B", "r": {"i": 3}}
    assert AvroDecoder(None, known).decode(values(Layout("avro"), batch([row], schema), known)).rows.to_pylist() == [
        row
    ]
    union = {"type": "record", "name": "Row", "fields": [{"name": "u", "type": ["int", "string"]}]}
    with pytest.raises(SourceError, match=r"field 'u' of .* cannot be a column: a union of 2 types"):
        AvroDecoder(None, directory(tmp_path, s2=union))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (SCHEMA.append(pa.field("more", pa.int64())), "has no field 'more'"),
        (SCHEMA.remove(0).append(pa.field("n", pa.string())), "field 'n' of .* cannot have these values"),
    ],
    ids=["unknown", "type"],
)
def test_columns_that_do_not_fit_a_schema_are_refused(tmp_path: Path, columns: pa.Schema, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Encoder(Layout("avro"), columns, directory(tmp_path, s1=AVRO))


def test_a_field_that_must_be_there_is_missed(tmp_path: Path) -> None:
    strict = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}],
    }
    known = directory(tmp_path, s1=strict)
    with pytest.raises(UserError, match="there is no column for field 's'"):
        Encoder(Layout("avro"), pa.schema([("n", pa.int64())]), known)
    both = pa.schema([("n", pa.int64()), ("s", pa.string())])
    with pytest.raises(UserError, match="a row does not fit"):
        values(Layout("avro"), batch([{"n": None, "s": "a"}], both), known)


def test_keys_timestamps_and_headers_come_from_columns() -> None:
    schema = pa.schema([("k", pa.int64()), ("l", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("h", HEADERS)])
    when = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    rows = batch([{"k": 1, "l": "a", "t": when, "h": [{"key": "x", "value": b"1"}]}, {"k": 2, "l": None}], schema)

    def records(layout: Layout) -> list[Any]:
        return list(Encoder(layout, schema, None).records(rows))

    (first, second) = records(Layout("json", ("k",), "t", "h"))
    assert first == (b"1", b'{"k":1,"l":"a"}', 1000, [("x", b"1")])
    assert second == (b"2", b'{"k":2}', 0, None)
    assert [key for key, *_ in records(Layout("json", ("l",)))] == [b"a", None]
    assert [key for key, *_ in records(Layout("json", ("k", "l")))] == [b'{"k":1,"l":"a"}', b'{"k":2}']


def test_a_raw_value_is_the_column_that_is_left() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.binary())])
    rows = batch([{"k": "a", "v": b"\xff"}], schema)
    assert list(Encoder(Layout("raw", ("k",)), schema, None).records(rows)) == [(b"a", b"\xff", 0, None)]
    with pytest.raises(UserError, match="the value of a record is null"):
        values(Layout("raw", ("k",)), batch([{"k": "a", "v": None}], schema))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout("json", ("z",)), "there is no column 'z' for the key"),
        (Layout("json", timestamp="n"), "column 'n' is no timestamp"),
        (Layout("json", headers="n"), "column 'n' has no headers"),
        (Layout("raw"), "a raw value is one column"),
        (Layout("arrow", ("n",)), "a value of Arrow has many rows"),
    ],
    ids=lambda value: None if isinstance(value, Layout) else value[:20],
)
def test_columns_that_do_not_fit_a_layout_are_refused(layout: Layout, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Encoder(layout, SCHEMA, None)


def test_a_directory_without_schemas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no Avro schema in"):
        SchemaDirectory(tmp_path)
    (tmp_path / "1.avsc").write_text("{")
    with pytest.raises(SourceError, match=r"1\.avsc is no Avro schema"):
        AvroDecoder(None, SchemaDirectory(tmp_path))
