"""Calls on their way into an epoch: in the log, durable, taken. Exactly once for each client."""

from __future__ import annotations

from collections import deque

import msgspec

from stretto.transactions import log
from stretto.transactions.delayed import DelayedCalls
from stretto.transactions.idempotency import Keys
from stretto.transactions.in_flight import InFlight
from stretto.transactions.log import Logged
from stretto.transactions.sessions import Sessions

WAITING_MAX = 10_000
"""The most calls that wait for an epoch. A client sends what is not taken again."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A call that no epoch has taken: its place in the log, and its number there."""

    position: int
    end: int
    number: int
    call: Logged


class Ingress:
    """The log of one worker, as far as the machine needs it."""

    def __init__(
        self,
        sessions: Sessions,
        keys: Keys,
        delayed: DelayedCalls,
        in_flight: InFlight,
        content: log.Content,
        taken: int,
    ) -> None:
        self.sessions = sessions
        self.in_flight = in_flight
        self.keys = keys
        self.delayed = delayed
        self.cuts = dict(content.cuts)
        """Epochs whose calls are known from the log."""
        self.stopped = content.stopped
        self.end = self.durable = content.end
        self.taken = taken
        """How many calls of the log are in epochs."""
        self._unwritten: deque[Waiting] = deque()
        self._ready: deque[Waiting] = deque()
        for position, call in content.calls:
            self._add(position, content.end, call)
        self.written(content.end)

    def append(self, entry: log.Entry) -> bytes:
        """Returns what is to be appended to the log; `end` is then where it ends."""
        data = log.encoded(entry)
        position, self.end = self.end, self.end + len(data)
        if isinstance(entry, Logged):
            self._add(position, self.end, entry)
        return data

    def _add(self, position: int, end: int, call: Logged) -> None:
        number = self.taken + len(self._ready) + len(self._unwritten)
        self._unwritten.append(Waiting(position, end, number, call))
        if call.delayed is not None:
            self.delayed.logged(call.delayed)
            return
        self.sessions.settle(call.origin)
        self.sessions.logged(call.origin)
        if call.is_refused:
            return
        if call.request.key is not None:
            self.keys.logged(call)
        self.in_flight.begun(call)

    def written(self, end: int) -> None:
        """The log is durable up to here."""
        self.durable = max(self.durable, end)
        while self._unwritten and self._unwritten[0].end <= self.durable:
            waiting = self._unwritten.popleft()
            if waiting.call.request.key is not None:
                self.keys.written(waiting.call)
            self._ready.append(waiting)

    @property
    def count(self) -> int:
        """How many calls no epoch has taken."""
        return len(self._unwritten) + len(self._ready)

    @property
    def is_full(self) -> bool:
        return self.count >= WAITING_MAX

    @property
    def is_busy(self) -> bool:
        """Whether calls wait, for an epoch or for their time."""
        return bool(self._unwritten or self._ready or len(self.delayed))

    @property
    def unwritten(self) -> int:
        """How many bytes of the log are not durable."""
        return self.end - self.durable

    def waiting(self) -> list[tuple[int, Logged]]:
        """Returns the calls that no epoch has taken, and where each begins in the log."""
        return [(each.position, each.call) for each in (*self._ready, *self._unwritten)]

    def ready(self) -> int:
        """Returns how many calls are durable and not taken."""
        return len(self._ready)

    def take(self, count: int) -> list[Waiting]:
        self.taken += count
        found = [self._ready.popleft() for _ in range(count)]
        for each in found:
            if each.call.delayed is not None:
                self.delayed.taken(each.call.delayed)
        return found

    def position(self) -> int:
        """Returns where a log must begin that has all calls which are not taken."""
        waiting = self._ready or self._unwritten
        return waiting[0].position if waiting else self.end
