"""Messages and credits between two instances (`actors/channel.py`)."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.critical import Critical, SyncProgram
from stretto.actors.deadlines import NEVER_NS


class OpenChannel(msgspec.Struct, frozen=True, tag="open"):
    """Announces a channel by the sender's number for it, with the schema of all its batches."""

    number: int
    sender: Address
    receiver: Address
    input: str
    schema: bytes
    forwards: bool = False
    """Whether it carries what a lessor forwards to its lessee."""


class CriticalSent(msgspec.Struct, frozen=True, tag="critical", array_like=True):
    """A critical message, merged with its SYNC program where one is needed."""

    credits: ClassVar[int] = 1
    """What it has cost, as `Data` has it."""
    number: int
    seq: int
    arrived_ns: int
    critical: Critical
    sync: SyncProgram | None = None
    progress_us: int | None = None
    deadline_ns: int = NEVER_NS


class Grant(msgspec.Struct, frozen=True, tag="grant", array_like=True):
    """Credits returned on a channel, by the sender's number for it, with the reply context: the recent cost of the
    receiver's function and of the longest path below it, in nanoseconds."""

    number: int
    credits: int
    cost_ns: float = 0.0
    path_ns: float = 0.0


class Data(msgspec.Struct):
    """A batch on a channel, with the credits that it has cost. The codec packs its header itself, and sends its Arrow
    body as it is."""

    number: int
    seq: int
    arrived_ns: int
    batch: pa.RecordBatch
    progress_us: int | None = None
    deadline_ns: int = NEVER_NS
    credits: int = 1
    sync: SyncProgram | None = None
    """What must run before it, of another instance of its sender."""
