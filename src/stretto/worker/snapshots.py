"""A worker's part in checkpoints: sources send marks, snapshots are stored, sinks publish.

A checkpoint is a chain of SYNC_ONE barriers from the sources to the sinks (dirigo.txt 4.2): each actor waits for the
marks of all its upstream actors, has all its state together then, and sends the mark on. Its snapshot is written while
it continues; the coordinator hears when that is durable.

What is the coordinator's: when a checkpoint begins, when it is complete, and whether it will be at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from stretto.actors.gate import LessorGate
from stretto.actors.seat import Phase, Seat
from stretto.actors.snapshot import Snapshot
from stretto.actors.tasks import TaskBarrier
from stretto.actors.work import Barrier, Errand, Marking, Outcome, Publishing
from stretto.protocol.checkpointing import (
    Abandon,
    Checkpoint,
    Overdue,
    Publish,
    Published,
    Stored,
    StoredInParts,
    Unstored,
)
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.events import SnapshotFailed, SnapshotStored, StoreSnapshot
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Handlers, Host, Part


class MarksCalledOff(Protocol):
    """Whoever knows which marks are void."""

    def called_off(self, seat: Seat, checkpoint: int) -> None: ...

    def overdue(self, seat: Seat, checkpoint: int) -> None: ...


class Reminders(Protocol):
    """Whoever knows what is due when."""

    def again(self, seat: Seat, errand: Errand, due_ns: int) -> None: ...


class Snapshots(Part):
    """The snapshots of one worker's actors."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def connect(self, marks: MarksCalledOff, alarms: Reminders) -> None:
        self._marks = marks
        self._alarms = alarms

    def events(self) -> Handlers:
        return {SnapshotStored: self._on_stored, SnapshotFailed: self._on_store_failed}

    def frames(self) -> FrameHandlers:
        return {
            Checkpoint: self._on_checkpoint,
            Abandon: self._on_abandon,
            Overdue: self._on_overdue,
            Publish: self._on_publish,
        }

    def errands(self) -> dict[type[Errand], AfterRun]:
        marked = AfterRun(settles=self._passed)
        part = AfterRun(settles=self._task_passed)
        published = AfterRun(settles=self._published)
        return {Barrier: marked, Marking: marked, TaskBarrier: part, Publishing: published}

    # Taking them.

    def _on_checkpoint(self, sender: str, frame: Checkpoint) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None or frame.checkpoint <= job.checkpoint:
            self._host.stale += 1
            return
        job.checkpoint = frame.checkpoint
        self.begin(job)

    def begin(self, job: LocalJob) -> None:
        """Let sources send the mark of the last checkpoint or handover that the coordinator has begun."""
        for seat in job.seats.values():
            if self._sends_marks(seat):
                self._mark(seat, job)
            else:
                self._has_finished(seat, job)

    def _sends_marks(self, seat: Seat) -> bool:
        """Whether marks begin at an instance: a source, or one that has calls to make when its input has ended."""
        instance = seat.instance
        return seat.phase is Phase.OPEN and (instance.is_source or (instance.calls and instance.inputs_ended))

    def inputs_ended(self, seat: Seat) -> None:
        """The input of an instance has ended that has calls to make: no mark will come to it any more."""
        job = self._host.jobs[seat.address.job]
        if seat.marked < job.checkpoint:
            self._mark(seat, job)

    def finished(self, seat: Seat) -> None:
        self._has_finished(seat, self._host.jobs[seat.address.job])

    def _has_finished(self, seat: Seat, job: LocalJob) -> None:
        """A sink whose input has ended gets no more marks, and takes part in checkpoints until all is published. Others
        take part no more."""
        if seat.instance.is_source or seat.instance.calls:
            self._unmark(seat, job.checkpoint)
        if seat.phase is Phase.FINISHED and seat.instance.lingers and seat.marked < job.checkpoint:
            self._mark(seat, job)

    def _mark(self, seat: Seat, job: LocalJob) -> None:
        is_handover = job.handover is not None and job.handover.number == job.checkpoint
        seat.mailbox.append(Marking(job.checkpoint, is_handover))
        self._host.offer(seat)

    def _unmark(self, seat: Seat, checkpoint: int) -> None:
        """It will not come to marks that wait for it."""
        for work in [work for work in seat.mailbox if isinstance(work, Marking) and work.checkpoint <= checkpoint]:
            seat.mailbox.remove(work)

    def _passed(self, seat: Seat, work: Barrier | Marking, outcome: Outcome) -> None:
        if outcome.snapshot is not None:
            seat.marked = outcome.snapshot.checkpoint
            gate = seat.gate
            if seat.spec.tasks_max and isinstance(gate, LessorGate) and gate.members:
                self._tell(StoredInParts(seat.address, seat.marked, gate.members))
            self.taken(seat, outcome.snapshot)

    def _task_passed(self, seat: Seat, work: TaskBarrier, outcome: Outcome) -> None:
        """A task has done its part of a barrier, and perhaps come to a mark."""
        if outcome.snapshot is not None:
            self.taken(seat, replace(outcome.snapshot, part=self._host.member))

    def taken(self, seat: Seat, snapshot: Snapshot) -> None:
        """A run has come to a mark."""
        storage = self._host.jobs[seat.address.job].storage
        assert storage is not None
        self._host.effects.append(StoreSnapshot(storage, seat.address, snapshot))

    def _on_stored(self, event: SnapshotStored) -> None:
        job = self._host.jobs.get(event.address.job)
        if job is not None:
            is_part = event.address not in job.seats
            self._tell(Stored(event.address, event.checkpoint, event.record, is_part))

    def _on_store_failed(self, event: SnapshotFailed) -> None:
        job = self._host.jobs.get(event.address.job)
        if job is not None:
            seat = job.seats.get(event.address) or job.lessees[event.address]
            for state in seat.instance.function.states().values():
                state.forget_fragments()
            self._tell(Unstored(event.address, event.checkpoint, event.reason))

    def decline(self, seat: Seat, checkpoint: int, reason: str) -> None:
        """An actor cannot come to a mark; the coordinator will call the checkpoint off."""
        self._tell(Unstored(seat.address, checkpoint, reason))

    def _on_abandon(self, sender: str, frame: Abandon) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        self.abandon(job, frame.checkpoint)

    def abandon(self, job: LocalJob, checkpoint: int) -> None:
        """The marks up to this one are void."""
        job.checkpoint = max(job.checkpoint, checkpoint)
        for seat in job.seats.values():
            self._unmark(seat, checkpoint)
            self._marks.called_off(seat, checkpoint)

    def _on_overdue(self, sender: str, frame: Overdue) -> None:
        job = self._host.jobs.get(frame.job)
        for seat in job.seats.values() if job is not None else ():
            self._marks.overdue(seat, frame.checkpoint)

    # Publishing.

    def _on_publish(self, sender: str, frame: Publish) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        for seat in job.seats.values():
            instance = seat.instance
            if instance.is_sink or (seat.phase is Phase.OPEN and (instance.calls or instance.reads_emitted)):
                seat.mailbox.append(Publishing(frame.checkpoint))
                self._host.offer(seat)

    def _published(self, seat: Seat, publishing: Publishing, outcome: Outcome) -> None:
        if outcome.next_ns is None:
            self._tell(Published(seat.address, publishing.checkpoint))
        else:
            self._alarms.again(seat, publishing, outcome.next_ns)

    def _tell(self, frame: Any) -> None:
        self._host.effects.append(Send(COORDINATOR, frame))
