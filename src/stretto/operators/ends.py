"""The functions at the two ends of a dataflow: one reads a source, one writes a sink."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from stretto.actors.checking import checked_batch
from stretto.actors.context import Context
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US, Function
from stretto.actors.sink import BackgroundWriter, CheckpointedWriter, Sink, SinkWriter
from stretto.actors.snapshot import Int64
from stretto.actors.source import Reading, Source, SourceReader
from stretto.errors import FunctionError
from stretto.operators.stream_time import EARLIEST_US, LATEST_US, MAX_JUMP_US, StreamTime, bounds_us, check_range
from stretto.operators.windows import EventTime
from stretto.rendering import shown
from stretto.state import State
from stretto.state.schemas import check_rows

_Position = tuple[int, Annotated[int, msgspec.Meta(ge=0)], Int64, Int64 | None, tuple[Int64 | None, list[Int64]]]
"""Of a split: its number, how far it was read, its watermark and its progress, and how far its event time has come."""
Positions = tuple[int | None, list[_Position]]


class Split:
    """One split of a source's input: its reader, its watermark and its progress. `time` is how far its rows have
    come."""

    __slots__ = ("number", "progress_us", "reader", "time", "watermark_us")

    def __init__(self, number: int, reader: SourceReader, max_jump_us: int | None) -> None:
        self.number = number
        self.reader = reader
        self.time = StreamTime(max_jump_us)
        self.watermark_us = EVENT_TIME_MIN_US
        self.progress_us: int | None = None

    def advance(self, watermark_us: int, progress_us: int) -> None:
        self.watermark_us = max(self.watermark_us, watermark_us)
        self.progress_us = progress_us

    def remember(self) -> list[Any]:
        return [self.number, self.reader.position, self.watermark_us, self.progress_us, self.time.remember()]

    def recall(self, remembered: _Position) -> None:
        _, position, self.watermark_us, self.progress_us, time = remembered
        self.time.recall(time)
        self.reader.seek(position)


class SourceFunction(Function):
    """Reads one partition of a source and sends its watermark. The worker polls it; it has no input.

    The input has as many splits as the source had partitions when the app was first started, so that positions stay
    valid when the number of partitions changes: a partition reads one split, or several in turn, or none.

    `watermark_step_us` is the resolution of time that downstream needs: a watermark is sent only when it crosses a
    multiple of the step, so a query with 10-second windows does not pay for a barrier per batch. With None, no
    watermark is sent. `batch_delay_ns` limits how long rows of a paced source may be held back under load to make
    larger batches. Rows that are more than `max_jump_us` ahead of their split are kept out of its watermark
    (`stream_time.py`); None lets it follow every row.
    """

    def __init__(
        self,
        source: Source,
        time: EventTime | None,
        delay_us: int,
        stamp: str | None,
        watermark_step_us: int | None,
        batch_rows: int,
        batch_delay_ns: int,
        schema: pa.Schema,
        max_jump_us: int | None = MAX_JUMP_US,
    ) -> None:
        self.source = source
        self.time = time
        self.delay_us = delay_us
        self.stamp = stamp
        self.watermark_step_us = watermark_step_us
        self.batch_rows = batch_rows
        self.batch_delay_ns = batch_delay_ns
        self.schema = schema
        self.max_jump_us = max_jump_us
        self.read_rows_max: int | None = None
        """A limit beside `batch_rows`, set by the worker."""
        self._splits: list[Split] = []
        self._alive: list[Split] = []
        self._last_step: int | None = None
        self._name = "source"
        self._ctx: Context | None = None
        self._told = False
        self.progress_us: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> SourceFunction:
        # The source is configuration, and may hold objects that cannot be copied, such as a DataFrame.
        return type(self)(
            self.source,
            self.time,
            self.delay_us,
            self.stamp,
            self.watermark_step_us,
            self.batch_rows,
            self.batch_delay_ns,
            self.schema,
            self.max_jump_us,
        )

    def open(self, ctx: Context) -> None:
        self.begin(ctx)
        mine = range(ctx.partition, ctx.splits, ctx.parallelism)
        self.read_from({number: self.source.reader(number, ctx.splits) for number in mine})

    def begin(self, ctx: Context) -> None:
        """Notes where it runs; there are no splits yet."""
        self._name = f"source '{ctx.function}'"
        self._ctx = ctx

    def read_from(self, readers: Mapping[int, SourceReader]) -> None:
        """Adds splits, by their numbers."""
        added = [Split(number, reader, self.max_jump_us) for number, reader in readers.items()]
        self._splits = [*self._splits, *added]
        self._alive = [*self._alive, *added]

    def forget_splits(self) -> None:
        """Closes the readers of all splits."""
        for split in self._splits:
            split.reader.close()
        self._splits, self._alive = [], []

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        raise NotImplementedError("a source has no input")

    def read(self, now_ns: int) -> Reading:
        """Returns a reading of the next split that has rows; if none has, when to read again."""
        waits_ns: list[int | None] = []
        for split in list(self._alive):
            reading = self._read(split, now_ns)
            if reading.done:
                self._alive.remove(split)
                reading.done, reading.next_ns = not self._alive, None
            elif len(self._alive) > 1:
                self._alive.remove(split)
                self._alive.append(split)
                if reading.batch is None:
                    waits_ns.append(reading.next_ns)
                    continue
                reading.next_ns = None  # Other splits may have rows now.
            return reading
        known = [each for each in waits_ns if each is not None]
        soon = None if len(known) < len(waits_ns) else min(known, default=None)
        return Reading(None, now_ns, next_ns=soon, done=not self._alive)

    def _read(self, split: Split, now_ns: int) -> Reading:
        rows_max = self.batch_rows if self.read_rows_max is None else min(self.batch_rows, self.read_rows_max)
        reading = checked_reading(split.reader.read(now_ns, rows_max), self.source.schema, self._name)
        if reading.batch is not None and self.stamp is not None:
            reading.batch = _stamped(reading.batch, self.schema, self._ingestion_us(now_ns))
        if self.time is not None:
            self._observe(split, reading, now_ns)
            self.progress_us = min(
                (each.progress_us for each in self._alive if each.progress_us is not None), default=None
            )
        return reading

    @property
    def _times_by_ingestion(self) -> bool:
        return self.time is not None and self.time.column == self.stamp

    def _ingestion_us(self, now_ns: int) -> int:
        """Returns the time to stamp rows with: now, but never a time before the watermark, since this clock may be
        behind the one of the process that took the checkpoint."""
        now_us = now_ns // 1000
        return max((now_us, *(each.watermark_us for each in self._alive))) if self._times_by_ingestion else now_us

    def due_watermark(self) -> int | None:
        """Returns the watermark to send now, if it crossed a step since the last one sent; else None."""
        if self.watermark_step_us is None or not self._alive:
            return None
        watermark_us = min(split.watermark_us for split in self._alive)
        if watermark_us == EVENT_TIME_MIN_US:
            return None
        step = watermark_us // self.watermark_step_us
        if step == self._last_step:
            return None
        self._last_step = step
        return watermark_us

    def _observe(self, split: Split, reading: Reading, now_ns: int) -> None:
        assert self.time is not None
        if self._times_by_ingestion:
            # Rows are stamped with the time of their read, so no split can emit a time before this moment.
            ingestion_us = self._ingestion_us(now_ns)
            for each in self._alive:
                each.advance(ingestion_us, ingestion_us)
            return
        if reading.batch is not None and self.watermark_step_us is not None:
            self._observe_rows(split, reading)
        if reading.watermark_us is not None:
            split.advance(reading.watermark_us, reading.watermark_us)

    def _observe_rows(self, split: Split, reading: Reading) -> None:
        """Advances the watermark of a split by the event times of a batch, unless the source has its own watermark."""
        assert self.time is not None
        assert reading.batch is not None
        column = reading.batch.column(self.time.column)
        bounds = bounds_us(column)
        if bounds is None:
            return
        earliest_us, latest_us = bounds
        if earliest_us < EARLIEST_US or latest_us > LATEST_US:
            check_range(self._name, self.time.column, column, split.reader.position - reading.batch.num_rows)
        if reading.watermark_us is None:
            self._tell(split.time.add(column, latest_us))
            if (reached_us := split.time.reached_us) is not None:
                split.advance(max(reached_us - self.delay_us, EVENT_TIME_MIN_US), reached_us)

    def _tell(self, outliers: list[int]) -> None:
        """Counts the rows that were kept out of the watermark, and reports the first."""
        if not outliers:
            return
        assert self._ctx is not None
        self._ctx.count("kept_out_rows", len(outliers))
        if not self._told:
            self._told = True
            self.notice = _notice(self._name, outliers[0], self.max_jump_us or 0)

    def layouts(self) -> dict[str, str]:
        return {"position": type(self.source).__name__}

    def remember(self) -> Any:
        return [self._last_step, [split.remember() for split in self._alive]]

    def recall(self, remembered: Any) -> None:
        self._last_step, positions = msgspec.convert(remembered, type=Positions)
        known = {position[0]: position for position in positions}
        # A split without a position had been read to its end.
        self._alive = [split for split in self._splits if split.number in known]
        for split in self._alive:
            split.recall(known[split.number])

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        return [None, [position for _, positions in remembered.values() for position in positions]]

    def close(self) -> None:
        self.forget_splits()


def checked_reading(reading: Any, declared: pa.Schema, name: str) -> Reading:
    """Returns what a reader has returned, with its batch in the declared schema of its source."""
    if not isinstance(reading, Reading):
        raise FunctionError(
            f"{name} read no Reading",
            f"it returned a {type(reading).__name__}",
            "Return a stretto Reading from read().",
        )
    if reading.batch is not None:
        reading.batch = checked_batch(reading.batch, declared, name, "read")
    _check_time(name, "arrived_ns", reading.arrived_ns, NEVER_NS)
    _check_time(name, "watermark_us", reading.watermark_us or 0, EVENT_TIME_MAX_US)
    _check_time(name, "next_ns", reading.next_ns or 0, EVENT_TIME_MAX_US)
    return reading


def _check_time(name: str, what: str, time: Any, latest: int) -> None:
    if type(time) is not int or not EVENT_TIME_MIN_US <= time <= latest:
        raise FunctionError(
            f"{name} read a time that is out of range, or no int",
            f"{what} is {shown(time)}",
            "Convert it with int(), and check its unit.",
        )


def _notice(name: str, outlier_us: int, max_jump_us: int) -> str:
    bound = datetime.timedelta(microseconds=max_jump_us)
    return (
        f"{name} kept an event time out of its watermark: {_date(outlier_us)} is further ahead of the rows around it "
        f"than max_jump ({bound}). The row is processed, and kept_out_rows counts such rows. "
        "Set max_jump= where the source is added if the stream may jump that far."
    )


def _date(time_us: int) -> str:
    """Returns a time as text; beyond Python's dates, the year."""
    try:
        return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=time_us))
    except OverflowError:
        return f"{time_us} us from 1970 (about the year {1970 + round(time_us / 31_556_952e6)})"


