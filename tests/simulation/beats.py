"""A source with a steady beat and a function that forwards: parts of simulated jobs whose order of runs matters."""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.actors.source import Reading

SCHEMA = pa.schema([("n", pa.int64())])


class Beat(Function):
    """A source of batches at a fixed rate."""

    batch_delay_ns = 0

    def __init__(self, gap_ns: int, count: int, rows: int = 1) -> None:
        self._gap_ns = gap_ns
        self._count = count
        self._batch = pa.RecordBatch.from_arrays([pa.array(range(rows))], schema=SCHEMA)

    def open(self, ctx: Context) -> None:
        self._read = 0
        self._start_ns = ctx.now_ns

    def read(self, now_ns: int) -> Reading:
        if self._read == self._count:
            return Reading(None, now_ns, done=True)
        due_ns = self._start_ns + self._read * self._gap_ns
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        self._read += 1
        return Reading(self._batch, due_ns, next_ns=due_ns + self._gap_ns)

    def remember(self) -> tuple[int, int]:
        return self._read, self._start_ns

    def recall(self, remembered: tuple[int, int]) -> None:
        self._read, self._start_ns = remembered

    def due_watermark(self) -> int | None:
        return None

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        raise NotImplementedError


class Pass(Function):
    """Forwards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)
