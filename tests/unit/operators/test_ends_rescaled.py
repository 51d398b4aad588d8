"""Sources and sinks that resume with another number of partitions: each row once, after any number of changes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.actors.sink import Sink, SinkWriter
from stretto.api.memory import MemorySource
from stretto.operators.ends import SinkFunction, SourceFunction
from stretto.operators.windows import EventTime
from stretto.runtime.connectors.sinks import ParquetSink

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


def table(first: int, rows: int) -> pa.Table:
    return pa.table([list(range(first, first + rows)), list(range(first, first + rows))], schema=SCHEMA)


def context(partition: int, parallelism: int, splits: int) -> Context:
    ctx = Context("job", "f", partition, parallelism, {"out": SCHEMA})
    ctx.splits, ctx.attempt = splits, Attempt("0123abcd", 1, 1)
    return ctx


def sources(parallelism: int, splits: int) -> list[SourceFunction]:
    source = MemorySource(table(0, 400), batch_rows=7)
    made = [SourceFunction(source, EventTime("t"), 0, None, 1, 5, 0, SCHEMA) for _ in range(parallelism)]
    for partition, function in enumerate(made):
        function.open(context(partition, parallelism, splits))
    return made


@pytest.mark.parametrize("seed", range(10))
def test_a_source_reads_each_row_once_and_its_watermark_is_of_its_least_part(seed: int) -> None:
    chance = random.Random(seed)
    splits = chance.choice((1, 3, 4))
    found: list[int] = []
    functions = sources(splits, splits)
    done = [False] * splits
    while not all(done):
        place = chance.choice([place for place, is_done in enumerate(done) if not is_done])
        promised = functions[place].due_watermark()
        reading = functions[place].read(0)
        rows = [] if reading.batch is None else reading.batch.column(0).to_pylist()
        assert promised is None or not rows or promised <= min(rows)
        found += rows
        done[place] = reading.done
        if chance.random() < 0.1:
            had = len(functions)
            # Partitions that have finished are in no checkpoint.
            remembered = {q: each.remember() for q, each in enumerate(functions) if not done[q]}
            functions = sources(chance.randint(1, 5), splits)
            done = [partition >= splits for partition in range(len(functions))]
            for partition, function in enumerate(functions):
                follows = {split % had for split in range(partition, splits, len(functions))}
                mine = {q: each for q, each in remembered.items() if q in follows}
                function.recall(function.regroup(mine, 1))
                done[partition] = done[partition] or not mine
    assert sorted(found) == list(range(400))


def test_a_part_that_waits_does_not_keep_the_others_from_being_read() -> None:
    batches = [MemorySource.Pause(5.0), *table(0, 2).to_batches(), *table(2, 2).to_batches()]
    function = SourceFunction(MemorySource(batches), EventTime("t"), 0, None, 1, 10, 0, SCHEMA)
    function.open(context(0, 1, 2))
    reading = function.read(0)
    assert reading.batch is not None
    assert reading.batch.column(0).to_pylist() == [2, 3]
    assert not reading.done
    assert function.due_watermark() is None  # The other split has no watermark yet.
    waiting = function.read(0)
    assert waiting.batch is None
    assert waiting.next_ns == 5_000_000
    last = function.read(5_000_000)
    assert last.done
    assert last.batch is not None


class Written(Sink):
    """A sink without support for checkpoints."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        rows = self.rows

        class Writer(SinkWriter):
            def write(self, batch: pa.RecordBatch) -> None:
                rows.extend(batch.column(0).to_pylist())

        return Writer()


def opened(sink: Sink, parallelism: int) -> list[SinkFunction]:
    made = [SinkFunction(sink, SCHEMA) for _ in range(parallelism)]
    for partition, function in enumerate(made):
        function.open(context(partition, parallelism, parallelism))
    return made


def go_on(functions: list[SinkFunction], others: list[SinkFunction], remembered: list[Any], checkpoint: int) -> None:
    for partition, function in enumerate(others):
        mine = {q: remembered[q] for q in range(partition, len(functions), len(others))}
        function.recall(function.regroup(mine, checkpoint))
        function.publish(checkpoint)


@pytest.mark.parametrize("kind", ["plain", "parquet"])
@pytest.mark.parametrize("seed", range(5))
def test_a_sink_publishes_each_row_once(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rows: list[int] = []
    sink = Written(rows) if kind == "plain" else ParquetSink(tmp_path / "out")
    sink.check(SCHEMA)
    functions, given, checkpoint = opened(sink, 3), 0, 0
    for _ in range(12):
        for function in functions:
            ctx = context(0, len(functions), 1)
            function.process(table(given, 4).combine_chunks().to_batches()[0], ctx)
            given += 4
        checkpoint += 1
        for function in functions:
            function.seal(checkpoint)
        remembered = [function.remember() for function in functions]
        if chance.random() < 0.5:
            for function in functions:
                function.publish(checkpoint)
        else:  # The manifest is written, and nothing is published yet.
            others = opened(sink, chance.randint(1, 5))
            go_on(functions, others, remembered, checkpoint)
            functions = others
    for function in functions:
        function.publish(checkpoint)
        function.close()
    found = rows if kind == "plain" else pq.read_table(tmp_path / "out").column(0).to_pylist()
    assert Counter(found) == Counter(range(given))


def test_output_published_after_a_savepoint_is_withdrawn_by_any_writer(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    sink.check(SCHEMA)
    two = opened(sink, 2)
    for place, function in enumerate(two):
        function.process(table(place, 1).to_batches()[0], context(place, 2, 1))
        function.seal(1)
    saved = [function.remember() for function in two]
    five = opened(sink, 5)
    go_on(two, five, saved, 1)
    for place, function in enumerate(five):
        function.process(table(10 + place, 1).to_batches()[0], context(place, 5, 1))
        function.seal(2)
        function.publish(2)
    assert pq.read_table(tmp_path / "out").num_rows == 7
    again = opened(sink, 2)  # From the savepoint again.
    for partition, function in enumerate(again):
        function.recall(saved[partition])
        function.publish(1)
    assert sorted(pq.read_table(tmp_path / "out").column(0).to_pylist()) == [0, 1]
