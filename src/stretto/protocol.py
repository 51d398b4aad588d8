"""Every frame that crosses the wire, as typed data. Nothing here is ever pickled.

Workers talk to the coordinator (joining, deploying, reporting) and to each other (channels, data, credits). A member is
named `worker~incarnation`; a restarted worker is a new member, and what its predecessor still sends is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.critical import Critical, Last, SyncProgram
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.metrics import FunctionMetrics
from stretto.checkpoints.manifest import ActorRecord, Manifest, Storage

COORDINATOR = "coordinator"


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One incarnation of a worker, as all others know it."""

    name: str
    endpoint: str
    public_key: str
    host: str
    pid: int
    on_driver: bool = False


class Failure(msgspec.Struct, frozen=True):
    """Why a job failed: the error's type by name, what it says, the user's traceback, and a sample of the batch."""

    error: str
    fact: str
    detail: str | None = None
    fix: str | None = None
    function: str | None = None
    traceback: str | None = None
    sample: str | None = None


# Between a worker and the coordinator.


class Join(msgspec.Struct, frozen=True, tag="join"):
    member: Member


class Heartbeat(msgspec.Struct, frozen=True, tag="beat"):
    """From a worker, and back from the coordinator: each learns that the other is alive."""


class Members(msgspec.Struct, frozen=True, tag="members"):
    version: int
    members: list[Member]


class Deploy(msgspec.Struct, frozen=True, tag="deploy"):
    """Make the instances of a job that are placed here. `digest` names the code, which comes through a file.

    A worker where nothing is placed gets it too, if lessees of the job may come there. Sinks of a job with `storage`
    publish what they got only when it is in a complete checkpoint; `origin` is the checkpoint to go on from."""

    job: str
    digest: str
    placement: dict[str, list[str]]
    storage: Storage | None = None
    origin: Manifest | None = None


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    job: str


class Start(msgspec.Struct, frozen=True, tag="start"):
    """All members are ready: open the channels and let the sources read. `hosts` may be given lessees."""

    job: str
    hosts: list[str] = []


class Hosts(msgspec.Struct, frozen=True, tag="hosts"):
    """The workers that may be given lessees from now on. Who is no longer among them loses them at the next barrier."""

    job: str
    hosts: list[str]
    change: int = 0


class HostsLeft(msgspec.Struct, frozen=True, tag="hostsleft"):
    """No lessor here has a lessee any more on a worker that the change took away."""

    job: str
    change: int


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Sources end as if their input had ended; what was read is processed to the last window."""

    job: str


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Drop the job's instances now."""

    job: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    job: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """An actor has come to the end of its input; `checkpoint` is the last one whose mark it has passed."""

    job: str
    function: str
    partition: int
    checkpoint: int = 0


class Checkpoint(msgspec.Struct, frozen=True, tag="checkpoint"):
    """Sources send the mark of this checkpoint."""

    job: str
    checkpoint: int


class Abandon(msgspec.Struct, frozen=True, tag="abandon"):
    """The checkpoints up to this one will not be: nobody waits for their marks any more."""

    job: str
    checkpoint: int


class Overdue(msgspec.Struct, frozen=True, tag="overdue"):
    """This checkpoint is not complete for a while: if anything here keeps it from that, say so."""

    job: str
    checkpoint: int


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """The snapshot of an actor is durable, and this is where it is."""

    job: str
    function: str
    partition: int
    checkpoint: int
    record: ActorRecord


class Unstored(msgspec.Struct, frozen=True, tag="unstored"):
    """An actor has no part in a checkpoint, and why."""

    job: str
    function: str
    partition: int
    checkpoint: int
    reason: str


class Unfetched(msgspec.Struct, frozen=True, tag="unfetched"):
    """A checkpoint cannot be read, and why; `damaged` if it will never be."""

    job: str
    checkpoint: int
    reason: str
    damaged: bool


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The connection to or from another member broke: frames of the job between the two may be lost."""

    job: str
    member: str
    reason: str


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """This checkpoint is complete: sinks let go what they got before its mark."""

    job: str
    checkpoint: int


class Published(msgspec.Struct, frozen=True, tag="published"):
    job: str
    function: str
    partition: int
    checkpoint: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    job: str
    failure: Failure


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Totals per function and partition of the instances here."""

    job: str
    functions: dict[str, dict[int, FunctionMetrics]]
    refused: int = 0


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """Return from the Spark task."""


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The worker's last word: it returns by itself."""


# Between workers.


class OpenChannel(msgspec.Struct, frozen=True, tag="open"):
    """Announces a channel by the sender's number for it, with the schema of all its batches."""

    number: int
    job: str
    function: str
    partition: int
    to_function: str
    to_partition: int
    input: str
    schema: bytes
    forwards: bool = False
    """It carries what a lessor forwards to its lessee."""


