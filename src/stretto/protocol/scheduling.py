"""Frames between the strategies of two workers (thesis 6.5.2)."""

from __future__ import annotations

from typing import Any

import msgspec

from stretto.actors.address import Address


class ScheduleRequest(msgspec.Struct, frozen=True, tag="ask"):
    """A request to the strategy of an actor's function; the content is plain data that the strategy defines."""

    actor: Address
    number: int
    content: Any


class ScheduleReply(msgspec.Struct, frozen=True, tag="answer"):
    """The strategy's reply to the request of this number."""

    number: int
    content: Any


class Offered(msgspec.Struct, frozen=True, tag="offered", array_like=True):
    """From a lessee that may refuse: whether it takes a message that was forwarded on a channel of the lessor."""

    number: int
    seq: int
    taken: bool
