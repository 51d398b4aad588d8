"""Epochs as Spark reads them: planned from offsets alone, replayed as they were, each row once for every query."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from stretto.actors.address import Attempt
from stretto.errors import SourceError, UserError
from stretto.runtime.connectors.epochs import EpochSink, EpochWriter
from stretto.runtime.epoch_stream import EpochReader, EpochStream
from stretto.runtime.relational import wire_schema

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([list(numbers), list(numbers)], schema=SCHEMA)


def writer(directory: Path, partition: int = 0, attempt: int = 1) -> EpochWriter:
    return EpochSink(directory).checkpointed_writer(SCHEMA, partition, 2, Attempt("0123abcd", 1, attempt))


def published(by: EpochWriter, epoch: int, *numbers: int) -> Any:
    by.write(rows(*numbers))
    part = by.seal(epoch)
    by.check_part(part)
    by.publish(epoch, part)
    return part


def plan(reader: EpochReader, start: dict[str, int]) -> dict[str, int]:
    return json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))


def read(reader: EpochReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert all(batch.schema == wire_schema(SCHEMA) for batch in batches)
    return [number for batch in batches for number in batch.column(0).to_pylist()]


@pytest.mark.parametrize("seed", range(10))
def test_a_query_that_stops_anywhere_has_every_row_once(seed: int, tmp_path: Path) -> None:
    """Spark's own rule: an offset is planned and noted, the batch is run, then it is committed; a query that starts
    again runs a batch that was planned and not committed once more, with the same offsets."""
    chance = random.Random(seed)
    writers = [writer(tmp_path, 0), writer(tmp_path, 1)]
    written: list[int] = []
    parts: list[tuple[int, int, Any]] = []
    committed: dict[str, int] = {}
    planned: dict[str, int] | None = None
    batch, output = 0, dict[int, list[int]]()
    for step in range(1, 120):
        event = chance.random()
        if event < 0.4:
            place = chance.randrange(2)
            written += [2 * step, 2 * step + 1]
            parts.append((place, step, published(writers[place], step, 2 * step, 2 * step + 1)))
        elif event < 0.5 and parts:
            place, epoch, part = chance.choice(parts)
            writer(tmp_path, place, attempt=2).publish(epoch, part)
        elif event < 0.7:
            reader = EpochReader(tmp_path)
            planned = planned or plan(reader, committed)
            output[batch] = read(reader, committed, planned)
        elif planned is not None:
            batch, committed, planned = batch + 1, planned, None
    reader = EpochReader(tmp_path)
    for _ in range(2):
        end = planned or plan(reader, committed)
        output[batch] = read(reader, committed, end)
        batch, committed, planned = batch + 1, end, None
    assert sorted(number for numbers in output.values() for number in numbers) == written


def test_rows_of_a_line_are_in_their_order_and_an_empty_epoch_has_no_file(tmp_path: Path) -> None:
    first = writer(tmp_path)
    published(first, 3, 1, 2)
    assert first.seal(4) is None
    published(first, 11, 3)
    reader = EpochReader(tmp_path)
    assert plan(reader, {}) == {"00000-0123abcd": 11}
    assert read(reader, {}, {"00000-0123abcd": 11}) == [1, 2, 3]
    assert read(reader, {"00000-0123abcd": 3}, {"00000-0123abcd": 11}) == [3]
    assert reader.initialOffset() == {}
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)


def test_what_is_available_now_is_what_was_there_at_the_beginning(tmp_path: Path) -> None:
    first = writer(tmp_path)
    published(first, 1, 1)
    reader = EpochReader(tmp_path)
    reader.prepareForTriggerAvailableNow()
    published(first, 2, 2)
    assert plan(reader, {}) == {"00000-0123abcd": 1}
    assert plan(reader, {"00000-0123abcd": 2}) == {"00000-0123abcd": 2}, "what an earlier run had planned stays"
    assert plan(EpochReader(tmp_path), {}) == {"00000-0123abcd": 2}


def test_an_epoch_that_is_gone_is_an_error(tmp_path: Path) -> None:
    published(writer(tmp_path), 1, 1)
    reader = EpochReader(tmp_path)
    end = plan(reader, {})
    next(tmp_path.glob("*.parquet")).unlink()
    with pytest.raises(SourceError, match="epoch 1 of 00000-0123abcd is gone"):
        reader.partitions({}, end)


def test_what_is_in_the_way_or_missing_is_named(tmp_path: Path) -> None:
    sink = EpochSink(tmp_path / "out")
    sink.check(SCHEMA)
    sink.check_fresh()
    with pytest.raises(SourceError, match="there are no epochs in"):
        EpochStream({"sink": str(tmp_path / "out")}).schema()
    published(writer(tmp_path / "out"), 1, 1)
    with pytest.raises(UserError, match="the output directory is not empty"):
        sink.check_fresh()
    with pytest.raises(UserError, match="a sink of epochs needs checkpoints"):
        sink.writer(SCHEMA, 0, 1)
    with pytest.raises(SourceError, match="needs the directory of a sink"):
        EpochStream({}).schema()
    with pytest.raises(SourceError, match="the directory of a sink is not absolute: out"):
        EpochStream({"sink": "out"}).schema()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="it is a file"):
        EpochSink(tmp_path / "file").check(SCHEMA)
    with pytest.raises(ValueError, match="there is no partition -1"):
        writer(tmp_path).check_part([-1, pa.Table.from_batches([rows(1)])])
