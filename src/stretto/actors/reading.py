"""What a source does when it is polled: it reads, its fused steps run on the rows, and a watermark may follow.

All of it is one run. While a burst is redirected (`worker/bursts/`) it is three: the read, which only the source itself
can do; the steps on each batch, which may run on a transient worker; and what follows them, when all of it is sent on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.critical import Watermark
from stretto.actors.function import Function
from stretto.actors.source import Reading
from stretto.actors.work import Errand, Outcome, Poll

if TYPE_CHECKING:
    from stretto.actors.context import Context
    from stretto.actors.instance import Instance


class Steps(Errand):
    """The fused steps of a source run on one batch that it has read."""

    __slots__ = ("arrived_ns", "batch", "deadline_ns", "progress_us")

    def __init__(self, batch: pa.RecordBatch, arrived_ns: int, progress_us: int | None) -> None:
        self.batch = batch
        self.arrived_ns = arrived_ns
        self.progress_us = progress_us
        self.deadline_ns = 0


class Conclude(Errand):
    """What a source has read is on its way: it sends its watermark, or ends."""

    __slots__ = ("arrived_ns", "done", "progress_us", "watermark_us")

    def __init__(self, arrived_ns: int, progress_us: int | None, watermark_us: int | None, done: bool) -> None:
        self.arrived_ns = arrived_ns
        self.progress_us = progress_us
        self.watermark_us = watermark_us
        self.done = done


class Read(Errand):
    """A source reads, and nothing more; `steps` and `conclusion` are what is left to do."""

    __slots__ = ("conclusion", "steps")

    def __init__(self) -> None:
        self.steps: Steps | None = None
        self.conclusion: Conclude | None = None


class StepsOnly(Function):
    """Stands for a source where only its steps run: the rows come from the source itself, at its home."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def poll(instance: Instance, errand: Poll, now_ns: int) -> Outcome:
    """Reads from a source and sends what was read, then a watermark if one is due."""
    reading, outcome = _read(instance, now_ns)
    if outcome.rows_in:
        instance.outputs["out"].emit(reading.batch, outcome.sends)
    watermark_us = instance.function.due_watermark()
    if reading.done or watermark_us is not None:
        _conclude(instance, watermark_us, reading.done, outcome)
    return outcome


def read(instance: Instance, errand: Read, now_ns: int) -> Outcome:
    """Reads from a source, and leaves the rest for later."""
    reading, outcome = _read(instance, now_ns)
    if outcome.rows_in:
        errand.steps = Steps(reading.batch, outcome.arrived_ns, outcome.progress_us)
    watermark_us = instance.function.due_watermark()
    if reading.done or watermark_us is not None:
        errand.conclusion = Conclude(outcome.arrived_ns, outcome.progress_us, watermark_us, reading.done)
    return outcome


def run_steps(instance: Instance, errand: Steps, now_ns: int) -> Outcome:
    """Runs the fused steps of a source on one batch."""
    outcome = Outcome(errand.arrived_ns, errand.progress_us)
    instance.outputs["out"].emit(errand.batch, outcome.sends)
    return outcome


def conclude(instance: Instance, errand: Conclude, now_ns: int) -> Outcome:
    """Sends the watermark of a source, or its end."""
    outcome = Outcome(errand.arrived_ns, errand.progress_us)
    _conclude(instance, errand.watermark_us, errand.done, outcome)
    return outcome


def _read(instance: Instance, now_ns: int) -> tuple[Reading, Outcome]:
    function = instance.function
    reading: Reading = Reading(None, now_ns, done=True) if instance.draining else function.read(now_ns)
    outcome = Outcome(reading.arrived_ns, function.progress_us, function.notice)
    function.notice = None
    if reading.batch is not None:
        outcome.rows_in = reading.batch.num_rows
    if reading.done:
        return reading, outcome
    if reading.next_ns is not None:
        outcome.next_ns = reading.next_ns
        outcome.gather_until_ns = now_ns + function.batch_delay_ns
    elif reading.batch is None:
        # A source without rows and without a time for its next ones must not spin.
        outcome.next_ns = now_ns + 1_000_000
    return reading, outcome


def _conclude(instance: Instance, watermark_us: int | None, done: bool, outcome: Outcome) -> None:
    if done:
        instance.finish(outcome)
    elif watermark_us is not None:
        instance.watermark_us = watermark_us
        instance.broadcast(Watermark(watermark_us), outcome)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    Poll: poll,
    Read: read,
    Steps: run_steps,
    Conclude: conclude,
}
