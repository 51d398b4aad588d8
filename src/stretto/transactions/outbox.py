"""The calls of rows of streams: each is sent again until its reply is there, wherever the entities are.

It differs from a door (`door.py`) in that its calls have names already, of clients that outlive this process: a row
that is called again after a failure has the name that it had before.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from stretto.protocol.machines import Send
from stretto.protocol.transactions import Call, EntityName, Look, Origin, Reply, Request, Settle
from stretto.transactions.placement import Placement

Name = tuple[str, int]
"""Of a call: its client, and its number there."""
OF_STREAM = "="
"""The names of clients that are functions of streams begin so. Those of doors begin with their member."""


def is_of_stream(client: str) -> bool:
    """Whether a client is a function of streams."""
    return client.startswith(OF_STREAM)


@dataclass
class _Open:
    owner: Hashable
    request: Request
    only_reads: bool
    wait_ns: int


class Outbox:
    """The calls of rows from one process to the entities of one job. Until `move` names the workers, calls wait."""

    def __init__(self, again_ns: int, again_ns_max: int) -> None:
        self._again_ns = again_ns
        self._again_ns_max = again_ns_max
        self._members: list[str] = []
        self._placement: Placement | None = None
        self._open: dict[Name, _Open] = {}
        self._due: list[tuple[int, Name]] = []
        """A heap of when each open call is sent again; also of some that are not open any more."""
        self._seen = 0
        """The last epoch that a reply has shown. What only reads sees at least that one."""

    def call(self, owner: Hashable, name: Name, request: Request, only_reads: bool, now_ns: int) -> list[Send]:
        """Returns what to send for a call. The reply is for this owner, also if another one has called it before."""
        self._open[name] = _Open(owner, request, only_reads, self._again_ns)
        return self._sent(name, now_ns)

    def settle(self, settled: Iterable[Name]) -> list[Send]:
        """Returns what to send because replies up to these are not needed any more."""
        return [Send(to, Settle(client, number)) for client, number in settled for to in self._members]

    def move(self, members: list[str], now_ns: int) -> list[Send]:
        """The entities are on these workers now. Returns all that is open, which may be lost."""
        self._members, self._placement = members, Placement(len(members))
        self._due.clear()
        for each in self._open.values():
            each.wait_ns = self._again_ns
        return [send for name in self._open for send in self._sent(name, now_ns)]

    def replied(self, reply: Reply) -> Hashable | None:
        """Returns whose call it was; None if it is not open here."""
        each = self._open.pop((reply.client, reply.number), None)
        if each is None:
            return None
        self._seen = max(self._seen, reply.epoch)
        return each.owner

    def again(self, now_ns: int) -> list[Send]:
        """Returns the calls that have waited for too long."""
        found: list[Send] = []
        while self._due and self._due[0][0] <= now_ns:
            _, name = heapq.heappop(self._due)
            if name in self._open:
                each = self._open[name]
                each.wait_ns = min(2 * each.wait_ns, self._again_ns_max)
                found += self._sent(name, now_ns)
        return found

    def next_deadline(self) -> int | None:
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def forget(self, owner: Hashable) -> None:
        """The owner is not here any more."""
        self._open = {name: each for name, each in self._open.items() if each.owner != owner}

    def _sent(self, name: Name, now_ns: int) -> list[Send]:
        if self._placement is None:
            return []
        each = self._open[name]
        heapq.heappush(self._due, (now_ns + each.wait_ns, name))
        origin = Origin(*name, -1)
        to = self._members[self._placement.worker_of(each.request.entity) - 1]
        return [Send(to, Look(origin, each.request, self._seen) if each.only_reads else Call(origin, each.request))]


def request_of(kind: str, key: str, method: str, arguments: bytes) -> Request:
    """Returns a row's call as it is sent. Its arguments are checked where the entity is."""
    return Request(EntityName(kind, key), method, arguments)
