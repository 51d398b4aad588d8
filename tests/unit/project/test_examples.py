"""The examples of a source and a sink of one's own, without Spark: replay, and publishing twice."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples.own_sink import SqliteSink
from examples.own_source import Thermometers

from stretto import SourceReader
from stretto.actors.address import Attempt

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def read_all(reader: SourceReader, rows_at_once: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        reading = reader.read(0, rows_at_once)
        rows += reading.batch.to_pylist() if reading.batch is not None else []
        if reading.done:
            return rows


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_the_source_reads_the_same_rows_from_any_position(partitions: int) -> None:
    source = Thermometers(sensors=5, rounds=11)
    total = 0
    for partition in range(partitions):
        rows = read_all(source.reader(partition, partitions), 4)
        assert len(rows) == source.length(partition, partitions)
        total += len(rows)
        for position in range(len(rows)):
            reader = source.reader(partition, partitions)
            reader.seek(position)
            assert read_all(reader, 3) == rows[position:]
    assert total == 55


def test_the_sink_publishes_what_is_sealed_and_twice_is_once(tmp_path: Path) -> None:
    sink = SqliteSink(str(tmp_path / "out.db"), "totals", "k")
    sink.check(SCHEMA)
    writer = sink.checkpointed_writer(SCHEMA, 0, 1, Attempt("0123abcd", 1, 1))
    writer.write(pa.record_batch([[1, 2], [10, 20]], SCHEMA))
    first = writer.seal(1)
    writer.write(pa.record_batch([[1], [11]], SCHEMA))
    second = writer.seal(2)
    writer.check_part(second)

    def rows() -> list[Any]:
        with sqlite3.connect(tmp_path / "out.db") as connection:
            return connection.execute("SELECT * FROM totals ORDER BY k").fetchall()

    assert rows() == []
    for checkpoint, part in ((1, first), (1, first), (2, second), (2, second)):
        writer.publish(checkpoint, part)
    assert rows() == [(1, 11), (2, 20)]
    assert writer.seal(3) is None
    writer.close()
