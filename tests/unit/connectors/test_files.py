"""Replay of files: every row once for any number of partitions, exact seeks, pace by the given clock, errors that name
the file and the place in it."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stretto.actors.source import SourceReader
from stretto.errors import SourceError
from stretto.runtime.connectors.files import FileSource
from stretto.runtime.connectors.formats import Skip

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("t", pa.timestamp("us", tz="UTC"))])
S = 1_000_000_000


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"n{i}", "t": START + timedelta(seconds=i)} for i in range(start, start + count)]


def write_parquet(path: Path, data: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(data, SCHEMA), path, row_group_size=7)


def write_arrow(path: Path, data: list[dict[str, Any]]) -> None:
    with pa.ipc.new_file(path, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(data, SCHEMA), max_chunksize=7)


def write_arrow_stream(path: Path, data: list[dict[str, Any]]) -> None:
    with pa.ipc.new_stream(path, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(data, SCHEMA), max_chunksize=7)


def write_jsonl(path: Path, data: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps({**row, "t": row["t"].isoformat()}) + "\n" for row in data))


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".arrows": write_arrow_stream,
    ".jsonl": write_jsonl,
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of JSON-lines and slices of row groups so small that a test crosses many."""
    monkeypatch.setattr("stretto.runtime.connectors.json_lines.BLOCK_BYTES", 200)
    monkeypatch.setattr("stretto.runtime.connectors.formats.BATCH_ROWS", 3)


def drain(reader: SourceReader, max_rows: int = 5) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not (reading := reader.read(0, max_rows)).done:
        assert reading.batch is not None
        assert 0 < reading.batch.num_rows <= max_rows
        found += reading.batch.to_pylist()
        assert reader.position == len(found)
    assert reading.batch is None
    return found


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_every_row_arrives_once(tmp_path: Path, suffix: str, files: int, partitions: int) -> None:
    for number in range(files):
        WRITERS[suffix](tmp_path / f"{number}{suffix}", rows(40 * number, 40))
    source = FileSource(tmp_path, schema=SCHEMA if suffix == ".jsonl" else None)
    source.check()
    source = pickle.loads(pickle.dumps(source))
    assert source.schema == SCHEMA
    parts = [drain(source.reader(partition, partitions)) for partition in range(partitions)]
    assert by_id([row for part in parts for row in part]) == rows(0, 40 * files)
    if suffix == ".parquet":
        assert [len(part) for part in parts] == [
            source.length(partition, partitions) for partition in range(partitions)
        ]


def test_one_large_file_is_shared_by_its_row_groups(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 28))
    source = FileSource(tmp_path / "a.parquet")
    assert [row["id"] for row in drain(source.reader(1, 2))] == [*range(7, 14), *range(21, 28)]
    assert source.reader(1, 2).available(0) == 14
    write_arrow(tmp_path / "a.arrow", rows(0, 28))
    assert [row["id"] for row in drain(FileSource(tmp_path / "a.arrow").reader(3, 4))] == list(range(21, 28))


@pytest.mark.usefixtures("small_blocks")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(suffix=st.sampled_from(sorted(WRITERS)), files=st.integers(1, 3), partitions=st.integers(1, 4), data=st.data())
def test_a_seek_reads_exactly_the_same_rows_again(
    tmp_path: Path, suffix: str, files: int, partitions: int, data: st.DataObject
) -> None:
    directory = tmp_path / f"{files}{suffix}s"
    if not directory.exists():
        directory.mkdir()
        for number in range(files):
            WRITERS[suffix](directory / f"{number}{suffix}", rows(40 * number, 40))
    source = FileSource(directory, schema=SCHEMA)
    partition = data.draw(st.integers(0, partitions - 1))
    reader = source.reader(partition, partitions)
    everything = drain(reader)
    position = data.draw(st.integers(0, len(everything)))
    for again in (reader, source.reader(partition, partitions)):
        again.seek(position)
        assert again.position == position
        found: list[dict[str, Any]] = []
        while (reading := again.read(0, data.draw(st.integers(1, 9)))).batch is not None:
            found += reading.batch.to_pylist()
        assert found == everything[position:]


