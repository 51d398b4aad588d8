"""Limits on calls of clients that are under way: at most so many for each entity, if its class says so.

A call is under way from when it is logged until it has its reply. One beyond the limit is refused, and not kept
waiting: who waits takes up room in the log and in the client, and so would delay calls of all other entities. That it
was refused is in the log, so that it does not run when it comes a second time, when others have ended.
"""

from __future__ import annotations

from collections import Counter

from stretto.errors import BusyError
from stretto.protocol.transactions import EntityName, Failure, Request
from stretto.transactions.catalog import Catalog
from stretto.transactions.invocation import failure_of
from stretto.transactions.log import Logged


class InFlight:
    """The calls of clients that are under way at one worker, for entities that have a limit."""

    def __init__(self, catalog: Catalog) -> None:
        self._most = {kind.name: kind.in_flight_max for kind in catalog.kinds() if kind.in_flight_max}
        self._counts: Counter[EntityName] = Counter()

    def is_full(self, request: Request) -> bool:
        """Returns whether a call would be one too many."""
        most = self._most.get(request.entity.kind)
        return most is not None and self._counts[request.entity] >= most

    def failure(self, request: Request) -> Failure:
        """Returns what the client of a refused call is told."""
        most = self._most.get(request.entity.kind, 0)
        text = f"{most} calls of it are under way, which is its limit"
        return failure_of(BusyError(f"{request.entity} is busy", text, "Call again later."), request.entity)

    def begun(self, call: Logged) -> None:
        if self._counts_for(call):
            self._counts[call.request.entity] += 1

    def ended(self, call: Logged) -> None:
        name = call.request.entity
        if self._counts_for(call):
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]

    def _counts_for(self, call: Logged) -> bool:
        return (
            bool(self._most) and call.delayed is None and not call.is_refused and call.request.entity.kind in self._most
        )
