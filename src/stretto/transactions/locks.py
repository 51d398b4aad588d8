"""Locks of the fallback (styx.txt 7.3): transactions whose sets are known wait for those with lower TIDs, and for no
other. So there is no deadlock, and what does not conflict runs at the same time.

A transaction may need an entity that was not in its sets: one that inserts a row under the next number has seen another
number in the dry run. The paper runs it again in the next epoch, so of all that insert into one table only one would
commit in an epoch. Here it gets a **late** lock if nobody has the entity or waits for it; and one that writes what it
has only read may, if nobody else reads it. Who does not get it runs again in the next epoch: nobody waits for a late
lock, so there is still no deadlock. All locks are held until the transaction ends, so the order in which transactions
end is a serial one; that of the TIDs need not be.
"""

from __future__ import annotations

from collections import deque

from stretto.protocol.transactions import EntityName
from stretto.transactions.conflicts import Sets

_NOTHING = Sets(frozenset(), frozenset())


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
        self._late: dict[int, list[EntityName]] = {}

    def add(self, tid: int, sets: Sets) -> None:
        self._sets[tid] = sets
        self._missing[tid] = len(sets.reads | sets.writes)
        for name in sets.reads | sets.writes:
            self._queues.setdefault(name, deque()).append((tid, name in sets.writes))

    def begin(self) -> list[int]:
        """Returns the transactions that have all their locks from the beginning."""
        need_none = [tid for tid, missing in self._missing.items() if not missing]
        return sorted([*need_none, *(tid for name in self._queues for tid in self._granted(name))])

    def may_use(self, tid: int, name: EntityName) -> bool:
        """Returns whether a transaction that runs has the lock of an entity, perhaps from now on."""
        holders = self._holders.get(name)
        if holders:  # Who waits for it, waits for them.
            return tid in holders
        self._holders[name] = {tid}
        self._alone.add(name)
        self._late.setdefault(tid, []).append(name)
        return True

    def may_write(self, tid: int, name: EntityName) -> bool:
        """Returns whether a transaction that has the lock of an entity may write, perhaps from now on."""
        if name not in self._alone and self._holders[name] == {tid}:
            self._alone.add(name)
        return name in self._alone

    def release(self, tid: int) -> list[int]:
        """The transaction is over. Returns those that now have all their locks."""
        for name in self._late.pop(tid, ()):
            self._holders[name].discard(tid)
        sets = self._sets.pop(tid, _NOTHING)
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
