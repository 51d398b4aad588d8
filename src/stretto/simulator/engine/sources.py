"""Base classes for the sources of simulated experiments, which generate their own events."""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function


class SimulatedSource(Function):
    """A source that emits each batch as soon as it is read. Subclasses with watermarks override `due_watermark`."""

    batch_delay_ns = 0

    def due_watermark(self) -> int | None:
        return None

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        raise NotImplementedError("a source has no input")


class WindowedSource(SimulatedSource):
    """A source whose watermarks are window numbers: one is due when the next event belongs to another window."""

    _sent_window = 0

    def next_window(self) -> int:
        """Returns the window of the next event."""
        raise NotImplementedError

    def due_watermark(self) -> int | None:
        window = self.next_window()
        if window == self._sent_window:
            return None
        self._sent_window = window
        return window


class Swallow(Function):
    """A sink that discards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass
