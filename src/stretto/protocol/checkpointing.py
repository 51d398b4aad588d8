"""Checkpoints, from the first mark to the last sink that has published, and failures of checkpoints and connections."""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.checkpoints.manifest import ActorRecord


class Checkpoint(msgspec.Struct, frozen=True, tag="checkpoint"):
    """Sources send the mark of this checkpoint."""

    job: str
    checkpoint: int


class Abandon(msgspec.Struct, frozen=True, tag="abandon"):
    """The checkpoints up to this one are abandoned: actors stop waiting for their marks."""

    job: str
    checkpoint: int


class Overdue(msgspec.Struct, frozen=True, tag="overdue"):
    """This checkpoint takes long. A worker that finds the reason in one of its actors replies with `Unstored`."""

    job: str
    checkpoint: int


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """The snapshot of an actor is durable; the record says where it is."""

    actor: Address
    checkpoint: int
    record: ActorRecord
    is_part: bool = False
    """Whether it is the part of a task."""


class StoredInParts(msgspec.Struct, frozen=True, tag="storedinparts"):
    """These workers have tasks of an elastic executor, and each stores its part of the actor's snapshot, besides the
    home. Sent before the home's own `Stored`."""

    actor: Address
    checkpoint: int
    members: list[str]


class Unstored(msgspec.Struct, frozen=True, tag="unstored"):
    """An actor cannot take part in a checkpoint, and why."""

    actor: Address
    checkpoint: int
    reason: str


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """This checkpoint is complete: sinks publish what they received before its mark."""

    job: str
    checkpoint: int


class Published(msgspec.Struct, frozen=True, tag="published"):
    actor: Address
    checkpoint: int


class Unfetched(msgspec.Struct, frozen=True, tag="unfetched"):
    """A checkpoint cannot be read, and why; `damaged` means that retrying does not help."""

    job: str
    checkpoint: int
    reason: str
    damaged: bool


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The connection to or from another member broke: frames of the job between the two may be lost."""

    job: str
    member: str
    reason: str
