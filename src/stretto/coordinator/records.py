"""What the coordinator keeps about a job: its shape, its placement, its status, and its checkpoints."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from stretto.actors.deadlines import LATENCY_MAX_NS
from stretto.actors.shape import FunctionShape, Shapes
from stretto.api.slo import SLO
from stretto.checkpoints.manifest import ActorRecord, Manifest, Storage
from stretto.checkpoints.resuming import Resumption
from stretto.errors import InvariantError
from stretto.observation.model import CheckpointObserved
from stretto.protocol.jobs import Failure, Promise

Actor = tuple[str, int]
"""A function and a partition."""


class JobStatus(Enum):
    """The status of a job."""

    WAITING = "waiting"
    """For workers to be placed on."""
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
    JobStatus.WAITING: frozenset({JobStatus.DEPLOYING, JobStatus.STOPPING}),
    JobStatus.DEPLOYING: frozenset({JobStatus.WAITING, JobStatus.RUNNING, JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.RUNNING: frozenset({JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.RECOVERING: frozenset({JobStatus.RUNNING, JobStatus.RECOVERING, JobStatus.STOPPING}),
    JobStatus.STOPPING: frozenset({JobStatus.STOPPING}),
}
"""The moves of a job that has not ended; in addition, it may end at any time. A job that has ended does not move."""


@dataclass
class Underway:
    """A checkpoint in progress: the actors that it waits for, and the snapshots of the others."""

    checkpoint: int
    awaited: set[Actor]
    overdue_ns: int
    """When to ask what delays it."""
    savepoint: str | None = None
    records: dict[Actor, ActorRecord] = field(default_factory=dict)
    parts: dict[Actor, dict[str, ActorRecord | None]] = field(default_factory=dict)
    """Of elastic executors, the snapshot of each worker with a task; None until it is stored."""

    def record_of(self, actor: Actor) -> ActorRecord | None:
        """Returns the record of an actor, with its parts; None if it had finished."""
        record, parts = self.records.get(actor), self.parts.get(actor)
        if record is None or not parts:
            return record
        return msgspec.structs.replace(record, parts=tuple(part for _, part in sorted(parts.items()) if part))

    def is_stored(self, actor: Actor) -> bool:
        """Whether an actor's snapshot is stored, with all its parts."""
        return actor in self.records and None not in self.parts.get(actor, {}).values()


class HandoverStage(Enum):
    """How far a handover is."""

    CODE = "its code is made"
    PREPARING = "its instances are made"
    WAITING = "it waits for a checkpoint to end"
    MARKING = "the barrier is under way"
    OPENING = "its actors are opened"

    @property
    def excludes_checkpoints(self) -> bool:
        return self in (HandoverStage.WAITING, HandoverStage.MARKING, HandoverStage.OPENING)


@dataclass
class Handover:
    """The next attempt of a running job: what was asked for, what it will be, and whom it waits for.

    `order` is the number under which its outcome is reported, `number` that of the mark. `awaited` are the members that
    have not answered in this stage, `unpassed` the actors of the running attempt that have not passed the mark, and
    `records` says how far the others were."""

    order: int
    parallelism: dict[str, int]
    avoid: frozenset[str]
    began_ns: int
    stage: HandoverStage = HandoverStage.CODE
    attempt: str = ""
    shapes: Shapes = field(default_factory=dict)
    placement: dict[str, list[str]] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    digest: str = ""
    spreads: bool = False
    code_bytes: int = 0
    number: int = 0
    awaited: set[str] = field(default_factory=set)
    unpassed: set[Actor] = field(default_factory=set)
    records: dict[Actor, ActorRecord] = field(default_factory=dict)
    marked_ns: int = 0
    overdue_ns: int = 0
    retry_ns: int = 0

    @property
    def members(self) -> list[str]:
        return sorted({*self.hosts, *(home for homes in self.placement.values() for home in homes)})


ENDED_KEPT = 8


@dataclass
class Durability:
    """A job's checkpoints. `manifests` are the complete ones that are kept, the latest last; `checkpoint` is the last
    that was begun; `committing` is one whose manifest is being written.

    `attempt` numbers the attempts of the job: each recovery is another one. `waits_since_ns` is when it began to wait
    for workers, or None."""

    storage: Storage
    interval_ns: int | None
    kept: int
    manifests: list[Manifest] = field(default_factory=list)
    checkpoint: int = 0
    began_ns: int = 0
    due_ns: int = 0
    retry_ns: int = 0
    """A requested checkpoint that failed is not retried before this."""
    requested: bool = False
    savepoint: str | None = None
    """The name of the savepoint to stop with, if requested."""
    underway: Underway | None = None
    committing: Manifest | None = None
    unpublished: set[Actor] = field(default_factory=set)
    attempt: int = 1
    workers: int = 0
    """The number of workers that it started with."""
    waits_since_ns: int | None = None
    shapes: Shapes = field(default_factory=dict)
    """The shapes of the functions, for the manifests of this attempt."""
    resumed_from: int = 0
    """The checkpoint that this attempt has resumed from."""
    ended: deque[CheckpointObserved] = field(default_factory=lambda: deque(maxlen=ENDED_KEPT))
    """The last checkpoints that were complete or have failed, for the observation."""
    unread: int = 0
    """The number of consecutive times that a checkpoint could not be read."""
    goes_back: bool = False
    """Whether the last of `manifests` must become the last one in the log before the job resumes from it."""