def _stamped(batch: pa.RecordBatch, schema: pa.Schema, now_us: int) -> pa.RecordBatch:
    stamps = pa.Array.from_buffers(
        pa.timestamp("us", tz="UTC"), batch.num_rows, [None, pa.py_buffer(np.full(batch.num_rows, now_us, np.int64))]
    )
    return pa.RecordBatch.from_arrays([*batch.columns, stamps], schema=schema)


class Outlet:
    """How far each partition of a sink has been written by this process, across all attempts of a job.

    The driver survives the loss of a worker, so it must not call a user's function a second time."""

    def __init__(self) -> None:
        self.delivered: dict[int, tuple[int, int]] = {}
        """By partition: the last checkpoint that was written, and the number of its batches written."""

    def __getstate__(self) -> dict[str, Any]:
        return {"delivered": {}}


class SinkFunction(Function):
    """Writes one partition of a sink. `changes` is true if a row replaces earlier rows of its key.

    In a job with checkpoints, rows before a mark are sealed, and published when the checkpoint is complete. Sealed rows
    that are not published are a part of the checkpoint. For sinks without checkpoints, rows are held back here."""

    def __init__(self, sink: Sink, schema: pa.Schema, changes: bool = False, outlet: Outlet | None = None) -> None:
        self.sink = sink
        self.schema = schema
        self.changes = changes
        self.writer: SinkWriter | None = None
        self._outlet = outlet or Outlet()
        self._partition = 0
        self._checkpoint = 0
        self._held: list[pa.RecordBatch] = []
        self._sealed: list[tuple[int, Any]] = []
        """Sealed parts that are not published, with their checkpoints. After regrouping, one may have several."""

    def __deepcopy__(self, memo: dict[int, Any]) -> SinkFunction:
        # A callback's closure belongs to the user, so it must stay the same object.
        return SinkFunction(self.sink, self.schema, self.changes, self._outlet)

    @property
    def order_matters(self) -> bool:
        """Whether later rows replace earlier ones."""
        return self.changes

    @property
    def irrevocable(self) -> bool:  # type: ignore[override]
        return self.sink.irrevocable

    def states(self) -> dict[str, State]:
        past = self.writer.past if isinstance(self.writer, CheckpointedWriter) else None
        return {} if past is None else {"past": past}

    def open(self, ctx: Context) -> None:
        self._partition = ctx.partition
        place = (self.schema, ctx.partition, ctx.parallelism)
        sink = self.sink.within(ctx.function)
        durable = sink.checkpointed_writer(*place, ctx.attempt) if ctx.attempt is not None else None
        self.writer = durable or sink.writer(*place)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        assert self.writer is not None
        if ctx.durable and not isinstance(self.writer, CheckpointedWriter):
            self._held.append(batch)
        else:
            self.writer.write(batch)

    def on_end(self, ctx: Context) -> None:
        assert self.writer is not None
        if not ctx.durable:
            self.writer.finish()

    def seal(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        if isinstance(self.writer, CheckpointedWriter):
            part = self.writer.seal(checkpoint)
        else:
            part = pa.Table.from_batches(self._held, self.schema) if self._held else None
            self._held = []
        if part is not None:
            self._sealed.append((checkpoint, part))

    def publish(self, checkpoint: int) -> bool:
        due = [each for each in self._sealed if each[0] <= checkpoint]
        if isinstance(self.writer, BackgroundWriter):
            # What is not visible yet stays a part of the checkpoints that are taken meanwhile.
            while due and self.writer.publishes(*due[0]):
                self._sealed.remove(due.pop(0))
            return not due
        self._sealed = [each for each in self._sealed if each[0] > checkpoint]
        for sealed, part in due:
            if isinstance(self.writer, CheckpointedWriter):
                self.writer.publish(sealed, part)
            else:
                self._write(sealed, part)
        return True

    def _write(self, checkpoint: int, rows: pa.Table) -> None:
        """Write the rows that were held back, except those that this process has written already."""
        assert self.writer is not None
        delivered = self._outlet.delivered
        for number, batch in enumerate(rows.to_batches(), 1):
            if (checkpoint, number) > delivered.get(self._partition, (0, 0)):
                self.writer.write(batch)
                delivered[self._partition] = (checkpoint, number)

    def remember(self) -> Any:
        return [self._checkpoint, list(self._sealed)]

    def recall(self, remembered: Any) -> None:
        self._checkpoint, self._sealed = msgspec.convert(remembered, type=tuple[int, list[tuple[int, Any]]])
        for _, part in self._sealed:
            if isinstance(self.writer, CheckpointedWriter):
                self.writer.check_part(part)
            else:
                check_rows(part, self.schema)
        if isinstance(self.writer, CheckpointedWriter):
            self.writer.withdraw(self._checkpoint)

    def discard_leftovers(self) -> None:
        if isinstance(self.writer, CheckpointedWriter):
            self.writer.discard_leftovers()

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        """Returns the parts that the partitions which this one follows had not published."""
        sealed = sorted((each for _, parts in remembered.values() for each in parts), key=lambda each: each[0])
        if isinstance(self.writer, CheckpointedWriter):
            return [checkpoint, sealed]
        # Batches are counted within a checkpoint, so each checkpoint must be one part.
        tables: dict[int, list[pa.Table]] = {}
        for each, part in sealed:
            tables.setdefault(each, []).append(part)
        return [checkpoint, [(each, pa.concat_tables(parts)) for each, parts in tables.items()]]

    def layouts(self) -> dict[str, str]:
        return {"output": f"{type(self.sink).__name__} of {_columns(self.schema)}"}

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
