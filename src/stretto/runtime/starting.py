"""How long the start of a cluster may take: as long as its workers are coming, however slow the machine is.

A worker is coming if Spark runs its task, which then starts Python and joins, or ends by itself when it cannot reach
the driver; and if Spark has a slot for a task that it has not launched yet. Only while Spark has no slot does the
timeout run: jobs of others hold the slots, and may never give them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from stretto.errors import ClusterError
from stretto.runtime.hosting import active_tasks, slots_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 10
"""A start may take this many timeouts in all, for a worker that hangs before it has joined."""


class Coming(Protocol):
    """A worker that has not joined yet."""

    member: str

    def is_launched(self) -> bool: ...


class Start:
    """The start of a cluster's workers; `check` now and then while some are missing."""

    def __init__(
        self, spark: SparkSession, workers: int, timeout_s: float, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._spark = spark
        self._workers = workers
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._began_s = self._slot_seen_s = now_s()

    def check(self, missing: Sequence[Coming]) -> None:
        """Raises a ClusterError if these workers are not coming any more."""
        queued = [worker.member for worker in missing if not worker.is_launched()]
        now_s = self._now_s()
        if not queued or self._has_slot():
            self._slot_seen_s = now_s
        if now_s - self._slot_seen_s >= self._timeout_s and queued:
            raise self._failed(
                missing,
                self._timeout_s,
                f"Spark has had no slot for {', '.join(queued)}",
                "Look for other jobs that hold Spark's slots, or pass a longer start_timeout.",
            )
        if now_s - self._began_s >= self._timeout_s * PATIENCE:
            names = ", ".join(worker.member for worker in missing) or "the driver's own worker"
            raise self._failed(
                missing, self._timeout_s * PATIENCE, f"{names} did not reach the driver", "Look at the executors' logs."
            )

    def _has_slot(self) -> bool:
        slots = slots_of(self._spark)
        return slots is not None and active_tasks(self._spark) < slots

    def _failed(self, missing: Sequence[Coming], within_s: float, why: str, hint: str) -> ClusterError:
        joined = self._workers - len(missing)
        return ClusterError(f"only {joined} of {self._workers} workers joined within {within_s:g} s", why, hint)
