"""Jobs with entities: which workers have them, and the coordinator of each job's transactions. A part of the machine.

Such a job has a number of **places**, which never changes while its log is kept: a place has a log, snapshots and a
part of all entities. A worker in each place hosts them. When one is lost, another worker that has no place in the job
takes it, usually its next incarnation; then `TransactionCoordinator` begins another attempt on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from stretto.checkpoints import manifest as checkpoints
from stretto.coordinator.events import (
    AnnounceEntities,
    AnnounceJob,
    CommitEntities,
    Death,
    DeathCause,
    EntitiesCommitted,
    EntitiesLost,
    EntitiesStopRequested,
    EntitiesSubmitted,
    EntitiesUncommitted,
)
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.records import JobStatus
from stretto.protocol.entities import (
    DropEntities,
    EntitiesAt,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityOrder,
    EntityReport,
    HostEntities,
    WhereEntities,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.transactions import Piece, Proceed, Resume
from stretto.transactions.coordinating import TransactionCoordinator
from stretto.transactions.events import (
    CoordinatorEvent,
    Manifest,
    ManifestWritten,
    WorkerDown,
    WorkerUp,
    WriteManifest,
)

DEATHS_MAX = {DeathCause.OWN: 3, DeathCause.ANY: 12}
"""So many workers may die in a handler of the job between two snapshots. Its log has the same calls again after each
death, so a handler that ends its process would do so for ever, and end the other jobs of those workers too."""


@dataclass
class EntityJob:
    """A job with entities. `places` has the worker in each place, `hosting` those that have loaded the code."""

    order: EntitiesSubmitted
    transactions: TransactionCoordinator
    places: list[str | None]
    hosting: set[str] = field(default_factory=set)
    status: JobStatus = JobStatus.WAITING
    waits_for: str | None = None
    checkpoint: int = 0
    committing: dict[int, Manifest] = field(default_factory=dict)
    unstopped: set[str] = field(default_factory=set)
    deaths: dict[DeathCause, int] = field(default_factory=dict)

    @property
    def members(self) -> list[str]:
        return [member for member in self.places if member is not None]

    def place_of(self, member: str) -> str:
        return _name(self.places.index(member))


class EntityJobs(Part):
    """The jobs with entities that have not ended."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership
        self._jobs: dict[str, EntityJob] = {}
        self._askers: dict[str, set[str]] = {}
        """The members with functions of streams that call the entities of a job."""

    def events(self) -> Handlers:
        return {
            EntitiesSubmitted: self._on_submitted,
            EntitiesStopRequested: self._on_stop,
            EntitiesCommitted: self._on_committed,
            EntitiesUncommitted: self._on_uncommitted,
            EntitiesLost: self._on_lost,
        }

    def frames(self) -> FrameHandlers:
        return {
            EntitiesHosted: self._on_hosted,
            EntityReport: self._on_report,
            EntitiesBroken: self._on_broken,
            EntitiesFailed: self._on_failed,
            EntitiesDropped: self._on_dropped,
            WhereEntities: self._on_where,
        }

    def has(self, job: str) -> bool:
        """Whether it is a job with entities."""
        return job in self._jobs

    def on(self, member: str) -> list[str]:
        """Returns the jobs that have entities on a worker."""
        return [name for name, job in self._jobs.items() if member in job.places]

    # Workers for the places.

    def _on_submitted(self, event: EntitiesSubmitted) -> None:
        names = [_name(place) for place in range(event.workers)]
        plan = event.plan
        kept = None if plan is None else _read(plan.manifest)
        attempt = 0 if plan is None else plan.attempt
        job = EntityJob(event, TransactionCoordinator(names, attempt, kept), [None] * event.workers)
        job.checkpoint = 0 if plan is None else plan.manifest.checkpoint
        self._jobs[event.job] = job
        self._fill(job)

    def tick(self) -> None:
        for job in self._jobs.values():
            self._fill(job)

    def joined(self, member: str) -> None:
        """A worker may take a place that is free."""
        self.tick()

    def _fill(self, job: EntityJob) -> None:
        if job.status is JobStatus.STOPPING or None not in job.places:
            return
        free = sorted((n for n in self._membership.active() if n not in job.places), key=lambda n: len(self.on(n)))
        for place, member in enumerate(job.places):
            if member is None and free:
                self._host_at(job, place, free.pop(0))
        missing = job.places.count(None)
        if job.status is JobStatus.WAITING:
            waits_for = f"workers: its entities need {len(job.places)}, and {missing} are missing" if missing else None
            if waits_for is None or waits_for != job.waits_for:
                job.waits_for = waits_for
                self._announce(job, JobStatus.WAITING if missing else JobStatus.DEPLOYING, waits_for=waits_for)

    def _host_at(self, job: EntityJob, place: int, member: str) -> None:
        job.places[place] = member
        order = job.order
        directory = None if order.plan is None else order.plan.directory
        self._host.send(member, HostEntities(order.job, order.digest, place + 1, directory, order.pace))

    def _on_hosted(self, sender: str, frame: EntitiesHosted) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and sender in job.places:
            job.hosting.add(sender)
            self._tell(job, WorkerUp(job.place_of(sender)))

    def lost(self, member: str, death: Death | None) -> None:
        """A worker is lost: another one takes its place."""
        for job in [job for job in self._jobs.values() if member in job.places]:
            if job.status is JobStatus.STOPPING:
                self._stopped_at(job, member)
                continue
            failure = self._fatal(job, member, death)
            if failure is not None:
                self._fail(job, failure)
                continue
            place = job.places.index(member)
            job.places[place] = None
            job.hosting.discard(member)
            self._tell(job, WorkerDown(_name(place)))
            if job.status is JobStatus.RUNNING:
                self._announce(job, JobStatus.RECOVERING)
            self._fill(job)

    def _fatal(self, job: EntityJob, member: str, death: Death | None) -> Failure | None:
        """Returns why the job cannot survive the loss of a worker, if it cannot."""
        how = "is lost" if death is None else f"{death.how}"
        if _would_lose_all(job):
            return _lost_with(job, f"worker {member} with entities of job '{job.order.job}' {how}", "survive that")
        ran = None if death is None else death.interrupted
        if death is None or ran is None or ran.job != job.order.job:
            return None
        count = job.deaths[death.cause] = job.deaths.get(death.cause, 0) + 1
        if count < DEATHS_MAX[death.cause]:
            return None
        return Failure(
            "FunctionError",
            f"handlers of entities of job '{job.order.job}' have ended {count} workers, one after another",
            f"the last one {how}",
            "Its log has the call that does it; it runs again when the app is submitted again with other code.",
            traceback=death.stack,
        )

    # What the transactions' own coordinator hears and says.

    def _on_report(self, sender: str, frame: EntityReport) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and sender in job.places:
            self._tell(job, FrameArrived(job.place_of(sender), frame.report))

    def _on_broken(self, sender: str, frame: EntitiesBroken) -> None:
        """Rounds may be lost between two workers, or a handler was ended at a worker itself: all begin again from the
        last snapshot."""
        job = self._jobs.get(frame.job)
        if job is None or sender not in job.hosting or frame.member not in job.places:
            return
        if _would_lose_all(job):
            itself = frame.member == sender
            why = "took too long" if itself else f"may not have been heard by worker {frame.member}"
            self._fail(job, _lost_with(job, f"a transaction at worker {sender} {why}", "begin again"))
            return
        self._tell(job, WorkerUp(job.place_of(sender)))

    def _on_where(self, sender: str, frame: WhereEntities) -> None:
        """Calls may come before an attempt is running: they are made again."""
        self._askers.setdefault(frame.job, set()).add(sender)
        job = self._jobs.get(frame.job)
        if job is not None and None not in job.places:
            self._host.send(sender, EntitiesAt(frame.job, job.members))

    def _tell(self, job: EntityJob, event: CoordinatorEvent) -> None:
        proceeds = False
        for effect in job.transactions.handle(event):
            if isinstance(effect, Send):
                self._send(job, effect)
                proceeds |= isinstance(effect.frame, Proceed)
            elif isinstance(effect, WriteManifest):
                self._commit(job, effect)
        if proceeds and None not in job.places and job.status is not JobStatus.STOPPING:
            self._host.effects.append(AnnounceEntities(job.order.job, tuple(job.members)))
            askers = self._askers.get(job.order.job, set()).intersection(self._membership.members)
            self._askers[job.order.job] = askers
            for member in sorted(askers):
                self._host.send(member, EntitiesAt(job.order.job, job.members))
            if job.status is not JobStatus.RUNNING:
                self._announce(job, JobStatus.RUNNING)

    def _send(self, job: EntityJob, effect: Send) -> None:
        member = job.places[int(effect.to) - 1]
        frame = effect.frame
        if member is None:
            return
        if isinstance(frame, Resume):
            frame = replace(frame, members=job.members)
        self._host.send(member, EntityOrder(job.order.job, frame))

    # Snapshots that are complete.

    def _commit(self, job: EntityJob, effect: WriteManifest) -> None:
        if job.order.plan is None:
            return
        job.checkpoint += 1
        job.committing[job.checkpoint] = effect.manifest
        written = entity_manifest(job.order.app, job.checkpoint, effect.manifest)
        self._host.effects.append(CommitEntities(job.order.job, written))

    def _on_committed(self, event: EntitiesCommitted) -> None:
        job = self._jobs.get(event.job)
        if job is not None:
            job.deaths.clear()
            self._tell(job, ManifestWritten(job.committing.pop(event.checkpoint)))

    def _on_uncommitted(self, event: EntitiesUncommitted) -> None:
        job = self._jobs.get(event.job)
        if job is not None:
            del job.committing[event.checkpoint]
            self._host.refuse(f"snapshot {event.checkpoint} of the entities of {event.job}: {event.reason}")

    # Ending.

    def _on_lost(self, event: EntitiesLost) -> None:
        if event.job in self._jobs:
            self._fail(self._jobs[event.job], event.failure)

    def _on_failed(self, sender: str, frame: EntitiesFailed) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and sender in job.places:
            self._fail(job, frame.failure)

    def _fail(self, job: EntityJob, failure: Failure) -> None:
        for member in job.members:
            if member in self._membership.members:
                self._host.send(member, DropEntities(job.order.job))
        self._end(job, JobStatus.FAILED, failure)

    def _on_stop(self, event: EntitiesStopRequested) -> None:
        job = self._jobs.get(event.job)
        if job is None or job.status is JobStatus.STOPPING:
            return
        self._announce(job, JobStatus.STOPPING)
        job.unstopped = set(job.members)
        for member in job.members:
            self._host.send(member, DropEntities(job.order.job))
        if not job.unstopped:
            self._end(job, JobStatus.STOPPED)

    def _on_dropped(self, sender: str, frame: EntitiesDropped) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and job.status is JobStatus.STOPPING:
            self._stopped_at(job, sender)

    def _stopped_at(self, job: EntityJob, member: str) -> None:
        job.unstopped.discard(member)
        if not job.unstopped:
            self._end(job, JobStatus.STOPPED)

    def end_all(self) -> None:
        """The cluster closes."""
        for job in list(self._jobs.values()):
            self._end(job, JobStatus.STOPPED)

    def _end(self, job: EntityJob, status: JobStatus, failure: Failure | None = None) -> None:
        del self._jobs[job.order.job]
        self._askers.pop(job.order.job, None)
        self._announce(job, status, failure)

    def _announce(
        self, job: EntityJob, status: JobStatus, failure: Failure | None = None, waits_for: str | None = None
    ) -> None:
        job.status = status
        self._host.effects.append(AnnounceJob(job.order.job, status, failure, waits_for))


