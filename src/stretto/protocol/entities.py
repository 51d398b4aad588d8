"""Entities on the workers of a cluster: who hosts those of which app, and the frames of transactions on their way.

What the machines of transactions say to each other (`transactions.py`) travels in these: with the name of the job, and
many calls and replies in one frame.
"""

from __future__ import annotations

import msgspec

from stretto.protocol.jobs import Failure
from stretto.protocol.transactions import (
    Call,
    Look,
    Proceed,
    Reply,
    Resume,
    Resumed,
    Round,
    Settle,
    SnapshotKept,
    SnapshotTaken,
)

# Between members.


class CallsSent(msgspec.Struct, frozen=True, tag="entitycalls"):
    """From the door of a job, or from a function of streams: calls of entities that are on the receiver."""

    job: str
    calls: list[Call | Look | Settle]


class RepliesSent(msgspec.Struct, frozen=True, tag="entityreplies"):
    """To the door of a job."""

    job: str
    replies: list[Reply]


class RowRepliesSent(msgspec.Struct, frozen=True, tag="entityrowreplies"):
    """To functions of streams: replies to the calls of their rows."""

    job: str
    replies: list[Reply]


class RoundSent(msgspec.Struct, frozen=True, tag="entityround"):
    """From one worker of a job to another one."""

    job: str
    round: Round


# Between the coordinator and workers.


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """When epochs and snapshots are taken: the least time between two epochs, the most calls that a worker takes into
    one, the time between two snapshots, and how long idempotency keys are kept."""

    epoch_ns: int
    calls_max: int
    snapshot_ns: int
    keys_kept_us: int


class HostEntities(msgspec.Struct, frozen=True, tag="hostentities"):
    """Be the worker with this number for the entities of a job. `digest` names the code, which is in a file. Without a
    directory nothing is kept: what is lost with a worker is lost."""

    job: str
    digest: str
    number: int
    directory: str | None
    pace: Pace


class EntitiesHosted(msgspec.Struct, frozen=True, tag="entitieshosted"):
    """The code is loaded, and attempts may begin."""

    job: str


class EntityOrder(msgspec.Struct, frozen=True, tag="entityorder"):
    """From the coordinator of the job's transactions."""

    job: str
    order: Resume | Proceed | SnapshotKept


class EntityReport(msgspec.Struct, frozen=True, tag="entityreport"):
    """To the coordinator of the job's transactions."""

    job: str
    report: Resumed | SnapshotTaken


class EntitiesBroken(msgspec.Struct, frozen=True, tag="entitiesbroken"):
    """The connection to or from another worker of the job broke, so that rounds may be lost."""

    job: str
    member: str


class EntitiesFailed(msgspec.Struct, frozen=True, tag="entitiesfailed"):
    """The entities of the job cannot go on here; the worker has dropped them."""

    job: str
    failure: Failure


class WhereEntities(msgspec.Struct, frozen=True, tag="whereentities"):
    """Functions of streams here call the entities of this job: say where those are, now and whenever it changes."""

    job: str


class EntitiesAt(msgspec.Struct, frozen=True, tag="entitiesat"):
    """The workers with the entities of a job, by their places."""

    job: str
    members: list[str]


class DropEntities(msgspec.Struct, frozen=True, tag="dropentities"):
    """The job has ended."""

    job: str


class EntitiesDropped(msgspec.Struct, frozen=True, tag="entitiesdropped"):
    job: str
