"""What the sources of simulated experiments have in common: they make their events up, and nobody feeds them."""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function


class SimulatedSource(Function):
    """A source that puts out at once what it reads. Without a `due_watermark` of its own it sends none."""

    batch_delay_ns = 0

    def due_watermark(self) -> int | None:
        return None

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        raise NotImplementedError("a source has no input")


class WindowedSource(SimulatedSource):
    """Watermarks are numbers of windows: one is due when the next event belongs to another window."""

    _told = 0

    def next_window(self) -> int:
        """The window of the event that is due next."""
        raise NotImplementedError

    def due_watermark(self) -> int | None:
        window = self.next_window()
        if window == self._told:
            return None
        self._told = window
        return window


class Swallow(Function):
    """The end of the line."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass
