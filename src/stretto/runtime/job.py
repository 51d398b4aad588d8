"""The handle of a submitted app: the same for actors and micro-batches."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from stretto.api.changes import last_by_key
from stretto.api.engines import EngineChoice
from stretto.api.plan import Plan
from stretto.coordinator import JobStatus
from stretto.errors import ClusterError, StrettoError, UserError
from stretto.runtime.metrics import JobMetrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_STEP_S = 0.5
"""Waits are cut into steps, so that Ctrl-C is noticed."""


class Execution(Protocol):
    """What an engine offers to the handle."""

    writers: dict[str, Any]

    @property
    def status(self) -> JobStatus: ...
    @property
    def error(self) -> StrettoError | None: ...
    def metrics(self) -> JobMetrics: ...
    def stop(self, drain: bool) -> None: ...
    def wait(self, timeout_s: float) -> bool:
        """Whether the job has ended within the time."""


class Job:
    """A running (or ended) app. `wait()`, `stop()`, `metrics()`, `results()`."""

    def __init__(self, name: str, plan: Plan, choice: EngineChoice, execution: Execution, spark: SparkSession) -> None:
        self.name = name
        self.plan = plan
        self.engine = choice.engine
        self.why = choice.why
        self._execution = execution
        self._spark = spark

    def __repr__(self) -> str:
        return f"<Job {self.name} on {self.engine.value}: {self.status.value}>"

    @property
    def status(self) -> JobStatus:
        return self._execution.status

    @property
    def error(self) -> StrettoError | None:
        """Why the job failed, if it did."""
        return self._execution.error

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has ended, at most `timeout` seconds; raises the job's error when it failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_STEP_S if deadline is None else min(WAIT_STEP_S, deadline - time.monotonic())
            if self._execution.wait(max(0.0, left)):
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job '{self.name}' is still {self.status.value} after {timeout:g} s")
        if self.error is not None:
            raise self.error
        return self

    def stop(self, *, drain: bool = False, timeout: float = 60.0) -> Job:
        """End the job: at once, or with `drain` after its sources' rows so far went through to the last window."""
        if not self.status.ended:
            self._execution.stop(drain)
            if not self._execution.wait(timeout):
                raise ClusterError(f"job '{self.name}' did not stop within {timeout:g} s", self.status.value)
        return self

    def metrics(self) -> JobMetrics:
        return self._execution.metrics()

    def updates(self, sink: str | None = None) -> pa.Table:
        """All rows that a collecting sink got so far, in order of arrival."""
        node = self.plan.sink_named(sink)
        writer = self._execution.writers.get(node.name)
        if writer is None:
            return node.schema.empty_table()
        if not hasattr(writer, "table"):
            raise UserError(
                f"sink '{node.name}' of job '{self.name}' does not keep its rows",
                node.sink.describe(),
                "Use sinks.collect() to read results from the handle.",
            )
        table: pa.Table = writer.table()
        return table

    def results(self, sink: str | None = None) -> pa.Table:
        """The rows of a collecting sink; where later rows replace earlier ones, only the last of each key."""
        node = self.plan.sink_named(sink)
        table = self.updates(node.name)
        return table if node.changes_by is None else last_by_key(table, node.changes_by)

    def dataframe(self, sink: str | None = None) -> DataFrame:
        """The result as a Spark DataFrame."""
        return self._spark.createDataFrame(self.results(sink))


class ActorExecution:
    """A job on actors: fed by the coordinator's announcements, read by the handle."""

    def __init__(self, cluster: Any, job: str, order: list[str], plan: Plan) -> None:
        self.writers: dict[str, Any] = {}
        self._cluster = cluster
        self._job = job
        self._order = order
        self._plan = plan
        self._status = JobStatus.DEPLOYING
        self._error: StrettoError | None = None
        self._ended = threading.Event()
        self._began_ns: int | None = None
        self._ended_ns: int | None = None
        self._last_metrics: JobMetrics | None = None

    @property
    def status(self) -> JobStatus:
        return self._status

    @property
    def error(self) -> StrettoError | None:
        return self._error

    def announce(self, status: JobStatus, error: StrettoError | None) -> None:
        """Called by the coordinator's thread."""
        if status is JobStatus.RUNNING:
            self._began_ns = time.monotonic_ns()
        if status.ended:
            self._ended_ns = time.monotonic_ns()
            self._last_metrics = self._read_metrics()
        self._error = error
        self._status = status
        if status.ended:
            self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def stop(self, drain: bool) -> None:
        self._cluster.request_stop(self._job, drain)

    def metrics(self) -> JobMetrics:
        return self._last_metrics or self._read_metrics()

    def _read_metrics(self) -> JobMetrics:
        elapsed_s = 0.0
        if self._began_ns is not None:
            elapsed_s = ((self._ended_ns or time.monotonic_ns()) - self._began_ns) / 1e9
        read: JobMetrics = self._cluster.read_metrics(self._job, self._order, elapsed_s, self._plan)
        return read
