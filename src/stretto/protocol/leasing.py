"""Frames between the instances of a dual-mode actor, and between actors about their instances (dirigo.txt 4.1.2).

A frame names the actor whose instance it is for.
"""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.actors.critical import Last
from stretto.actors.tasks import Step


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    """From a lessor: the worker may run messages of the actor. The lessee starts from this event time and count of
    critical messages."""

    actor: Address
    watermark_us: int
    criticals: int
    states: bytes | None = None
    cost_ns: float = 0.0
    """The recent cost of a message on the lessor."""


class SyncRequest(msgspec.Struct, frozen=True, tag="sync"):
    """To a lessee: run the dependency set, hold back the rest, and reply with the partial state. A task of an elastic
    executor runs the steps instead, and keeps its state."""

    actor: Address
    barrier: int
    last: tuple[Last, ...]
    steps: tuple[Step, ...] = ()


class SyncAck(msgspec.Struct, frozen=True, tag="syncack"):
    """From a lessee: the request has arrived, and only the dependency set runs from now on."""

    actor: Address
    barrier: int


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The last message that a lessee has sent on one channel, and the index of that channel in the outs of its
    actor."""

    index: int
    last: Last


class SyncReply(msgspec.Struct, frozen=True, tag="reply"):
    """From a lessee: the dependency set is done; the partial state, and the last message on each downstream channel;
    and its counters so far, if it has any."""

    actor: Address
    barrier: int
    states: bytes | None
    told: tuple[Told, ...]
    counts: dict[str, int] | None = None


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """To the upstream lessor: the barrier of a critical message of its actor is in place. Messages that the actor sends
    from now on cannot overtake it."""

    actor: Address


class Unsync(msgspec.Struct, frozen=True, tag="unsync"):
    """To a lessee: the barrier is over. `keep` says whether the lease continues; `states` is the consolidated state."""

    actor: Address
    barrier: int
    watermark_us: int
    criticals: int
    keep: bool
    states: bytes | None = None


class Register(msgspec.Struct, frozen=True, tag="register"):
    """LESSEE_REGISTRATION: an upstream instance asks the lessor for lessees that it may send to directly.

    `criticals` counts the critical messages of the upstream actor; `index` is the channel's index there. With `near`,
    only a lessee on its own worker is wanted."""

    actor: Address
    sender: Address
    index: int
    criticals: int
    near: bool = False


class Registered(msgspec.Struct, frozen=True, tag="registered"):
    """The answer: the lessees that the upstream instance may send to until its actor's next critical message."""

    actor: Address
    index: int
    criticals: int
    lessees: list[str]
