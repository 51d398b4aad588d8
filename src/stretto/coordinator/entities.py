"""Jobs with entities: which workers have them, and the coordinator of each job's transactions. A part of the machine.

Such a job has a number of **places**, which never changes while its log is kept: a place has a log, snapshots and a
part of all entities. Each is hosted by a worker, which may have several. When a worker is lost, one that has no place
in the job takes what it had, usually its next incarnation; if none is coming, those that are there take more. Then
`TransactionCoordinator` begins another attempt on all of them. Places also move without one (`entity_moves.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stretto.checkpoints import manifest as checkpoints
from stretto.coordinator.entity_moves import MovePhase, PlaceMove, PlaceMoves, Planner, next_move
from stretto.coordinator.entity_observing import PlaceSeries
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
from stretto.coordinator.observing import Observing
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.records import JobStatus, failure_text
from stretto.observation.transactions import EntitiesObserved
from stretto.protocol.entities import (
    DropEntities,
    EntitiesAt,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityCounts,
    EntityOrder,
    EntityPlaces,
    EntityReport,
    HostEntities,
    WhereEntities,
    streams_of,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.transactions import Copied, Piece, Proceed, Resume, TakenOver
from stretto.transactions.coordinating import TransactionCoordinator
from stretto.transactions.events import (
    CoordinatorEvent,
    Manifest,
    ManifestWritten,
    WorkerDown,
    WorkerUp,
    WriteManifest,
)
from stretto.transactions.placement import place_names

COMING_NS_MAX = 30_000_000_000
"""How long places without a worker wait for one that is coming, before those that are there take more."""
DEATHS_MAX = {DeathCause.OWN: 3, DeathCause.ANY: 12}
"""So many workers may die in a handler of the job between two snapshots. Its log has the same calls again after each
death, so a handler that ends its process would do so for ever, and end the other jobs of those workers too."""
ENDED_MAX = 64
"""So many jobs that have ended are observed as they were at their end."""


@dataclass
class EntityJob:
    """A job with entities. `places` has the worker in each place, `hosting` the numbers of those whose worker has
    loaded the code."""

    order: EntitiesSubmitted
    transactions: TransactionCoordinator
    places: list[str | None]
    hosting: set[int] = field(default_factory=set)
    status: JobStatus = JobStatus.WAITING
    waits_for: str | None = None
    checkpoint: int = 0
    complete: int = 0
    """The last snapshot that is complete."""
    committing: dict[int, Manifest] = field(default_factory=dict)
    unstopped: set[str] = field(default_factory=set)
    deaths: dict[DeathCause, int] = field(default_factory=dict)
    failure: Failure | None = None
    series: list[PlaceSeries] = field(default_factory=list)

    @property
    def members(self) -> list[str]:
        """The workers in the places that have one; a worker that has several comes several times."""
        return [member for member in self.places if member is not None]

    @property
    def workers(self) -> list[str]:
        """The workers that have places."""
        return list(dict.fromkeys(self.members))

    def is_at(self, place: int, member: str) -> bool:
        """Whether the place with this number is hosted by a worker."""
        return 0 < place <= len(self.places) and self.places[place - 1] == member


class EntityJobs(Part):
    """The jobs with entities that have not ended."""

    moves: type[PlaceMoves] = PlaceMoves
    """The simulator plants a bug by replacing it."""

    def __init__(self, host: Host, membership: Membership, observing: Observing) -> None:
        self._host = host
        self._membership = membership
        self._observing = observing
        self._jobs: dict[str, EntityJob] = {}
        self._ended: dict[str, EntitiesObserved] = {}
        """The last ones that have ended, as they were then."""
        self._moves = self.moves(host)
        self.planner: Planner = next_move
        """What says which place moves next. The simulator has places move at random."""
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
            EntityCounts: self._on_counts,
            EntitiesBroken: self._on_broken,
            EntitiesFailed: self._on_failed,
            EntitiesDropped: self._on_dropped,
            WhereEntities: self._on_where,
        }

    def has(self, job: str) -> bool:
        """Whether it is a job with entities."""
        return job in self._jobs

    def on(self, member: str) -> list[str]:
        """Returns the jobs that have entities on a worker, or are about to."""
        moves = {name: self._moves.of(name) for name in self._jobs}
        moving = {name for name, move in moves.items() if move is not None and move.to == member}
        return [name for name, job in self._jobs.items() if member in job.places or name in moving]

    @property
    def moving(self) -> PlaceMoves:
        """The moves that are under way."""
        return self._moves

    def places(self, job: str) -> list[str | None]:
        """Returns the worker in each place of a job, for the checks."""
        return list(self._jobs[job].places) if job in self._jobs else []

    # Workers for the places.

    def _on_submitted(self, event: EntitiesSubmitted) -> None:
        names = place_names(event.workers)
        plan = event.plan
        kept = None if plan is None else _read(plan.manifest)
        attempt = 0 if plan is None else plan.attempt
        job = EntityJob(event, TransactionCoordinator(names, attempt, kept), [None] * event.workers)
        job.checkpoint = job.complete = 0 if plan is None else plan.manifest.checkpoint
        job.series = [PlaceSeries() for _ in names]
        self._jobs[event.job] = job
        self._ended.pop(_shown(event.job), None)
        self._fill(job)

    def tick(self) -> None:
        for job in self._jobs.values():
            self._fill(job)
            self._move_next(job)

    def joined(self, member: str) -> None:
        """A worker may take a place that is free."""
        self.tick()

    def _fill(self, job: EntityJob) -> None:
        if job.status is JobStatus.STOPPING or None not in job.places:
            return
        active = self._membership.active()
        may_have_more = active and not self._is_any_coming()
        for place, member in enumerate(job.places):
            if member is None:
                free = active if may_have_more else [name for name in active if name not in job.places]
                if free:
                    chosen = min(free, key=lambda name: (job.places.count(name), len(self.on(name)), name))
                    self._host_at(job, place, chosen)
        missing = job.places.count(None)
        if job.status is JobStatus.WAITING:
            without = f"workers: {missing} of the {len(job.places)} places of its entities have none"
            waits_for = without if missing else None
            if waits_for is None or waits_for != job.waits_for:
                job.waits_for = waits_for
                self._announce(job, JobStatus.WAITING if missing else JobStatus.DEPLOYING, waits_for=waits_for)

    def _is_any_coming(self) -> bool:
        """Whether a worker is about to join, which may take a place."""
        since_ns = self._membership.coming.values()
        return any(self._host.now_ns - each < COMING_NS_MAX for each in since_ns)

    def _host_at(self, job: EntityJob, place: int, member: str) -> None:
        job.places[place] = member
        job.hosting.discard(place + 1)
        self._host.send(member, _hosting_of(job, place + 1))

    def _on_hosted(self, sender: str, frame: EntitiesHosted) -> None:
        job = self._jobs.get(frame.job)
        if job is None or self._moves.hosted(frame.job, sender, frame.place):
            return
        if job.is_at(frame.place, sender):
            job.hosting.add(frame.place)
            self._tell(job, WorkerUp(str(frame.place)))

    # Places that move.

    def _move_next(self, job: EntityJob) -> None:
        name = job.order.job
        if not self._is_movable(job) or not self._moves.may_begin(name):
            return
        active = self._membership.active()
        found = self.planner(job.places, active, {member: len(self.on(member)) for member in active})
        if found is not None:
            place, to = found
            origin = job.places[place - 1]
            assert origin is not None
            move = PlaceMove(name, place, origin, to, job.transactions.attempt)
            self._moves.begin(move, _hosting_of(job, place), job.members)

    def _is_movable(self, job: EntityJob) -> bool:
        """Whether a place of the job can be copied: all of them have been told to proceed. One that loads its snapshot
        has nothing yet."""
        return job.status is JobStatus.RUNNING and job.transactions.has_begun

    def _moved(self, job: EntityJob, move: PlaceMove, waited_ns: int) -> None:
        """A place is on another worker now: whoever sends to it is told."""
        name = job.order.job
        job.places[move.place - 1] = move.to
        job.series[move.place - 1].moved()
        for member in job.workers:
            self._host.send(member, EntityPlaces(name, job.members, move.place))
        self._announce_places(job, waited_ns)
        self._move_next(job)

    def _call_off(self, job: EntityJob, gone: str | None = None) -> None:
        """A move cannot go on. If the place may be on its way already, another attempt begins with it where it was."""
        move = self._moves.call_off(job.order.job, gone)
        if move is None or move.phase is not MovePhase.SWITCHING:
            return
        if _would_lose_all(job):
            what = f"worker {move.to} was taking a place of job '{job.order.job}', and is lost"
            self._fail(job, _lost_with(job, what, "survive that"))
        elif job.is_at(move.place, move.origin):
            self._tell(job, WorkerUp(str(move.place)))

    def _announce_places(self, job: EntityJob, waited_ns: int | None = None) -> None:
        """Tells doors and functions of streams where the entities are: in another attempt, or after a move, for which
        calls have waited so long."""
        name, again = job.order.job, waited_ns is None
        self._host.effects.append(AnnounceEntities(name, tuple(job.members), waited_ns))
        askers = self._askers.get(name, set()).intersection(self._membership.members)
        self._askers[name] = askers
        for member in sorted(askers):
            self._host.send(member, EntitiesAt(name, job.members, again))

    def lost(self, member: str, death: Death | None) -> None:
        """A worker is lost: another one takes its places."""
        for job in list(self._jobs.values()):
            move = self._moves.of(job.order.job)
            if move is not None and move.concerns(member) and member not in job.places:
                self._call_off(job, member)
        for job in [job for job in self._jobs.values() if member in job.places]:
            if job.status is JobStatus.STOPPING:
                self._stopped_at(job, member)
                continue
            failure = self._fatal(job, member, death)
            if failure is not None:
                self._fail(job, failure)
                continue
            self._moves.call_off(job.order.job, member)
            for place in [place for place, there in enumerate(job.places, 1) if there == member]:
                job.places[place - 1] = None
                job.series[place - 1].lost()
                job.hosting.discard(place)
                self._tell(job, WorkerDown(str(place)))
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
        if job is None:
            return
        match frame.report:
            case Copied(attempt):
                self._moves.copied(frame.job, sender, attempt)
            case TakenOver(attempt, waited_ns):
                move = self._moves.taken_over(frame.job, sender, attempt)
                if move is not None:
                    self._moved(job, move, waited_ns)
            case report if job.is_at(frame.place, sender):
                self._tell(job, FrameArrived(str(frame.place), report))

    def _on_counts(self, sender: str, frame: EntityCounts) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and job.is_at(frame.place, sender):
            job.series[frame.place - 1].add(frame.totals, frame.measured_ns, self._host.now_ns)
            self._observing.note()

    def observed(self) -> dict[str, EntitiesObserved]:
        """Returns what is observed of all jobs with entities, by the names of their apps' jobs."""
        return self._ended | {_shown(name): self._observed(job) for name, job in self._jobs.items()}

    def _observed(self, job: EntityJob) -> EntitiesObserved:
        now_ns, move = self._host.now_ns, self._moves.of(job.order.job)
        places = zip(job.places, job.series, strict=True)
        return EntitiesObserved(
            job.status.value,
            job.transactions.attempt,
            tuple(series.observed(number, member, now_ns) for number, (member, series) in enumerate(places, 1)),
            None if move is None else (move.place, move.to),
            None if job.order.plan is None else job.complete,
            None if job.failure is None else failure_text(job.failure),
            job.waits_for if job.status is JobStatus.WAITING else None,
        )

    def _on_broken(self, sender: str, frame: EntitiesBroken) -> None:
        """Rounds may be lost between two workers, or a handler was ended at a worker itself: all begin again from the
        last snapshot."""
        job = self._jobs.get(frame.job)
        if job is None:
            return
        if sender not in job.places or frame.member not in job.places:
            move = self._moves.of(frame.job)
            if move is not None and move.concerns(sender) and move.concerns(frame.member):
                self._call_off(job)
            return
        first = job.places.index(sender) + 1
        if first not in job.hosting:
            return
        if _would_lose_all(job):
            itself = frame.member == sender
            why = "took too long" if itself else f"may not have been heard by worker {frame.member}"
            self._fail(job, _lost_with(job, f"a transaction at worker {sender} {why}", "begin again"))
            return
        self._tell(job, WorkerUp(str(first)))

    def _on_where(self, sender: str, frame: WhereEntities) -> None:
        """Calls may come before an attempt is running: they are made again."""
        self._askers.setdefault(frame.job, set()).add(sender)
        job = self._jobs.get(frame.job)
        if job is not None and None not in job.places:
            self._host.send(sender, EntitiesAt(frame.job, job.members))

    def _tell(self, job: EntityJob, event: CoordinatorEvent) -> None:
        proceeds = False
        effects = job.transactions.handle(event)
        if any(isinstance(effect, Send) and isinstance(effect.frame, Resume) for effect in effects):
            self._moves.call_off(job.order.job)
            for member in job.workers:
                self._host.send(member, EntityPlaces(job.order.job, job.members))
        for effect in effects:
            if isinstance(effect, Send):
                self._send(job, effect)
                proceeds |= isinstance(effect.frame, Proceed)
            elif isinstance(effect, WriteManifest):
                self._commit(job, effect)
        if proceeds and None not in job.places and job.status is not JobStatus.STOPPING:
            self._announce_places(job)
            if job.status is not JobStatus.RUNNING:
                self._announce(job, JobStatus.RUNNING)

    def _send(self, job: EntityJob, effect: Send) -> None:
        place = int(effect.to)
        member = job.places[place - 1]
        if member is not None:
            self._host.send(member, EntityOrder(job.order.job, place, effect.frame))

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
            job.complete = event.checkpoint
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
        if job is None:
            return
        if sender in job.places and (frame.place is None or job.is_at(frame.place, sender)):
            self._fail(job, frame.failure)
            return
        move = self._moves.of(frame.job)
        if move is not None and move.to == sender and frame.place in (None, move.place):
            self._call_off(job)

    def _fail(self, job: EntityJob, failure: Failure) -> None:
        self._moves.call_off(job.order.job)
        for member in job.workers:
            if member in self._membership.members:
                self._host.send(member, DropEntities(job.order.job))
        self._end(job, JobStatus.FAILED, failure)

    def _on_stop(self, event: EntitiesStopRequested) -> None:
        job = self._jobs.get(event.job)
        if job is None or job.status is JobStatus.STOPPING:
            return
        self._announce(job, JobStatus.STOPPING)
        self._moves.call_off(event.job)
        job.unstopped = set(job.members)
        for member in job.workers:
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
        self._moves.ended(job.order.job)
        self._announce(job, status, failure)
        self._ended[_shown(job.order.job)] = self._observed(job)
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _announce(
        self, job: EntityJob, status: JobStatus, failure: Failure | None = None, waits_for: str | None = None
    ) -> None:
        job.status, job.failure = status, failure
        self._observing.note()
        self._host.effects.append(AnnounceJob(job.order.job, status, failure, waits_for))


def entity_manifest(app: str, checkpoint: int, manifest: Manifest) -> checkpoints.Manifest:
    """Returns a snapshot of entities as it is written to the log of checkpoints."""
    workers = [[(piece.attempt, piece.epoch) for piece in pieces] for pieces in manifest.pieces]
    record = checkpoints.EntitiesRecord(manifest.epoch, workers)
    return checkpoints.Manifest(app, checkpoint, {}, entities=record)


def _shown(job: str) -> str:
    """Returns the name of an app's job, which is that of its streams if it has some."""
    return streams_of(job) or job


def _read(manifest: checkpoints.Manifest) -> Manifest:
    record = manifest.entities
    assert record is not None
    return Manifest(record.epoch, [[Piece(*piece) for piece in pieces] for pieces in record.workers])


def _hosting_of(job: EntityJob, place: int) -> HostEntities:
    order = job.order
    directory = None if order.plan is None else order.plan.directory
    return HostEntities(order.job, order.digest, place, directory, order.pace)


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
