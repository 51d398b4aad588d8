"""A watched directory: files are read as they appear, each row once with any partitions, and again after a seek."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stretto import sources
from stretto.actors.source import SourceReader
from stretto.errors import SourceError, UserError
from stretto.runtime.connectors.watched import LAST_FILE, SETTLED_NS, WatchedFiles

SCHEMA = pa.schema([("id", pa.int64())])


def put(directory: Path, name: str, ids: range) -> None:
    """Write a file that appears only when it is complete."""
    hidden = directory / f".{name}"
    pq.write_table(pa.table({"id": list(ids)}, SCHEMA), hidden, row_group_size=5)
    hidden.rename(directory / name)


def read_all(reader: SourceReader, now_ns: int = 0, rows: int = 4) -> list[int]:
    """Returns the rows that can be read now."""
    ids: list[int] = []
    while (reading := reader.read(now_ns, rows)).batch is not None:
        assert reading.batch.num_rows <= rows
        ids += reading.batch.column("id").to_pylist()
    return ids


def test_files_are_read_as_they_appear(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema="id long").reader(0, 1)
    assert read_all(reader) == []
    put(tmp_path, "000.parquet", range(7))
    assert read_all(reader) == list(range(7))
    put(tmp_path, "001.parquet", range(7, 9))
    put(tmp_path, "002.parquet", range(9, 12))
    assert read_all(reader) == list(range(7, 12))
    assert reader.position == 12


def test_it_asks_to_be_polled_until_the_last_file_is_marked(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA, poll="3 ms").reader(0, 1)
    waiting = reader.read(1_000, 10)
    assert not waiting.done
    assert waiting.next_ns == 1_000 + 3_000_000
    put(tmp_path, "000.parquet", range(3))
    (tmp_path / LAST_FILE).touch()
    assert read_all(reader) == [0, 1, 2]
    assert reader.read(0, 10).done


def test_a_file_that_appears_within_the_same_tick_of_the_file_system_is_seen(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA).reader(0, 1)
    put(tmp_path, "000.parquet", range(2))
    changed_ns = tmp_path.stat().st_mtime_ns
    now_ns = changed_ns + 600 * 10**9  # The clock of the file system may have been set back since the reader began.
    assert read_all(reader, now_ns) == [0, 1]
    put(tmp_path, "001.parquet", range(2, 4))
    os.utime(tmp_path, ns=(changed_ns, changed_ns))
    assert read_all(reader, now_ns + 1) == [2, 3]


def test_a_directory_that_has_not_changed_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA).reader(0, 1)
    put(tmp_path, "000.parquet", range(2))
    assert read_all(reader, 0) == [0, 1]
    later_ns = SETTLED_NS + 1
    assert read_all(reader, later_ns) == []
    listings: list[object] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listings.append(path) or scandir(path))
    assert read_all(reader, later_ns + 1) == []
    assert listings == []
    put(tmp_path, "001.parquet", range(2, 3))
    assert read_all(reader, later_ns + 2) == [2]
    assert listings


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(sizes=st.lists(st.integers(0, 9), max_size=9), partitions=st.integers(1, 4), seek=st.integers(0, 30))
def test_every_row_is_read_once_and_again_after_a_seek(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], partitions: int, seek: int
) -> None:
    directory = tmp_path_factory.mktemp("watched")
    first = 0
    for number, size in enumerate(sizes):
        put(directory, f"part-{number:03d}.parquet", range(first, first + size))
        first += size
    (directory / LAST_FILE).touch()
    source = WatchedFiles(directory, schema=SCHEMA)
    seen: list[int] = []
    for partition in range(partitions):
        reader = source.reader(partition, partitions)
        ids = read_all(reader)
        assert ids == sorted(ids)
        seen += ids
        reader.seek(min(seek, len(ids)))
        assert read_all(reader) == ids[seek:]
        assert reader.read(0, 1).done
    assert sorted(seen) == list(range(first))


def test_neighbours_go_to_different_partitions(tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path, f"{number:04d}.parquet", range(number, number + 1))
    source = sources.watch(tmp_path)
    assert [read_all(source.reader(partition, 2)) for partition in (0, 1)] == [[0, 2, 4], [1, 3, 5]]


def test_names_without_a_number_go_to_one_partition_each(tmp_path: Path) -> None:
    names = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    for number, name in enumerate(names):
        put(tmp_path, name, range(number, number + 1))
    source = sources.watch(tmp_path)
    dealt = [read_all(source.reader(partition, 3)) for partition in range(3)]
    assert sorted(id for ids in dealt for id in ids) == [0, 1, 2, 3]


def test_a_file_out_of_order_is_refused(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA).reader(0, 1)
    put(tmp_path, "005.parquet", range(2))
    assert read_all(reader) == [0, 1]
    put(tmp_path, "003.parquet", range(2))
    with pytest.raises(SourceError, match="out of order") as caught:
        read_all(reader)
    assert "005.parquet" in str(caught.value)


def test_files_may_be_removed_after_they_were_read(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA).reader(0, 1)
    put(tmp_path, "001.parquet", range(2))
    assert read_all(reader) == [0, 1]
    (tmp_path / "001.parquet").unlink()
    put(tmp_path, "002.parquet", range(2, 4))
    assert read_all(reader) == [2, 3]


def test_errors_are_raised_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nothing to learn a schema from"):
        sources.watch(tmp_path).check()
    with pytest.raises(SourceError, match="cannot list"):
        sources.watch(tmp_path / "missing", schema=SCHEMA).check()
    with pytest.raises(SourceError, match="unknown file format"):
        sources.watch(tmp_path, format="xml")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="poll interval"):
        sources.watch(tmp_path, schema=SCHEMA, poll=0)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    reader = sources.watch(tmp_path, schema=SCHEMA).reader(0, 1)
    (tmp_path / "001.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(SourceError, match=r"001\.parquet"):
        read_all(reader)
