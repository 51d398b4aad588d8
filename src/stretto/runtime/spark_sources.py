"""Any stretto source as a Spark DataFrame: whole for the batch twin, or piece by piece for micro-batches.

A source is read through its readers in both. As a stream it is one sequence of positions, whatever the number of tasks:
a micro-batch takes the next range and divides it among its tasks. So micro-batches have the rows in the source's order,
and Spark's watermark, which follows the greatest time seen in any partition, is safe.

The watermark is computed from a hidden column: the source's own watermark if it has one, otherwise the event time, less
the delay. At the end of a bounded source one more row, with a watermark far in the future, makes Spark close all
windows. A filter that the optimiser cannot move removes the row just after the watermark is read.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from stretto.actors.checking import checked_batch
from stretto.actors.source import GrowingSource, Reading, Source, SourceReader
from stretto.api.memory import canonical_schema, conform
from stretto.api.plan import SourceNode
from stretto.errors import EngineError, SourceError
from stretto.expressions.scalar import quoted
from stretto.protocol.clock import SteadyClock
from stretto.runtime.clock import process_clock
from stretto.runtime.relational import shipped_by_value, spark_schema, wire_schema

ROWS_PER_TRIGGER = 100_000
"""The maximum number of positions of a source in one micro-batch."""

ROWS_PER_READ = 16_384
ROWS_PER_TASK_MIN = 8_192
"""The minimum number of positions of a task."""

IDLE_READS_MAX = 1_000
_IDLE_S = 0.01
_LONG_AFTER_NS = 1 << 62

_WATERMARK = "__stretto_watermark"
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_END_US = 253_370_764_800_000_000  # the year 9999
_AFTER_ALL = "TIMESTAMP'9000-01-01 00:00:00Z'"
# Spark counts a time equal to the watermark as late; for a source's watermark only earlier times are.
_MARGIN_US = 1_000


@dataclass(frozen=True, slots=True)
class _Stamping:
    """The columns that are added to a source's rows on their way into Spark. `given` is the source's own schema."""

    source: str
    given: pa.Schema
    schema: pa.Schema
    stamp: str | None
    time: str | None
    delay_us: int
    earliest_us: int

    @staticmethod
    def of(node: SourceNode, earliest_us: int) -> _Stamping:
        return _Stamping(
            node.name,
            node.source.schema,
            canonical_schema(node.schema),
            node.stamp,
            node.time.column if node.time else None,
            node.delay_us,
            earliest_us,
        )

    @property
    def streamed(self) -> pa.Schema:
        return self.schema.append(pa.field(_WATERMARK, _TIMESTAMP)) if self.time else self.schema

    def rows(self, batch: pa.RecordBatch, stamp_us: int | None = None) -> pa.RecordBatch:
        """Returns the batch in the node's schema, with its ingestion time (by default now) if the node has one."""
        batch = checked_batch(batch, self.given, f"source '{self.source}'", "read")
        if self.stamp is not None:
            now = _times(np.full(batch.num_rows, stamp_us or time.time_ns() // 1000))
            batch = pa.RecordBatch.from_arrays([*batch.columns, now], names=[*batch.schema.names, self.stamp])
        return conform(batch, self.schema)

    def stream_rows(self, batch: pa.RecordBatch, promise_us: int | None, stamp_us: int | None = None) -> pa.RecordBatch:
        """Returns the same with the watermark of each row."""
        rows = self.rows(batch, stamp_us)
        if self.time is None:
            return rows
        times = rows.column(self.time).cast(pa.int64())
        self._refuse_too_early(pc.min(times).as_py())
        if promise_us is not None and self.time != self.stamp:
            times = pa.array(np.full(rows.num_rows, promise_us, np.int64))
        marks = pc.subtract(times, self.delay_us + _MARGIN_US).cast(_TIMESTAMP)
        return pa.RecordBatch.from_arrays([*rows.columns, marks], schema=self.streamed)

    def end_row(self) -> pa.RecordBatch:
        nulls = [pa.nulls(1, field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays([*nulls, _times(np.array([_END_US]))], schema=self.streamed)

    def mark(self) -> Column:
        """Returns the watermark of each row of a DataFrame."""
        times = F.col(quoted(str(self.time)))
        too_early = F.unix_micros(times) < self.earliest_us
        refused = F.raise_error(F.lit(str(self._too_early("a row")))).cast("timestamp")
        return F.when(too_early, refused).otherwise(
            times - F.expr(f"INTERVAL {self.delay_us + _MARGIN_US} MICROSECONDS")
        )

    def _refuse_too_early(self, first_us: int | None) -> None:
        if first_us is not None and first_us < self.earliest_us:
            raise self._too_early(f"{first_us} microseconds after 1970")

    def _too_early(self, when: str) -> SourceError:
        return SourceError(
            f"event time '{self.time}' is too early for micro-batches",
            f"{when} is not after the point where Spark's watermark begins, so Spark would drop it",
            'Run it with engine="actors".',
        )


def batch_frame(spark: SparkSession, node: SourceNode) -> DataFrame:
    """Returns all rows of a bounded source, without its pauses and pacing."""
    source = node.source
    stamping = _Stamping.of(node, 0)
    given = getattr(source, "dataframe", None)
    if given is not None:
        return _stamped_frame(given, node)
    if source.on_driver:
        batches = [stamping.rows(batch) for batch, _ in _read_all(source.reader(0, 1))]
        return _in_memory(spark, batches, stamping.schema)
    partitions = node.parallelism or spark.sparkContext.defaultParallelism
    if isinstance(source, GrowingSource):
        partitions = source.splits()
    wire = wire_schema(stamping.schema)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows, _ in _read_all(source.reader(number, partitions)):
                    yield conform(stamping.rows(rows), wire)

    with shipped_by_value(type(source)):
        return spark.range(0, partitions, 1, partitions).mapInArrow(read, spark_schema(stamping.schema))


def stream_frame(
    spark: SparkSession,
    node: SourceNode,
    partitions: int,
    staging: str,
    rows_per_trigger: int = ROWS_PER_TRIGGER,
    earliest_us: int = 0,
    drain: str | None = None,
) -> DataFrame:
    """Returns the source as a stream with its watermark. Each micro-batch reads it in at most `partitions` tasks. When
    the file `drain` appears, the source ends at its present position. `staging` is an unused path.

    A source that can only be read in the driver, or is a static DataFrame, is first written to the directory `staging`,
    which Spark's executors must be able to read, and is one micro-batch. Rows with an event time before `earliest_us`
    are refused, because Spark would drop them.
    """
    stamping = _Stamping.of(node, earliest_us)
    if is_stream(node):
        frame = _stamped_frame(node.source.dataframe, node)  # type: ignore[attr-defined]
        if node.time is not None:
            frame = frame.withColumn(_WATERMARK, stamping.mark())
    elif is_staged(node):
        frame = _staged(spark, node, stamping, staging)
    else:
        plan = _Planning(node.name, partitions, rows_per_trigger, drain, staging if node.stamp is not None else None)
        frame = _positions_frame(spark, node.source, stamping, plan)
    return _with_watermark(frame) if node.time is not None else frame


def is_stream(node: SourceNode) -> bool:
    """Whether it is a streaming DataFrame, which never ends."""
    return bool(getattr(getattr(node.source, "dataframe", None), "isStreaming", False))


def is_staged(node: SourceNode) -> bool:
    """Whether its rows must be written out before another process can read them."""
    given = getattr(node.source, "dataframe", None)
    return not is_stream(node) and (given is not None or node.source.on_driver)


def _with_watermark(frame: DataFrame) -> DataFrame:
    # Filters of the user could move below the watermark and drop the end row before it is seen, but not past a
    # nondeterministic filter, such as one on the partition.
    without_end = f"({_WATERMARK} < {_AFTER_ALL} OR {_WATERMARK} IS NULL) AND spark_partition_id() >= 0"
    return frame.withWatermark(_WATERMARK, "0 seconds").filter(without_end).drop(_WATERMARK)


def _stamped_frame(frame: DataFrame, node: SourceNode) -> DataFrame:
    if node.stamp is not None:
        frame = frame.withColumn(node.stamp, F.current_timestamp())
    return frame.select(*(F.col(quoted(name)) for name in node.schema.names))


def _in_memory(spark: SparkSession, batches: list[pa.RecordBatch], schema: pa.Schema) -> DataFrame:
    table = pa.Table.from_batches([conform(batch, wire_schema(schema)) for batch in batches], wire_schema(schema))
    return spark.createDataFrame(table, schema=spark_schema(schema))


def _staged(spark: SparkSession, node: SourceNode, stamping: _Stamping, directory: str) -> DataFrame:
    given = getattr(node.source, "dataframe", None)
    if given is not None:
        frame = _stamped_frame(given, node)
        if node.time is not None:
            frame = frame.withColumn(_WATERMARK, stamping.mark())
        # In its own session; the query's session reads the files.
        frame.write.parquet(directory)
    else:
        batches = [stamping.stream_rows(batch, promise) for batch, promise in _read_all(node.source.reader(0, 1))]
        _in_memory(spark, batches, stamping.streamed).write.parquet(directory)
    if node.time is not None:
        _in_memory(spark, [stamping.end_row()], stamping.streamed).write.mode("append").parquet(directory)
    return spark.readStream.schema(spark_schema(stamping.streamed)).parquet(directory)


def _times(values_us: Any) -> pa.Array:
    return pa.array(values_us.astype(np.int64)).cast(_TIMESTAMP)


# Reading


def _read_all(reader: SourceReader) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    try:
        yield from _read_until(reader, None)
    finally:
        reader.close()


def _read_until(reader: SourceReader, end: int | None) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """Yields batches up to a position, or to the end, with the watermark after each. There is no pacing: after the
    first read, from which a reader may count, everything is long due."""
    now_ns, idle = time.time_ns(), 0
    while end is None or reader.position < end:
        before = reader.position
        reading = reader.read(now_ns, ROWS_PER_READ if end is None else min(ROWS_PER_READ, end - before))
        if reading.batch is not None and reading.batch.num_rows:
            yield reading.batch, reading.watermark_us
        if reading.done:
            return
        now_ns = max(now_ns, _LONG_AFTER_NS, reading.next_ns or 0)
        idle = idle + 1 if reader.position == before and reading.next_ns is None else 0
        if idle:
            _wait_a_little(idle, reader)


def _wait_a_little(idle: int, reader: SourceReader) -> None:
    if idle > IDLE_READS_MAX:
        raise SourceError(
            "a source makes no progress",
            f"{type(reader).__name__} at position {reader.position} returns neither rows nor its end",
        )
    time.sleep(_IDLE_S)


# The source as a Python Data Source


@dataclass(frozen=True, slots=True)
class _Planning:
    """How a source is divided into micro-batches. `stamps` is a file in which queries agree on the ingestion times."""

    name: str
    partitions: int
    rows_per_trigger: int
    drain: str | None
    stamps: str | None


def _positions_frame(spark: SparkSession, source: Source, stamping: _Stamping, planning: _Planning) -> DataFrame:
    format_name = f"stretto-{uuid.uuid4().hex}"

    class Positions(DataSource):
        """Defined for each source, because a data source's options can only be text."""

        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> StructType:
            return spark_schema(stamping.streamed)

        def streamReader(self, schema: StructType) -> PositionsReader:
            return PositionsReader(source, stamping, planning)

    with shipped_by_value(type(source)):
        spark.dataSource.register(Positions)
    return spark.readStream.format(format_name).load()


@dataclass
class _Stretch(InputPartition):
    """Positions [start, end) of the source, or its end row."""

    start: int
    end: int
    stamp_us: int
    is_end_row: bool = False

    def __post_init__(self) -> None:
        super().__init__(self.start)


class PositionsReader(DataSourceStreamReader):
    """Offsets name the source, the position, whether it is the end, how many end rows came before it, and when it was
    planned. One copy plans in a process next to the driver, others read in tasks."""

    def __init__(self, source: Source, stamping: _Stamping, planning: _Planning) -> None:
        self._source = source
        self._stamping = stamping
        self._planning = planning
        self._planner: SourceReader | None = None
        self._clock: SteadyClock | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._offset(0, False, 0)

    def _offset(self, position: int, ended: bool, stamp_us: int) -> dict[str, Any]:
        end_rows = 1 if ended and self._stamping.time is not None else 0
        return {
            "source": self._planning.name,
            "position": position,
            "ended": ended,
            "end_rows": end_rows,
            "stamp_us": stamp_us,
        }

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._planning.rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if start["ended"]:
            return start
        first, stamp_us = start["position"], start["stamp_us"]
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._planning.rows_per_trigger
        position, ended = self._ahead(first, rows_max)
        if self._planning.stamps is not None and position > first:
            agreed, stamp_us = _agreed(self._planning.stamps, first, position)
            position, ended = agreed, ended and agreed == position
        return self._offset(position, ended, stamp_us)

    def _ahead(self, start: int, rows_max: int) -> tuple[int, bool]:
        """Returns the position up to which the source can be read now, and whether it ends there."""
        if self._planning.drain is not None and os.path.exists(self._planning.drain):
            return start, True
        if self._planner is None or self._clock is None:
            self._planner, self._clock = self._source.reader(0, 1), process_clock()
        now_ns = self._clock.now_ns()
        available = self._planner.available(now_ns)
        if available is None or available <= start:
            return self._read_ahead(self._planner, start, start + rows_max, now_ns)
        end = min(available, start + rows_max)
        length = self._source.length(0, 1)
        return end, length is not None and end >= length and self._ends_at(end, now_ns)

    def _read_ahead(self, reader: SourceReader, start: int, stop: int, now_ns: int) -> tuple[int, bool]:
        """Returns the same for a source that must be read to know: there may be rows, a wait, or the end. The planner's
        reader never seeks back, because a paced reader counts from where it was put."""
        while reader.position < stop:
            before = reader.position
            reading = reader.read(now_ns, min(ROWS_PER_READ, stop - before))
            if reading.done:
                return max(start, reader.position), True
            if reader.position == before:
                break
        return max(start, reader.position), False

    def _ends_at(self, position: int, now_ns: int) -> bool:
        reader = self._source.reader(0, 1)
        try:
            reader.seek(position)
            reading = reader.read(now_ns, 1)
            return reading.done and not _has_rows(reading)
        finally:
            reader.close()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = start["position"], end["position"]
        tasks = max(1, min(self._planning.partitions, (last - first) // ROWS_PER_TASK_MIN))
        cuts = [first + (last - first) * number // tasks for number in range(tasks + 1)]
        stretches = [_Stretch(one, other, end["stamp_us"]) for one, other in pairwise(cuts) if one < other]
        if end["end_rows"] > start["end_rows"]:
            stretches.append(_Stretch(last, last, end["stamp_us"], is_end_row=True))
        return stretches

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Stretch)
        wire = wire_schema(self._stamping.streamed)
        if partition.is_end_row:
            yield conform(self._stamping.end_row(), wire)
            return
        reader = self._source.reader(0, 1)
        try:
            if partition.start:
                reader.seek(partition.start)
            for batch, promise in _read_until(reader, partition.end):
                yield conform(self._stamping.stream_rows(batch, promise, partition.stamp_us), wire)
            if reader.position < partition.end:
                raise SourceError(
                    "a source is shorter than before", f"it ends at {reader.position}, not {partition.end}"
                )
        finally:
            reader.close()

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


def _agreed(path: str, start: int, end: int) -> tuple[int, int]:
    """Returns the end and the ingestion time of the range after `start`, as recorded by the first query that reached
    it.

    Several sinks are several queries, each of which reads the source separately. All see the same rows with the same
    times, because their planners, which run on the driver's machine, share one file of "end time" lines. A time is
    never before the last one, even if the clock was set back: its rows would be late."""
    noted_us = 0
    with open(path, "a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        for line in file:
            noted_end, noted_us = map(int, line.split())
            if noted_end > start:
                return noted_end, noted_us
        now_us = max(time.time_ns() // 1000, noted_us)
        file.write(f"{end} {now_us}\n")
        return end, now_us


def _has_rows(reading: Reading) -> bool:
    return reading.batch is not None and reading.batch.num_rows > 0


def refuse_stream(node: SourceNode) -> None:
    """Raises for a source that has neither an end nor a form that other processes can read."""
    if node.source.on_driver and getattr(node.source, "dataframe", None) is None and node.source.length(0, 1) is None:
        raise EngineError(
            f"source '{node.name}' can only be read in the driver, and its end is unknown",
            node.source.describe(),
            'Run it with engine="actors".',
        )