def test_seek_skips_row_groups_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 28))
    opened: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(self: pq.ParquetFile, *args: Any, **kwargs: Any) -> Any:
        opened.extend(kwargs["row_groups"])
        return iter_batches(self, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    reader = FileSource(tmp_path / "a.parquet").reader(0, 1)
    reader.seek(15)
    assert [row["id"] for row in drain_from(reader)] == list(range(15, 28))
    assert opened == [2, 3]


def drain_from(reader: SourceReader) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while (reading := reader.read(0, 100)).batch is not None:
        found += reading.batch.to_pylist()
    return found


def test_a_file_that_shrank_is_noticed(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", rows(0, 5))
    reader = FileSource(tmp_path / "a.jsonl").reader(0, 1)
    reader.seek(6)
    with pytest.raises(SourceError, match="shorter than when it was first read: 5 rows"):
        reader.read(0, 10)


def test_skip_counts_rows_across_groups() -> None:
    skip = Skip(10)
    assert skip.whole(4)
    assert not skip.whole(7)
    assert skip.part(pa.RecordBatch.from_pylist([{"a": i} for i in range(8)])).to_pylist() == [{"a": 6}, {"a": 7}]
    assert skip.rows == 0


# Pace


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow"])
@pytest.mark.parametrize(("speed", "second_ns"), [(1.0, S), (10, S // 10), (0.5, 2 * S)])
def test_a_row_is_read_when_it_is_due(tmp_path: Path, suffix: str, speed: float, second_ns: int) -> None:
    WRITERS[suffix](tmp_path / f"a{suffix}", rows(100, 30))
    source = FileSource(tmp_path / f"a{suffix}", time="t", speed=speed)
    source.check()
    reader = pickle.loads(pickle.dumps(source)).reader(0, 1)
    start = 1_000 * S
    first = reader.read(start, 100)
    assert first.batch.column("id").to_pylist() == [100]
    assert (first.arrived_ns, first.next_ns) == (start, start + second_ns)
    nothing = reader.read(start + second_ns - 1, 100)
    assert (nothing.batch, nothing.next_ns, nothing.done) == (None, start + second_ns, False)
    some = reader.read(start + 3 * second_ns + 7, 100)
    assert some.batch.column("id").to_pylist() == [101, 102, 103]
    assert (some.arrived_ns, some.next_ns) == (start + 3 * second_ns, start + 4 * second_ns)
    few = reader.read(start + 10**6 * S, 2)
    assert few.batch.column("id").to_pylist() == [104, 105]
    assert few.arrived_ns == start + 5 * second_ns
    while not (last := reader.read(start + 10**6 * S, 100)).done:
        few = last
    assert few.arrived_ns == start + 29 * second_ns
    assert reader.position == 30


def test_partitions_count_from_one_first_time(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(50, 3))
    write_parquet(tmp_path / "b.parquet", rows(10, 3))
    source = FileSource(tmp_path, time="t", speed=1)
    assert source.reader(0, 2).read(0, 10).next_ns == 40 * S
    assert source.reader(1, 2).read(0, 10).next_ns == 1 * S


def test_rows_out_of_order_or_without_a_time_come_with_the_latest_before_them(tmp_path: Path) -> None:
    seconds = [10, 12, 11, None, 5, 13]
    data = [
        {"id": i, "name": "", "t": None if second is None else START + timedelta(seconds=second)}
        for i, second in enumerate(seconds)
    ]
    write_parquet(tmp_path / "a.parquet", data)
    reader = FileSource(tmp_path / "a.parquet", time="t", speed=1).reader(0, 1)
    # The earliest time is 5, so the first row is due after five seconds.
    assert reader.read(0, 10).next_ns == 5 * S
    due = reader.read(7 * S, 10)
    assert due.batch is not None
    assert due.batch.column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert (due.arrived_ns, due.next_ns) == (7 * S, 8 * S)


def test_a_replay_resumes_at_its_position(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 30))
    source = FileSource(tmp_path / "a.parquet", time="t", speed=1)
    fresh = source.reader(0, 1)
    fresh.seek(16)
    reading = fresh.read(500 * S, 10)
    assert reading.batch is not None
    assert reading.batch.column("id").to_pylist() == [16]
    assert reading.next_ns == 501 * S
    # A reader that seeks back keeps its start, so it catches up.
    fresh.seek(14)
    again = fresh.read(502 * S, 10)
    assert again.batch is not None
    assert again.batch.column("id").to_pylist() == [14, 15, 16, 17, 18]


# Schemas


def test_types_become_those_of_the_dataflow(tmp_path: Path) -> None:
    table = pa.table(
        {
            "t": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
            "d": pa.array(["x"]).dictionary_encode(),
            "l": pa.array(["y"], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    source = FileSource(tmp_path / "a.parquet")
    assert source.schema == pa.schema([("t", pa.timestamp("us", tz="UTC")), ("d", pa.string()), ("l", pa.string())])
    assert drain(source.reader(0, 1)) == [
        {"t": datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC), "d": "x", "l": "y"}
    ]


def test_a_given_schema_chooses_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 2))
    source = FileSource(tmp_path / "a.parquet", schema="name string, id bigint")
    source.check()
    assert drain(source.reader(0, 1)) == [{"name": "n0", "id": 0}, {"name": "n1", "id": 1}]


def test_a_schema_is_learned_from_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"a": 1, "b": null, "c": {"d": [1.5]}, "t": "2024-01-01T00:00:00.5Z"}\n'
        '\n  \n{"a": 2, "t": "2024-01-01T00:00:01Z"}'
    )
    source = FileSource(tmp_path, time="t")
    source.check()
    assert source.schema == pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.string()),
            ("c", pa.struct([("d", pa.list_(pa.float64()))])),
            ("t", pa.timestamp("us", tz="UTC")),
        ]
    )
    assert [row["a"] for row in drain(source.reader(0, 1))] == [1, 2]
    assert [row["t"].microsecond for row in drain(source.reader(0, 1))] == [500_000, 0]


