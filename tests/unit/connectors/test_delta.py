"""Rows in a Delta table once, whoever commits them: against real tables, with processes that were replaced."""

from __future__ import annotations

import builtins
import random
import threading
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from stretto import App, sinks
from stretto.actors.address import Attempt
from stretto.errors import SourceError, StorageError, UserError
from stretto.runtime.connectors import delta
from stretto.runtime.connectors.delta import DeltaSink, DeltaWriter

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string())])


def table(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers), "k": [str(number % 2) for number in numbers]}, schema=SCHEMA)


def writer(path: Path, partition: int = 0, attempt: int = 1) -> DeltaWriter:
    sink = DeltaSink(path / "table").within("out")
    return sink.checkpointed_writer(SCHEMA, partition, 2, Attempt("0123abcd", 1, attempt))


def found(path: Path) -> list[int]:
    rows = pa.table(deltalake.DeltaTable(path / "table").to_pyarrow_table())
    return sorted(rows["n"].to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_in_once_whoever_commits_them(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls fail before or after they took effect, and parts are published again by others."""
    chance = random.Random(seed)
    real = deltalake.write_deltalake

    def at_times(*arguments: Any, **named: Any) -> None:
        if chance.random() < 0.3:
            raise OSError("no answer")
        real(*arguments, **named)
        if chance.random() < 0.3:
            raise OSError("no answer")

    monkeypatch.setattr(deltalake, "write_deltalake", at_times)
    monkeypatch.setattr(delta, "RETRY_S", 0.0)
    for checkpoint in range(1, 6):
        for partition in (0, 1):
            number = 10 * checkpoint + partition
            for attempt in range(1, 3):
                writer(tmp_path, partition, attempt).publish_outside(partition, checkpoint, table(number))
        earlier = chance.randint(1, checkpoint)
        writer(tmp_path, 0).publish_outside(0, earlier, table(10 * earlier))
    assert found(tmp_path) == sorted(10 * checkpoint + each for checkpoint in range(1, 6) for each in (0, 1))


def test_two_at_the_same_time_write_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen the table without the rows when they write them."""
    writer(tmp_path).publish_outside(0, 1, table(1))
    real, both = deltalake.write_deltalake, threading.Barrier(2)

    def together(*arguments: Any, **named: Any) -> None:
        if not both.broken and len(waited) < 2:
            waited.append(1)
            both.wait(600)
        real(*arguments, **named)

    waited: list[int] = []
    monkeypatch.setattr(deltalake, "write_deltalake", together)
    monkeypatch.setattr(delta, "RETRY_S", 0.0)
    threads = [threading.Thread(target=writer(tmp_path).publish_outside, args=(0, 2, table(2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert found(tmp_path) == [1, 2]


def test_a_writer_seals_and_publishes_in_the_background(tmp_path: Path) -> None:
    by = writer(tmp_path)
    by.write(table(1, 2).to_batches()[0])
    part = by.seal(1)
    by.check_part(part)
    assert part is not None
    while not by.publishes(1, part):
        pass
    by.close()
    assert found(tmp_path) == [1, 2]


def test_a_table_that_does_not_fit_is_named(tmp_path: Path) -> None:
    writer(tmp_path).publish_outside(0, 1, table(1))
    sink = sinks.delta(tmp_path / "table")
    sink.check(SCHEMA)
    with pytest.raises(UserError, match="has other columns"):
        sink.check(pa.schema([("m", pa.int64())]))
    other = DeltaWriter(sink, pa.schema([("m", pa.int64())]), 0, "x")
    with pytest.raises(StorageError, match="does not take the rows of checkpoint 1"):
        other.publish_outside(0, 1, pa.table({"m": [1]}))
    with pytest.raises(UserError, match="there is no column 'z' to partition by"):
        sinks.delta(tmp_path / "other", partition_by="z").check(SCHEMA)
    with pytest.raises(UserError, match="a Delta sink needs checkpoints"):
        sink.writer(SCHEMA, 0, 1)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "deltalake":
            raise ImportError("No module named 'deltalake'")
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r'pip install "stretto\[delta\]"'):
        delta.library()


def test_a_delta_table_is_read_as_its_newest_version_and_not_as_its_files(tmp_path: Path) -> None:
    place = tmp_path / "items"
    app = App("app")
    deltalake.write_deltalake(place, table(1, 2))
    deltalake.write_deltalake(place, table(7, 8, 9), mode="overwrite")
    assert len(list(place.glob("*.parquet"))) == 2
    declared = app.table("items", place, refresh="1 minute")
    assert sorted(declared.data["n"].to_pylist()) == [7, 8, 9]
    deltalake.DeltaTable(place).delete("n = 8")
    assert declared.refresh is not None
    assert sorted(declared.refresh.reader.read()["n"].to_pylist()) == [7, 9]


def test_a_delta_table_that_is_broken_is_named(tmp_path: Path) -> None:
    place = tmp_path / "items"
    deltalake.write_deltalake(place, table(1, 2))
    next(place.glob("*.parquet")).unlink()
    with pytest.raises(SourceError, match="Delta table 'items' cannot be read"):
        App("app").table("items", place)
