"""The handle of a submitted app: the same for actors and micro-batches."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from stretto.api.changes import final_rows
from stretto.api.engines import EngineChoice
from stretto.api.plan import Plan
from stretto.api.slo import SLO
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceDecision,
    AnnounceLongRuns,
    AnnounceMisbehaviour,
    MoveShardsRequested,
    ObjectiveRequested,
    RedirectRequested,
    RescaleRequested,
)
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.errors import ClusterError, StrettoError, UserError
from stretto.protocol.bursts import To
from stretto.runtime.connectors.epochs import EpochSink
from stretto.runtime.entities.client import EntityClient
from stretto.runtime.epoch_stream import read_epochs
from stretto.runtime.metrics import JobMetrics
from stretto.runtime.slots import require_free_slot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stretto.runtime.entities.execution import EntityExecution

log = logging.getLogger("stretto.job")

T = TypeVar("T")

DECISIONS_KEPT = 1_000
WAIT_STEP_S = 0.5
"""Waits are cut into steps of this length, so that Ctrl-C is noticed."""


class Execution(Protocol):
    """What an engine offers to the handle."""

    writers: dict[str, Any]
    warnings: list[JobWarning]
    waits_for: str | None

    @property
    def status(self) -> JobStatus: ...
    @property
    def progress(self) -> str: ...
    @property
    def error(self) -> StrettoError | None: ...
    def metrics(self) -> JobMetrics: ...
    def stop(self, drain: bool, savepoint: str | None) -> None: ...
    def decisions(self) -> list[DecisionRecord]: ...
    def move_shards(
        self, function: str, partition: int, moves: Mapping[int, str], timeout_s: float
    ) -> DecisionRecord: ...
    def rescale(self, parallelism: Mapping[str, int], timeout_s: float) -> DecisionRecord: ...
    @property
    def objective(self) -> SLO: ...
    def set_objective(self, slo: SLO, timeout_s: float) -> DecisionRecord: ...
    def redirect(self, shares: Mapping[str, float], workers: int | None, timeout_s: float) -> DecisionRecord: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    def checkpoint(self, timeout_s: float) -> int: ...
    def wait(self, timeout_s: float) -> bool:
        """Waits for the job, and returns whether it has ended within the time."""


@dataclass(frozen=True)
class JobWarning:
    """What a user should know of a job that runs on: a strategy or policy of their own was given up on a worker, and
    the default decides there; a source has rows that its watermark does not follow; or a function has runs that delay
    other jobs. `function` is None if it concerns all functions, `traceback` is empty if nothing was raised."""

    worker: str
    function: str | None
    fact: str
    traceback: str = ""


def warning_of(noticed: AnnounceMisbehaviour | AnnounceLongRuns) -> JobWarning:
    """Returns what users are told of what the coordinator has noticed."""
    if isinstance(noticed, AnnounceMisbehaviour):
        said = noticed.said
        return JobWarning(noticed.member, said.function, said.what, said.traceback)
    late = ", ".join(f"'{job}' ({latency_ns / 1e6:g} ms)" for job, latency_ns in sorted(noticed.delayed.items()))
    fact = (
        f"function '{noticed.function}' of job '{noticed.job}' ran for {noticed.run_ns / 1e6:,.0f} ms at a time on "
        f"{noticed.member}, which is longer than the objective of {late} on the same worker; a run is not interrupted"
    )
    return JobWarning(noticed.member, noticed.function, fact)


@dataclass(frozen=True)
class CompleteCheckpoint:
    """The size of a checkpoint, how much of it is new, and how long it took from the first mark."""

    bytes: int
    bytes_written: int
    took_s: float


@dataclass
class Checkpoints:
    """`complete` has the complete checkpoints by number, `failed` the reasons of the failed ones."""

    complete: dict[int, CompleteCheckpoint] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    recoveries: int = 0


class Job:
    """A running (or ended) app. `wait()`, `stop()`, `metrics()`, `results()`."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        choice: EngineChoice,
        execution: Execution,
        spark: SparkSession,
        entities: EntityClient | None = None,
    ) -> None:
        self._entities = entities
        self._beside: EntityExecution | None = None
        self.name = name
        self.plan = plan
        self.engine = choice.engine
        self.why = choice.why
        self._execution = execution
        self._spark = spark

    def add_entities(self, execution: EntityExecution) -> None:
        """The app has entities beside its streams. This is of its streams: their status, their end, their results."""
        self._beside, self._entities = execution, execution.client

    def __repr__(self) -> str:
        return f"<Job {self.name} on {self.engine.value}: {self.progress}>"

    @property
    def status(self) -> JobStatus:
        return self._execution.status

    @property
    def progress(self) -> str:
        """The status as text, and what the job waits for before it starts: which workers load its code, or open its
        functions."""
        return self._execution.progress

    @property
    def waits_for(self) -> str | None:
        """What the job waits for, if its status is `waiting`."""
        return self._execution.waits_for

    @property
    def error(self) -> StrettoError | None:
        """Why the job failed, if it did."""
        return self._execution.error

    @property
    def warnings(self) -> list[JobWarning]:
        """What was noticed while the job ran, in order; none of it has ended the job."""
        return list(self._execution.warnings)

    def wait(self, timeout: float | None = None) -> Job:
        """Waits until the job has ended, at most `timeout` seconds; raises the job's error if it failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_STEP_S if deadline is None else min(WAIT_STEP_S, deadline - time.monotonic())
            if self._execution.wait(max(0.0, left)):
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job '{self.name}' is still {self.progress} after {timeout:g} s")
        if self.error is not None:
            raise self.error
        return self

    def stop(self, *, drain: bool = False, savepoint: str | None = None, timeout: float = 60.0) -> Job:
        """Ends the job: at once, or with `drain` after all rows read so far are processed, to the last window.

        With a `savepoint`, a job with checkpoints takes one under that name and ends; `cluster.submit(..., start=name)`
        resumes from it. A savepoint is kept until it is removed by hand.

        The entities of an app that has streams too are stopped after them."""
        if not self.status.ended:
            self._execution.stop(drain, savepoint)
            if not self._execution.wait(timeout):
                raise ClusterError(f"job '{self.name}' did not stop within {timeout:g} s", self.progress)
        if self._beside is not None and not self._beside.status.ended:
            self._beside.stop(drain=False, savepoint=None)
            if not self._beside.wait(timeout):
                raise ClusterError(f"the entities of job '{self.name}' did not stop within {timeout:g} s")
        return self

    def call(self, made: Awaitable[T], timeout: float | None = None, *, idempotency_key: str | None = None) -> T:
        """Calls an entity, `job.call(Account("ann").transfer("bob", 10))`, and returns the result of the transaction.

        What a handler raises aborts the transaction, and is raised here. A transaction takes place exactly once,
        whatever is lost meanwhile. After `timeout` seconds a TimeoutError is raised; the transaction may still take
        place then.

        Of all calls under one `idempotency_key` only the first runs, and all of them get its reply, also those of
        another client or of a later run of the app. Keys are kept for a day (`App(..., keep_keys=...)`)."""
        return self.entity_client.call(made, timeout, idempotency_key)

    async def acall(self, made: Awaitable[T], *, idempotency_key: str | None = None) -> T:
        """Calls an entity as `call` does, from a coroutine."""
        return await self.entity_client.acall(made, idempotency_key)

    def map(
        self,
        calls: Iterable[Awaitable[T]],
        *,
        return_exceptions: bool = False,
        timeout: float | None = None,
        idempotency_keys: Iterable[str] | None = None,
    ) -> list[T]:
        """Calls many entities at once, each in a transaction of its own, and returns their results in order.

        When all have ended, the first exception is raised; with `return_exceptions`, each is in the place of its
        result. `timeout` is how many seconds each may take. `idempotency_keys` has one for each call (see `call`)."""
        return self.entity_client.map(calls, return_exceptions, timeout, idempotency_keys)

    @property
    def entity_client(self) -> EntityClient:
        """The door of its entities."""
        if self._entities is None:
            raise UserError(
                f"job '{self.name}' has no entities", None, "Declare them: App(name, entities=[Account, ...])."
            )
        return self._entities

    def metrics(self) -> JobMetrics:
        return self._execution.metrics()

    def decisions(self) -> list[DecisionRecord]:
        """Returns what controllers have decided about the job's elastic functions, the latest last: why, what they saw,
        what else was possible, what it brought. The last thousand are kept."""
        return self._execution.decisions()

    def move_shards(
        self, function: str, moves: Mapping[int, str], *, partition: int = 0, timeout: float = 60.0
    ) -> DecisionRecord:
        """Moves shards of an elastic function to other workers, each by its number to the worker of that name, and
        waits until they are there. Controllers may move them again: use a cluster with `elasticity="off"`, if you want
        to decide where they are."""
        return self._execution.move_shards(function, partition, moves, timeout)

    def rescale(
        self, function: str | Mapping[str, int], parallelism: int | None = None, *, timeout: float = 90.0
    ) -> DecisionRecord:
        """Gives a function another parallelism while the job runs, with one barrier and without going back to a
        checkpoint, and waits until it runs so. Several functions get theirs at the same barrier, by a dict:
        `job.rescale({"Jumps": 8, "Users": 8})`.

        If it cannot be done, because a state cannot be divided for instance, a ClusterError says why, and the job goes
        on as it was. The app keeps the parallelism that it was written with: submit it with the new one the next
        time."""
        wanted = dict(function) if isinstance(function, Mapping) else {function: parallelism}
        if not wanted or any(type(count) is not int for count in wanted.values()):
            raise UserError(
                "rescale() needs a number of partitions for each function",
                f"it got {wanted}",
                'Call job.rescale("Jumps", parallelism=8), or job.rescale({"Jumps": 8}).',
            )
        return self._execution.rescale(wanted, timeout)  # type: ignore[arg-type]

    @property
    def objective(self) -> SLO:
        """What the job promises now: what its app was written with, or what was set since."""
        return self._execution.objective

    def set_objective(self, slo: SLO, *, timeout: float = 30.0) -> DecisionRecord:
        """Gives the running job another objective: `job.set_objective(objective(latency="200 ms", priority=2))`, or
        `objective()` for none. Deadlines, controllers and reports follow it at once; rows on their way keep the
        deadlines that they have. The next time that it is submitted, the app has the objective that it was written
        with."""
        if not isinstance(slo, SLO):
            raise UserError(
                "set_objective() needs an objective",
                f"it got {type(slo).__name__}",
                'Call job.set_objective(objective(latency="200 ms")).',
            )
        return self._execution.set_objective(slo, timeout)

    def redirect(
        self,
        function: str | Mapping[str, float],
        share: float = 1.0,
        *,
        workers: int | None = None,
        timeout: float = 30.0,
    ) -> DecisionRecord:
        """Has a share of a function's batches run on transient workers from now on (`on_spark(..., transient=N)`):
        `job.redirect("counts", 0.5)`. Several functions get theirs by a dict; those that are not named run at home.
        `workers` is how many transient workers are used; by default all that have loaded the job. No state moves: what
        they compute is merged where the function is at home.

        The controller `bursts` may change it again: use a cluster without it, such as `elasticity="off"`, to decide by
        yourself. What cannot be done raises a ClusterError that says why, and everything stays as it was."""
        shares = dict(function) if isinstance(function, Mapping) else {function: share}
        if not shares:
            raise UserError("redirect() needs a function", None, "Name one, or call job.bring_back() to end a burst.")
        return self._execution.redirect(shares, workers, timeout)

    def bring_back(self, *, timeout: float = 30.0) -> DecisionRecord:
        """Has all batches run on ordinary workers again. Those that are with transient workers are waited for by the
        functions, not by the caller."""
        return self._execution.redirect({}, None, timeout)

    @property
    def checkpoints(self) -> Checkpoints:
        """The job's checkpoints: complete ones, failed ones, recoveries."""
        return self._execution.checkpoints

    def checkpoint(self, timeout: float = 60.0) -> int:
        """Takes a checkpoint now, waits until it is complete, and returns its number."""
        return self._execution.checkpoint(timeout)

    def updates(self, sink: str | None = None) -> pa.Table:
        """Returns all rows that a collecting sink has received, in order of arrival. If rows are removed, the column
        `__change` is 1 for an added row and -1 for a removed one."""
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
        """Returns the rows of a collecting sink, without those that were replaced or removed."""
        node = self.plan.sink_named(sink)
        return final_rows(self.updates(node.name), node)

    def dataframe(self, sink: str | None = None) -> DataFrame:
        """Returns the result as a Spark DataFrame. Spark needs a slot that no worker holds to read it."""
        require_free_slot(self._spark, f"job.dataframe() of job '{self.name}'")
        return self._spark.createDataFrame(self.results(sink))

    def stream(self, sink: str | None = None) -> DataFrame:
        """Returns the rows of a `sinks.stream(...)` as a streaming DataFrame, from the first one on, for Spark queries
        that continue from them exactly once."""
        node = self.plan.sink_named(sink)
        if not isinstance(node.sink, EpochSink):
            raise UserError(
                f"sink '{node.name}' of job '{self.name}' is no stream",
                node.sink.describe(),
                "Write the rows to sinks.stream(directory).",
            )
        node.sink.prepare(node.schema)
        return read_epochs(self._spark, node.sink.directory)


