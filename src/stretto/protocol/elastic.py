"""Frames about the shards of elastic executors (elasticutor.txt 3.2). A frame names the actor that they belong to.

A move goes Give (home to the old owner), Given (old owner to the new one), Taken (new owner to the home). The new owner
asks for each piece of a large state (GiveMore), so that neither of the two is busy with more than one at a time.
"""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.actors.critical import Last


class MoveShards(msgspec.Struct, frozen=True, tag="moveshards"):
    """From the coordinator to a home: these shards go to these workers."""

    actor: Address
    order: int
    moves: tuple[tuple[int, str], ...]


class ShardsMoved(msgspec.Struct, frozen=True, tag="shardsmoved"):
    """From a home: an order was carried out, or refused with a reason. `waited_ns` is the sum over the shards of the
    time in which their rows waited, `bytes` the size of their state."""

    actor: Address
    order: int
    moved: int
    waited_ns: int = 0
    bytes: int = 0
    refused: str | None = None


class Give(msgspec.Struct, frozen=True, tag="give"):
    """The label (3.2): give these shards away once all that was sent before has run. `last` is the last message on
    each channel from the home; for the home itself, `generation` is the first one whose rows come after."""

    actor: Address
    move: int
    shards: tuple[int, ...]
    target: str
    last: tuple[Last, ...] = ()
    generation: int = 0


class Following(msgspec.Struct, frozen=True, array_like=True):
    """The last message that an owner has sent on one of its channels, by the index of the channel: what the next owner
    of its shards sends there must run after it."""

    index: int
    last: Last


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A piece of the state of shards; `pieces` is how many there are in all."""

    actor: Address
    move: int
    piece: int
    pieces: int
    states: bytes
    following: tuple[Following, ...] = ()


class GivenInMemory(msgspec.Struct, frozen=True, tag="giveninmemory"):
    """`Given` with its states in shared memory, under a name. Transports make and resolve it."""

    actor: Address
    move: int
    piece: int
    pieces: int
    name: str
    length: int
    following: tuple[Following, ...] = ()


class GiveMore(msgspec.Struct, frozen=True, tag="givemore"):
    """From the new owner to the old one: this piece of the state is next."""

    actor: Address
    move: int
    piece: int


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """The new owner has the state."""

    actor: Address
    move: int
    bytes: int


class AwaitCriticals(msgspec.Struct, frozen=True, tag="awaitcriticals"):
    """To an actor downstream: answer with an `Ack` once so many critical messages of the sender have run. Tasks may
    send to the actor directly from then on, because nothing of theirs can overtake an earlier critical message."""

    actor: Address
    sender: Address
    criticals: int