def entity_manifest(app: str, checkpoint: int, manifest: Manifest) -> checkpoints.Manifest:
    """Returns a snapshot of entities as it is written to the log of checkpoints."""
    workers = [[(piece.attempt, piece.epoch) for piece in pieces] for pieces in manifest.pieces]
    record = checkpoints.EntitiesRecord(manifest.epoch, workers)
    return checkpoints.Manifest(app, checkpoint, {}, entities=record)


def _read(manifest: checkpoints.Manifest) -> Manifest:
    record = manifest.entities
    assert record is not None
    return Manifest(record.epoch, [[Piece(*piece) for piece in pieces] for pieces in record.workers])


def _name(place: int) -> str:
    """Returns the name of a place for the transactions' coordinator: its number from 1."""
    return str(place + 1)


def _would_lose_all(job: EntityJob) -> bool:
    """Whether another attempt would begin with entities that nobody has ever written."""
    return job.order.plan is None and job.status in (JobStatus.RUNNING, JobStatus.RECOVERING)


def _lost_with(job: EntityJob, fact: str, what: str) -> Failure:
    return Failure(
        "ClusterError",
        fact,
        f"the entities of job '{job.order.job}' are in memory only, and cannot {what}",
        "Submit the app with checkpoint=DIR to keep them.",
    )
