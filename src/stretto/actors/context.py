"""What a function sees while it runs: its partition, its input, and where its output goes.

A context only collects. After the run, the instance turns what was collected into messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.address import Attempt
from stretto.actors.checking import checked_batch
from stretto.actors.critical import UserCritical, Watermark
from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.errors import FunctionError
from stretto.state import State


class Clock(Enum):
    """Which time a timer waits for: event time in microseconds, or processing time in nanoseconds."""

    __hash__ = object.__hash__  # That of an Enum is a Python function, and timers are looked at after every run.

    EVENT = "event"
    PROCESSING = "processing"


class Context:
    """The argument of every callback of a function; valid only during the call."""

    __slots__ = (
        "_consolidated",
        "_giver",
        "_outputs",
        "arrived_ns",
        "attempt",
        "counts",
        "function",
        "input",
        "job",
        "now_ns",
        "parallelism",
        "partition",
        "sent",
        "splits",
        "timers_cancelled",
        "timers_set",
        "watermark_us",
    )

    def __init__(
        self, job: str, function: str, partition: int, parallelism: int, outputs: Mapping[str, pa.Schema]
    ) -> None:
        self.job = job
        self.function = function
        self.partition = partition
        self.parallelism = parallelism
        self._outputs = outputs
        self._giver = f"function '{function}'"
        self.input = "in"
        self.now_ns = 0
        self.arrived_ns = 0
        """For the runtime: when the last event of the batch had arrived; of functions that call entities only."""
        self.watermark_us = EVENT_TIME_MIN_US
        self.sent: list[tuple[str | None, pa.RecordBatch | UserCritical | Watermark]] = []
        self.timers_set: list[tuple[Clock, int, Any]] = []
        self.timers_cancelled: list[tuple[Clock, int, Any]] = []
        self.counts: dict[str, int] = {}
        self.attempt: Attempt | None = None
        """Which run of the job this is, if it has checkpoints."""
        self.splits = parallelism
        """For sources: the number of splits of the input, fixed when the app is first started. Partition p reads the
        splits p, p + parallelism, and so on."""
        self._consolidated: dict[str, State] = {}

    @property
    def durable(self) -> bool:
        """Whether the job has checkpoints, so that sinks hold back rows that are not in a checkpoint yet."""
        return self.attempt is not None

    def send(self, batch: pa.RecordBatch | pa.Table, output: str = "out") -> None:
        """Send a batch of the output's schema to every consumer of the output; empty batches are not sent."""
        declared = self._outputs.get(output)
        if declared is None:
            raise FunctionError(
                f"function '{self.function}' sent to an output that it does not have",
                f"'{output}'; it has {', '.join(self._outputs) or 'none'}",
                "Declare the output where the function is applied, or correct the name.",
            )
        if type(batch) is not RecordBatch or not batch.schema.equals(declared):
            batch = checked_batch(batch, declared, self._giver, "sent")
        if batch.num_rows:
            self.sent.append((output, batch))

    def send_critical(self, name: str, payload: Any = None, *, every_upstream: bool = False) -> None:
        """Send a user-defined critical message to every partition of every consumer, after all that was sent before.

        With `every_upstream`, a consumer waits until each of its upstream actors has sent one, holding back what
        follows it, and is then called once, with the list of their payloads."""
        self.sent.append((None, UserCritical(name, payload, every_upstream)))

    def send_watermark(self, watermark_us: int) -> None:
        """For the runtime: sends a watermark, of a function that sends its own."""
        self.sent.append((None, Watermark(watermark_us)))

    def consolidated(self, name: str) -> State | None:
        """Returns a state of this function as of the last barrier, the same on every worker; read-only. None before the
        first barrier.

        The function must declare `reads_consolidated = True`."""
        return self._consolidated.get(name)

    def adopt(self, states: dict[str, State]) -> None:
        """For the runtime: sets what `consolidated` returns."""
        self._consolidated = states

    def set_timer(self, due: int, tag: Any = None, clock: Clock = Clock.EVENT) -> None:
        """Ask for `on_timer(tag, due)` once the clock reaches `due` (event time in us, processing time in ns)."""
        self.timers_set.append((clock, due, tag))

    def cancel_timer(self, due: int, tag: Any = None, clock: Clock = Clock.EVENT) -> None:
        self.timers_cancelled.append((clock, due, tag))

    def count(self, metric: str, amount: int = 1) -> None:
        """Add to a counter that is reported with the function's metrics, such as `late_rows`."""
        self.counts[metric] = self.counts.get(metric, 0) + amount
