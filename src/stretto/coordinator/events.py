"""What happens to the coordinator (events, past facts) and what it wants done (effects, imperatives)."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.actors.shape import Shapes
from stretto.api.slo import SLO
from stretto.checkpoints.manifest import Manifest, Storage
from stretto.coordinator.records import JobStatus
from stretto.observation.model import Observation
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Member
from stretto.protocol.reports import Misbehaved

# Workers.


@dataclass(frozen=True, slots=True)
class WorkerExpected:
    """The runtime has started a worker under this name; only expected workers may join. A parked one gets nothing to do
    until another one is lost."""

    name: str
    public_key: str
    parked: bool = False


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The Spark task of a worker returned or failed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RetireRequested:
    """A worker is to leave: no new lessees come to it, and when the last is gone it is asked to go."""

    name: str


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The cluster ends: all workers are to leave."""


@dataclass(frozen=True, slots=True)
class AnnounceMembers:
    """Effect: the membership has changed; the transport admits these and no others."""

    version: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class AnnounceLoss:
    """Effect: a worker is a member no more, and why."""

    member: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReplaceWorker:
    """Effect: start another worker in place of one that was lost; `parked`, if a parked one has taken its place;
    `joined`, if the lost one had."""

    name: str
    parked: bool
    joined: bool


# Jobs.


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """How often to take one (None: when asked to), how many to keep, and those that are there: the job resumes from the
    last of them."""

    storage: Storage
    interval_ns: int | None
    kept: int
    manifests: tuple[Manifest, ...] = ()
    checkpoint: int = 0
    """The last one that was ever begun, as far as is known."""


@dataclass(frozen=True, slots=True)
class SubmitRequested:
    job: str
    digest: str
    shapes: Shapes
    spreads: bool = False
    """Whether functions may have lessees: then every worker gets the code, also those that join later."""
    checkpoints: CheckpointPlan | None = None
    objective: SLO | None = None


@dataclass(frozen=True, slots=True)
class JobLost:
    """A job cannot continue, for a reason that its workers do not know."""

    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class StopRequested:
    """At once; or with `drain`, when what was read has gone through; or with a savepoint, when that is complete."""

    job: str
    drain: bool = False
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """Whoever wanted to know of an ended job knows what became of it: its record can go."""

    job: str


@dataclass(frozen=True, slots=True)
class AnnounceJob:
    """Effect: tell whoever waits for the job what became of it. When it has ended, its last observation went ahead."""

    job: str
    status: JobStatus
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class AnnounceMisbehaviour:
    """Effect: a user's strategy or policy was given up on a worker; the job continues."""

    job: str
    member: str
    said: Misbehaved


@dataclass(frozen=True, slots=True)
class Observed:
    """Effect: what the cluster does, for all who want to know."""

    observation: Observation


# Checkpoints.


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody wants a checkpoint now."""

    job: str


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Effect: write it, durably and at once visible as a whole, then say `ManifestWritten` or `ManifestFailed`."""

    job: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    job: str
    checkpoint: int


@dataclass(frozen=True, slots=True)
class ManifestFailed:
    job: str
    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class PruneCheckpoints:
    """Effect: remove the checkpoints that are older than those kept."""

    job: str
    kept: tuple[Manifest, ...]


@dataclass(frozen=True, slots=True)
class AnnounceCheckpoint:
    """Effect: tell whoever wants to know: a checkpoint is complete, or why it is not."""

    job: str
    checkpoint: int
    manifest: Manifest | None
    reason: str | None = None
    took_ns: int = 0


Event = (
    WorkerExpected
    | WorkerEnded
    | FrameArrived
    | SubmitRequested
    | StopRequested
    | ForgetRequested
    | RetireRequested
    | CloseRequested
    | Ticked
    | JobLost
    | CheckpointRequested
    | ManifestWritten
    | ManifestFailed
)
Effect = (
    Send
    | AnnounceJob
    | AnnounceMembers
    | AnnounceLoss
    | AnnounceMisbehaviour
    | Observed
    | Refuse
    | ReplaceWorker
    | WriteManifest
    | PruneCheckpoints
    | AnnounceCheckpoint
)
