"""CSV and JSON-lines files, and directories by columns: what is written is read back, with and without checkpoints."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from stretto import App, sinks, sources
from stretto.actors.address import Attempt
from stretto.actors.source import Source
from stretto.errors import SourceError, UserError
from stretto.expressions import parse_schema
from stretto.runtime.connectors import partitioned
from stretto.runtime.connectors.sinks import CsvSink, FilesSink, JsonLinesSink, ParquetSink

SCHEMA = parse_schema("n bigint, s string, d decimal(10,2), x double, b boolean, day date, at timestamp")
ROWS: list[dict[str, Any]] = [
    {
        "n": -(2**63),
        "s": 'a "quoted", text\nof two lines, é\\',
        "d": Decimal("-1.50"),
        "x": 0.1,
        "b": True,
        "day": dt.date(2026, 1, 31),
        "at": dt.datetime(2026, 1, 1, 12, 0, 0, 123_456, dt.UTC),
    },
    dict.fromkeys(SCHEMA.names),
    {"n": 3, "s": "", "d": Decimal("0.00"), "x": float("inf"), "b": False, "day": dt.date(1969, 7, 20)}
    | {"at": dt.datetime(1969, 7, 20, tzinfo=dt.UTC)},
    {"n": 4, "s": "null", "d": Decimal("99999999.99"), "x": -1e300, "b": None, "day": None, "at": None},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)


def written(sink: FilesSink, *batches: pa.RecordBatch) -> list[Path]:
    sink.check(batches[0].schema)
    writer = sink.writer(batches[0].schema, 0, 1)
    for batch in batches:
        writer.write(batch)
    writer.finish()
    writer.close()
    return writer.files


def rows_of(source: Source) -> list[dict[str, Any]]:
    source.check()
    reader, rows = source.reader(0, 1), []
    while not (reading := reader.read(0, 3)).done:
        rows += reading.batch.to_pylist() if reading.batch is not None else []
    return rows


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_come_back_from_files(tmp_path: Path, kind: str) -> None:
    sink = {"csv": CsvSink, "jsonl": JsonLinesSink}[kind](tmp_path, rows_per_file=6)
    rows = BATCH if kind == "csv" else BATCH.filter(pa.array([True, True, False, True]))  # Arrow reads no "Infinity".
    files = written(sink, rows, rows.slice(1, 2), rows.slice(0, 0), rows)
    assert len(files) == 2
    assert [path.suffix for path in files] == [f".{kind}"] * 2
    source = getattr(sources, kind)(tmp_path, SCHEMA)
    assert rows_of(source) == [*rows.to_pylist(), *rows.slice(1, 2).to_pylist(), *rows.to_pylist()]


def test_json_has_the_values_that_spark_writes(tmp_path: Path) -> None:
    schema = parse_schema('x double, t array<struct<a: int, at: timestamp>>, raw binary, `a "b"` string')
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        {"x": float("nan"), "t": [{"a": 1, "at": at}, {"a": None, "at": None}, None], "raw": b"\x00\xff", 'a "b"': "c"},
        {"x": None, "t": None, "raw": None, 'a "b"': None},
    ]
    (file,) = written(JsonLinesSink(tmp_path), pa.RecordBatch.from_pylist(rows, schema=schema))
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {
        "x": "NaN",
        "t": [{"a": 1, "at": "2026-01-01T00:00:00.000000Z"}, {}, None],
        "raw": "AP8=",
        'a "b"': "c",
    }
    assert second == {}


def test_csv_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    for column in ("t array<int>", "raw binary"):
        with pytest.raises(UserError, match="CSV cannot hold these columns"):
            CsvSink(tmp_path).check(parse_schema(column))


def test_csv_learns_its_schema(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,s,day,at,nothing\n1,x,2026-01-01,2026-01-01 10:00:00,\n2,,,,\n")
    source = sources.csv(tmp_path / "a.csv", time="at")
    assert source.schema.equals(parse_schema("n bigint, s string, day date, at timestamp, nothing string"))
    assert rows_of(source)[0]["at"] == dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
    assert sources.files(tmp_path / "a.csv").format == "csv"
    assert rows_of(sources.csv(tmp_path, "s string, n int")) == [{"s": "x", "n": 1}, {"s": None, "n": 2}]


@pytest.mark.parametrize(
    ("text", "schema", "parts"),
    [
        ("n\n1\nx\n", "n bigint", ("cannot read", "'x'", "Row #3")),
        ("n\n1\n", "m bigint", ("cannot read", "'m'")),
        ("at\nyesterday\n", "at timestamp", ("cannot read", "yesterday")),
        ("n\n1\n", "n array<int>", ("CSV cannot be read as", "'n'")),
        ("n,m\n1\n", "n bigint", ("cannot read", "Expected 2 columns, got 1")),
        ("", None, ("nothing to learn a schema from",)),
    ],
)
def test_a_broken_csv_file_is_named(tmp_path: Path, text: str, schema: str | None, parts: tuple[str, ...]) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(SourceError) as caught:
        rows_of(sources.csv(tmp_path / "a.csv", schema))
    for part in (str(tmp_path), *parts):
        assert part in str(caught.value)


DIVIDED = parse_schema("k string, day date, n bigint")


def divided(*rows: tuple[str | None, dt.date | None, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(DIVIDED.names, row, strict=True)) for row in rows], schema=DIVIDED)


def test_rows_are_in_directories_by_columns(tmp_path: Path) -> None:
    day = dt.date(2026, 1, 1)
    sink = ParquetSink(tmp_path, rows_per_file=2, partition_by=["k", "day"])
    written(sink, divided(("a/b", day, 1), (None, day, 2), ("", None, 3), ("a/b", day, 4)), divided(("a/b", day, 5)))
    none = "__HIVE_DEFAULT_PARTITION__"
    found = {str(path.relative_to(tmp_path)): pq.read_table(path).to_pydict() for path in tmp_path.rglob("*.parquet")}
    assert found == {
        "k=a%2Fb/day=2026-01-01/part-00000-00000.parquet": {"n": [1, 4]},
        "k=a%2Fb/day=2026-01-01/part-00000-00001.parquet": {"n": [5]},
        f"k={none}/day=2026-01-01/part-00000-00002.parquet": {"n": [2]},
        f"k={none}/day={none}/part-00000-00003.parquet": {"n": [3]},
    }
    with pytest.raises(UserError, match="the output directory is not empty"):
        sink.check(DIVIDED)
    written(ParquetSink(tmp_path, mode="overwrite", partition_by=["k"]), divided(("a", None, 6)))
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["part-00000-00004.parquet"]


def test_many_directories_are_not_all_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "OPEN_FILES_MAX", 3)
    rows = [(f"k{i % 10}", None, i) for i in range(100)]
    written(JsonLinesSink(tmp_path, partition_by=["k"]), *(divided(row) for row in rows))
    lines = [json.loads(line)["n"] for path in tmp_path.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(lines) == list(range(100))


def test_partition_by_names_columns_and_leaves_some() -> None:
    stream = App("app").source("rows", sources.memory([{"k": "a", "n": 1}]))
    with pytest.raises(UserError, match="partition_by names no column: 'day'"):
        stream.sink(sinks.parquet("unused", partition_by="day"))
    with pytest.raises(UserError, match="partition_by names every column"):
        stream.sink(sinks.parquet("unused", partition_by=["k", "n"]))


@pytest.mark.parametrize("kind", [ParquetSink, CsvSink, JsonLinesSink])
@pytest.mark.parametrize("by", [(), ("k",)])
def test_only_complete_checkpoints_are_visible(tmp_path: Path, kind: type[FilesSink], by: tuple[str, ...]) -> None:
    sink = kind(tmp_path, partition_by=by)
    sink.check(DIVIDED)

    def writer(attempt: int) -> Any:
        return sink.checkpointed_writer(DIVIDED, 0, 1, Attempt("0123abcd", 1, attempt))

    def seen() -> list[int]:
        paths = [path for path in tmp_path.rglob("part-*") if path.is_file()]
        tables = [pa.dataset.dataset(p, format=p.suffix[1:].replace("jsonl", "json")).to_table() for p in paths]
        return sorted(n for table in tables for n in table.column("n").to_pylist())

    first = writer(1)
    first.write(divided(("a", None, 1), ("b", None, 2)))
    part = first.seal(1)
    first.check_part(part)
    assert seen() == []
    first.publish(1, part)
    first.publish(1, part)
    assert seen() == [1, 2]
    first.write(divided(("a", None, 3)))
    first.publish(2, first.seal(2))
    first.write(divided(("a", None, 4)))
    second = writer(2)
    second.withdraw(1)
    assert seen() == [1, 2]
    assert [name for _, _, names in os.walk(tmp_path) for name in names if name.startswith("_")] == []
    second.write(divided(("c", None, 5)))
    second.publish(2, second.seal(2))
    assert seen() == [1, 2, 5]
    with pytest.raises(ValueError, match="not names of its files"):
        second.check_part([(hidden, f"../{name}") for hidden, name in part])