class CriticalSent(msgspec.Struct, frozen=True, tag="critical", array_like=True):
    """A critical message, merged with its SYNC program where one is needed."""

    number: int
    seq: int
    arrived_ns: int
    critical: Critical
    sync: SyncProgram | None = None
    progress_us: int | None = None
    deadline_ns: int = NEVER_NS


class Grant(msgspec.Struct, frozen=True, tag="grant", array_like=True):
    """Credits given back on a channel, by the sender's number for it, with the reply context: what the receiver's
    function and the longest way below it have cost of late, in nanoseconds."""

    number: int
    credits: int
    cost_ns: float = 0.0
    path_ns: float = 0.0


# Between the instances of a dual-mode actor, and from actor to actor about them (dirigo.txt 4.1.2).


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    """From a lessor: the worker may run messages of the actor. The lessee starts from this event time and count of
    critical messages."""

    job: str
    function: str
    partition: int
    watermark_us: int
    criticals: int
    states: bytes | None = None
    cost_ns: float = 0.0
    """What a message has cost the lessor of late."""


class SyncRequest(msgspec.Struct, frozen=True, tag="sync"):
    """To a lessee: run what is in the dependency set, hold back the rest, and reply with your state."""

    job: str
    function: str
    partition: int
    barrier: int
    last: tuple[Last, ...]


class SyncAck(msgspec.Struct, frozen=True, tag="syncack"):
    """From a lessee: the request is here, and nothing beyond the dependency set runs from now on."""

    job: str
    function: str
    partition: int
    barrier: int


class Told(msgspec.Struct, frozen=True, array_like=True):
    """How far a lessee has sent on one channel, and the place of that channel among the outs of its actor."""

    index: int
    last: Last


class SyncReply(msgspec.Struct, frozen=True, tag="reply"):
    """From a lessee: the dependency set is done; the partial state, and the last message on each downstream channel."""

    job: str
    function: str
    partition: int
    barrier: int
    states: bytes | None
    told: tuple[Told, ...]


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """To the upstream lessor: a critical message of its actor has run."""

    job: str
    function: str
    partition: int


class Unsync(msgspec.Struct, frozen=True, tag="unsync"):
    """To a lessee: the barrier is over. `keep` says whether the lease goes on; `states` is the consolidated state."""

    job: str
    function: str
    partition: int
    barrier: int
    watermark_us: int
    criticals: int
    keep: bool
    states: bytes | None = None


class Register(msgspec.Struct, frozen=True, tag="register"):
    """LESSEE_REGISTRATION: an upstream instance asks the lessor for lessees that it may send to directly.

    `criticals` counts the critical messages of the upstream actor; `index` is its place for the channel. With `near`,
    it wants a lessee on its own worker and no other."""

    job: str
    function: str
    partition: int
    from_function: str
    from_partition: int
    index: int
    criticals: int
    near: bool = False


class Registered(msgspec.Struct, frozen=True, tag="registered"):
    """The answer: the lessees that the upstream instance may send to until its actor's next critical message."""

    job: str
    function: str
    partition: int
    index: int
    criticals: int
    lessees: list[str]


# Between the strategies of two workers (thesis 6.5.2).


class ScheduleRequest(msgspec.Struct, frozen=True, tag="ask"):
    """To the strategy of an actor's function: whatever it makes of the content, which is plain data."""

    job: str
    function: str
    partition: int
    number: int
    content: Any


class ScheduleReply(msgspec.Struct, frozen=True, tag="answer"):
    """What the strategy said to the request of this number."""

    number: int
    content: Any


class Offered(msgspec.Struct, frozen=True, tag="offered", array_like=True):
    """From a lessee that may refuse: whether it takes a message that was forwarded on a channel of the lessor."""

    number: int
    seq: int
    taken: bool


DualMode = Lease | SyncRequest | SyncAck | SyncReply | Ack | Unsync | Register | Registered
Scheduling = ScheduleRequest | ScheduleReply


class Data:
    """A batch on a channel. Not a Struct: its header and its Arrow body are separate parts of one multipart message."""

    __slots__ = ("arrived_ns", "batch", "deadline_ns", "number", "progress_us", "seq")

    def __init__(
        self,
        number: int,
        seq: int,
        arrived_ns: int,
        batch: pa.RecordBatch,
        progress_us: int | None = None,
        deadline_ns: int = NEVER_NS,
    ) -> None:
        self.number = number
        self.seq = seq
        self.arrived_ns = arrived_ns
        self.batch = batch
        self.progress_us = progress_us
        self.deadline_ns = deadline_ns


Control = (
    Join
    | Heartbeat
    | Members
    | Deploy
    | Ready
    | Start
    | Drain
    | Stop
    | Stopped
    | Finished
    | Failed
    | Report
    | Leave
    | Left
    | Hosts
    | HostsLeft
    | Checkpoint
    | Abandon
    | Overdue
    | Stored
    | Unstored
    | Unfetched
    | Broken
    | Publish
    | Published
    | DualMode
    | Scheduling
)
Peer = OpenChannel | Data | CriticalSent | Grant | Offered | DualMode | Scheduling
Frame = Any
