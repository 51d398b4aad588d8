"""The client's side: numbers its calls, sends each again until the reply is there, and passes on every reply once."""

from __future__ import annotations

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
    due_ns: int


class Door:
    """One client of the entities on these workers. Its name is where replies go to."""

    def __init__(self, name: str, catalog: Catalog, members: list[str], again_ns: int = AGAIN_NS) -> None:
        self._name = name
        self._catalog = catalog
        self._members = members
        self._placement = Placement(len(members))
        self._again_ns = again_ns
        self._open: dict[int, _Open] = {}
        self._next = 0
        self._seen = 0
        """The last epoch that a reply has shown. What only reads sees at least that one, on any worker."""

    def call(self, made: MadeCall, now_ns: int) -> tuple[int, list[Send]]:
        """Returns the number of the call, which its answer will have, and what to send."""
        request = self._catalog.request(made)
        only_reads = self._catalog.kind(made.kind).method(made.method).only_reads
        number, self._next = self._next, self._next + 1
        self._open[number] = _Open(request, only_reads, now_ns + self._again_ns)
        return number, [self._frame(number)]

    def handle(self, event: FrameArrived | Ticked, now_ns: int) -> list[Send | Answer]:
        if isinstance(event, FrameArrived):
            return self._replied(event.frame)
        due = [number for number, each in self._open.items() if each.due_ns <= now_ns]
        for number in due:
            self._open[number].due_ns = now_ns + self._again_ns
        return [self._frame(number) for number in due]

    def next_deadline(self) -> int | None:
        return min((each.due_ns for each in self._open.values()), default=None)

    def _replied(self, reply: Reply) -> list[Send | Answer]:
        if self._open.pop(reply.number, None) is None:
            return []
        self._seen = max(self._seen, reply.epoch)
        return [Answer(reply)]

    def _frame(self, number: int) -> Send:
        each = self._open[number]
        origin = Origin(self._name, number, min(self._open) - 1)
        to = self._members[self._placement.worker_of(each.request.entity) - 1]
        return Send(to, Look(origin, each.request, self._seen) if each.only_reads else Call(origin, each.request))
