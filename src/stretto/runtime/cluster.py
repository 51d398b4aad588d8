"""A cluster of workers inside Spark: start it, submit apps, close it. Closing ends everything that was started."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from stretto.actors.address import job_of
from stretto.actors.deployment import Deployment
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.shape import shapes_of
from stretto.api.engines import Engine, EngineChoice, choose
from stretto.api.lowering import lowered
from stretto.api.plan import AggregateNode, ApplyNode, MapNode, Plan, WindowAggregateNode
from stretto.api.relational import unsupported
from stretto.checkpoints.store import KEPT
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceDecision,
    AnnounceEntities,
    AnnounceJob,
    AnnounceLongRuns,
    AnnounceMembers,
    AnnounceMisbehaviour,
    CheckpointRequested,
    CloseRequested,
    CodeMade,
    CodeRefused,
    EntitiesStopRequested,
    Event,
    ForgetRequested,
    GiveUpWorker,
    MakeCode,
    ReleaseWorker,
    ReplaceWorker,
    StartWorker,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
)
from stretto.coordinator.machine import LOST_AFTER_NS
from stretto.coordinator.records import JobStatus
from stretto.elasticity.burst_prices import Prices
from stretto.elasticity.naming import controllers_named
from stretto.elasticity.records import DecisionRecord
from stretto.errors import ClusterError, EngineError, InvariantError, StrettoError, UserError
from stretto.observation.model import Observation
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import Duration, positive_duration_us
from stretto.protocol.entities import entities_of, streams_of
from stretto.protocol.membership import COORDINATOR, Join, Member, MemberRole
from stretto.queries.answers import Answer, completed
from stretto.queries.askable import Askable
from stretto.rendering import error_text, message_of
from stretto.runtime.announcements import Announcements
from stretto.runtime.answer_frames import frame_of
from stretto.runtime.checkpoint_plans import Wish, check_needs_none, opened_checkpoints
from stretto.runtime.code_store import CodeStore, Shipped, local_modules
from stretto.runtime.cold_store import check_rocksdict
from stretto.runtime.coordinator_loop import CoordinatorLoop
from stretto.runtime.descriptors import raise_descriptor_limit
from stretto.runtime.driver_link import DRIVER_SILENCE_S
from stretto.runtime.entities.client import EntityClient
from stretto.runtime.entities.execution import EntityExecution
from stretto.runtime.entities.submitting import OpenedEntities, beside_streams, opened
from stretto.runtime.failures import error_of
from stretto.runtime.hosting import WorkerHost, check_slots
from stretto.runtime.job import ActorExecution, Job, warning_of
from stretto.runtime.keys import KeyPair
from stretto.runtime.metrics import JobMetrics, report
from stretto.runtime.own_python import use_own_python
from stretto.runtime.page import OpenPage, OpenRecording, opened_page, opened_recording
from stretto.runtime.process_guard import Ending
from stretto.runtime.published_files import place_tables
from stretto.runtime.questions import Questions
from stretto.runtime.rescaling import Submitted
from stretto.runtime.scaling import Scaling
from stretto.runtime.session import timezone_of
from stretto.runtime.slots import free_slots, hold_slots, release_slots, require_free_slot, require_free_slots
from stretto.runtime.starting import Start
from stretto.runtime.transport import Transport
from stretto.runtime.worker_loop import WorkerLoop
from stretto.runtime.worker_process import WorkerSettings, machine_for, membership
from stretto.scheduling.policies import policy_named
from stretto.scheduling.strategies import strategy_named
from stretto.worker.events import PassAnswers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stretto.api.app import App

log = logging.getLogger("stretto.cluster")

START_TIMEOUT_S = 120.0
START_POLL_S = 1.0
LEAVE_TIMEOUT_S = 8.0
DRAIN_TIMEOUT_S = 120.0
UNJOINED_WAIT_S = 1.0
"""The delay before a worker that ended before it joined is replaced, since the replacement may fail in the same way."""
QUESTION_TIMEOUT_S = 30.0
DRIVER_MEMBER = "driver~1"


class Cluster:
    """Workers in Spark tasks that run many apps. A context manager: `with Cluster.on_spark(spark, workers=2) as c:`."""

    def __init__(
        self,
        spark: SparkSession,
        workers: int,
        code_dir: str | None,
        start_timeout_s: float,
        policy: str = "llf",
        strategy: str = "reject",
        parked: int = 0,
        lost_after_us: int = LOST_AFTER_NS // 1_000,
        driver_silence_s: float = DRIVER_SILENCE_S,
        elasticity: str = "auto",
        transient: int = 0,
        prices: Prices | None = None,
        transient_max: int = 0,
        page: bool | str = False,
        record: bool = False,
    ) -> None:
        # A wrong name fails here, and not in each worker.
        policy_named(policy)
        strategy_named(strategy)
        controllers = controllers_named(elasticity, transient, prices, transient_max)
        held = workers + parked + transient
        check_slots(spark, held)
        require_free_slots(spark, held)
        self._parked_wanted = parked
        self._transient_wanted = transient
        self._policy = policy
        self._strategy = strategy
        self._driver_silence_s = driver_silence_s
        use_own_python(spark)
        raise_descriptor_limit()
        self.spark = spark
        self.id = secrets.token_hex(4)
        self._workers_at_start = workers
        hold_slots(spark, self.id, held)
        self._members: tuple[Member, ...] = ()
        self._members_changed = threading.Condition()
        self._ended: dict[str, str] = {}
        self._executions: dict[str, ActorExecution | EntityExecution] = {}
        self._submitted: dict[str, Submitted] = {}
        self._codes: dict[str, Deployment] = {}
        """The deployments of all jobs, also those that they were handed over to, by their digests."""
        self._digests: dict[str, set[str]] = {}
        self._microbatches: list[Job] = []
        self._names_used: dict[str, int] = {}
        self._closed = False
        self._trigger_s: float | None = None
        self._code = CodeStore(code_dir)
        announcements = Announcements() if page or record else None
        self._recording: OpenRecording | None = None
        self._page: OpenPage | None = None
        self._coordinator = CoordinatorLoop(
            self.id,
            _driver_address(spark),
            self._on_job,
            self._on_members,
            self._on_failed,
            self._on_change,
            self._on_checkpoint,
            self._on_noticed,
            self._on_decision,
            self._on_code_wanted,
            self._on_entities,
            controllers,
            lost_after_us * 1_000,
            int(start_timeout_s * 1e9),
            announcements,
        )
        self._questions = Questions(lambda: timezone_of(spark))
        self._hosts: list[WorkerHost] = []
        self._scaling = Scaling(self)
        self._driver_thread = threading.Thread(target=self._run_driver_worker, name="stretto-driver", daemon=True)
        try:
            if announcements is not None:
                self._recording = opened_recording(announcements, f"cluster {self.id}")
            if page:
                self._page = opened_page(self._recording, self, page)
            self._start(workers, start_timeout_s)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def on_spark(
        spark: SparkSession,
        workers: int = 2,
        *,
        policy: str = "llf",
        strategy: str = "reject",
        parked: int = 0,
        lost_after: Duration = "10 s",
        driver_silence: Duration = "10 s",
        elasticity: str = "auto",
        transient: int = 0,
        transient_max: int = 0,
        transient_price: float = 4.0,
        code_dir: str | None = None,
        start_timeout: float = START_TIMEOUT_S,
        page: bool | str = False,
        record: bool = False,
    ) -> Cluster:
        """Starts `workers` workers, each a long-running task in its own Spark job.

        `policy` says which message runs first: llf (least laxity first), edf, sjf, fifo, fair, or a `module:Class` of
        your own (see `stretto.scheduling.Policy`). `strategy` says where the messages of spread functions run: one of
        `stretto.scheduling.STRATEGIES`, or a `module:Class` of your own. `parked` is the number of idle workers that
        replace lost ones at once; a worker that sends nothing for `lost_after` counts as lost. A worker leaves when
        the driver has sent nothing for `driver_silence` and its connection is lost; a driver that is only paused keeps
        its workers. `elasticity` names the controllers that decide where the shards of elastic functions are
        (`app.elastic`): auto, off, some of `stretto.elasticity.CONTROLLERS`, or a `module:Class` of your own;
        `job.decisions()` says what they did and why. `transient` workers hold the code of the running jobs, are home to
        nothing, and may vanish at any time; with `elasticity="auto"`, bursts go there. If that is not enough, more are
        started for a burst, up to `transient_max` in all, each as one more Spark job, on new executors where Spark's
        dynamic allocation is on; they leave when it is over. One costs `transient_price` times what an ordinary worker
        does: the dearer, the sooner a burst that lasts has ordinary ones added.
        `code_dir` is where workers read the code of apps; the default, a
        private temporary directory, works if the workers are on the driver's machine. `start_timeout` is how many
        seconds Spark may be without a slot for one of the workers; a slow machine may take longer. For as long, a job
        that has lost all workers waits for new ones.

        With `page`, a web page shows what happens and why (`cluster.page.url`): on loopback, or at an address such as
        `"0.0.0.0:4141"`, where it needs the token that is in the URL. With `record`, what it would show is kept for
        `cluster.write_report(path)`, and nothing is served."""
        lost_after_us = positive_duration_us(lost_after, "lost_after")
        driver_silence_s = positive_duration_us(driver_silence, "driver_silence") / 1e6
        return Cluster(
            spark,
            workers,
            code_dir,
            start_timeout,
            policy,
            strategy,
            parked,
            lost_after_us,
            driver_silence_s,
            elasticity,
            transient,
            _prices(transient_price),
            transient_max,
            page,
            record,
        )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster {self.id} of {self._coordinator.wanted} workers{', closed' if self._closed else ''}>"

    # Starting and ending.

    def _start(self, workers: int, timeout_s: float) -> None:
        self._coordinator.start()
        self._driver_loop = self._make_driver_loop()
        self._questions.opened(self._driver_loop.post)
        self._driver_thread.start()
        workers += self._parked_wanted
        for index in range(workers):
            self._host(f"w{index}~1", parked=index >= workers - self._parked_wanted)
        for index in range(self._transient_wanted):
            self._host(f"t{index}~1", transient=True)
        start = Start(self.spark, workers + self._transient_wanted, timeout_s)
        while not self._all_joined(START_POLL_S):
            joined = {member.name for member in self._members}
            start.check([host for host in self._hosts if host.member not in joined])

    def _all_joined(self, within_s: float) -> bool:
        """Waits a while for all workers and the driver's own, and returns whether they have joined."""
        with self._members_changed:
            self._members_changed.wait_for(lambda: self._ended or self._is_complete(), within_s)
            for member, reason in self._ended.items():
                raise ClusterError(f"worker {member} ended at the start", reason, "Look at the executors' logs.")
            return self._is_complete()

    def _is_complete(self) -> bool:
        return len(self._members) > self._workers_at_start + self._parked_wanted + self._transient_wanted

    def _host(self, member: str, parked: bool = False, transient: bool = False) -> None:
        role = MemberRole.TRANSIENT if transient else MemberRole.WORKER
        host = WorkerHost(self.spark, self._settings(member, role, parked), self._on_worker_ended)
        self._hosts.append(host)
        host.start()

    def _settings(self, member: str, role: MemberRole = MemberRole.WORKER, parked: bool = False) -> WorkerSettings:
        keys = KeyPair.new()
        self._coordinator.expect(member, keys.public, parked, role is MemberRole.TRANSIENT)
        return WorkerSettings(
            self.id,
            member,
            keys,
            self._coordinator.endpoint,
            self._coordinator.keys.public,
            str(self._code.directory),
            role,
            self._policy,
            self._strategy,
            self._driver_silence_s,
        )

    def _make_driver_loop(self) -> WorkerLoop:
        """Returns the loop of the driver's worker, for what must run in its process: collecting, callbacks,
        DataFrames."""
        settings = self._settings(DRIVER_MEMBER, MemberRole.DRIVER)
        host = _driver_address(self.spark)
        transport = Transport(self.id, settings.member, settings.keys, host)
        transport.connect_coordinator(settings.coordinator_endpoint, settings.coordinator_key)
        transport.send(COORDINATOR, Join(membership(settings, transport, host)))
        machine = machine_for(settings)
        return WorkerLoop(
            machine,
            transport,
            self._deployment_of,
            self._on_sink_opened,
            pass_answers=self._pass_answers,
            pass_gathered=self._questions.pass_on,
            note_decision=lambda noted: self._on_decision(AnnounceDecision(noted.record.number, noted.record)),
        )

    def _pass_answers(self, effect: PassAnswers) -> None:
        execution = self._executions.get(effect.job)
        if isinstance(execution, EntityExecution):
            execution.client.answer(effect.answers)

    def _deployment_of(self, run: str, digest: str) -> Deployment:
        return self._codes[digest]

    def _run_driver_worker(self) -> None:
        try:
            self._driver_loop.run()
        except Exception as error:
            log.exception("the driver's own worker failed")
            self._on_worker_ended(DRIVER_MEMBER, Ending(error_text(error)))
        finally:
            self._driver_loop.close()

    def close(self) -> None:
        """Stops all jobs, lets the workers leave, and ends everything that was started. May be called again."""
        if self._closed:
            return
        with self._members_changed:
            self._closed = True
            self._members_changed.notify_all()
        self._questions.close()  # The page answers what it was asked before it ends.
        if self._page is not None:
            self._page.close()
        self._scaling.close()
        for job in self._microbatches:
            if not job.status.ended:
                job.stop()
        self._coordinator.request(CloseRequested())
        joined = {member.name for member in self._members}
        for host in self._hosts:
            if host.member not in joined:
                host.cancel()  # Only members are asked to leave; this one has not joined.
        deadline = time.monotonic() + LEAVE_TIMEOUT_S
        staying = [host for host in self._hosts if not host.join(max(0.0, deadline - time.monotonic()))]
        for host in staying:
            log.warning("%s did not leave within %g s; its Spark job is cancelled", host.member, LEAVE_TIMEOUT_S)
            host.cancel()
        for host in staying:
            host.join(LEAVE_TIMEOUT_S)
        if self._driver_thread.ident is not None:
            if DRIVER_MEMBER not in joined:
                self._driver_loop.stop()
            self._driver_thread.join(LEAVE_TIMEOUT_S)
            if self._driver_thread.is_alive():
                log.warning("a callback or a source in the driver still runs; its thread ends when it returns")
                self._driver_loop.stop()
        self._coordinator.close()
        if self._recording is not None:
            self._recording.close()
        self._code.close()
        release_slots(self.id)

    # Announcements of the coordinator.

    def _on_worker_ended(self, member: str, ending: Ending) -> None:
        if not self._closed:
            level = logging.INFO if self._scaling.is_leaving(member) else logging.WARNING
            log.log(level, "worker %s ended: %s", member, ending.reason)
            self._coordinator.request(WorkerEnded(member, ending.reason, ending.death))
            with self._members_changed:
                self._ended[member] = ending.reason
                self._members_changed.notify_all()

    def _on_change(self, change: ReplaceWorker | StartWorker | GiveUpWorker | ReleaseWorker) -> None:
        """Starts or ends a worker in another thread, since the coordinator must not wait for Spark."""
        if self._closed:
            return
        act: Callable[[], None]
        match change:
            case ReplaceWorker():
                act = partial(self._replace, change)
            case StartWorker():
                act = partial(self._scaling.start, change)
            case GiveUpWorker():
                act = partial(self._scaling.give_up, change)
            case ReleaseWorker(name=name):
                act = partial(self._cancel, name)
        threading.Thread(target=act, name="stretto-workers", daemon=True).start()

    def _cancel(self, member: str) -> None:
        """Ends the Spark job of a worker, which may hang and keep its slot."""
        for host in self._hosts:
            if host.member == member:
                host.cancel()

    def _replace(self, loss: ReplaceWorker) -> None:
        self._cancel(loss.name)
        name, _, incarnation = loss.name.partition("~")
        if not loss.joined:
            with self._members_changed:
                self._members_changed.wait_for(lambda: self._closed, UNJOINED_WAIT_S)
        if not self._closed and not self._scaling.is_abandoned(name):
            self._host(f"{name}~{int(incarnation) + 1}", loss.parked, loss.transient)

    def _on_checkpoint(self, change: AnnounceCheckpoint) -> None:
        execution = self._executions.get(change.job)
        if isinstance(execution, ActorExecution):
            execution.record_checkpoint(change)

    def _on_noticed(self, change: AnnounceMisbehaviour | AnnounceLongRuns) -> None:
        warning = warning_of(change)
        delayed = change.delayed if isinstance(change, AnnounceLongRuns) else {}
        for job in (change.job, *delayed):
            execution = self._executions.get(job)
            if execution is not None:
                execution.warn(warning)

    def _on_decision(self, change: AnnounceDecision) -> None:
        if not change.record.job:
            self._scaling.record(change)
        execution = self._executions.get(change.record.job)
        if isinstance(execution, ActorExecution):
            execution.record_decision(change)

    def _on_entities(self, change: AnnounceEntities) -> None:
        execution = self._executions.get(change.job)
        if isinstance(execution, EntityExecution):
            execution.move(change.members, change.waited_ns)

    def _on_failed(self, error: Exception) -> None:
        """Fails all jobs, since the coordinator's loop has failed and nothing else will end them."""
        failed = InvariantError("the coordinator failed", error_text(error))
        for execution in list(self._executions.values()):
            execution.announce(JobStatus.FAILED, failed)

    def _on_members(self, change: AnnounceMembers) -> None:
        with self._members_changed:
            self._members = change.members
            self._members_changed.notify_all()

    def _on_job(self, change: AnnounceJob) -> None:
        execution = self._executions[change.job]
        execution.waits_for = change.waits_for
        error = error_of(change.failure) if change.failure else None
        if change.status.ended:
            self._end_other_part(change.job, change.status, error)
        execution.announce(change.status, error)
        if change.status.ended:
            self._coordinator.request(ForgetRequested(change.job))
            del self._executions[change.job]
            self._submitted.pop(change.job, None)
            self._questions.ended(change.job)
            self._coordinator.manifests.stores.pop(change.job, None)
            for digest in self._digests.pop(change.job):
                self._codes.pop(digest, None)
                self._code.remove(digest)

    def _end_other_part(self, job: str, status: JobStatus, error: StrettoError | None) -> None:
        """Ends the entities of an app whose streams were stopped or have failed, or its streams if the entities have.
        When streams have come to their end, the entities stay until the job is stopped.

        It happens before anybody hears of the end: whoever has waited for it finds that entities answer no more."""
        entities = self._executions.get(entities_of(job))
        if isinstance(entities, EntityExecution) and status is not JobStatus.FINISHED:
            entities.shut()
            self.request(EntitiesStopRequested(entities_of(job)))
        streams = self._executions.get(streams_of(job) or "")
        if isinstance(streams, ActorExecution):
            streams.fail_with(error)
            self.request_stop(streams_of(job) or "", drain=False)

    def _on_code_wanted(self, wanted: MakeCode) -> None:
        """Lowers a plan again, in another thread, since the coordinator must not wait for it."""
        threading.Thread(target=self._make_code, args=(wanted,), name="stretto-code", daemon=True).start()

    def _make_code(self, wanted: MakeCode) -> None:
        submitted = self._submitted.get(wanted.job)
        if submitted is None:
            return  # It has ended.
        try:
            deployment = submitted.rescaled(wanted.current, wanted.parallelism, wanted.shards)
            code = self._put_code(wanted.job, deployment, submitted.plan)
        except Exception as error:
            reason = message_of(error) if isinstance(error, StrettoError) else error_text(error)
            self._coordinator.request(CodeRefused(wanted.job, wanted.order, reason))
            return
        shapes, spreads = shapes_of(deployment), deployment.spreads
        self._coordinator.request(CodeMade(wanted.job, wanted.order, code.digest, shapes, spreads, code.bytes))

    def _put_code(self, job: str, deployment: Deployment, plan: Plan) -> Shipped:
        """Writes the code of a deployment to where workers find it."""
        code = self._code.put(_for_workers(deployment), local_modules(_modules_of(plan)))
        self._codes[code.digest] = deployment
        self._digests.setdefault(job, set()).add(code.digest)
        return code

    def _on_sink_opened(self, instance: Instance) -> None:
        execution = self._executions.get(job_of(instance.address.job))
        if execution is not None:
            execution.writers[instance.address.function] = instance.function.writer

    # For users.

    @property
    def workers(self) -> list[Member]:
        """The present members, without the driver's own."""
        return [member for member in self._members if member.role is MemberRole.WORKER]

    @property
    def transient_workers(self) -> list[Member]:
        """The present transient workers: those that wait for bursts, and those that came for one."""
        return [member for member in self._members if member.role is MemberRole.TRANSIENT]

    def scale_out(self, workers: int = 1, *, transient: bool = False, timeout: float = START_TIMEOUT_S) -> list[Member]:
        """Adds workers while jobs run, and returns them once all have joined.

        Each is one more Spark job. Spread functions may have lessees there at once, elastic ones tasks; actors stay
        where they are. Too few slots are an error before anything starts; with Spark's dynamic allocation on, Spark
        starts an executor for each. `timeout` is how many seconds Spark may be without a slot for one of them; those
        that have not come then are given up. With `transient`, they are transient workers, for bursts."""
        self._check_open()
        return self._scaling.out(workers, timeout, transient)

    def scale_in(self, workers: int = 1, *, timeout: float = DRAIN_TIMEOUT_S) -> list[str]:
        """Has workers leave while jobs run, all or none, and returns their names when their Spark slots are free.

        Those that are home to the fewest actors and have the least load are chosen. Lessees and shards move to other
        workers first, and nothing is lost or repeated. If it takes longer than `timeout` seconds, an error is raised,
        and the workers still leave as soon as they can."""
        self._check_open()
        return self._scaling.leave(workers, timeout)

    def drain(self, worker: str, *, timeout: float = DRAIN_TIMEOUT_S) -> None:
        """Has this worker leave, such as `"w1~1"` (see `cluster.workers`); otherwise as `scale_in`. A transient one
        (`cluster.transient_workers`) leaves at once: what runs there runs again where it came from."""
        self._check_open()
        self._scaling.drain(worker, timeout)

    @property
    def workers_wanted(self) -> int:
        """How many workers there are to be: those that are coming count, those that leave and spare ones do not."""
        return self._coordinator.wanted

    def decisions(self) -> list[DecisionRecord]:
        """Returns the decisions about the workers of the cluster, of users and controllers, the last ones. Those about
        a job are in `job.decisions()`."""
        return self._scaling.decisions()

    def query(self, text: str, *, timeout: float = QUESTION_TIMEOUT_S, at_least: datetime | None = None) -> pa.Table:
        """Returns the answer to a SELECT over published tables (`stream.publish`) or over the state of a function
        (`SELECT * FROM state.Name`), in Spark's SQL, while jobs run.

        The answer has all rows that have come so far. With `at_least`, a time with its zone, it waits until everything
        with an earlier event time has come. It survives the loss of workers. If something cannot answer within
        `timeout` seconds, a ClusterError names it with its reason; `ask` returns what there is instead."""
        return completed(self.ask(text, timeout=timeout, at_least=at_least))

    def query_dataframe(
        self, text: str, *, timeout: float = QUESTION_TIMEOUT_S, at_least: datetime | None = None
    ) -> DataFrame:
        """Returns the answer to a SELECT as `query` does, as a DataFrame of the cluster's Spark session.

        Its columns have the types that Spark SQL gives them, also if there are no rows."""
        return frame_of(self.spark, self.query(text, timeout=timeout, at_least=at_least))

    def ask(self, text: str, *, timeout: float = QUESTION_TIMEOUT_S, at_least: datetime | None = None) -> Answer:
        """Returns the answer to a SELECT as `query` does, with how fresh it is and what is missing in it."""
        self._check_open()
        return self._questions.answer(text, timeout, at_least)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that can be asked for."""
        return self._questions.names

    def askable(self) -> Askable:
        """Returns the tables and the states of functions that can be asked for, with their columns and jobs."""
        self._check_open()
        return self._questions.askable

    @property
    def page(self) -> OpenPage:
        """The web page of the cluster: `page.url` has the token that changes need, `page.address` has not."""
        if self._page is None:
            raise UserError("this cluster has no page", None, "Start it with Cluster.on_spark(..., page=True).")
        return self._page

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes what the page shows as one HTML file that needs no server and no network, also after the end."""
        if self._recording is None:
            raise UserError(
                "nothing was recorded of this cluster", None, "Start it with Cluster.on_spark(..., record=True)."
            )
        self._recording.write_report(os.fspath(path))

    @property
    def endpoints(self) -> list[str]:
        """The addresses at which the coordinator and the present members listen."""
        return [self._coordinator.endpoint, *(member.endpoint for member in self._members)]

    @property
    def observation(self) -> Observation:
        """The observation of jobs, functions, actors, edges and workers, as of the last reports."""
        return self._coordinator.observation

    @property
    def busy_workers(self) -> set[str]:
        """Returns the names of the workers that take part in some job."""
        jobs = self.observation.jobs.values()
        return {name for job in jobs if not JobStatus(job.status).ended for name in job.members}

    @property
    def refused(self) -> dict[str, int]:
        """Returns the number of connections and frames that each member and the coordinator have refused."""
        counts = dict(self.observation.refused)
        counts[COORDINATOR] = self._coordinator.transport.refusals.count
        return counts

    def submit(
        self,
        app: App,
        *,
        engine: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: Duration | None = "10 s",
        keep: int = KEPT,
        start: str | None = None,
        drop_state: bool = False,
    ) -> Job:
        """Runs an app on this cluster and returns its handle. Bad plans are refused here, before anything runs.

        With `checkpoint`, a directory or a URI (s3://, hdfs://) that only this app uses, its state is written there at
        the interval `every` (None: only on `job.checkpoint()`), and the last `keep` complete checkpoints are kept. The
        app resumes from the last one when a worker is lost and when it is submitted again, unless `start` names a
        savepoint to resume from. Its sinks publish rows when a complete checkpoint has them.

        It may resume with another number of workers, another parallelism, or changed code: functions are matched by
        name, and new ones start empty. If a function with state was removed, the app is refused unless `drop_state` is
        set.

        An app with entities keeps the log of its calls in `checkpoint`, which must be a directory of a file system that
        all workers see, and takes snapshots at the interval `every`, at least each 4 s. It stays in as many
        places as the directory was made with, of which a worker may have several. Without `checkpoint` its entities are
        in memory only: when a worker is lost, the job fails. If it has streams too, its entities are kept in the
        directory `entities` below `checkpoint`, and go on answering when the streams have come to their end, until
        `job.stop()`."""
        self._check_open()
        if app.entities and not app.has_streams:
            if start is not None or drop_state or engine not in (None, Engine.AUTO.value, Engine.ACTORS.value):
                raise UserError(
                    f"app '{app.name}' has entities", "it has no savepoints, no functions and no micro-batches"
                )
            return self._submit_entities(app, None if checkpoint is None else os.fspath(checkpoint), every)
        plan = app.plan(timezone_of(self.spark))
        choice = self._choose(app, plan, engine)
        name = self._free_name(app.name)
        self._check_free_slot(plan, choice)
        if choice.engine is Engine.MICROBATCH:
            if checkpoint is not None:
                raise EngineError(
                    f"app '{app.name}' runs in micro-batches, which have no checkpoints here",
                    None,
                    'Use engine="actors".',
                )
            return self._submit_microbatch(name, app, plan, choice)
        uri = None if checkpoint is None else os.fspath(checkpoint)
        wish = None if uri is None else Wish(uri, every, keep, start, drop_state)
        if not app.entities:
            job, submitted = self._prepared_actors(name, app, plan, choice, wish)
        else:
            entities = opened(entities_of(name), app, beside_streams(uri), every, self._coordinator.wanted)
            job, submitted = self._prepared_actors(name, app, plan, choice, wish)
            job.add_entities(self._host_entities(entities, plan))
        self.request(submitted)
        return job

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterError(f"cluster {self.id} is closed", None, "Use it inside the with block.")

    def _prepared_actors(
        self, name: str, app: App, plan: Plan, choice: EngineChoice, wish: Wish | None
    ) -> tuple[Job, SubmitRequested]:
        """Returns a job with the request that lets it begin."""
        self._questions.check(plan, list(self._executions))
        place_tables(plan, None if wish is None else wish.uri)
        parallelism = app.parallelism or max(1, self._coordinator.wanted)
        deployment = lowered(plan, name, parallelism, app.batch_rows, app.batch_delay_us)
        if any(spec.spill_bytes is not None for spec in deployment.functions.values()):
            check_rocksdict()
        checkpoints = None
        if wish is None:
            check_needs_none(deployment)
        else:
            store, checkpoints = opened_checkpoints(app.name, deployment, wish)
            self._coordinator.manifests.stores[name] = store
        code = self._put_code(name, deployment, plan)
        execution = ActorExecution(self, name, plan, checkpoints is not None)
        self._executions[name] = execution
        self._questions.publish(name, plan, deployment)
        is_durable = checkpoints is not None
        self._submitted[name] = Submitted(plan, parallelism, app.batch_rows, app.batch_delay_us, deployment, is_durable)
        shapes = shapes_of(deployment)
        submitted = SubmitRequested(name, code.digest, shapes, deployment.spreads, checkpoints, plan.slo, code.bytes)
        return Job(name, plan, choice, execution, self.spark), submitted

    def _submit_entities(self, app: App, uri: str | None, every: Duration | None) -> Job:
        name = self._free_name(app.name)
        shown = Plan(app.name, {}, app.slo)
        execution = self._host_entities(opened(name, app, uri, every, self._coordinator.wanted), shown)
        choice = EngineChoice(Engine.ACTORS, "it has entities")
        return Job(name, shown, choice, execution, self.spark, execution.client)

    def _host_entities(self, entities: OpenedEntities, shown: Plan) -> EntityExecution:
        """Has the entities of an app hosted, and returns what its handle reads of them."""
        name, modules = entities.job, entities.code.modules()
        shipped = self._code.put(entities.code, local_modules(modules))
        self._digests.setdefault(name, set()).add(shipped.digest)
        if entities.store is not None:
            self._coordinator.manifests.stores[name] = entities.store
        client = EntityClient(name, DRIVER_MEMBER, entities.catalog, modules, self._driver_loop.post)
        execution = EntityExecution(name, shown, client, lambda: self.request(EntitiesStopRequested(name)))
        self._executions[name] = execution
        self.request(entities.submitted(shipped.digest))
        return execution

    def _submit_microbatch(self, name: str, app: App, plan: Plan, choice: EngineChoice) -> Job:
        from stretto.runtime.microbatch import MicrobatchQuery

        query = MicrobatchQuery(name, plan, self.spark, parallelism=app.parallelism)
        query.start()
        job = Job(name, plan, choice, query, self.spark)
        self._microbatches = [other for other in self._microbatches if not other.status.ended] + [job]
        return job

    def _choose(self, app: App, plan: Plan, engine: str | None) -> EngineChoice:
        wanted = app.engine if engine is None else Engine.named(engine)
        if app.entities:
            if wanted is Engine.MICROBATCH:
                raise EngineError(f"app '{app.name}' has entities", "micro-batches have none", 'Use engine="actors".')
            return EngineChoice(Engine.ACTORS, "it has entities")
        if wanted is Engine.ACTORS:
            return EngineChoice(wanted, "as asked for")
        reason = unsupported(plan, streaming=True)
        if wanted is Engine.MICROBATCH:
            if reason is not None:
                raise EngineError(f"micro-batches cannot express app '{app.name}'", reason, 'Use engine="actors".')
            return EngineChoice(wanted, "as asked for")
        if free_slots(self.spark) == 0:
            return EngineChoice(Engine.ACTORS, "the workers hold all of Spark's slots, and micro-batches need one")
        trigger_s = None
        if reason is None and app.slo.latency_ms is not None:
            trigger_s = self._measured_trigger_s()
        return choose(app.slo, reason, trigger_s)

    def _measured_trigger_s(self) -> float:
        if self._trigger_s is None:
            from stretto.runtime.triggers import measure_trigger_s

            self._trigger_s = measure_trigger_s(self.spark)
        return self._trigger_s

    def _check_free_slot(self, plan: Plan, choice: EngineChoice) -> None:
        needing = [f"source '{node.name}'" for node in plan.sources if getattr(node.source, "needs_spark_slot", False)]
        if choice.engine is Engine.MICROBATCH:
            needing = ["the micro-batch engine"]
        if needing:
            require_free_slot(self.spark, f"{needing[0]} of app '{plan.app}'")

    def _free_name(self, wish: str) -> str:
        count = self._names_used[wish] = self._names_used.get(wish, 0) + 1
        return wish if count == 1 else f"{wish}#{count}"

    # For scaling.

    @property
    def hosted(self) -> list[WorkerHost]:
        """The Spark jobs of all workers so far."""
        return list(self._hosts)

    def host(self, member: str, transient: bool = False) -> None:
        """Starts one more worker."""
        if not self._closed:
            self._host(member, transient=transient)

    def request(self, event: Event) -> None:
        """Passes a request to the coordinator."""
        self._coordinator.request(event)

    # For the handles.

    def execution_of(self, job: str) -> ActorExecution | EntityExecution:
        """Returns what runs a job, by the job's name."""
        execution = self._executions.get(job)
        if execution is None:
            known = ", ".join(sorted(self._executions)) or "none"
            raise UserError(f"no job '{job}' runs on this cluster", f"it runs {known}")
        return execution

    def request_checkpoint(self, job: str) -> None:
        self._coordinator.request(CheckpointRequested(job))

    def request_stop(self, job: str, drain: bool, savepoint: str | None = None) -> None:
        self._coordinator.request(StopRequested(job, drain, savepoint))

    def read_metrics(self, job: str, elapsed_s: float, plan: Plan) -> JobMetrics:
        observed = self.observation.jobs.get(job)
        return report(observed.totals if observed is not None else {}, elapsed_s, plan)


