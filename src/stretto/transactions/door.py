"""The client's side: numbers its calls, sends each again until the reply is there, and passes on every reply once."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Look, Origin, Reply, Request
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.events import Answer
from stretto.transactions.placement import Placement

AGAIN_NS = 50_000_000
"""How long a call waits for its reply before it is sent again."""


@dataclass
class _Open:
    request: Request
    only_reads: bool
    wait_ns: int


class Door:
    """One client of the entities on these workers. Its name is where replies go to. Without workers, calls wait until
    `move` names them.

    A call is sent again after `again_ns`, then after twice as long, and so on up to `again_ns_max`: where little is
    lost, a worker that is busy must not be sent everything again and again."""

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        members: list[str],
        again_ns: int = AGAIN_NS,
        again_ns_max: int = AGAIN_NS,
    ) -> None:
        self._name = name
        self._catalog = catalog
        self._members = members
        self._placement = Placement(len(members)) if members else None
        self._again_ns = again_ns
        self._again_ns_max = again_ns_max
        self._open: dict[int, _Open] = {}
        """By number, and in the order of numbers."""
        self._due: list[tuple[int, int]] = []
        """A heap of when each open call is sent again, and its number; also of some that are not open any more."""
        self._next = 0
        self._seen = 0
        """The last epoch that a reply has shown. What only reads sees at least that one, on any worker."""

    def call(self, made: MadeCall, now_ns: int) -> tuple[int, list[Send]]:
        """Returns the number of the call, which its answer will have, and what to send."""
        request = self._catalog.request(made)
        only_reads = self._catalog.kind(made.kind).method(made.method).only_reads
        number, self._next = self._next, self._next + 1
        self._open[number] = _Open(request, only_reads, self._again_ns)
        return number, self._sent(number, now_ns)

    def move(self, members: list[str], now_ns: int) -> list[Send]:
        """The entities are on these workers now, as many as before. Returns all that is open, which may be lost."""
        self._members = members
        self._placement = Placement(len(members))
        self._due.clear()
        for each in self._open.values():
            each.wait_ns = self._again_ns
        return [send for number in self._open for send in self._sent(number, now_ns)]

    def handle(self, event: FrameArrived | Ticked, now_ns: int) -> list[Send | Answer]:
        if isinstance(event, FrameArrived):
            return self._replied(event.frame)
        found: list[Send | Answer] = []
        while self._due and self._due[0][0] <= now_ns:
            _, number = heapq.heappop(self._due)
            if number in self._open:
                each = self._open[number]
                each.wait_ns = min(2 * each.wait_ns, self._again_ns_max)
                found += self._sent(number, now_ns)
        return found

    def next_deadline(self) -> int | None:
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _replied(self, reply: Reply) -> list[Send | Answer]:
        # After a restart, replies to the calls of an earlier client come to the same process.
        if reply.client != self._name or self._open.pop(reply.number, None) is None:
            return []
        self._seen = max(self._seen, reply.epoch)
        return [Answer(reply)]

    def _sent(self, number: int, now_ns: int) -> list[Send]:
        """Returns what to send for an open call now, and has it sent again later."""
        if self._placement is None:
            return []
        each = self._open[number]
        heapq.heappush(self._due, (now_ns + each.wait_ns, number))
        origin = Origin(self._name, number, next(iter(self._open)) - 1)
        to = self._members[self._catalog.worker_of(each.request, self._placement) - 1]
        return [Send(to, Look(origin, each.request, self._seen) if each.only_reads else Call(origin, each.request))]
