"""Entities on the workers of a cluster: who hosts those of which app, and the frames of transactions on their way.

What the machines of transactions say to each other (`transactions.py`) travels in these: with the name of the job, and
many calls and replies in one frame.
"""

from __future__ import annotations

import msgspec

from stretto.protocol.jobs import Failure
from stretto.protocol.transactions import (
    BetweenProcesses,
    Call,
    CopyOut,
    Emitted,
    Fetch,
    FromWorker,
    Look,
    Reply,
    Round,
    Settle,
    ToWorker,
    TransactionTotals,
)


def entities_of(job: str) -> str:
    """Returns the name of the job with the entities of an app, of which this job has the streams."""
    return f"{job}.entities"


def streams_of(job: str) -> str | None:
    """Returns the name of the job with the streams of an app, of which this job has the entities, if it is one."""
    return job.removesuffix(".entities") if job.endswith(".entities") else None


# Between members.


class CallsSent(msgspec.Struct, frozen=True, tag="entitycalls"):
    """From the door of a job, or from a function of streams: calls of entities in a place of the receiver, or what a
    source of streams wants of it. A worker from which the place has moved passes it on, and says who has called."""

    job: str
    place: int
    calls: list[Call | Look | Settle | Fetch]
    caller: str | None = None


class RepliesSent(msgspec.Struct, frozen=True, tag="entityreplies"):
    """To the door of a job."""

    job: str
    replies: list[Reply]


class RowRepliesSent(msgspec.Struct, frozen=True, tag="entityrowreplies"):
    """To functions of streams: replies to the calls of their rows."""

    job: str
    replies: list[Reply]


class EmittedSent(msgspec.Struct, frozen=True, tag="entityrows"):
    """To the source of a stream: rows that were emitted in a place of the job."""

    job: str
    place: int
    emitted: Emitted


class RoundSent(msgspec.Struct, frozen=True, tag="entityround"):
    """From one place of a job to another one."""

    job: str
    origin: int
    place: int
    round: Round


class PlaceSent(msgspec.Struct, frozen=True, tag="entityplace"):
    """From one worker of a place to the other one, while the place moves. With the place itself comes where the
    functions of streams are that have called, by client."""

    job: str
    place: int
    frame: BetweenProcesses
    callers: dict[str, str] = {}


# Between the coordinator and workers.


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """When epochs and snapshots are taken: the least time between two epochs, the most calls that a worker takes into
    one, the time between two snapshots, and how long idempotency keys are kept."""

    epoch_ns: int
    calls_max: int
    snapshot_ns: int
    keys_kept_us: int


class HostEntities(msgspec.Struct, frozen=True, tag="hostentities"):
    """Host the place with this number of the entities of a job. `digest` names the code, which is in a file. Without a
    directory nothing is kept: what is lost with a worker is lost."""

    job: str
    digest: str
    number: int
    directory: str | None
    pace: Pace


class EntitiesHosted(msgspec.Struct, frozen=True, tag="entitieshosted"):
    """The code is loaded, and the place can be used here."""

    job: str
    place: int


class EntityPlaces(msgspec.Struct, frozen=True, tag="entityplaces"):
    """The workers with the entities of a job, by their places. `moved` is a place that has moved within the attempt."""

    job: str
    members: list[str]
    moved: int | None = None


class MovePlace(msgspec.Struct, frozen=True, tag="moveplace"):
    """Copy this place to another worker, which has the code."""

    job: str
    place: int
    to: str
    order: CopyOut


class LeavePlace(msgspec.Struct, frozen=True, tag="leaveplace"):
    """The place is not here any more, or does not come."""

    job: str
    place: int


class EntityOrder(msgspec.Struct, frozen=True, tag="entityorder"):
    """From the coordinator of the job's transactions."""

    job: str
    place: int
    order: ToWorker


class EntityReport(msgspec.Struct, frozen=True, tag="entityreport"):
    """To the coordinator of the job's transactions."""

    job: str
    place: int
    report: FromWorker


class EntityCounts(msgspec.Struct, frozen=True, tag="entitycounts"):
    """What a place has counted of its transactions, and when that was read."""

    job: str
    place: int
    totals: TransactionTotals
    measured_ns: int


class EntitiesBroken(msgspec.Struct, frozen=True, tag="entitiesbroken"):
    """The connection to or from another worker of the job broke, so that rounds, or a part of a copy, may be lost."""

    job: str
    member: str


class EntitiesFailed(msgspec.Struct, frozen=True, tag="entitiesfailed"):
    """The entities of the job, or those in one place, cannot go on here; the worker has dropped them."""

    job: str
    failure: Failure
    place: int | None = None


class WhereEntities(msgspec.Struct, frozen=True, tag="whereentities"):
    """Functions of streams here call the entities of this job: say where those are, now and whenever it changes."""

    job: str


class EntitiesAt(msgspec.Struct, frozen=True, tag="entitiesat"):
    """To functions of streams: the workers with the entities of a job, by their places. In another attempt, what is
    open is called again."""

    job: str
    members: list[str]
    again: bool = True


class DropEntities(msgspec.Struct, frozen=True, tag="dropentities"):
    """The job has ended."""

    job: str


class EntitiesDropped(msgspec.Struct, frozen=True, tag="entitiesdropped"):
    job: str
