"""The coordinator's events (past facts) and effects (imperatives)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum

from stretto.actors.shape import Shapes
from stretto.actors.shards import ShardMap
from stretto.api.slo import SLO
from stretto.checkpoints.manifest import Manifest, Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import DecisionRecord
from stretto.errors import RemovedError, StorageError, TakenOverError
from stretto.observation.model import Observation
from stretto.protocol.bursts import To
from stretto.protocol.entities import Pace
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Member
from stretto.protocol.reports import Misbehaved

# Workers.


@dataclass(frozen=True, slots=True)
class WorkerExpected:
    """The runtime has started a worker under this name; only expected workers may join. A parked one is idle until
    another one is lost, a transient one until a burst comes."""

    name: str
    public_key: str
    parked: bool = False
    transient: bool = False


@dataclass(frozen=True, slots=True)
class LastRun:
    """What a worker ran last: the attempt of a job, and the function (None: its code was loaded); `underway` if it had
    not returned."""

    job: str
    function: str | None
    underway: bool


class DeathCause(Enum):
    """Where the end of a process came from."""

    OWN = "its own doing"
    """It exited or crashed: something that ran in it is to blame."""
    ANY = "its own doing, or from outside"
    """It was killed or fell silent, which the operating system or an operator can also bring about."""


@dataclass(frozen=True, slots=True)
class Death:
    """How the process of a worker ended, or fell silent, without being asked to leave. `how` completes "its process";
    `stack` is Python's stack if it crashed."""

    how: str
    cause: DeathCause
    last_run: LastRun | None = None
    stack: str | None = None

    @property
    def interrupted(self) -> LastRun | None:
        """The run that it cut short, if there was one."""
        return self.last_run if self.last_run is not None and self.last_run.underway else None


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The Spark task of a worker returned or failed; `death` if the worker's process did not leave by itself."""

    name: str
    reason: str
    death: Death | None = None


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker that was to be added cannot be started, or has not come in time."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScaleOutRequested:
    """So many more workers are to be started, ordinary or transient ones."""

    count: int
    token: str = ""
    """What the user knows the request by."""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class ScaleInRequested:
    """So many workers are to leave, all or none; the coordinator chooses them."""

    count: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """A worker is to leave: it gets nothing new, and is asked to leave once nothing is there any more."""

    name: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class MoveShardsRequested:
    """Shards of an elastic executor are to move: each to the worker that is named."""

    job: str
    function: str
    partition: int
    moves: tuple[tuple[int, str], ...]
    token: str = ""
    """What the user knows the request by."""


@dataclass(frozen=True, slots=True)
class LesseesRequested:
    """Each actor of a spread function may have so many lessees from now on."""

    job: str
    function: str
    lessees: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """A user gives functions of a running job another parallelism."""

    job: str
    parallelism: dict[str, int]
    token: str = ""


@dataclass(frozen=True, slots=True)
class ObjectiveRequested:
    """A user gives a running job another objective."""

    job: str
    objective: SLO
    token: str = ""


@dataclass(frozen=True, slots=True)
class ReshapeRequested:
    """A running job is to have another parallelism, and no home on the workers to `avoid`, at one barrier."""

    job: str
    parallelism: dict[str, int]
    avoid: frozenset[str] = frozenset()
    shards: dict[str, ShardMap] = field(default_factory=dict)
    """How keys are dealt to the partitions of these functions; of others, in ranges of equal length."""


@dataclass(frozen=True, slots=True)
class RedirectRequested:
    """The batches of these functions of a job are to go to transient workers from now on, those of others are not.
    Where no workers are named, so many of those that have loaded the job are meant; by default all."""

    job: str
    functions: dict[str, To]
    token: str = ""
    count: int | None = None


@dataclass(frozen=True, slots=True)
class MakeCode:
    """Effect: make the code of a job with these functions at another parallelism, then say `CodeMade` or
    `CodeRefused`."""

    job: str
    order: int
    parallelism: dict[str, int]
    current: dict[str, int]
    """The parallelism of all functions now."""
    shards: dict[str, ShardMap] = field(default_factory=dict)
    """How the keys of these functions are dealt; of others, in ranges of equal length."""


