"""Who belongs to the cluster: joining, the versioned membership, signs of life, leaving.

A member is named `worker~incarnation`; a restarted worker is a new member, and what its predecessor still sends is
refused.
"""

from __future__ import annotations

import msgspec

COORDINATOR = "coordinator"


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One incarnation of a worker, as all others know it."""

    name: str
    endpoint: str
    public_key: str
    host: str
    pid: int
    on_driver: bool = False


class Join(msgspec.Struct, frozen=True, tag="join"):
    member: Member


class Heartbeat(msgspec.Struct, frozen=True, tag="beat"):
    """From a worker, and back from the coordinator: each learns that the other is alive."""


class Members(msgspec.Struct, frozen=True, tag="members"):
    version: int
    members: list[Member]


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """Return from the Spark task."""


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The worker's last word: it returns by itself."""