def _prices(transient_price: float) -> Prices:
    if not transient_price > 0:
        raise UserError(
            "transient_price must be more than 0", f"it is {transient_price:g}", "An ordinary worker costs 1."
        )
    return Prices(transient=transient_price)


def _for_workers(deployment: Deployment) -> Deployment:
    """Returns the deployment without the functions of the driver: a callback may refer to what cannot be pickled, such
    as a lock."""
    functions = {
        name: replace(spec, function=Function()) if spec.on_driver else spec
        for name, spec in deployment.functions.items()
    }
    return replace(deployment, functions=functions)


def _driver_address(spark: SparkSession) -> str:
    """Returns loopback in local mode; otherwise the address under which executors reach the driver."""
    if (spark.sparkContext.master or "").split("[")[0] == "local":
        return "127.0.0.1"
    return socket.gethostbyname(spark.sparkContext.getConf().get("spark.driver.host", "localhost"))


def _modules_of(plan: Plan) -> set[str]:
    """Returns the modules that define the plan's Python functions."""
    found: set[object] = {getattr(udf.function, "__module__", None) for udf in plan.udfs.values()}
    for node in plan.nodes.values():
        match node:
            case MapNode(function=function):
                found.add(getattr(function, "__module__", None))
            case ApplyNode(function=function):
                found.update(cls.__module__ for cls in type(function).__mro__ if cls not in (Function, object))
            case WindowAggregateNode(calls=calls) | AggregateNode(calls=calls):
                for call in calls:
                    if isinstance(call, UserAggregate):
                        parts = (call.init, call.add, call.combine, call.finish)
                        found.update(getattr(part, "__module__", None) for part in parts)
        for end in (getattr(node, "source", None), getattr(node, "sink", None)):
            if end is not None:
                found.add(type(end).__module__)
    return {name for name in found if isinstance(name, str)}
