"""Membership of the cluster: joining, the versioned list of members, heartbeats, leaving.

A member is named `worker~incarnation`; a restarted worker is a new member, and frames of its predecessor are refused.
"""

from __future__ import annotations

from enum import Enum

import msgspec

COORDINATOR = "coordinator"


class MemberRole(Enum):
    """The role of a member. Clients do not exist yet."""

    WORKER = "worker"
    """It hosts actors of all jobs."""
    DRIVER = "driver"
    """The driver's own process, which hosts what can only run there."""
    TRANSIENT = "transient"
    """It runs what a burst redirects to it, and may vanish at any time."""
    CLIENT = "client"
    """It asks and hosts nothing."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One incarnation of a worker, as the other members see it. A transient one has no endpoint."""

    name: str
    endpoint: str
    public_key: str
    host: str
    pid: int
    role: MemberRole = MemberRole.WORKER


class Join(msgspec.Struct, frozen=True, tag="join"):
    member: Member


class Heartbeat(msgspec.Struct, frozen=True, tag="beat"):
    """From a worker, and back from the coordinator: the sender is alive."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """From a member without an open port: from now on it can be reached over this connection."""


class Members(msgspec.Struct, frozen=True, tag="members"):
    version: int
    members: list[Member]


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """Return from the Spark task."""


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The last frame of a worker, which returns by itself."""