def test_json_is_read_by_the_schema_given(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write('{"d": "2024-02-03", "n": 1.25, "more": 1}\n{"n": 7}\n')
    source = FileSource(tmp_path / "a.jsonl.gz", schema="n decimal(10,2), d date, x string")
    source.check()
    found = drain(source.reader(0, 1))
    assert [(str(row["n"]), str(row["d"]), row["x"]) for row in found] == [
        ("1.25", "2024-02-03", None),
        ("7.00", "None", None),
    ]


# Errors


def says(source: FileSource, *texts: object) -> None:
    with pytest.raises(SourceError) as caught:
        source.check()
    for text in texts:
        assert str(text) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    says(FileSource(tmp_path / "none.parquet"), "no such file", tmp_path / "none.parquet")
    says(FileSource(tmp_path), "has no files", tmp_path)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".crc").write_text("")
    says(FileSource(tmp_path), "has no files", tmp_path)
    (tmp_path / "a.xml").write_text("a,b")
    says(FileSource(tmp_path), "unknown suffix", tmp_path / "a.xml", ".parquet", ".jsonl")
    with pytest.raises(SourceError, match="'xml'"):
        FileSource(tmp_path, format="xml")


def test_two_formats_in_a_directory_are_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 1))
    write_jsonl(tmp_path / "b.jsonl", rows(0, 1))
    says(FileSource(tmp_path), "a.parquet is parquet", "b.jsonl is jsonl")


def test_a_partitioned_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    write_parquet(tmp_path / "day=1" / "a.parquet", rows(0, 1))
    says(FileSource(tmp_path), "day=1", "sources.dataframe")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows", ".jsonl.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, suffix: str) -> None:
    if suffix != ".jsonl.gz":
        WRITERS[suffix](tmp_path / f"a{suffix}", rows(0, 3))
    bad = tmp_path / f"b{suffix}"
    bad.write_bytes(b"this is no such file")
    says(FileSource(tmp_path), "cannot read", bad)
    bad.write_bytes(b"")
    if suffix != ".jsonl.gz":
        says(FileSource(tmp_path), "cannot read", bad)


def test_schemas_that_differ_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1], "a": [1]}), tmp_path / "2.parquet")
    FileSource(tmp_path).check()
    for other, text in [
        ({"a": [1]}, "column 'b' is missing"),
        ({"a": ["x"], "b": [1]}, "column 'a' is string"),
        ({"a": [1], "b": [1], "c": [1]}, "column 'c' is only in"),
    ]:
        pq.write_table(pa.table(other), tmp_path / "3.parquet")
        says(FileSource(tmp_path), tmp_path / "1.parquet", tmp_path / "3.parquet", text)
    FileSource(tmp_path, schema="a bigint, b bigint").check()
    says(FileSource(tmp_path, schema="a string"), "1.parquet", "column 'a' is int64", "the schema given")


