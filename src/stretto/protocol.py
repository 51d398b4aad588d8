"""Every frame that crosses the wire, as typed data. Nothing here is ever pickled.

Workers talk to the coordinator (joining, deploying, reporting) and to each other (channels, data, credits). A member is
named `worker~incarnation`; a restarted worker is a new member, and what its predecessor still sends is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.critical import Critical
from stretto.actors.metrics import FunctionMetrics

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
    epoch: int
    members: list[Member]


class Deploy(msgspec.Struct, frozen=True, tag="deploy"):
    """Make the instances of a job that are placed here. `digest` names the code, which comes through a file."""

    job: str
    digest: str
    placement: dict[str, list[str]]


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    job: str


class Start(msgspec.Struct, frozen=True, tag="start"):
    """All members are ready: open the channels and let the sources read."""

    job: str


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Sources end as if their input had ended; what was read is processed to the last window."""

    job: str


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Drop the job's instances now."""

    job: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    job: str


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    job: str
    function: str
    partition: int


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


class CriticalSent(msgspec.Struct, frozen=True, tag="critical", array_like=True):
    number: int
    seq: int
    arrived_ns: int
    critical: Critical


class Grant(msgspec.Struct, frozen=True, tag="grant", array_like=True):
    """Credits given back on a channel, by the sender's number for it."""

    number: int
    credits: int


class Data:
    """A batch on a channel. Not a Struct: its header and its Arrow body are separate parts of one multipart message."""

    __slots__ = ("arrived_ns", "batch", "number", "seq")

    def __init__(self, number: int, seq: int, arrived_ns: int, batch: pa.RecordBatch) -> None:
        self.number = number
        self.seq = seq
        self.arrived_ns = arrived_ns
        self.batch = batch


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
)
Peer = OpenChannel | Data | CriticalSent | Grant
Frame = Any
