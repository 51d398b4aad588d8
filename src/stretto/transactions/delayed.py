"""Delayed calls: scheduled by a transaction if it commits, and made once, when they are due or later.

A delayed call waits at the worker that has its entity. When it is due, the worker logs it like a call of a client, so a
replay makes it in the same epoch, at the same time. It waits here until an epoch has taken it, since what is only
appended to the log may be lost: so a snapshot has every call that is neither in the log after it nor over.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from stretto.protocol.transactions import Invoke, Request
from stretto.transactions.changes import Changes

WAITING_MAX = 1_000_000
"""The most delayed calls that wait at a worker. More are refused, from the next epoch on."""


class Delayed(msgspec.Struct, frozen=True, array_like=True):
    """A call that waits. Its name says which call of which transaction has scheduled it."""

    name: str
    due_us: int
    request: Request


def delayed_by(invoke: Invoke) -> Delayed:
    """Returns what a transaction schedules: the delay begins when the transaction's call arrived."""
    name = f"{invoke.seed}/{'.'.join(map(str, invoke.path))}"
    return Delayed(name, invoke.at_us + invoke.request.after_us, replace(invoke.request, after_us=0, key=None))


class DelayedCalls:
    """Those that wait at one worker."""

    def __init__(self, kept: Iterable[Delayed] = ()) -> None:
        self._calls: dict[str, Delayed] = {}
        self._due: list[tuple[int, str]] = []
        """A heap of those that are not in the log; also of some that are."""
        self._logged: set[str] = set()
        self.changes: Changes[str] = Changes()
        self._wait(kept)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def is_full(self) -> bool:
        return len(self._calls) >= WAITING_MAX

    def schedule(self, calls: Iterable[Delayed]) -> None:
        """A transaction has committed that makes these calls."""
        found = list(calls)
        self._wait(found)
        self.changes.update(each.name for each in found)

    def _wait(self, calls: Iterable[Delayed]) -> None:
        for each in calls:
            self._calls[each.name] = each
            heapq.heappush(self._due, (each.due_us, each.name))

    def next_due_us(self) -> int | None:
        """Returns when the next one is due that is not in the log."""
        while self._due and not self._waits(self._due[0][1]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _waits(self, name: str) -> bool:
        return name in self._calls and name not in self._logged

    def next_due(self, now_us: int) -> Delayed | None:
        """Returns a call that is due, to be logged."""
        due_us = self.next_due_us()
        return None if due_us is None or due_us > now_us else self._calls[self._due[0][1]]

    def logged(self, name: str) -> None:
        """The log has the call, perhaps before a replay schedules it."""
        self._logged.add(name)

    def taken(self, name: str) -> None:
        """An epoch has the call."""
        self._logged.discard(name)
        self._calls.pop(name, None)
        self.changes.add(name)

    def kept(self, is_whole: bool) -> list[tuple[str, Delayed | None]]:
        """Returns what a snapshot keeps: all that wait, or what has changed since the last one."""
        names = self._calls.keys() if is_whole else self.changes.unsaved
        found = [(name, self._calls.get(name)) for name in sorted(names)]
        self.changes.saved()
        return found

    # Copies (see moving.py).

    def names(self) -> list[str]:
        return list(self._calls)

    def get(self, name: str) -> Delayed | None:
        return self._calls.get(name)

    def put(self, name: str, each: Delayed | None) -> None:
        """Takes a call from a copy; None: it was made since."""
        if each is None:
            self._calls.pop(name, None)
        else:
            self._wait([each])