def test_the_time_column_must_exist_and_be_a_timestamp(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 1))
    says(FileSource(tmp_path, time="when", speed=1), "'when'", "id, name, t")
    says(FileSource(tmp_path, time="id", speed=1), "'id'", "int64")
    with pytest.raises(SourceError, match="needs a time column"):
        FileSource(tmp_path, speed=1)
    with pytest.raises(SourceError, match="must be positive"):
        FileSource(tmp_path, time="t", speed=0)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ('{"id": 7, "name": oops, "t": null}' + " " * 500, ["corrupt JSON", '{"id": 7, "name": oops']),
        ('{"id": 7', ["corrupt JSON", '{"id": 7']),
        ("[1, 2]", ["corrupt JSON", "is not an object: [1, 2]"]),
        ('{"id": 7} {"id": 8}', ["corrupt JSON", '{"id": 7} {"id": 8}']),
        ('{"id": "seven"}', ["wrong type", "column 'id' should be int64", '"seven"']),
        ('{"id": 7.5}', ["wrong type", "column 'id' should be int64", "7.5"]),
        ('{"id": 1, "t": "yesterday"}', ["wrong type", "column 't' should be timestamp", '"yesterday"']),
        ('{"id": 1, "id": 2}', ["wrong type", "column 'id'", "twice"]),
        ('{"name": "\udcff"}', ["corrupt JSON", "is not UTF-8"]),
    ],
)
def test_a_corrupt_line_is_named(tmp_path: Path, line: str, texts: list[str]) -> None:
    write_jsonl(tmp_path / "a.jsonl", rows(0, 40))
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    lines[20:20] = [""]  # A blank line is not a row.
    lines[30:30] = [line]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), "utf-8", errors="surrogateescape")
    source = FileSource(tmp_path, schema=SCHEMA)
    source.check()
    reader = source.reader(0, 1)
    with pytest.raises(SourceError) as caught:
        drain(reader)
    for text in ["row 30 (line 31)", str(tmp_path / "a.jsonl"), *texts]:
        assert text in str(caught.value)
    assert len(str(caught.value)) < 500
    assert 20 <= reader.position < 30


def test_a_corrupt_line_at_the_beginning_is_seen_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\nnope\n')
    says(FileSource(tmp_path), tmp_path / "a.jsonl", "row 2 (line 2)", "nope")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": "x"}\n')
    says(FileSource(tmp_path), tmp_path / "a.jsonl", "row 2", "column 'a' is a string")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"a": "x"}\n')
    says(FileSource(tmp_path), tmp_path / "b.jsonl", "row 1", "column 'a' should be int64")
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.jsonl").write_text("\n")
    says(FileSource(tmp_path), "nothing to learn a schema from", tmp_path)
    says(
        FileSource(tmp_path, schema=pa.schema([("m", pa.map_(pa.string(), pa.int64()))])),
        "cannot be read as map",
        "'m'",
    )


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.runtime.connectors.json_lines.LINE_BYTES_MAX", 1000)
    monkeypatch.setattr("stretto.runtime.connectors.json_lines.BLOCK_BYTES", 100)
    (tmp_path / "a.jsonl").write_text('{"a": "' + "x" * 2000)
    says(FileSource(tmp_path), tmp_path / "a.jsonl", "longer than 1000 bytes")


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, rows(0, 28))
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(2).column(1)
    data = bytearray(path.read_bytes())
    data[column.dictionary_page_offset : column.dictionary_page_offset + column.total_compressed_size] = (
        b"\xff" * column.total_compressed_size
    )
    path.write_bytes(data)
    source = FileSource(path)
    source.check()
    reader = source.reader(0, 1)
    with pytest.raises(SourceError, match="row group 2") as caught:
        drain(reader)
    assert str(path) in str(caught.value)
    assert reader.position == 14


def test_a_truncated_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, rows(0, 28))
    path.write_bytes(path.read_bytes()[:-100])
    says(FileSource(path), path, "footer")


def test_a_truncated_arrow_stream_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    write_arrow_stream(path, rows(0, 28))
    path.write_bytes(path.read_bytes()[:-100])
    source = FileSource(path)
    source.check()
    with pytest.raises(SourceError, match="record batch 3") as caught:
        drain(source.reader(0, 1))
    assert str(path) in str(caught.value)


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", rows(0, 3))
    source = FileSource(tmp_path)
    source.check()
    reader = source.reader(0, 1)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(SourceError, match=r"no such file: .*a\.parquet"):
        reader.read(0, 10)
