"""Rows in memory: every row once for any number of partitions, exact seeks, faults as data."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.source import SourceReader
from stretto.api.memory import CollectSink, MemorySource, NullSink
from stretto.errors import SourceError

ROWS = [{"id": number, "name": f"n{number}"} for number in range(23)]


def drain(reader: SourceReader, max_rows: int = 4, now_ns: int = 0) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        before = reader.position
        reading = reader.read(now_ns, max_rows)
        if reading.batch is not None:
            assert 0 < reading.batch.num_rows == reader.position - before <= max_rows
            rows += reading.batch.to_pylist()
        if reading.done:
            return rows
        assert reading.next_ns is None


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("shape", ["dicts", "table", "batches"])
def test_every_row_arrives_once(partitions: int, shape: str) -> None:
    table = pa.Table.from_pylist(ROWS)
    given_as = {"dicts": ROWS, "table": table, "batches": table.to_batches()}[shape]
    source = MemorySource(given_as, batch_rows=3)
    parts = [drain(source.reader(partition, partitions)) for partition in range(partitions)]
    assert [len(part) for part in parts] == [source.length(partition, partitions) for partition in range(partitions)]
    assert sorted((row for part in parts for row in part), key=lambda row: row["id"]) == ROWS
    assert source.table().to_pylist() == ROWS


def test_batches_are_assigned_round_robin() -> None:
    source = MemorySource(ROWS, batch_rows=2)
    assert [row["id"] for row in drain(source.reader(1, 3))] == [2, 3, 8, 9, 14, 15, 20, 21]


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.data())
def test_a_seek_reads_exactly_the_same_rows_again(
    batch_rows: int, max_rows: int, partitions: int, data: st.DataObject
) -> None:
    source = MemorySource(ROWS, batch_rows=batch_rows)
    partition = data.draw(st.integers(0, partitions - 1))
    reader = source.reader(partition, partitions)
    rows = drain(reader, max_rows)
    position = data.draw(st.integers(0, len(rows)))
    reader.seek(position)
    assert reader.position == position
    assert drain(reader, max_rows) == rows[position:]


def test_seek_past_the_end_is_refused() -> None:
    with pytest.raises(SourceError, match="past its end: position 24, 23 rows"):
        MemorySource(ROWS).reader(0, 1).seek(24)


def test_a_pause_delays_the_next_items() -> None:
    reader = MemorySource([*ROWS[:2], MemorySource.Pause(5), *ROWS[2:3]]).reader(0, 1)
    assert reader.available(100) == 2
    first = reader.read(100, 10)
    assert first.batch is not None
    assert first.batch.num_rows == 2
    assert not first.done
    assert reader.available(100) is None
    early = reader.read(4_000_000, 10)
    assert (early.batch, early.next_ns, early.done) == (None, 5_000_100, False)
    late = reader.read(5_000_100, 10)
    assert late.batch is not None
    assert late.batch.to_pylist() == ROWS[2:3]
    assert late.done


def test_a_failure_raises_when_it_is_reached_and_not_before() -> None:
    reader = MemorySource([ROWS[0], MemorySource.Fail("the disk is gone"), ROWS[1]], batch_rows=1).reader(0, 1)
    assert not reader.read(0, 10).done
    for _ in range(2):
        with pytest.raises(SourceError, match="the disk is gone"):
            reader.read(0, 10)


def test_a_fault_belongs_to_the_partition_of_the_batch_after_it() -> None:
    source = MemorySource([ROWS[0], MemorySource.Fail("boom"), ROWS[1], ROWS[2]], batch_rows=1)
    assert [row["id"] for row in drain(source.reader(0, 2))] == [0, 2]
    with pytest.raises(SourceError, match="boom"):
        drain(source.reader(1, 2))


def test_types_become_those_of_the_dataflow() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5)
    table = pa.table(
        {"t": pa.array([moment], pa.timestamp("ns")), "s": pa.array(["x"], pa.large_string())},
    )
    source = MemorySource(table)
    assert source.schema == pa.schema([("t", pa.timestamp("us", tz="UTC")), ("s", pa.string())])
    assert drain(source.reader(0, 1)) == [{"t": moment.replace(tzinfo=UTC), "s": "x"}]


def test_a_schema_can_be_written_as_in_spark() -> None:
    source = MemorySource([], schema="id bigint, name string, t timestamp")
    assert source.schema == pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("t", pa.timestamp("us", tz="UTC"))],
    )
    reading = source.reader(0, 1).read(0, 10)
    assert reading.batch is None
    assert reading.done


def test_it_can_be_pickled_for_a_worker() -> None:
    source = pickle.loads(pickle.dumps(MemorySource([*ROWS[:3], MemorySource.Pause(0)])))
    assert drain(source.reader(0, 1)) == ROWS[:3]


@pytest.mark.parametrize(
    ("rows", "schema", "says"),
    [
        ([], None, "no schema"),
        ([{"a": 1}, {"a": "x"}], None, "column 'a'"),
        (
            [{"a": 1}, {"a": 1.5}],
            pa.schema([("a", pa.int64())]),
            "row 1, column 'a' should be int64, but is 1.5",
        ),
        (
            [{"a": 1}, {"a": 1}, {"a": "x"}],
            pa.schema([("a", pa.int64())]),
            "row 2, column 'a' should be int64, but is 'x'",
        ),
        ([{"a": 1}, 7], None, "item 1 is a int"),
        (
            [pa.RecordBatch.from_pylist([{"a": 1}]), pa.RecordBatch.from_pylist([{"b": 1}])],
            None,
            r"item 1 has \(b int64\)",
        ),
    ],
)
def test_wrong_rows_are_named(rows: list[Any], schema: pa.Schema | None, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        MemorySource(rows, schema=schema)


def test_collect_keeps_all_and_null_counts_all() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS)
    collect = CollectSink().writer(batch.schema, 0, 1)
    assert collect.table().schema == batch.schema
    null = NullSink().writer(batch.schema, 0, 1)
    for _ in range(2):
        collect.write(batch)
        null.write(batch)
    assert collect.table().to_pylist() == ROWS * 2
    assert null.rows == 46
    assert CollectSink.on_driver
    assert not NullSink.on_driver