class ActorExecution:
    """A job on actors: updated by the coordinator's announcements, read by the handle."""

    def __init__(self, cluster: Any, job: str, plan: Plan, is_durable: bool = False) -> None:
        self._is_durable = is_durable
        self.writers: dict[str, Any] = {}
        self._cluster = cluster
        self._job = job
        self._plan = plan
        self._status = JobStatus.DEPLOYING
        self._error: StrettoError | None = None
        self._ended = threading.Event()
        self._began_ns: int | None = None
        self._ended_ns: int | None = None
        self._last_metrics: JobMetrics | None = None
        self.checkpoints = Checkpoints()
        self.warnings: list[JobWarning] = []
        self.waits_for: str | None = None
        self._decisions: OrderedDict[int, DecisionRecord] = OrderedDict()
        self._answers: dict[str, DecisionRecord] = {}
        self._changed = threading.Condition()
        self._fails_with: StrettoError | None = None

    def fail_with(self, error: StrettoError | None) -> None:
        """The entities of the app have ended, so its streams cannot go on."""
        ended = ClusterError(f"the entities of job '{self._job}' have ended", "its streams call them")
        self._fails_with = error or ended

    def record_checkpoint(self, announced: AnnounceCheckpoint) -> None:
        """Called by the coordinator's thread."""
        with self._changed:
            if announced.manifest is not None:
                size, written = announced.manifest.bytes, announced.manifest.bytes_written
                took_s = announced.took_ns / 1e9
                self.checkpoints.complete[announced.checkpoint] = CompleteCheckpoint(size, written, took_s)
            else:
                self.checkpoints.failed[announced.checkpoint] = announced.reason or ""
                log.warning("checkpoint %d of %s: %s", announced.checkpoint, self._job, announced.reason)
            self._changed.notify_all()

    def record_decision(self, announced: AnnounceDecision) -> None:
        """Called by the coordinator's thread."""
        with self._changed:
            self._decisions[announced.number] = announced.record
            while len(self._decisions) > DECISIONS_KEPT:
                self._decisions.popitem(last=False)
            if announced.token:
                self._answers[announced.token] = announced.record
            self._changed.notify_all()

    def decisions(self) -> list[DecisionRecord]:
        with self._changed:
            return list(self._decisions.values())

    def _answer(self, token: str, ask: Callable[[], None], timeout_s: float) -> DecisionRecord | None:
        """Asks the coordinator, and returns what has become of it; None if that is not known in time."""

        def answer() -> DecisionRecord | None:
            found = self._answers.get(token)
            return None if found is None or found.outcome is Outcome.PENDING else found

        with self._changed:
            ask()
            self._changed.wait_for(lambda: answer() is not None or self._status.ended, timeout_s)
            found = answer()
            self._answers.pop(token, None)
        return found

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float) -> DecisionRecord:
        token = secrets.token_hex(8)
        request = RescaleRequested(self._job, dict(parallelism), token)
        found = self._answer(token, lambda: self._cluster.request(request), timeout_s)
        if found is None or found.outcome is not Outcome.DONE:
            why = f"the job is {self._status.value}" if found is None else found.outcome_reason
            named = ", ".join(f"'{function}' to {count}" for function, count in sorted(parallelism.items()))
            raise ClusterError(
                f"job '{self._job}' was not rescaled: {named}",
                why,
                "It goes on as it was, unless it has ended. A savepoint and a new start can change more than this.",
            )
        return found

    @property
    def objective(self) -> SLO:
        observed = self._cluster.observation.jobs.get(self._job)
        return self._plan.slo if observed is None or observed.objective is None else observed.objective

    def set_objective(self, slo: SLO, timeout_s: float) -> DecisionRecord:
        token = secrets.token_hex(8)
        found = self._answer(token, lambda: self._cluster.request(ObjectiveRequested(self._job, slo, token)), timeout_s)
        if found is None or found.outcome is not Outcome.DONE:
            why = f"the job is {self._status.value}" if found is None else found.outcome_reason
            raise ClusterError(f"job '{self._job}' was not given another objective", why, "It promises what it did.")
        return found

    def redirect(self, shares: Mapping[str, float], workers: int | None, timeout_s: float) -> DecisionRecord:
        token = secrets.token_hex(8)
        functions = {function: To((), share) for function, share in shares.items()}
        request = RedirectRequested(self._job, functions, token, workers)
        found = self._answer(token, lambda: self._cluster.request(request), timeout_s)
        if found is None or found.outcome is not Outcome.DONE:
            why = f"the job is {self._status.value}" if found is None else found.outcome_reason
            named = ", ".join(f"'{function}'" for function in sorted(shares)) or "all functions"
            raise ClusterError(
                f"batches of {named} of job '{self._job}' were not {'redirected' if shares else 'brought back'}",
                why,
                "They run where they did. Transient workers are started with Cluster.on_spark(..., transient=N).",
            )
        return found

    def move_shards(self, function: str, partition: int, moves: Mapping[int, str], timeout_s: float) -> DecisionRecord:
        token = secrets.token_hex(8)
        request = MoveShardsRequested(self._job, function, partition, tuple(sorted(moves.items())), token)
        found = self._answer(token, lambda: self._cluster.request(request), timeout_s)
        if found is None or found.outcome is not Outcome.DONE:
            why = f"the job is {self._status.value}" if found is None else found.outcome_reason
            raise ClusterError(
                f"shards of function '{function}' of job '{self._job}' were not moved",
                why,
                "Name workers of the cluster, shards from 0 to 255, and a function that is elastic.",
            )
        return found

    def warn(self, warning: JobWarning) -> None:
        """Called by the coordinator's thread."""
        self.warnings.append(warning)
        where = "" if warning.function is None else f", function {warning.function}"
        text = f"{warning.fact}\n{warning.traceback}" if warning.traceback else warning.fact
        log.warning("job %s on %s%s: %s", self._job, warning.worker, where, text)

    def checkpoint(self, timeout_s: float) -> int:
        with self._changed:
            before = max([*self.checkpoints.complete, *self.checkpoints.failed], default=0)
            self._cluster.request_checkpoint(self._job)
            self._changed.wait_for(lambda: self._after(before) is not None or self._status.ended, timeout_s)
            checkpoint = self._after(before)
        if checkpoint is None:
            raise ClusterError(
                f"no checkpoint of job '{self._job}' was complete within {timeout_s:g} s", f"it is {self._status.value}"
            )
        return checkpoint

    def _after(self, checkpoint: int) -> int | None:
        return min((each for each in self.checkpoints.complete if each > checkpoint), default=None)

    @property
    def status(self) -> JobStatus:
        return self._status

    @property
    def progress(self) -> str:
        if self.waits_for is not None:
            return f"{self._status.value} for {self.waits_for}"
        status, observed = self._status, self._cluster.observation.jobs.get(self._job)
        deploying = None if observed is None or status.value != observed.status else observed.deploying
        return status.value if deploying is None else f"{status.value}: {deploying}"

    @property
    def error(self) -> StrettoError | None:
        return self._error

    def announce(self, status: JobStatus, error: StrettoError | None) -> None:
        """Called by the coordinator's thread."""
        if status is JobStatus.RUNNING and self._began_ns is None:
            self._began_ns = time.monotonic_ns()
        if status is JobStatus.RECOVERING:
            self.checkpoints.recoveries += 1
        if status.ended and self._fails_with is not None:
            status, error = JobStatus.FAILED, self._fails_with
        if status.ended:
            self._ended_ns = time.monotonic_ns()
            self._last_metrics = self._read_metrics()
        self._error = error
        self._status = status
        if status.ended:
            self._ended.set()
            with self._changed:
                self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def stop(self, drain: bool, savepoint: str | None) -> None:
        if savepoint is not None and not self._is_durable:
            raise UserError(f"job '{self._job}' has no checkpoints", None, "Submit it with checkpoint=DIR.")
        self._cluster.request_stop(self._job, drain, savepoint)

    def metrics(self) -> JobMetrics:
        return self._last_metrics or self._read_metrics()

    def _read_metrics(self) -> JobMetrics:
        elapsed_s = 0.0
        if self._began_ns is not None:
            elapsed_s = ((self._ended_ns or time.monotonic_ns()) - self._began_ns) / 1e9
        read: JobMetrics = self._cluster.read_metrics(self._job, elapsed_s, replace(self._plan, slo=self.objective))
        return read
