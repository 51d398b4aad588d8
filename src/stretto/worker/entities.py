"""Entities on this worker: a machine of transactions per job, whose frames, log and snapshots go through here.

Transactions run while an event is handled, an epoch's wave at a time; streams run in between (`runtime/worker_loop.py`
divides the time). What an event leads to is sent at once: all replies for one door are one frame, and all that is
appended to the log is one piece, which is made durable once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from stretto.actors.deadlines import NEVER_NS
from stretto.errors import StrettoError
from stretto.protocol.entities import (
    CallsSent,
    DropEntities,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityOrder,
    EntityReport,
    HostEntities,
    RepliesSent,
    RoundSent,
    RowRepliesSent,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.transactions import Reply, Resume, Resumed, Round, Settle, SnapshotTaken
from stretto.rendering import error_text, sendable
from stretto.transactions.activation import OutOfTime, activate
from stretto.transactions.attempt import Settings, WorkerParts
from stretto.transactions.events import AppendLog, Keeping, WorkerEffect, WorkerEvent
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.outbox import is_of_stream
from stretto.worker.events import (
    EntitiesFaulted,
    EntitiesKept,
    EntitiesLoaded,
    KeepEntities,
    LoadEntities,
    ReleaseEntities,
)
from stretto.worker.part import FrameHandlers, Handlers, Host, Part

Replies = dict[str, list[Reply]]
"""By the member that they go to."""
Around = Callable[[str, Callable[[], bool]], AbstractContextManager[None]]


@dataclass
class _Hosted:
    """The entities of one job here. `machine` is there when the code is loaded."""

    order: HostEntities
    machine: TransactionWorker | None = None
    members: list[str] = field(default_factory=list)
    callers: dict[str, str] = field(default_factory=dict)
    """Where the functions of streams are whose rows have called, by client. They move; who has called last is there."""


class Entities(Part):
    """The jobs with entities here."""

    parts: WorkerParts | None = None
    """Those of the machines of transactions. The simulator plants a bug by replacing one."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._hosted: dict[str, _Hosted] = {}
        self.around: Around = lambda job, replays: nullcontext()
        """What is around everything that may run handlers of a job. The driver of the machine may set it, to raise
        `OutOfTime` in a handler that does not return; while the machine replays, only in one that never will."""

    def events(self) -> Handlers:
        return {
            EntitiesLoaded: self._on_loaded,
            EntitiesKept: self._on_kept,
            EntitiesFaulted: self._on_faulted,
        }

    def frames(self) -> FrameHandlers:
        return {
            HostEntities: self._on_host,
            EntityOrder: self._on_order,
            CallsSent: self._on_calls,
            RoundSent: self._on_round,
            DropEntities: self._on_drop,
        }

    def machine(self, job: str) -> TransactionWorker | None:
        """Returns the machine of a job here, for the checks."""
        hosted = self._hosted.get(job)
        return None if hosted is None else hosted.machine

    # They come and go.

    def _on_host(self, sender: str, frame: HostEntities) -> None:
        self._hosted[frame.job] = _Hosted(frame)
        self._host.effects.append(LoadEntities(frame.job, frame.digest))

    def _on_loaded(self, event: EntitiesLoaded) -> None:
        hosted = self._hosted.get(event.job)
        if hosted is None:
            return  # Dropped before it was loaded.
        pace = hosted.order.pace
        settings = Settings(pace.epoch_ns, pace.calls_max, pace.snapshot_ns, pace.keys_kept_us)
        hosted.machine = TransactionWorker(hosted.order.number, event.catalog, settings, self.parts)
        self._host.send(COORDINATOR, EntitiesHosted(event.job))

    def _on_faulted(self, event: EntitiesFaulted) -> None:
        if event.job in self._hosted:
            self._fail(event.job, event.failure)

    def _fail(self, job: str, failure: Failure) -> None:
        self._host.send(COORDINATOR, EntitiesFailed(job, failure))
        self._drop(job)

    def _on_drop(self, sender: str, frame: DropEntities) -> None:
        if frame.job in self._hosted:
            self._drop(frame.job)
        self._host.send(COORDINATOR, EntitiesDropped(frame.job))

    def _drop(self, job: str) -> None:
        del self._hosted[job]
        self._host.effects.append(ReleaseEntities(job))
        self._set_alarm()

    def drop_all(self) -> None:
        """This worker leaves."""
        for job in list(self._hosted):
            self._drop(job)

    def broken(self, member: str) -> None:
        """The connection to or from a member broke: rounds may be lost, so another attempt must begin."""
        for job, hosted in self._hosted.items():
            if member in hosted.members:
                self._host.send(COORDINATOR, EntitiesBroken(job, member))

    # What happens to their machines.

    def _on_order(self, sender: str, frame: EntityOrder) -> None:
        hosted = self._hosted.get(frame.job)
        if hosted is not None and isinstance(frame.order, Resume):
            hosted.members = frame.order.members
        self._tell(frame.job, [FrameArrived(COORDINATOR, frame.order)])

    def _on_calls(self, sender: str, frame: CallsSent) -> None:
        hosted = self._hosted.get(frame.job)
        if hosted is not None:
            streams = (call for call in frame.calls if not isinstance(call, Settle))
            clients = {call.origin.client for call in streams if is_of_stream(call.origin.client)}
            hosted.callers.update(dict.fromkeys(sorted(clients), sender))
        self._tell(frame.job, [FrameArrived(sender, call) for call in frame.calls])

    def _on_round(self, sender: str, frame: RoundSent) -> None:
        self._tell(frame.job, [FrameArrived(sender, frame.round)])

    def _on_kept(self, event: EntitiesKept) -> None:
        self._tell(event.job, [event.event])

    def wake(self) -> None:
        for job, hosted in list(self._hosted.items()):
            due_ns = None if hosted.machine is None else hosted.machine.next_deadline()
            if due_ns is not None and due_ns <= self._host.now_ns:
                self._tell(job, [Ticked()])

    def _tell(self, job: str, events: list[WorkerEvent]) -> None:
        hosted = self._hosted.get(job)
        if hosted is None or hosted.machine is None:
            return  # It was dropped. What matters is sent again to who hosts it now.
        effects: list[WorkerEffect] = []
        try:
            with self.around(job, hosted.machine.replays):
                for event in events:
                    effects += hosted.machine.handle(event, self._host.now_ns)
        except OutOfTime as stopped:
            activate(None)  # What ran was interrupted, perhaps while it ended.
            self._carry_out(job, hosted.order, effects + hosted.machine.stop(stopped.seed))
            self._host.send(COORDINATOR, EntitiesBroken(job, self._host.member))
            self._set_alarm()
            return
        except Exception as error:  # A damaged log, or a defect: it must not end the other jobs of this worker.
            self._fail(job, _failure_of(job, error))
            return
        self._carry_out(job, hosted.order, effects)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = (each.machine.next_deadline() for each in self._hosted.values() if each.machine is not None)
        self.due_ns = min((each for each in due if each is not None), default=NEVER_NS)

    # What they want done.

    def _carry_out(self, job: str, order: HostEntities, effects: list[WorkerEffect]) -> None:
        replies: Replies = {}
        for_rows: Replies = {}
        appended: list[AppendLog] = []

        def append() -> None:
            if appended:
                data = b"".join(each.data for each in appended)
                self._keep(order, AppendLog(appended[-1].attempt, data, appended[-1].end))
                appended.clear()

        for effect in effects:
            if isinstance(effect, Send):
                self._send(job, effect.to, effect.frame, replies, for_rows)
            elif isinstance(effect, AppendLog):
                if appended and appended[-1].attempt != effect.attempt:
                    append()
                appended.append(effect)
            elif isinstance(effect, Refuse):
                self._host.stale += 1  # Rounds of an earlier attempt: late, not wrong.
            else:
                append()
                self._keep(order, effect)
        append()
        for member, found in replies.items():
            self._host.send(member, RepliesSent(job, found))
        for member, found in for_rows.items():
            self._host.send(member, RowRepliesSent(job, found))

    def _keep(self, order: HostEntities, what: Keeping) -> None:
        self._host.effects.append(KeepEntities(order.job, order.number, order.directory, what))

    def _send(self, job: str, to: str, frame: Any, replies: Replies, for_rows: Replies) -> None:
        match frame:
            case Round():
                self._host.send(to, RoundSent(job, frame))
            case Reply() if is_of_stream(to):
                hosted = self._hosted.get(job)
                member = None if hosted is None else hosted.callers.get(to)
                if member is not None:  # Else it has not called since this worker began; it will call again.
                    for_rows.setdefault(member, []).append(frame)
            case Reply():
                replies.setdefault(member_of(to), []).append(frame)
            case Resumed() | SnapshotTaken():
                self._host.send(COORDINATOR, EntityReport(job, frame))


def member_of(client: str) -> str:
    """Returns the member of a door, whose name begins with it."""
    return client.partition("/")[0]


def _failure_of(job: str, error: Exception) -> Failure:
    if isinstance(error, StrettoError):
        return Failure(type(error).__name__, f"the entities of '{job}': {error.fact}", error.detail, error.fix)
    return Failure("InvariantError", f"the entities of '{job}' cannot go on", sendable(error_text(error)))
