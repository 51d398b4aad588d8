"""Channels: an upstream instance to a downstream instance, with numbered messages and credits.

A sender spends a credit per message and stops running when any of its channels has none left; the receiver gives
credits back as it consumes. So a mailbox holds at most the credits of its channels plus what one run sends at once,
and a slow sink slows its sources. Critical messages are numbered like all others: their place in the order is their
meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.critical import Critical
from stretto.actors.function import EVENT_TIME_MIN_US

if TYPE_CHECKING:
    from stretto.actors.instance import Instance

CREDITS_PER_CHANNEL = 32
"""Messages that may be under way on one channel."""

Payload: TypeAlias = pa.RecordBatch | Critical


class Message(msgspec.Struct, gc=False):
    """One numbered message in a mailbox: a batch of rows, or a critical one. Lean, because it is on the hot path.

    The garbage collector does not look at messages, so that long queues cost it nothing; the cycle through channel and
    mailbox is broken when a job is dropped."""

    channel: InChannel
    seq: int
    payload: Any
    arrived_ns: int


class InChannel:
    """The receiving end. A local one knows the sending end (`out`), a remote one the peer and the peer's number for it.

    `consumed` counts messages processed since credits were last given back."""

    __slots__ = (
        "consumed",
        "ended",
        "input",
        "instance",
        "number",
        "out",
        "peer",
        "received",
        "sender",
        "watermark_us",
    )

    def __init__(self, sender: Address, instance: Instance, input_name: str) -> None:
        self.sender = sender
        self.instance = instance
        self.input = input_name
        self.peer: str | None = None
        self.number = -1
        self.out: OutChannel | None = None
        self.received = 0
        self.consumed = 0
        self.watermark_us = EVENT_TIME_MIN_US
        self.ended = False


class OutChannel:
    """The sending end. A local channel holds the receiving end itself, so nothing is serialised."""

    __slots__ = ("credits", "input", "instance", "local", "number", "peer", "receiver", "schema", "seq")

    def __init__(
        self, instance: Instance, receiver: Address, input_name: str, peer: str | None, number: int, schema: pa.Schema
    ) -> None:
        self.instance = instance
        self.receiver = receiver
        self.input = input_name
        self.peer = peer
        self.number = number
        self.schema = schema
        self.local: InChannel | None = None
        self.seq = 0
        self.credits = CREDITS_PER_CHANNEL
