"""Variants of checkpoints and recovery with one bug each, which `simulate faults` must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replaced

from stretto.actors.address import Attempt
from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.seat import Seat
from stretto.actors.snapshot import Snapshot
from stretto.actors.work import Publishing
from stretto.checkpoints.log import Log
from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.coordinator.checkpointing import Checkpointing
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.records import Actor, Job, Underway
from stretto.coordinator.recovery import Recovery
from stretto.protocol.checkpointing import Stored
from stretto.protocol.clock import SteadyClock
from stretto.simulator.checking.mutations import mutation_name, worker_with
from stretto.simulator.engine.durable import Parts
from stretto.state.packing import packed, unpacked
from stretto.worker.events import Fetched, SnapshotFailed
from stretto.worker.local_job import LocalJob
from stretto.worker.resuming import Resuming
from stretto.worker.snapshots import Snapshots


class ManifestBeforeData(Checkpointing):
    """The manifest is written when the first actor is stored; the others are recorded as finished."""

    def _complete_if_all(self, job: Job, underway: Underway) -> None:
        self._complete(job, underway)


class PublishBeforeManifest(Checkpointing):
    """Sinks publish when all snapshots are stored, before the manifest is written."""

    def _complete(self, job: Job, underway: Underway) -> None:
        super()._complete(job, underway)
        assert job.durability is not None
        assert job.durability.committing is not None
        kept = job.durability.manifests
        job.durability.manifests = [*kept, job.durability.committing]
        self.publish(job)
        job.durability.manifests = kept


class SinksNotAwaited(Checkpointing):
    """A checkpoint does not wait for the sinks, so it lacks the rows that they hold back."""

    def _begin(self, job: Job) -> None:
        super()._begin(job)
        assert job.durability is not None
        assert job.durability.underway is not None
        job.durability.underway.awaited -= job.sinks


class FinishedForgotten(Checkpointing):
    """A checkpoint waits forever for an actor that finished while it was under way."""

    def finished(self, job: Job, actor: Actor, checkpoint: int) -> None:
        assert job.durability is not None
        if not job.unfinished:
            job.durability.due_ns = 0


class NotPublishedAgain(Checkpointing):
    """After a failure, the rows of the last checkpoint are not published again."""

    def publish(self, job: Job) -> None:
        assert job.durability is not None
        if job.durability.attempt == 1:
            super().publish(job)


class CommitNotAwaited(Recovery):
    """A job resumes from the checkpoint before the last while the manifest of the last is still being written."""

    def resume(self, job: Job) -> None:
        assert job.durability is not None
        committing, job.durability.committing = job.durability.committing, None
        super().resume(job)
        job.durability.committing = committing


class SameRun(Recovery):
    """The new attempt has the name of the old one, so it accepts messages of the old one that are still under way."""

    def _rename(self, job: Job, attempt: str) -> None:
        pass


class OlderSources(Recovery):
    """Sources resume from the checkpoint before the last, other actors from the last."""

    def resume(self, job: Job) -> None:
        durability = job.durability
        if durability is not None and len(durability.manifests) > 1:
            before, last = durability.manifests[-2:]
            functions = {
                name: before.functions[name] if name.startswith("source") else records
                for name, records in last.functions.items()
            }
            durability.manifests[-1] = replaced(last, functions=functions)
        super().resume(job)


class ReturnUnrecorded(Recovery):
    """A job that goes back to an earlier checkpoint, because the last one is damaged, does not record that in the log.
    The next driver resumes from the last one if it can be read again, and the output of that is withdrawn."""

    def resume(self, job: Job) -> None:
        assert job.durability is not None
        job.durability.goes_back = False
        super().resume(job)


class OffsetForgotten(Snapshots):
    """The position of a source is not in the checkpoint."""

    def taken(self, seat: Seat, snapshot: Snapshot) -> None:
        if seat.instance.is_source:
            parts = unpacked(snapshot.plain)["remembered"]
            snapshot = _without(snapshot, remembered=[(number, 0) for number, _ in parts])
        super().taken(seat, snapshot)


class SealedForgotten(Snapshots):
    """The rows that a sink holds back are not in the checkpoint."""

    def taken(self, seat: Seat, snapshot: Snapshot) -> None:
        if seat.instance.is_sink:
            snapshot = _without(snapshot, remembered=[snapshot.checkpoint, []])
        super().taken(seat, snapshot)


class WatermarksForgotten(Snapshots):
    """The watermarks of the channels are not in the checkpoint."""

    def taken(self, seat: Seat, snapshot: Snapshot) -> None:
        channels = [(*each[:3], EVENT_TIME_MIN_US, False) for each in unpacked(snapshot.plain)["channels"]]
        super().taken(seat, _without(snapshot, channels=channels))


class StatesForgotten(Resuming):
    """States start empty after a failure."""

    def _on_fetched(self, event: Fetched) -> None:
        job = self._host.jobs.get(event.job)
        for address, contents in event.contents.items() if job is not None else ():
            assert job is not None
            for name, state in job.seats[address].instance.function.states().items():
                for content in contents.values():
                    content.fragments[name] = state.fresh().fragments()
        super()._on_fetched(event)


class AttemptsForgotten(Resuming):
    """Attempts are not compared, so a replaced worker withdraws the output of a later attempt."""

    def fetch(self, job: LocalJob) -> None:
        assert job.storage is not None
        for seat in job.seats.values():
            seat.instance.belong_to(Attempt(job.storage.lineage, job.storage.owner, 1))
        super().fetch(job)


class PublishAtOnce(Snapshots):
    """A sink publishes as soon as its snapshot is taken."""

    def taken(self, seat: Seat, snapshot: Snapshot) -> None:
        super().taken(seat, snapshot)
        if seat.instance.is_sink:
            seat.mailbox.append(Publishing(snapshot.checkpoint))


class FailureIgnored(Snapshots):
    """A snapshot that could not be stored counts as stored."""

    def _on_store_failed(self, event: SnapshotFailed) -> None:
        self._tell(Stored(event.address, event.checkpoint, ActorRecord(finished=True)))


class RawClock(SteadyClock):
    """Machines get the raw wall clock, which steps when somebody sets it."""

    def now_ns(self) -> int:
        return self._wall()


class NumberBeforeOwner(Log):
    """The number of a checkpoint decides its place in the log, whoever commits it: a driver that was replaced commits a
    number that its successor has not reached, and its checkpoint comes last."""

    def _next_place(self, manifest: Manifest) -> int:
        return 1_000 * manifest.checkpoint


class ClaimIgnored(Log):
    """A commit takes the next free place in the log, also after the claim of another driver."""

    def _next_place(self, manifest: Manifest) -> int:
        return self.greatest() + 1


def _without(snapshot: Snapshot, **changed: Any) -> Snapshot:
    return replace(snapshot, plain=packed({**unpacked(snapshot.plain), **changed}))


def _parts(mutation: type[Any]) -> Parts:
    if issubclass(mutation, Checkpointing):
        return Parts(coordinator=CoordinatorParts(checkpointing=mutation))
    if issubclass(mutation, Recovery):
        return Parts(coordinator=CoordinatorParts(recovery=mutation))
    if issubclass(mutation, SteadyClock):
        return Parts(clock=mutation)
    if issubclass(mutation, Log):
        return Parts(log=mutation)
    return Parts(worker=worker_with(mutation))


MUTATIONS: dict[str, Parts] = {
    mutation_name(mutation): _parts(mutation)
    for base in (Checkpointing, Recovery, Snapshots, Resuming, SteadyClock, Log)
    for mutation in base.__subclasses__()
    if mutation.__module__ == __name__
}
