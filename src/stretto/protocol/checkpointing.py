"""Checkpoints, from the first mark to the last sink that has published, and what is wrong with a checkpoint or a
connection.
"""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.checkpoints.manifest import ActorRecord


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

    actor: Address
    checkpoint: int
    record: ActorRecord


class Unstored(msgspec.Struct, frozen=True, tag="unstored"):
    """An actor has no part in a checkpoint, and why."""

    actor: Address
    checkpoint: int
    reason: str


class Publish(msgspec.Struct, frozen=True, tag="publish"):
    """This checkpoint is complete: sinks let go what they got before its mark."""

    job: str
    checkpoint: int


class Published(msgspec.Struct, frozen=True, tag="published"):
    actor: Address
    checkpoint: int


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
