"""The engine's side of a job with entities: what its handle reads, and what it may ask for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stretto.api.plan import Plan
from stretto.api.slo import SLO
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import DecisionRecord
from stretto.errors import ClusterError, StrettoError, UserError
from stretto.runtime.entities.client import EntityClient
from stretto.runtime.job import Checkpoints, JobWarning
from stretto.runtime.metrics import JobMetrics, report

MOVES_KEPT = 1_000


class EntityExecution:
    """A job with entities: updated by the coordinator's announcements, read by the handle. `stop` asks for its end."""

    def __init__(self, job: str, plan: Plan, client: EntityClient, stop: Callable[[], None]) -> None:
        self._job = job
        self._plan = plan
        self.client = client
        self._stop = stop
        self._status = JobStatus.DEPLOYING
        self._error: StrettoError | None = None
        self._ended = threading.Event()
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self.writers: dict[str, Any] = {}
        self.warnings: list[JobWarning] = []
        self.waits_for: str | None = None
        self.checkpoints = Checkpoints()
        self.moves_waited_ms: deque[float] = deque(maxlen=MOVES_KEPT)
        """How long calls have waited for each of the last moves of a place."""

    # For the coordinator's thread.

    def announce(self, status: JobStatus, error: StrettoError | None) -> None:
        if status is JobStatus.RUNNING and self._began_s is None:
            self._began_s = time.monotonic()
        if status is JobStatus.RECOVERING:
            self.checkpoints.recoveries += 1
        self._error = error
        self._status = status
        if status.ended:
            self._ended_s = time.monotonic()
            self.shut(error)
            self._ended.set()

    def move(self, members: tuple[str, ...], waited_ns: int | None) -> None:
        """The entities are on these workers: in another attempt, or after a move that calls have waited for."""
        if waited_ns is not None:
            self.moves_waited_ms.append(waited_ns / 1e6)
        self.client.move(members, again=waited_ns is None)

    def shut(self, error: StrettoError | None = None) -> None:
        """Nothing is answered any more, though its workers may still have to hear of it."""
        self.client.end(
            error
            or ClusterError(
                f"job '{self._job}' has ended",
                None,
                "Calls that were open may have taken place: submit the app again with its checkpoint to see.",
            )
        )

    def warn(self, warning: JobWarning) -> None:
        self.warnings.append(warning)

    # For the handle.

    @property
    def status(self) -> JobStatus:
        return self._status

    @property
    def progress(self) -> str:
        return self._status.value if self.waits_for is None else f"{self._status.value} for {self.waits_for}"

    @property
    def error(self) -> StrettoError | None:
        return self._error

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def stop(self, drain: bool, savepoint: str | None) -> None:
        if savepoint is not None:
            self._refuse("savepoints")
        self._stop()

    def metrics(self) -> JobMetrics:
        elapsed_s = 0.0
        if self._began_s is not None:
            elapsed_s = (self._ended_s or time.monotonic()) - self._began_s
        return report({}, elapsed_s, self._plan)

    def decisions(self) -> list[DecisionRecord]:
        return []

    def move_shards(self, function: str, partition: int, moves: Mapping[int, str], timeout_s: float) -> NoReturn:
        self._refuse("shards")

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float) -> NoReturn:
        self._refuse("functions with a parallelism")

    @property
    def objective(self) -> SLO:
        return self._plan.slo

    def set_objective(self, slo: SLO, timeout_s: float) -> NoReturn:
        self._refuse("objective that could be changed: its calls run as they come")

    def redirect(self, shares: Mapping[str, float], workers: int | None, timeout_s: float) -> NoReturn:
        self._refuse("functions that can be redirected")

    def checkpoint(self, timeout_s: float) -> NoReturn:
        self._refuse("checkpoints on request: every call is in its log, and snapshots are taken by themselves")

    def _refuse(self, what: str) -> NoReturn:
        raise UserError(f"job '{self._job}' has entities, and no {what}")
