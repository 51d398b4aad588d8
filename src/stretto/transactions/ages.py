"""Entities that expire: those that nobody has written for the time that their class says are as if never created.

The time is that of epochs: each worker notes one in its cut, and it never goes back. An entity that is due is removed
before the epoch's transactions run, so a replay removes it in the same epoch. A write is a committed transaction after
which the fields are other than before it; to read, or to assign what is there already, is none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from stretto.protocol.transactions import EntityName
from stretto.transactions.catalog import Catalog


class Ages:
    """When the entities of one worker that expire were last written."""

    def __init__(self, catalog: Catalog, state: Iterable[EntityName], written: Mapping[EntityName, int], at_us: int):
        """`written` are the times that are known. Entities of a class that did not expire before have those of now."""
        self._lasts_us = _lasts_us(catalog)
        self._written: dict[EntityName, int] = {}
        self._due: list[tuple[int, EntityName]] = []
        """A heap with one entry for each entity: a time before which it does not expire."""
        self._in_heap: set[EntityName] = set()
        self.unknown: list[EntityName] = []
        """Those whose time was not known."""
        self.are_needed = any(kind.expires_us for kind in catalog.kinds())
        """Whether there are entities that expire."""
        if self.are_needed:
            for name in state:
                if self._lasts_us(name):
                    self.wrote(name, written.get(name, at_us))
                    self.unknown += [name] if name not in written else []

    def note(self, writes: Mapping[EntityName, bytes | None], at_us: int) -> None:
        """A transaction that committed in an epoch with this time has left these states."""
        for name, state in writes.items():
            if state is None:
                self.forget(name)
            else:
                self.wrote(name, at_us)

    def wrote(self, name: EntityName, at_us: int) -> None:
        """A transaction that committed in an epoch with this time has written an entity."""
        lasts_us = self._lasts_us(name)
        if lasts_us:
            self._written[name] = at_us
            self._watch(name, at_us + lasts_us)

    def forget(self, name: EntityName) -> None:
        """The entity is not there any more."""
        self._written.pop(name, None)

    def written_us(self, name: EntityName) -> int | None:
        """Returns when an entity was last written, if it expires."""
        return self._written.get(name)

    def next_us(self) -> int | None:
        """Returns when the next entity expires."""
        while self._due:
            due_us, name = self._due[0]
            right_us = self._expires_us(name)
            if right_us == due_us:
                return due_us
            heapq.heappop(self._due)
            self._in_heap.discard(name)
            if right_us is not None:  # It was written since.
                self._watch(name, right_us)
        return None

    def expired(self, at_us: int) -> list[EntityName]:
        """Returns the entities that expire at this time or before, and forgets them."""
        found = []
        while (due_us := self.next_us()) is not None and due_us <= at_us:
            found.append(self._due[0][1])
            self.forget(self._due[0][1])
        return found

    def _expires_us(self, name: EntityName) -> int | None:
        at_us = self._written.get(name)
        return None if at_us is None else at_us + self._lasts_us(name)

    def _watch(self, name: EntityName, due_us: int) -> None:
        if name not in self._in_heap:
            self._in_heap.add(name)
            heapq.heappush(self._due, (due_us, name))


def _lasts_us(catalog: Catalog) -> Callable[[EntityName], int]:
    """Returns what tells how long an entity lasts without a write; 0: for ever."""
    by_kind = {kind.name: kind.expires_us for kind in catalog.kinds()}
    return lambda name: by_kind.get(name.kind, 0)