@dataclass(frozen=True, slots=True)
class CodeMade:
    """The code for the next attempt of a job is where workers find it."""

    job: str
    order: int
    digest: str
    shapes: Shapes
    spreads: bool = False
    code_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CodeRefused:
    """The job cannot have that parallelism."""

    job: str
    order: int
    reason: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The cluster ends: all workers are to leave."""


@dataclass(frozen=True, slots=True)
class AnnounceMembers:
    """Effect: the membership has changed; the transport admits only these members."""

    version: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class AnnounceLoss:
    """Effect: a worker is no longer a member, and why."""

    member: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReplaceWorker:
    """Effect: start another worker in place of a lost one; `parked` means that it starts as a parked one, since a
    parked one has taken over or was lost; `joined`, that the lost one had joined; `transient`, that it was one."""

    name: str
    parked: bool
    joined: bool
    transient: bool = False


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Effect: start one more worker under this name, then report `WorkerExpected`, or `StartFailed`."""

    name: str
    transient: bool = False


@dataclass(frozen=True, slots=True)
class GiveUpWorker:
    """Effect: end what was started for a worker that has not come in time; its slot is free."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseWorker:
    """Effect: end the Spark task of a worker that was lost while it drained, since it may hang and keep its slot."""

    name: str


# Jobs.


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The interval (None: only on request), how many checkpoints to keep, and the existing ones: the job resumes from
    the last of them."""

    storage: Storage
    interval_ns: int | None
    kept: int
    manifests: tuple[Manifest, ...] = ()
    checkpoint: int = 0
    """The last checkpoint that was begun, as far as is known."""


@dataclass(frozen=True, slots=True)
class SubmitRequested:
    job: str
    digest: str
    shapes: Shapes
    spreads: bool = False
    """Whether functions may have lessees. Every worker then gets the code, including those that join later."""
    checkpoints: CheckpointPlan | None = None
    objective: SLO | None = None
    code_bytes: int = 0
    """The size of its code with all data that is beside it."""


