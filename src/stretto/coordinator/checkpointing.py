"""Checkpoints of jobs: when one begins, when it is complete, and when sinks publish it.

A part of the coordinator machine. It asks the sources to send marks, every actor reports where its snapshot is, and
when all have reported it has the manifest written. Only then may sinks publish. A job takes one checkpoint at a time.
When the input of all actors has ended, one more checkpoint contains what the sinks still hold back; the job has
finished when that is published.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    CheckpointRequested,
    ManifestFailed,
    ManifestWritten,
    PruneCheckpoints,
    WriteManifest,
)
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.records import Actor, Durability, Job, JobStatus, Underway
from stretto.observation.model import CheckpointObserved
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

TIMEOUT_NS = 600_000_000_000
"""A checkpoint that takes longer is abandoned."""
OVERDUE_NS = 5_000_000_000
"""How often workers are asked what delays a checkpoint."""
WINDING_DOWN_NS = 50_000_000
"""The time between two checkpoints when the sources have ended and calls of entities are left."""
RETRY_NS = 1_000_000_000
"""The delay before the last checkpoint of a job is retried, if the job has no interval."""


class JobsHere(Protocol):
    """What checkpointing needs of the jobs."""

    def end(self, job: Job, status: JobStatus) -> None: ...

    def stop(self, job: Job) -> None: ...


class Resuming(Protocol):
    """What checkpointing needs of the recovery."""

    def resume(self, job: Job) -> None: ...


class HandedOver(Protocol):
    """What checkpointing needs of the handovers."""

    def declined(self, frame: Unstored) -> None: ...

    def tick(self) -> None: ...


class Checkpointing(Part):
    """The checkpoints of all jobs."""

    def __init__(self, host: Host, jobs: JobsHere) -> None:
        self._host = host
        self._jobs = jobs

    def connect(self, recoveries: Resuming, handovers: HandedOver) -> None:
        self._recoveries = recoveries
        self._handovers = handovers

    def events(self) -> Handlers:
        return {
            CheckpointRequested: self._on_requested,
            ManifestWritten: self._on_written,
            ManifestFailed: self._on_write_failed,
        }

    def frames(self) -> FrameHandlers:
        return {
            Stored: self._on_stored,
            StoredInParts: self._on_stored_in_parts,
            Unstored: self._on_unstored,
            Published: self._on_published,
        }

    # Beginning.

    def tick(self) -> None:
        for job in list(self._host.jobs.values()):
            durability = job.durability
            if durability is None or job.status is not JobStatus.RUNNING:
                continue
            if durability.underway is not None:
                if self._host.now_ns - durability.began_ns >= TIMEOUT_NS:
                    self._abandon(job, "it took too long")
                elif self._host.now_ns >= durability.underway.overdue_ns:
                    self._ask(job, durability.underway)
            elif durability.committing is None and self._is_due(job):
                self._begin(job)

    def deadline_ns(self) -> int | None:
        """Returns when the next action is due, or None."""
        due = []
        for job in self._host.jobs.values():
            durability = job.durability
            if durability is None or job.status is not JobStatus.RUNNING:
                continue
            if durability.underway is not None:
                due.append(min(durability.began_ns + TIMEOUT_NS, durability.underway.overdue_ns))
            elif durability.committing is None and _is_timed(job):
                due.append(_due_ns(job))
        return min(due, default=None)

    def _is_due(self, job: Job) -> bool:
        durability = job.durability
        assert durability is not None
        if job.handover is not None and job.handover.stage.excludes_checkpoints:
            return False
        last = durability.manifests[-1] if durability.manifests else None
        if last is not None and not job.unfinished and last.finished:
            return False  # Everything is stored; only publishing is left.
        if last is not None and durability.savepoint is not None and last.savepoint == durability.savepoint:
            return False  # It stops when the savepoint is published.
        wanted = durability.requested and self._host.now_ns >= durability.retry_ns
        return wanted or (_is_timed(job) and self._host.now_ns >= _due_ns(job))

    def _on_requested(self, event: CheckpointRequested) -> None:
        job = self._host.jobs.get(event.job)
        if job is not None and job.durability is not None:
            job.durability.requested = True
            self.tick()

    def _begin(self, job: Job) -> None:
        durability = job.durability
        assert durability is not None
        durability.checkpoint += 1
        durability.requested = False
        durability.began_ns = self._host.now_ns
        durability.due_ns = self._host.now_ns + (durability.interval_ns or RETRY_NS)
        durability.underway = Underway(
            durability.checkpoint, {*job.unfinished, *job.sinks}, self._host.now_ns + OVERDUE_NS, durability.savepoint
        )
        for member in sorted(job.homes):
            self._host.send(member, Checkpoint(job.attempt, durability.checkpoint))

    def _ask(self, job: Job, underway: Underway) -> None:
        underway.overdue_ns = self._host.now_ns + OVERDUE_NS
        for member in sorted(job.homes):
            self._host.send(member, Overdue(job.attempt, underway.checkpoint))

    # Completing.

    def _on_stored(self, sender: str, frame: Stored) -> None:
        job, underway = self._underway(frame)
        if job is None or underway is None:
            return
        actor = frame.actor[1:]
        if frame.is_part:
            underway.parts.setdefault(actor, {})[sender] = frame.record
        else:
            underway.records[actor] = frame.record
        if underway.is_stored(actor):
            underway.awaited.discard(actor)
            self._complete_if_all(job, underway)

    def _on_stored_in_parts(self, sender: str, frame: StoredInParts) -> None:
        job, underway = self._underway(frame)
        if job is not None and underway is not None:
            parts = underway.parts.setdefault(frame.actor[1:], {})
            for member in frame.members:
                parts.setdefault(member, None)

    def finished(self, job: Job, actor: Actor, checkpoint: int) -> None:
        """Records that the input of an actor has ended. If it will not reach the mark, it needs no snapshot, unless it
        is a sink."""
        assert job.durability is not None
        underway = job.durability.underway
        if underway is not None and checkpoint < underway.checkpoint and actor not in job.sinks:
            underway.awaited.discard(actor)
            self._complete_if_all(job, underway)
        if not job.unfinished:
            job.durability.due_ns = 0  # The last one.

    def _complete_if_all(self, job: Job, underway: Underway) -> None:
        if not underway.awaited:
            self._complete(job, underway)

    def _complete(self, job: Job, underway: Underway) -> None:
        assert job.durability is not None
        ended = ActorRecord(finished=True)
        functions = {
            name: [underway.record_of((name, partition)) or ended for partition in range(shape.parallelism)]
            for name, shape in job.shapes.items()
        }
        manifest = Manifest(job.name, underway.checkpoint, functions, underway.savepoint, shapes=job.durability.shapes)
        job.durability.underway, job.durability.committing = None, manifest
        self._host.effects.append(WriteManifest(job.name, manifest))

    def _on_written(self, event: ManifestWritten) -> None:
        job = self._committing(event)
        if job is None:
            return
        durability = job.durability
        assert durability is not None
        assert durability.committing is not None
        manifest, durability.committing = durability.committing, None
        if event.unsaved is not None:
            manifest = replace(manifest, savepoint=None)
            self._ask_again(durability)
        before = [each for each in durability.manifests if each.checkpoint < manifest.checkpoint]
        durability.manifests = [*before, manifest][-durability.kept :]
        self._host.effects.append(PruneCheckpoints(job.name, tuple(durability.manifests)))
        if durability.goes_back:
            durability.goes_back = False
        else:
            took_ns = self._host.now_ns - durability.began_ns
            self._complete_at(durability, manifest, took_ns)
            self._host.effects.append(AnnounceCheckpoint(job.name, event.checkpoint, manifest, took_ns=took_ns))
        if event.unsaved is not None:
            self._announce_failed(job, event.checkpoint, event.unsaved)
        if job.status is JobStatus.RUNNING:
            self.publish(job)
            self._handovers.tick()
        else:
            self._recoveries.resume(job)

    def _on_write_failed(self, event: ManifestFailed) -> None:
        job = self._committing(event)
        if job is None:
            return
        assert job.durability is not None
        job.durability.committing = None
        self._ask_again(job.durability)
        self._announce_failed(job, event.checkpoint, event.reason)
        if job.status is not JobStatus.RUNNING:
            self._recoveries.resume(job)
        self._handovers.tick()

    def _ask_again(self, durability: Durability) -> None:
        """Tries again after a while, if the checkpoint was to be a savepoint."""
        durability.requested = durability.savepoint is not None
        durability.retry_ns = self._host.now_ns + RETRY_NS

    def _committing(self, event: ManifestWritten | ManifestFailed) -> Job | None:
        job = self._host.jobs.get(event.job)
        if job is None or job.status.ended or job.durability is None or job.durability.committing is None:
            return None
        return job if job.durability.committing.checkpoint == event.checkpoint else None

    def _complete_at(self, durability: Durability, manifest: Manifest, took_ns: int) -> None:
        ended = CheckpointObserved(
            manifest.checkpoint, self._host.now_ns, manifest.bytes, manifest.bytes_written, took_ns
        )
        durability.ended.append(ended)

    def _announce_failed(self, job: Job, checkpoint: int, reason: str) -> None:
        assert job.durability is not None
        job.durability.ended.append(CheckpointObserved(checkpoint, self._host.now_ns, failed_because=reason))
        self._host.effects.append(AnnounceCheckpoint(job.name, checkpoint, None, reason))

    # Abandoning.

    def _on_unstored(self, sender: str, frame: Unstored) -> None:
        job, underway = self._underway(frame)
        if job is not None and underway is not None:
            self._abandon(job, f"{frame.actor.function}/{frame.actor.partition}: {frame.reason}")
        else:
            self._handovers.declined(frame)

    def member_lost(self, member: str) -> None:
        """Calls off checkpoints that wait for a part of a worker that has nothing else of their jobs any more: it had
        given its shards away, and was to leave. If it was still a member, the job recovers."""
        for job in list(self._host.jobs.values()):
            if job.status is JobStatus.RUNNING and member not in job.members and job.awaits_part_of(member):
                self._abandon(job, f"{member} is lost, and has not stored its part")

    def _abandon(self, job: Job, reason: str) -> None:
        durability = job.durability
        assert durability is not None
        durability.underway = None
        durability.due_ns = max(durability.due_ns, self._host.now_ns + (durability.interval_ns or RETRY_NS))
        self._ask_again(durability)
        for member in sorted(job.homes):
            self._host.send(member, Abandon(job.attempt, durability.checkpoint))
        self._announce_failed(job, durability.checkpoint, reason)
        self._handovers.tick()

    # Publishing.

    def publish(self, job: Job) -> None:
        """Has the sinks publish the last complete checkpoint; after a failure they may have published it already."""
        assert job.durability is not None
        if not job.durability.manifests:
            return
        job.durability.unpublished = set(job.sinks)
        told = {*job.sinks, *job.callers, *job.readers}
        for member in sorted({job.placement[function][partition] for function, partition in told}):
            self._host.send(member, Publish(job.attempt, job.durability.manifests[-1].checkpoint))

    def _on_published(self, sender: str, frame: Published) -> None:
        job = self._host.running(frame.actor.job)
        if job is None or job.durability is None or not job.durability.manifests:
            return
        last = job.durability.manifests[-1]
        if frame.checkpoint != last.checkpoint:
            return
        job.durability.unpublished.discard(frame.actor[1:])
        if job.durability.unpublished:
            return
        if last.finished:
            self._jobs.end(job, JobStatus.FINISHED)
        elif last.savepoint is not None and last.savepoint == job.durability.savepoint:
            self._jobs.stop(job)

    # Lookups.

    def _underway(self, frame: Stored | StoredInParts | Unstored) -> tuple[Job | None, Underway | None]:
        """Returns the job and the checkpoint of a frame, if that checkpoint is in progress."""
        job = self._host.running(frame.actor.job)
        underway = job.durability.underway if job is not None and job.durability is not None else None
        return (job, underway) if underway is not None and underway.checkpoint == frame.checkpoint else (None, None)


def _is_timed(job: Job) -> bool:
    """Whether checkpoints begin by themselves."""
    assert job.durability is not None
    return job.durability.interval_ns is not None or not job.unfinished or job.winds_down


def _due_ns(job: Job) -> int:
    durability = job.durability
    assert durability is not None
    if not job.winds_down:
        return durability.due_ns
    return max(min(durability.due_ns, durability.began_ns + WINDING_DOWN_NS), durability.retry_ns)
