"""Sinks with effects outside: the content of the directory at each step, and what is refused before the start."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from stretto.errors import InvariantError, UserError
from stretto.runtime.connectors.files import FileSource
from stretto.runtime.connectors.sinks import CallbackSink, ConsoleSink, ParquetSink

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batch(start: int, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": start + i, "name": f"n{start + i}"} for i in range(rows)], schema=SCHEMA)


def visible(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not name.startswith(("_", ".")))


def ids(directory: Path) -> list[int]:
    return sorted(i for name in visible(directory) for i in pq.read_table(directory / name).column("id").to_pylist())


def written(sink: ParquetSink, partition: int, partitions: int, *batches: pa.RecordBatch) -> None:
    writer = sink.writer(SCHEMA, partition, partitions)
    for one in batches:
        writer.write(one)
    writer.finish()
    writer.close()


def test_a_file_is_visible_only_when_it_is_complete(tmp_path: Path) -> None:
    writer = ParquetSink(tmp_path / "out", rows_per_file=10).writer(SCHEMA, 3, 5)
    writer.write(batch(0, 7))
    assert visible(tmp_path / "out") == []
    writer.write(batch(7, 20))
    assert visible(tmp_path / "out") == ["part-00003-00000.parquet", "part-00003-00001.parquet"]
    assert ids(tmp_path / "out") == list(range(20))
    writer.finish()
    writer.close()
    assert ids(tmp_path / "out") == list(range(27))
    assert [pq.read_metadata(tmp_path / "out" / name).num_rows for name in visible(tmp_path / "out")] == [10, 10, 7]
    assert len(os.listdir(tmp_path / "out")) == 3


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    written(ParquetSink(tmp_path), 0, 1, *(batch(i, 1) for i in range(100)))
    assert pq.read_metadata(tmp_path / "part-00000-00000.parquet").num_row_groups == 1


def test_a_failure_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.runtime.connectors.part_files.ROWS_PER_GROUP", 2)
    writer = ParquetSink(tmp_path, rows_per_file=10).writer(SCHEMA, 0, 1)
    writer.write(batch(0, 10))
    writer.write(batch(10, 5))
    assert len(os.listdir(tmp_path)) == 2
    writer.close()
    assert os.listdir(tmp_path) == ["part-00000-00000.parquet"]


def test_an_empty_result_still_has_its_schema(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    for partition in range(3):
        written(sink, partition, 3)
    assert visible(tmp_path) == ["part-00000-00000.parquet"]
    assert pq.read_table(tmp_path / "part-00000-00000.parquet").schema.equals(SCHEMA)


def test_written_files_can_be_replayed(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    written(sink, 0, 2, batch(0, 5))
    written(sink, 1, 2, batch(5, 5))
    source = FileSource(tmp_path)
    source.check()
    assert source.schema == SCHEMA
    assert [source.length(partition, 2) for partition in range(2)] == [5, 5]


def test_a_directory_with_files_is_refused_unless_the_mode_says_otherwise(tmp_path: Path) -> None:
    written(ParquetSink(tmp_path), 0, 1, batch(0, 3))
    with pytest.raises(UserError, match="not empty") as caught:
        ParquetSink(tmp_path).check(SCHEMA)
    assert str(tmp_path) in str(caught.value)
    assert "part-00000-00000.parquet" in str(caught.value)

    append = ParquetSink(tmp_path, mode="append")
    append.check(SCHEMA)
    written(append, 0, 1, batch(3, 3))
    assert visible(tmp_path) == ["part-00000-00000.parquet", "part-00000-00001.parquet"]
    assert ids(tmp_path) == list(range(6))


def test_overwrite_removes_earlier_files_and_nothing_else(tmp_path: Path) -> None:
    for partition in range(4):
        written(ParquetSink(tmp_path, mode="append"), partition, 4, batch(100 * partition, 3))
    sink = ParquetSink(tmp_path, mode="overwrite")
    with pytest.raises(InvariantError):
        sink.writer(SCHEMA, 0, 2)
    sink.check(SCHEMA)
    assert len(visible(tmp_path)) == 4
    written(sink, 0, 2, batch(0, 3))
    written(sink, 1, 2, batch(3, 3))
    assert ids(tmp_path) == list(range(6))
    # A worker that restarts opens the same sink; files that others have published must stay.
    written(sink, 0, 2, batch(6, 3))
    assert ids(tmp_path) == list(range(9))


def test_overwrite_does_not_touch_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        ParquetSink(tmp_path, mode="overwrite").check(SCHEMA)


def test_a_leftover_of_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "_part-00000-00000.parquet.123").write_bytes(b"half")
    ParquetSink(tmp_path).check(SCHEMA)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made: .*/file/out: .*/file is a file"):
        ParquetSink(tmp_path / "file" / "out").check(SCHEMA)
    with pytest.raises(UserError, match=r"cannot be written: .*/file/out"):
        ParquetSink(tmp_path / "file" / "out").writer(SCHEMA, 0, 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UserError, match=f"cannot be written: {tmp_path}/new: no permission to write in {tmp_path}"):
        ParquetSink(tmp_path / "new").check(SCHEMA)
    assert not (tmp_path / "new").exists()


def test_columns_that_parquet_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Parquet cannot hold"):
        ParquetSink(tmp_path).check(pa.schema([("gap", pa.month_day_nano_interval())]))


def test_bad_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'replace'"):
        ParquetSink(tmp_path, mode="replace")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1"):
        ConsoleSink(0)
    with pytest.raises(UserError, match="'rows'"):
        CallbackSink(print, per="rows")  # type: ignore[arg-type]


def test_the_console_shows_a_table_up_to_its_limit() -> None:
    out = io.StringIO()
    writer = ConsoleSink(2, Console(file=out, width=60)).writer(SCHEMA, 0, 1)
    writer.write(
        pa.RecordBatch.from_pylist([{"id": 1, "name": "[red]a"}, {"id": None, "name": "b"}, {"id": 3}], schema=SCHEMA)
    )
    writer.write(batch(0, 0))
    text = out.getvalue()
    assert "id" in text
    assert "[red]a" in text
    assert "and 1 more rows" in text
    assert "3" not in text


def test_callbacks_get_batches_or_rows_and_their_errors_are_raised() -> None:
    seen: list[Any] = []
    CallbackSink(seen.append).writer(SCHEMA, 0, 1).write(batch(0, 2))
    CallbackSink(seen.append, per="row").writer(SCHEMA, 0, 1).write(batch(5, 2))
    assert seen == [batch(0, 2), {"id": 5, "name": "n5"}, {"id": 6, "name": "n6"}]

    def broken(_: object) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        CallbackSink(broken).writer(SCHEMA, 0, 1).write(batch(0, 1))
    assert "broken" in CallbackSink(broken).describe()
