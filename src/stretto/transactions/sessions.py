"""Exactly once for clients: which calls of each client are in the log, and the replies that it may not have yet.

A client sends a call again until it has the reply, and says with each call up to which number it has all replies. So a
repeated call is recognised for as long as it can come, and what is kept for a client is bounded by what it has open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from stretto.protocol.transactions import Origin, Reply


class Standing(Enum):
    """What is known of a call that has arrived."""

    NEW = "new"
    PENDING = "pending"
    REPLIED = "replied"
    SETTLED = "settled"
    """The client has had its reply."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot keeps of one client."""

    client: str
    settled: int
    replies: list[Reply]


@dataclass
class _Session:
    settled: int = -1
    pending: set[int] = field(default_factory=set)
    replies: dict[int, Reply] = field(default_factory=dict)


class Sessions:
    """The clients of one worker."""

    def __init__(self, kept: Iterable[Kept] = ()) -> None:
        self._sessions = {
            each.client: _Session(each.settled, set(), {reply.number: reply for reply in each.replies}) for each in kept
        }

    def standing(self, origin: Origin) -> Standing:
        session = self._of(origin.client)
        if origin.number in session.replies:
            return Standing.REPLIED
        if origin.number in session.pending:
            return Standing.PENDING
        return Standing.SETTLED if origin.number <= session.settled else Standing.NEW

    def settle(self, origin: Origin) -> None:
        """The client has all replies up to a number."""
        session = self._of(origin.client)
        if origin.settled > session.settled:
            session.settled = origin.settled
            for number in [number for number in session.replies if number <= origin.settled]:
                del session.replies[number]

    def logged(self, origin: Origin) -> None:
        self._of(origin.client).pending.add(origin.number)

    def replied(self, reply: Reply) -> None:
        session = self._of(reply.client)
        session.pending.discard(reply.number)
        if reply.number > session.settled:
            session.replies[reply.number] = reply

    def reply(self, origin: Origin) -> Reply:
        return self._of(origin.client).replies[origin.number]

    def kept(self) -> list[Kept]:
        return [
            Kept(client, session.settled, list(session.replies.values()))
            for client, session in sorted(self._sessions.items())
        ]

    def _of(self, client: str) -> _Session:
        session = self._sessions.get(client)
        if session is None:
            session = self._sessions[client] = _Session()
        return session