@dataclass(frozen=True, slots=True)
class JobLost:
    """A job cannot continue, for a reason outside its workers."""

    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Stop a job: at once; with `drain`, when everything read is processed; with a savepoint, when that is complete."""

    job: str
    drain: bool = False
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """The outcome of an ended job has been read: its record can be removed."""

    job: str


@dataclass(frozen=True, slots=True)
class AnnounceJob:
    """Effect: the status of a job has changed. The last observation of an ended job is announced before this."""

    job: str
    status: JobStatus
    failure: Failure | None = None
    waits_for: str | None = None
    """What a waiting job waits for."""

    def explained_by(self, store: CheckpointStore) -> AnnounceJob:
        """Returns the announcement of a failed job with its cause, if that is the loss of its checkpoints: whatever is
        missing then, and fails the job first, the user must hear that another driver has taken over."""
        assert self.failure is not None
        if self.failure.error in _LOSSES:
            return self
        try:
            store.check_owner()
        except (TakenOverError, RemovedError) as error:
            lost = _lost(self.job, error)
            seen = f"the job failed with: {self.failure.fact}"
            detail = f"{lost.detail}; {seen}" if lost.detail else seen
            return replace(self, failure=Failure(lost.error, lost.fact, detail, lost.fix))
        except StorageError:
            pass  # Nobody knows. The failure stays as it is.
        return self


@dataclass(frozen=True, slots=True)
class AnnounceMisbehaviour:
    """Effect: something of a user's misbehaved on a worker, and the job continues: a strategy or policy was given up, a
    function has ended its worker or does not return."""

    job: str
    member: str
    said: Misbehaved


@dataclass(frozen=True, slots=True)
class AnnounceLongRuns:
    """Effect: a function has runs on a worker that are longer than the objectives of other jobs there, which are in
    `delayed` by job, in nanoseconds."""

    job: str
    member: str
    function: str
    run_ns: int
    delayed: dict[str, int]


@dataclass(frozen=True, slots=True)
class Observed:
    """Effect: publish an observation of the cluster."""

    observation: Observation


# Checkpoints.


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A user has requested a checkpoint now."""

    job: str


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Effect: write it durably and atomically, then report `ManifestWritten`, `ManifestFailed` or `JobLost`."""

    job: str
    manifest: Manifest

    def write_to(self, store: CheckpointStore) -> ManifestWritten | ManifestFailed | JobLost:
        """Do it, and return the report."""
        checkpoint = self.manifest.checkpoint
        try:
            store.commit(self.manifest)
        except (TakenOverError, RemovedError) as error:
            return JobLost(self.job, _lost(self.job, error))
        except StorageError as error:
            return ManifestFailed(self.job, checkpoint, str(error))
        try:
            if self.manifest.savepoint is not None:
                store.save(self.manifest)
        except StorageError as error:
            return ManifestWritten(self.job, checkpoint, str(error))
        return ManifestWritten(self.job, checkpoint)

    def failed(self, reason: str) -> ManifestFailed:
        """Returns the report of a failure that nobody expects."""
        return ManifestFailed(self.job, self.manifest.checkpoint, reason)


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    """A checkpoint is complete. `unsaved` is why it could not be made a savepoint, if that was asked for."""

    job: str
    checkpoint: int
    unsaved: str | None = None


@dataclass(frozen=True, slots=True)
class AnnounceDecision:
    """Effect: a controller has decided something, or more is known of an earlier decision with this number."""

    number: int
    record: DecisionRecord
    token: str = ""
    """That of the request, if a user asked for it."""


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    job: str
    checkpoint: int
    reason: str


_LOSSES = (TakenOverError.__name__, RemovedError.__name__)


def _lost(job: str, error: TakenOverError | RemovedError) -> Failure:
    return Failure(type(error).__name__, f"{error.fact} of job '{job}'", error.detail, error.fix)


@dataclass(frozen=True, slots=True)
class PruneCheckpoints:
    """Effect: remove the checkpoints that are older than those kept."""

    job: str
    kept: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True)
class AnnounceCheckpoint:
    """Effect: a checkpoint is complete, or has failed for this reason."""

    job: str
    checkpoint: int
    manifest: Manifest | None
    reason: str | None = None
    took_ns: int = 0


# Entities.


@dataclass(frozen=True, slots=True)
class EntityPlan:
    """Where the log and the snapshots of entities are, the last complete snapshot, and the last attempt and checkpoint
    that there may have been."""

    directory: str
    manifest: Manifest
    attempt: int


@dataclass(frozen=True, slots=True)
class EntitiesSubmitted:
    """A job with entities on so many workers. Without a plan, nothing is kept."""

    job: str
    app: str
    digest: str
    workers: int
    pace: Pace
    plan: EntityPlan | None = None


@dataclass(frozen=True, slots=True)
class EntitiesStopRequested:
    job: str


@dataclass(frozen=True, slots=True)
class AnnounceEntities:
    """Effect: the entities of a job are on these workers, by their places, and take calls. In another attempt, open
    calls may be lost; else a place has moved, and calls have waited so long for that."""

    job: str
    members: tuple[str, ...]
    waited_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CommitEntities:
    """Effect: write the manifest durably and remove the one before it, then report `EntitiesCommitted`,
    `EntitiesUncommitted` or `EntitiesLost`."""

    job: str
    manifest: Manifest

    def write_to(self, store: CheckpointStore) -> EntitiesCommitted | EntitiesUncommitted | EntitiesLost:
        """Do it, and return the report."""
        checkpoint = self.manifest.checkpoint
        try:
            store.commit(self.manifest)
        except (TakenOverError, RemovedError) as error:
            return EntitiesLost(self.job, _lost(self.job, error))
        except StorageError as error:
            return EntitiesUncommitted(self.job, checkpoint, str(error))
        with suppress(StorageError):  # It is in the way of nobody, and the next commit tries again.
            store.prune([self.manifest])
        return EntitiesCommitted(self.job, checkpoint)

    def failed(self, reason: str) -> EntitiesUncommitted:
        """Returns the report of a failure that nobody expects."""
        return EntitiesUncommitted(self.job, self.manifest.checkpoint, reason)


@dataclass(frozen=True, slots=True)
class EntitiesCommitted:
    job: str
    checkpoint: int


@dataclass(frozen=True, slots=True)
class EntitiesUncommitted:
    job: str
    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class EntitiesLost:
    """Another driver has taken over the directory, or it was removed."""

    job: str
    failure: Failure


Event = (
    WorkerExpected
    | WorkerEnded
    | FrameArrived
    | SubmitRequested
    | StopRequested
    | ForgetRequested
    | StartFailed
    | ScaleOutRequested
    | ScaleInRequested
    | DrainRequested
    | MoveShardsRequested
    | LesseesRequested
    | RescaleRequested
    | ObjectiveRequested
    | ReshapeRequested
    | RedirectRequested
    | CodeMade
    | CodeRefused
    | CloseRequested
    | Ticked
    | JobLost
    | CheckpointRequested
    | ManifestWritten
    | ManifestFailed
    | EntitiesSubmitted
    | EntitiesStopRequested
    | EntitiesCommitted
    | EntitiesUncommitted
    | EntitiesLost
)
Effect = (
    Send
    | AnnounceJob
    | AnnounceMembers
    | AnnounceLoss
    | AnnounceMisbehaviour
    | AnnounceLongRuns
    | AnnounceDecision
    | Observed
    | MakeCode
    | Refuse
    | ReplaceWorker
    | StartWorker
    | GiveUpWorker
    | ReleaseWorker
    | WriteManifest
    | PruneCheckpoints
    | AnnounceCheckpoint
    | AnnounceEntities
    | CommitEntities
)
