"""A worker's part in checkpoints: sources send marks, snapshots are stored, sinks publish, actors go on from them.

A part of the worker machine. A checkpoint is a chain of SYNC_ONE barriers from the sources to the sinks (dirigo.txt
4.2): each actor waits for the marks of all its upstream actors, has all its state together then, and sends the mark on.
Its snapshot is written while it goes on; the coordinator hears when that is durable.

What is the coordinator's: when a checkpoint begins, when it is complete, and whether it will be at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stretto.actors.address import Address
from stretto.actors.gate import LessorGate
from stretto.actors.instance import Errand, Instance, Marking, Phase, Publishing
from stretto.actors.snapshot import Content, Origin, Snapshot
from stretto.checkpoints.manifest import ActorRecord, Storage
from stretto.checkpoints.resuming import Resumption, shapes_of
from stretto.checkpoints.store import CheckpointStore
from stretto.local_job import LocalJob
from stretto.machine import Send
from stretto.protocol.checkpointing import Abandon, Checkpoint, Overdue, Publish, Published, Stored, Unfetched, Unstored
from stretto.protocol.membership import COORDINATOR

if TYPE_CHECKING:
    from stretto.worker import Worker


# Events.


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """A snapshot is durable."""

    address: Address
    checkpoint: int
    record: ActorRecord


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """A snapshot could not be stored."""

    address: Address
    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The snapshots of a job's actors here were read."""

    job: str
    contents: dict[Address, dict[int, Content]]


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """They could not be read; `damaged` if they never will be."""

    job: str
    reason: str
    damaged: bool


