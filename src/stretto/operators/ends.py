"""The two ends of a dataflow as functions: reading a source, writing a sink."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MIN_US, Function
from stretto.actors.sink import Sink, SinkWriter
from stretto.actors.source import Reading, Source, SourceReader
from stretto.operators.windows import EventTime


class SourceFunction(Function):
    """Reads one partition of a source and tells the watermark. The worker polls it; nobody sends it anything.

    `watermark_step_us` is how finely downstream needs to see time pass: a watermark is sent only when it crosses a
    multiple of the step, so a query with 10-second windows does not pay for a barrier per batch. None: nobody needs it.
    `batch_delay_ns` bounds how long rows of a paced source may be held back to make larger batches under load.
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
    ) -> None:
        self.source = source
        self.time = time
        self.delay_us = delay_us
        self.stamp = stamp
        self.watermark_step_us = watermark_step_us
        self.batch_rows = batch_rows
        self.batch_delay_ns = batch_delay_ns
        self.schema = schema
        self._reader: SourceReader | None = None
        self._watermark_us = EVENT_TIME_MIN_US
        self.progress_us: int | None = None
        self._last_step: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> SourceFunction:
        # The source is configuration and may hold what cannot be copied, such as a DataFrame.
        return SourceFunction(
            self.source,
            self.time,
            self.delay_us,
            self.stamp,
            self.watermark_step_us,
            self.batch_rows,
            self.batch_delay_ns,
            self.schema,
        )

    def open(self, ctx: Context) -> None:
        self._reader = self.source.reader(ctx.partition, ctx.parallelism)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        raise NotImplementedError("a source has no input")

    def read(self, now_ns: int) -> Reading:
        assert self._reader is not None
        reading = self._reader.read(now_ns, self.batch_rows)
        if reading.batch is not None and self.stamp is not None:
            reading.batch = _stamped(reading.batch, self.schema, now_ns // 1000)
        if self.time is not None:
            self._observe(reading, now_ns)
        return reading

    def due_watermark(self) -> int | None:
        """The watermark to send now, if it crossed a step since the last one that was sent."""
        if self.watermark_step_us is None or self._watermark_us == EVENT_TIME_MIN_US:
            return None
        step = self._watermark_us // self.watermark_step_us
        if step == self._last_step:
            return None
        self._last_step = step
        return self._watermark_us

    def _observe(self, reading: Reading, now_ns: int) -> None:
        assert self.time is not None
        if self.stamp is not None and self.time.column == self.stamp:
            # Rows are stamped with the time of their read, so nothing before this moment can follow.
            self._advance(now_ns // 1000)
            self.progress_us = now_ns // 1000
        elif reading.watermark_us is not None:
            self._advance(reading.watermark_us)
            self.progress_us = reading.watermark_us
        elif reading.batch is not None and reading.batch.num_rows:
            latest = pc.max(reading.batch.column(self.time.column)).cast(pa.timestamp("us", tz="UTC")).value
            if latest is not None:
                self._advance(latest - self.delay_us)
                self.progress_us = latest

    def _advance(self, watermark_us: int) -> None:
        self._watermark_us = max(self._watermark_us, watermark_us)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def _stamped(batch: pa.RecordBatch, schema: pa.Schema, now_us: int) -> pa.RecordBatch:
    stamps = pa.Array.from_buffers(
        pa.timestamp("us", tz="UTC"), batch.num_rows, [None, pa.py_buffer(np.full(batch.num_rows, now_us, np.int64))]
    )
    return pa.RecordBatch.from_arrays([*batch.columns, stamps], schema=schema)


class SinkFunction(Function):
    """Writes one partition of a sink. `changes` says that a row replaces earlier ones of its key."""

    def __init__(self, sink: Sink, schema: pa.Schema, changes: bool = False) -> None:
        self.sink = sink
        self.schema = schema
        self.changes = changes
        self.writer: SinkWriter | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> SinkFunction:
        # A callback's closure is the user's; it must stay the same object.
        return SinkFunction(self.sink, self.schema, self.changes)

    @property
    def order_matters(self) -> bool:
        """Later rows replace earlier ones where rows are changes."""
        return self.changes

    def open(self, ctx: Context) -> None:
        self.writer = self.sink.writer(self.schema, ctx.partition, ctx.parallelism)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        assert self.writer is not None
        self.writer.write(batch)

    def on_end(self, ctx: Context) -> None:
        assert self.writer is not None
        self.writer.finish()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
