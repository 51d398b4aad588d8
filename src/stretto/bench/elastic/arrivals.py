"""What has arrived at the driver from a run of the micro-benchmark, and when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.bench.elastic.calculator import RESULTS


@dataclass
class Arrivals:
    """What has arrived at the driver: number and key of each row, how many rows its key has had, and when."""

    lock: Lock = field(default_factory=Lock)
    batches: list[tuple[pa.RecordBatch, int]] = field(default_factory=list)

    def take(self, batch: pa.RecordBatch) -> None:
        """The callback of the sink."""
        with self.lock:
            self.batches.append((batch, time.monotonic_ns()))

    def rows(self) -> Rows:
        """Returns all rows so far, in the order of their arrival."""
        with self.lock:
            batches = list(self.batches)
        if not batches:
            return Rows(*(np.zeros(0, np.int64) for _ in range(4)))
        numbers, keys, counts = (
            np.concatenate([batch.column(name) for batch, _ in batches]) for name in ("number", "key", "count")
        )
        arrived_ns = np.repeat([at_ns for _, at_ns in batches], [batch.num_rows for batch, _ in batches])
        return Rows(numbers, keys, counts, arrived_ns)

    def table(self) -> pa.Table:
        """Returns all results so far, in the order of their arrival."""
        with self.lock:
            return pa.Table.from_batches([batch for batch, _ in self.batches], RESULTS)

    @property
    def rows_per_s(self) -> float:
        """The rate between the first and the last arrival."""
        with self.lock:
            batches = list(self.batches)
        if len(batches) < 2:
            return 0.0
        rows = float(sum(batch.num_rows for batch, _ in batches[1:]))
        return rows / max(1e-9, (batches[-1][1] - batches[0][1]) / 1e9)


@dataclass(frozen=True)
class Rows:
    """Columns of arrived rows."""

    numbers: Any
    keys: Any
    counts: Any
    arrived_ns: Any

    @property
    def are_in_order(self) -> bool:
        """Whether the rows of each key came as its first, second, third and so on, and none twice."""
        return len(self.keys) > 0 and all(
            np.array_equal(self.counts[self.keys == key], np.arange(1, (self.keys == key).sum() + 1))
            for key in np.unique(self.keys)
        )


def at(values: Sequence[float], percent: float) -> float:
    """Returns a percentile in milliseconds; not a number if there are no values."""
    return round(float(np.percentile(values, percent)), 3) if values else float("nan")