# Effects.


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Write a snapshot beside what runs, then say `SnapshotStored` or `SnapshotFailed`."""

    storage: Storage
    address: Address
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Wanted:
    """The snapshots that an actor goes on from, by the partitions that they were of; `whole` if it is the one that it
    was."""

    records: dict[int, ActorRecord]
    whole: bool


@dataclass(frozen=True, slots=True)
class FetchSnapshots:
    """Read the snapshots of actors, then say `Fetched` or `FetchFailed`."""

    storage: Storage
    job: str
    wanted: dict[Address, Wanted]

    def read_from(self, store: CheckpointStore) -> Fetched:
        """Do it; whatever goes wrong is raised."""
        return Fetched(
            self.job,
            {
                address: {
                    former: store.fetch(address, record, wanted.whole) for former, record in wanted.records.items()
                }
                for address, wanted in self.wanted.items()
            },
        )


class Snapshots:
    """The snapshots of one worker's actors."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Checkpoint: self._on_checkpoint,
            Abandon: self._on_abandon,
            Overdue: self._on_overdue,
            Publish: self._on_publish,
        }
        self.handlers: dict[type, Callable[[Any, int], None]] = {
            SnapshotStored: self._on_stored,
            SnapshotFailed: self._on_store_failed,
            Fetched: self._on_fetched,
            FetchFailed: self._on_fetch_failed,
        }

    # Taking them.

    def _on_checkpoint(self, sender: str, frame: Checkpoint, now_ns: int) -> None:
        job = self._worker.jobs.get(frame.job)
        if job is None or frame.checkpoint <= job.checkpoint:
            self._worker.stale += 1
            return
        job.checkpoint = frame.checkpoint
        for instance in job.instances.values():
            if instance.is_source and instance.phase is Phase.OPEN:
                self._mark(instance, frame.checkpoint)
            else:
                self.finished(instance, job)

    def finished(self, instance: Instance, job: LocalJob) -> None:
        """A sink whose input has ended gets no more marks, and has a part in checkpoints until all is published. Others
        have none any more."""
        if instance.is_source:
            self._unmark(instance, job.checkpoint)
        if instance.phase is Phase.FINISHED and instance.lingers and instance.marked < job.checkpoint:
            self._mark(instance, job.checkpoint)

    def _mark(self, instance: Instance, checkpoint: int) -> None:
        instance.mailbox.append(Marking(checkpoint))
        self._worker.offer(instance)

    def _unmark(self, instance: Instance, checkpoint: int) -> None:
        """It will not come to marks that wait for it."""
        for work in [work for work in instance.mailbox if isinstance(work, Marking) and work.checkpoint <= checkpoint]:
            instance.mailbox.remove(work)

    def taken(self, instance: Instance, snapshot: Snapshot) -> None:
        """A run has come to a mark."""
        storage = self._worker.jobs[instance.address.job].storage
        assert storage is not None
        self._worker.effects.append(StoreSnapshot(storage, instance.address, snapshot))

    def _on_stored(self, event: SnapshotStored, now_ns: int) -> None:
        if event.address.job in self._worker.jobs:
            self._tell(Stored(event.address, event.checkpoint, event.record))

    def _on_store_failed(self, event: SnapshotFailed, now_ns: int) -> None:
        job = self._worker.jobs.get(event.address.job)
        if job is not None:
            for state in job.instances[event.address].function.states().values():
                state.forget_fragments()
            self._tell(Unstored(event.address, event.checkpoint, event.reason))

    def decline(self, instance: Instance, checkpoint: int, reason: str) -> None:
        """An actor cannot come to a mark; the coordinator will call the checkpoint off."""
        self._tell(Unstored(instance.address, checkpoint, reason))

    def _on_abandon(self, sender: str, frame: Abandon, now_ns: int) -> None:
        job = self._worker.jobs.get(frame.job)
        if job is None:
            self._worker.stale += 1
            return
        job.checkpoint = max(job.checkpoint, frame.checkpoint)
        for instance in job.instances.values():
            instance.marked = max(instance.marked, frame.checkpoint)
            self._unmark(instance, frame.checkpoint)
            if isinstance(instance.gate, LessorGate):
                self._worker.leasing.marks.release(instance, instance.gate)
                self._worker.offer(instance)

    def _on_overdue(self, sender: str, frame: Overdue, now_ns: int) -> None:
        job = self._worker.jobs.get(frame.job)
        for instance in job.instances.values() if job is not None else ():
            if instance.marked < frame.checkpoint and isinstance(instance.gate, LessorGate):
                self._worker.leasing.marks.overdue(instance, instance.gate, frame.checkpoint)

    # Publishing.

    def _on_publish(self, sender: str, frame: Publish, now_ns: int) -> None:
        job = self._worker.jobs.get(frame.job)
        if job is None:
            self._worker.stale += 1
            return
        for instance in job.instances.values():
            if instance.is_sink:
                instance.mailbox.append(Publishing(frame.checkpoint))
                self._worker.offer(instance)

    def published(self, instance: Instance, checkpoint: int) -> None:
        """A sink has let go what it had sealed up to a checkpoint."""
        self._tell(Published(instance.address, checkpoint))

    # Going on from one.

    def fetch(self, job: LocalJob) -> None:
        """Have the snapshots read that the actors here go on from. Those that had finished need no more than to be
        known for it, but for sinks."""
        assert job.origin is not None
        assert job.deployment is not None
        assert job.storage is not None
        job.checkpoint = job.origin.checkpoint
        resumption = Resumption(job.origin, shapes_of(job.deployment))
        wanted = {}
        for address, instance in job.instances.items():
            instance.marked = job.checkpoint
            if resumption.finished(*address[1:]) and not instance.is_sink:
                instance.phase = Phase.FINISHED
                continue
            if instance.is_source:
                instance.read_splits(resumption.splits(address.function))
            wanted[address] = self._wanted(instance, resumption, job.checkpoint)
        self._worker.effects.append(FetchSnapshots(job.storage, job.job, wanted))

    def _wanted(self, instance: Instance, resumption: Resumption, checkpoint: int) -> Wanted:
        actor = instance.address[1:]
        function = instance.address.function
        followed = resumption.follows(*actor)
        records = {former: record for former, record in followed.items() if record.plain is not None}
        whole = resumption.is_whole(function) and bool(records)
        instance.origin = Origin(
            checkpoint,
            {},
            whole,
            resumption.finished(*actor),
            resumption.parallelism(function),
            resumption.is_dealt_as_before(function) and resumption.parallelism(function) > 1,
            frozenset() if whole else resumption.leads(*actor),
            None if resumption.is_same else resumption.channels(*actor),
        )
        return Wanted(records, whole)

    def _on_fetched(self, event: Fetched, now_ns: int) -> None:
        job = self._worker.jobs.get(event.job)
        if job is None:
            return  # Stopped meanwhile.
        for address, contents in event.contents.items():
            instance = job.instances[address]
            assert instance.origin is not None
            instance.origin = replace(instance.origin, contents=contents)
        self._worker.open(job)

    def start(self, job: LocalJob) -> None:
        """All are ready. Who will get nothing more comes to its end."""
        for instance in job.instances.values() if job.origin is not None else ():
            if instance.is_over:
                instance.mailbox.append(Errand.END)
                self._worker.offer(instance)

    def _on_fetch_failed(self, event: FetchFailed, now_ns: int) -> None:
        job = self._worker.jobs.get(event.job)
        if job is not None:
            assert job.origin is not None
            self._tell(Unfetched(event.job, job.origin.checkpoint, event.reason, event.damaged))

    def _tell(self, frame: Any) -> None:
        self._worker.effects.append(Send(COORDINATOR, frame))
