"""Critical messages: they act as barriers between what was sent before them and what is sent after (dirigo.txt 4.1).

Watermarks, the end of the input, the marks of checkpoints and a user's own critical messages travel in their channel's
order. They are plain typed data, because they cross the wire.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec


class Granularity(Enum):
    """Which upstream actors a barrier holds back: the one that sent the critical message, or all of them."""

    CHANNEL = "SYNC_CHANNEL"
    ONE = "SYNC_ONE"


class Watermark(msgspec.Struct, frozen=True, tag="w", array_like=True):
    """No event before `time_us` follows on this channel, except late ones."""

    time_us: int


class EndOfInput(msgspec.Struct, frozen=True, tag="e", array_like=True):
    """Nothing follows on this channel."""


class UserCritical(msgspec.Struct, frozen=True, tag="u", array_like=True):
    """A critical message of the user's own; the payload is plain data (numbers, strings, lists, dicts, bytes).

    With `one`, the barrier waits for such a message from every upstream actor, and they are processed together."""

    name: str
    payload: Any = None
    one: bool = False


class Mark(msgspec.Struct, frozen=True, tag="m", array_like=True):
    """The boundary of a checkpoint: messages before it are in the checkpoint, those after it are not. It travels from
    the sources to the sinks, and each actor waits for the marks of all its upstream actors.

    The mark of a `handover` has a number from the same sequence: who passes it does nothing more, and the next attempt
    of the job continues from there."""

    checkpoint: int
    handover: bool = False


Critical = Watermark | EndOfInput | UserCritical | Mark
END_OF_INPUT = EndOfInput()


class Last(msgspec.Struct, frozen=True, array_like=True):
    """The last message sent on one channel. The channel is named by its receiver, its sender and the sender's
    number."""

    receiver: str
    sender: str
    number: int
    seq: int


class SyncProgram(msgspec.Struct, frozen=True, array_like=True):
    """What a critical message carries when instances on other workers are involved (dirigo.txt table 1).

    `last` is the DEPENDENCY_PAYLOAD: one entry for each channel, other than the critical message's own, that the
    upstream actor's instances have used since its last barrier. `ack` asks for an ACK once the critical message has
    run."""

    last: tuple[Last, ...] = ()
    ack: bool = False


def granularity(critical: Critical) -> Granularity:
    joint = isinstance(critical, Mark) or (isinstance(critical, UserCritical) and critical.one)
    return Granularity.ONE if joint else Granularity.CHANNEL
