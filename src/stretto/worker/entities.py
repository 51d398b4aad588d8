"""Entities on this worker: a machine of transactions per place of a job, whose frames, log and snapshots pass here.

Transactions run while an event is handled, an epoch's wave at a time; streams run in between (`runtime/worker_loop.py`
divides the time). What an event leads to is sent at once: all replies for one door are one frame, and all that is
appended to the log is one piece, which is made durable once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from stretto.actors.deadlines import NEVER_NS
from stretto.errors import StrettoError
from stretto.protocol.entities import (
    CallsSent,
    DropEntities,
    EmittedSent,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityOrder,
    EntityPlaces,
    EntityReport,
    HostEntities,
    LeavePlace,
    MovePlace,
    PlaceSent,
    RepliesSent,
    RoundSent,
    RowRepliesSent,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.transactions import (
    Copied,
    Copy,
    CopyTaken,
    Emitted,
    Fetch,
    Moved,
    Reply,
    Resume,
    Resumed,
    Round,
    Settle,
    SnapshotTaken,
    TakenOver,
    Takeover,
)
from stretto.rendering import error_text, sendable
from stretto.transactions.activation import OutOfTime, activate
from stretto.transactions.attempt import Settings, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.events import AppendLog, Keeping, WorkerEffect, WorkerEvent
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.outbox import is_of_stream
from stretto.worker.entity_reports import EntityReports
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
class _Place:
    """A place that is hosted here. `machine` is there when the code is loaded."""

    order: HostEntities
    machine: TransactionWorker | None = None
    callers: dict[str, str] = field(default_factory=dict)
    """Where the functions of streams are whose rows have called, by client. They move; who has called last is there."""
    other: str | None = None
    """The worker that the place moves to, or has come from."""


@dataclass
class _Job:
    """The entities of one job here."""

    digest: str
    catalog: Catalog | None = None
    members: list[str] = field(default_factory=list)
    """The workers of the job, by their places."""
    places: dict[int, _Place] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    """Places that have moved from here, and where to: what comes for them is passed on."""


class Entities(Part):
    """The jobs with entities here."""

    parts: WorkerParts | None = None
    """Those of the machines of transactions. The simulator plants a bug by replacing one."""
    machines: type[TransactionWorker] = TransactionWorker

    def __init__(self, host: Host, reports: EntityReports) -> None:
        self._host = host
        self._reports = reports
        self._jobs: dict[str, _Job] = {}
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
            EntityPlaces: self._on_places,
            EntityOrder: self._on_order,
            MovePlace: self._on_move,
            PlaceSent: self._on_place_sent,
            LeavePlace: self._on_leave,
            CallsSent: self._on_calls,
            RoundSent: self._on_round,
            DropEntities: self._on_drop,
        }

    def machine(self, job: str, place: int) -> TransactionWorker | None:
        """Returns the machine of a place here, for the checks."""
        hosted = self._place(job, place)
        return None if hosted is None else hosted.machine

    def _place(self, job: str, place: int) -> _Place | None:
        hosted = self._jobs.get(job)
        return None if hosted is None else hosted.places.get(place)

    # They come and go.

    def _on_host(self, sender: str, frame: HostEntities) -> None:
        job = self._jobs.get(frame.job)
        if job is None or job.digest != frame.digest:
            job = self._jobs[frame.job] = _Job(frame.digest)
            self._host.effects.append(LoadEntities(frame.job, frame.digest))
        job.places[frame.number] = _Place(frame)
        job.gone.pop(frame.number, None)
        if job.catalog is not None:
            self._begin(frame.job, job.catalog, job.places[frame.number])

    def _on_loaded(self, event: EntitiesLoaded) -> None:
        job = self._jobs.get(event.job)
        if job is None:
            return  # Dropped before it was loaded.
        job.catalog = event.catalog
        for _, place in sorted(job.places.items()):
            self._begin(event.job, event.catalog, place)

    def _begin(self, job: str, catalog: Catalog, place: _Place) -> None:
        pace, number = place.order.pace, place.order.number
        settings = Settings(pace.epoch_ns, pace.calls_max, pace.snapshot_ns, pace.keys_kept_us)
        place.machine = self.machines(number, catalog, settings, self.parts)
        self._host.send(COORDINATOR, EntitiesHosted(job, number))

    def _on_faulted(self, event: EntitiesFaulted) -> None:
        if event.job not in self._jobs:
            return
        if event.place is None:
            self._host.send(COORDINATOR, EntitiesFailed(event.job, event.failure))
            self._drop(event.job)
        else:
            self._fail(event.job, event.place, event.failure)

    def _fail(self, job: str, place: int, failure: Failure) -> None:
        """A place cannot go on. If another worker has it by now, nobody minds."""
        if self._place(job, place) is not None:
            self._host.send(COORDINATOR, EntitiesFailed(job, failure, place))
            self._leave(job, place)

    def _on_drop(self, sender: str, frame: DropEntities) -> None:
        if frame.job in self._jobs:
            self._drop(frame.job)
        self._host.send(COORDINATOR, EntitiesDropped(frame.job))

    def _on_leave(self, sender: str, frame: LeavePlace) -> None:
        self._leave(frame.job, frame.place)

    def _leave(self, job: str, place: int) -> None:
        hosted = self._jobs.get(job)
        if hosted is not None and hosted.places.pop(place, None) is not None:
            self._reports.left(job, place)
            self._host.effects.append(ReleaseEntities(job, place))
            self._set_alarm()

    def _drop(self, job: str) -> None:
        for place in sorted(self._jobs.pop(job).places):
            self._reports.left(job, place)
            self._host.effects.append(ReleaseEntities(job, place))
        self._set_alarm()

    def drop_all(self) -> None:
        """This worker leaves."""
        for job in list(self._jobs):
            self._drop(job)

    def broken(self, member: str) -> None:
        """The connection to or from a member broke: rounds, or a part of a copy, may be lost, so another attempt must
        begin."""
        for name, job in self._jobs.items():
            if job.places and (member in job.members or member in (each.other for each in job.places.values())):
                self._host.send(COORDINATOR, EntitiesBroken(name, member))

    # What happens to their machines.

    def _on_places(self, sender: str, frame: EntityPlaces) -> None:
        job = self._jobs.get(frame.job)
        if job is None:
            return
        job.members = frame.members
        if frame.moved is not None:
            for number in sorted(job.places):
                if number != frame.moved:
                    self._tell(frame.job, number, [FrameArrived(COORDINATOR, Moved(frame.moved))])

    def _on_order(self, sender: str, frame: EntityOrder) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and isinstance(frame.order, Resume):
            job.gone.pop(frame.place, None)
        self._tell(frame.job, frame.place, [FrameArrived(COORDINATOR, frame.order)])

    def _on_move(self, sender: str, frame: MovePlace) -> None:
        place = self._place(frame.job, frame.place)
        if place is not None:
            place.other = frame.to
            self._tell(frame.job, frame.place, [FrameArrived(COORDINATOR, frame.order)])

    def _on_place_sent(self, sender: str, frame: PlaceSent) -> None:
        place = self._place(frame.job, frame.place)
        if place is not None:
            if not isinstance(frame.frame, CopyTaken):
                place.other = sender
                place.callers.update(frame.callers)
            self._tell(frame.job, frame.place, [FrameArrived(sender, frame.frame)])

    def _on_calls(self, sender: str, frame: CallsSent) -> None:
        caller = sender if frame.caller is None else frame.caller
        if self._is_gone(frame.job, frame.place, CallsSent(frame.job, frame.place, frame.calls, caller)):
            return
        place = self._place(frame.job, frame.place)
        if place is not None:
            streams = (call for call in frame.calls if not isinstance(call, Settle | Fetch))
            clients = {call.origin.client for call in streams if is_of_stream(call.origin.client)}
            place.callers.update(dict.fromkeys(sorted(clients), caller))
        self._tell(frame.job, frame.place, [FrameArrived(caller, call) for call in frame.calls])

    def _on_round(self, sender: str, frame: RoundSent) -> None:
        if not self._is_gone(frame.job, frame.place, frame):
            self._tell(frame.job, frame.place, [FrameArrived(str(frame.origin), frame.round)])

    def _is_gone(self, job: str, place: int, frame: CallsSent | RoundSent) -> bool:
        """Passes a frame on if the place that it is for has moved from here."""
        known = self._jobs.get(job)
        to = None if known is None else known.gone.get(place)
        if to is not None:
            self._host.send(to, frame)
        return to is not None

    def _on_kept(self, event: EntitiesKept) -> None:
        self._tell(event.job, event.place, [event.event])

    def wake(self) -> None:
        for name, job in list(self._jobs.items()):
            for number, place in sorted(job.places.items()):
                due_ns = None if place.machine is None else place.machine.next_deadline()
                if due_ns is not None and due_ns <= self._host.now_ns:
                    self._tell(name, number, [Ticked()])

    def _tell(self, job: str, number: int, events: list[WorkerEvent]) -> None:
        place = self._place(job, number)
        if place is None or place.machine is None:
            return  # It was dropped. What matters is sent again to who hosts it now.
        machine = place.machine
        counted = machine.counts.changes
        effects: list[WorkerEffect] = []
        try:
            with self.around(job, machine.replays):
                for event in events:
                    effects += machine.handle(event, self._host.now_ns)
        except OutOfTime as stopped:
            activate(None)  # What ran was interrupted, perhaps while it ended.
            self._carry_out(job, place, effects + machine.stop(stopped.seed))
            self._host.send(COORDINATOR, EntitiesBroken(job, self._host.member))
            self._set_alarm()
            return
        except Exception as error:  # A damaged log, or a defect: it must not end the other jobs of this worker.
            self._fail(job, number, _failure_of(job, error))
            return
        self._carry_out(job, place, effects)
        if machine.counts.changes != counted:
            self._reports.counted(job, number, machine)
        self._set_alarm()

    def _set_alarm(self) -> None:
        machines = (place.machine for job in self._jobs.values() for place in job.places.values())
        due = (each.next_deadline() for each in machines if each is not None)
        self.due_ns = min((each for each in due if each is not None), default=NEVER_NS)

    # What they want done.

    def _carry_out(self, job: str, place: _Place, effects: list[WorkerEffect]) -> None:
        replies: Replies = {}
        for_rows: Replies = {}
        appended: list[AppendLog] = []

        def append() -> None:
            if appended:
                data = b"".join(each.data for each in appended)
                self._keep(place.order, AppendLog(appended[-1].attempt, data, appended[-1].end))
                appended.clear()

        for effect in effects:
            if isinstance(effect, Send):
                self._send(job, place, effect, replies, for_rows)
            elif isinstance(effect, AppendLog):
                if appended and appended[-1].attempt != effect.attempt:
                    append()
                appended.append(effect)
            elif isinstance(effect, Refuse):
                self._host.stale += 1  # Rounds of an earlier attempt: late, not wrong.
            else:
                append()
                self._keep(place.order, effect)
        append()
        for member, found in replies.items():
            self._host.send(member, RepliesSent(job, found))
        for member, found in for_rows.items():
            self._host.send(member, RowRepliesSent(job, found))

    def _keep(self, order: HostEntities, what: Keeping) -> None:
        self._host.effects.append(KeepEntities(order.job, order.number, order.directory, what))

    def _send(self, job: str, place: _Place, effect: Send, replies: Replies, for_rows: Replies) -> None:
        number = place.order.number
        match effect.frame:
            case Round() as sent:
                to = int(effect.to)
                self._host.send(self._jobs[job].members[to - 1], RoundSent(job, number, to, sent))
            case Reply() as reply if is_of_stream(effect.to):
                member = place.callers.get(effect.to)
                if member is not None:  # Else it has not called since this worker began; it will call again.
                    for_rows.setdefault(member, []).append(reply)
            case Reply() as reply:
                replies.setdefault(member_of(effect.to), []).append(reply)
            case Emitted() as emitted:
                self._host.send(effect.to, EmittedSent(job, number, emitted))
            case Takeover() as takeover:
                assert place.other is not None
                self._host.send(place.other, PlaceSent(job, number, takeover, place.callers))
                self._jobs[job].gone[number] = place.other
            case Copy() | CopyTaken() as copy:
                assert place.other is not None
                self._host.send(place.other, PlaceSent(job, number, copy))
            case Resumed() | SnapshotTaken() | Copied() | TakenOver() as report:
                self._host.send(COORDINATOR, EntityReport(job, number, report))


def member_of(client: str) -> str:
    """Returns the member of a door, whose name begins with it."""
    return client.partition("/")[0]


def _failure_of(job: str, error: Exception) -> Failure:
    if isinstance(error, StrettoError):
        return Failure(type(error).__name__, f"the entities of '{job}': {error.fact}", error.detail, error.fix)
    return Failure("InvariantError", f"the entities of '{job}' cannot go on", sendable(error_text(error)))
