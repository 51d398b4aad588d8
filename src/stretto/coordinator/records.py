"""What the coordinator keeps of a job: its shape, where it runs, how far it is, and its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stretto.actors.shape import Shapes
from stretto.api.slo import SLO
from stretto.checkpoints.manifest import ActorRecord, Manifest, Storage
from stretto.checkpoints.resuming import Resumption
from stretto.errors import InvariantError
from stretto.protocol.jobs import Failure

Actor = tuple[str, int]
"""A function and a partition of it."""


class JobStatus(Enum):
    """The life of a job."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    RECOVERING = "recovering"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.STOPPED)


MOVES: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.DEPLOYING: frozenset({JobStatus.RUNNING, JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.RUNNING: frozenset({JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.RECOVERING: frozenset({JobStatus.RUNNING, JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.STOPPING: frozenset({JobStatus.STOPPING}),
}
"""What may become of a job that has not ended; in addition, it may end at any time. Nothing becomes of one that has."""


@dataclass
class Underway:
    """A checkpoint that is being taken: whom it waits for, and where the snapshots of the others are."""

    checkpoint: int
    awaited: set[Actor]
    overdue_ns: int
    """When to ask what keeps it from being complete."""
    savepoint: str | None = None
    records: dict[Actor, ActorRecord] = field(default_factory=dict)


@dataclass
class Durability:
    """A job's checkpoints. `manifests` are the complete ones that are kept, the latest last; `checkpoint` is the last
    that was begun; `committing` is one whose manifest is being written, so that it is not known yet whether it counts.

    `attempt` numbers the attempts of the job: each recovery is another one. While it waits for workers,
    `waits_since_ns` is since when."""

    storage: Storage
    interval_ns: int | None
    kept: int
    manifests: list[Manifest] = field(default_factory=list)
    checkpoint: int = 0
    began_ns: int = 0
    due_ns: int = 0
    retry_ns: int = 0
    """One that failed is not tried again before this, if it was asked for."""
    requested: bool = False
    savepoint: str | None = None
    """The name of the one to stop with, where that was asked for."""
    underway: Underway | None = None
    committing: Manifest | None = None
    unpublished: set[Actor] = field(default_factory=set)
    attempt: int = 1
    workers: int = 0
    """How many workers it had at first."""
    waits_since_ns: int | None = None
    shapes: Shapes = field(default_factory=dict)
    """What the manifests of this attempt say of the functions."""
    unread: int = 0
    """How often in a row a checkpoint could not be read."""


@dataclass
class Job:
    """`attempt` is what workers know it by, another name after each failure: what is still under way of an earlier one
    speaks of a job that is not there any more."""

    name: str
    shapes: Shapes
    placement: dict[str, list[str]] = field(default_factory=dict)
    digest: str = ""
    spreads: bool = False
    hosts: list[str] = field(default_factory=list)
    """Workers that may have lessees; a joining one is among them once it has loaded the code."""
    durability: Durability | None = None
    attempt: str = ""
    change: int = 0
    unchanged: set[str] = field(default_factory=set)
    """Members that have not said that they took the last change of hosts in."""
    draining: bool = False
    """Whether its sources are to end where they are."""
    status: JobStatus = JobStatus.DEPLOYING
    failure: Failure | None = None
    unready: set[str] = field(default_factory=set)
    unstopped: set[str] = field(default_factory=set)
    unfinished: set[Actor] = field(default_factory=set)
    objective: SLO | None = None

    def become(self, status: JobStatus) -> None:
        """Move to another status; a move that is not in the table is a fault of the protocol."""
        if self.status.ended or not (status.ended or status in MOVES[self.status]):
            raise InvariantError(f"job '{self.name}' is {self.status.value} and cannot become {status.value}")
        self.status = status

    @property
    def members(self) -> list[str]:
        return sorted({*self.hosts, *self.homes})

    @property
    def homes(self) -> set[str]:
        """The members that host a lessor."""
        return {member for members in self.placement.values() for member in members}

    @property
    def actors(self) -> set[Actor]:
        return {(name, partition) for name, shape in self.shapes.items() for partition in range(shape.parallelism)}

    @property
    def sinks(self) -> set[Actor]:
        return {actor for actor in self.actors if self.shapes[actor[0]].is_sink}

    @property
    def origin(self) -> Manifest | None:
        """The checkpoint that the next attempt goes on from."""
        return self.durability.manifests[-1] if self.durability is not None and self.durability.manifests else None

    @property
    def resumption(self) -> Resumption:
        """How it goes on from there."""
        return Resumption(self.origin, self.shapes)