@dataclass
class Job:
    """One job. `attempt` is its name on the workers, a new one after each failure, so that late frames of an earlier
    attempt name no job."""

    name: str
    shapes: Shapes
    placement: dict[str, list[str]] = field(default_factory=dict)
    digest: str = ""
    spreads: bool = False
    hosts: list[str] = field(default_factory=list)
    """Workers that may have lessees; a joining one is among them once it has loaded the code."""
    lessees: dict[str, int] = field(default_factory=dict)
    """How many lessees each actor of a function may have, where that was set."""
    leaving: set[str] = field(default_factory=set)
    """Workers that may have no new lessees, and may still have some."""
    durability: Durability | None = None
    attempt: str = ""
    change: int = 0
    unchanged: set[str] = field(default_factory=set)
    """Members that have not confirmed the last change of hosts."""
    draining: bool = False
    """Whether its sources are to end at their present position."""
    status: JobStatus = JobStatus.DEPLOYING
    placements: int = 0
    """How often it was placed before it began to run."""
    waits_for: str | None = None
    """What a waiting job waits for."""
    failure: Failure | None = None
    code_bytes: int = 0
    unloaded: set[str] = field(default_factory=set)
    """Members that have not loaded the code of this attempt yet."""
    unready: set[str] = field(default_factory=set)
    unstopped: set[str] = field(default_factory=set)
    unfinished: set[Actor] = field(default_factory=set)
    objective: SLO | None = None
    promise: Promise | None = None
    """What the workers are to keep of an objective that was set while it ran."""
    handover: Handover | None = None
    """The attempt that is to take over from this one, if there is to be one."""
    marks: int = 0
    """The number of handovers that were begun, in a job without checkpoints."""

    def change_objective(self, objective: SLO) -> Promise:
        """It has another objective from now on. Returns what workers are to keep of it."""
        latency_ms = objective.latency_ms
        latency_ns = None if latency_ms is None else min(int(latency_ms * 1e6), LATENCY_MAX_NS)
        self.objective, self.promise = objective, Promise(latency_ns, objective.share)
        return self.promise

    def lessees_of(self, shape: FunctionShape) -> int:
        """Returns how many lessees each actor of a function may have now."""
        return min(self.lessees.get(shape.name, shape.lessees_max), shape.lessees_max)

    def become(self, status: JobStatus) -> None:
        """Moves to another status; a move that is not in the table is a fault of the protocol."""
        if self.status.ended or not (status.ended or status in MOVES[self.status]):
            raise InvariantError(f"job '{self.name}' is {self.status.value} and cannot become {status.value}")
        self.status = status

    @property
    def shapes_running(self) -> Shapes:
        """The shapes of the functions with the splits that their sources have had from the first start."""
        return self.durability.shapes or self.shapes if self.durability is not None else self.shapes

    @property
    def members(self) -> list[str]:
        return sorted({*self.hosts, *self.leaving, *self.homes})

    @property
    def homes(self) -> set[str]:
        """The members that host a lessor."""
        return {member for members in self.placement.values() for member in members}

    def awaits_part_of(self, member: str) -> bool:
        """Whether the checkpoint in progress waits for the part of a worker."""
        underway = self.durability.underway if self.durability is not None else None
        return underway is not None and any(parts.get(member, self) is None for parts in underway.parts.values())

    @property
    def actors(self) -> set[Actor]:
        return {(name, partition) for name, shape in self.shapes.items() for partition in range(shape.parallelism)}

    @property
    def sinks(self) -> set[Actor]:
        return {actor for actor in self.actors if self.shapes[actor[0]].is_sink}

    @property
    def callers(self) -> set[Actor]:
        """Those that call entities."""
        return {actor for actor in self.actors if self.shapes[actor[0]].calls}

    @property
    def readers(self) -> set[Actor]:
        """Those that read what entities have emitted."""
        return {actor for actor in self.actors if self.shapes[actor[0]].emitted}

    @property
    def irrevocable(self) -> set[Actor]:
        """Those whose output cannot be withdrawn."""
        return {actor for actor in self.actors if self.shapes[actor[0]].irrevocable}

    @property
    def winds_down(self) -> bool:
        """Whether its sources have ended, and calls of entities are left: each checkpoint lets more of it end."""
        has_calls = any(self.shapes[name].calls for name, _ in self.unfinished)
        return has_calls and all(self.shapes[name].feeds for name, _ in self.unfinished)

    @property
    def has_progressed(self) -> bool:
        """Whether this attempt has completed a checkpoint."""
        resumed_from = self.durability.resumed_from if self.durability is not None else 0
        return self.origin is not None and self.origin.checkpoint > resumed_from

    @property
    def origin(self) -> Manifest | None:
        """The checkpoint that the next attempt resumes from."""
        return self.durability.manifests[-1] if self.durability is not None and self.durability.manifests else None

    @property
    def resumption(self) -> Resumption:
        """How it resumes from there."""
        return Resumption(self.origin, self.shapes)


def failure_text(failure: Failure) -> str:
    """Returns why a job has failed, in a line."""
    where = f" (function '{failure.function}')" if failure.function else ""
    return f"{failure.error}: {failure.fact}{where}" + (f": {failure.detail}" if failure.detail else "")
