"""Locks of the fallback (styx.txt 7.3): transactions whose sets are known wait for those with lower TIDs, and for no
other. So the order is that of the TIDs, there is no deadlock, and what does not conflict runs at the same time.
"""

from __future__ import annotations

from collections import deque

from stretto.protocol.transactions import EntityName
from stretto.transactions.conflicts import Sets


class Locks:
    """Queues for the entities of one worker. Transactions are added in the order of TIDs, before any is released."""

    def __init__(self) -> None:
        self._queues: dict[EntityName, deque[tuple[int, bool]]] = {}
        self._holders: dict[EntityName, set[int]] = {}
        self._alone: set[EntityName] = set()
        """Those whose holder writes."""
        self._missing: dict[int, int] = {}
        """How many locks a transaction still waits for."""
        self._sets: dict[int, Sets] = {}

    def add(self, tid: int, sets: Sets) -> None:
        self._sets[tid] = sets
        self._missing[tid] = len(sets.reads | sets.writes)
        for name in sets.reads | sets.writes:
            self._queues.setdefault(name, deque()).append((tid, name in sets.writes))

    def begin(self) -> list[int]:
        """Returns the transactions that have all their locks from the beginning."""
        return sorted(tid for name in self._queues for tid in self._granted(name))

    def release(self, tid: int) -> list[int]:
        """The transaction is over. Returns those that now have all their locks."""
        sets = self._sets.pop(tid)
        ready = []
        for name in sorted(sets.reads | sets.writes):
            self._holders[name].discard(tid)
            ready += self._granted(name)
        return sorted(ready)

    def _granted(self, name: EntityName) -> list[int]:
        """Give the lock to who is next: one that writes, alone, or any number that read."""
        queue, holders = self._queues[name], self._holders.setdefault(name, set())
        if not holders:
            self._alone.discard(name)
        ready = []
        while queue and not (holders and (queue[0][1] or name in self._alone)):
            tid, writes = queue.popleft()
            holders.add(tid)
            if writes:
                self._alone.add(name)
            self._missing[tid] -= 1
            if not self._missing[tid]:
                ready.append(tid)
        return ready
