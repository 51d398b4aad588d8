"""Which transactions of an epoch may commit together (styx.txt 7.1; Aria's rules, with its deterministic reordering).

All of them ran on the state before the epoch. A conflict is one with a lower TID, whatever becomes of that one. With
reordering, a transaction that has read what a lower one writes commits nevertheless, in front of it, unless it also
writes what a lower one has read:

- One that commits in spite of such a read has no lower one that must come before it, so these come first in the
  serial order, the highest TID first.
- All others have read nothing that a lower one writes, so they follow in the order of their TIDs.

Reads and writes are those of whole entities. A handler that touches an entity reads it, and it writes if the encoded
fields have changed: so changes inside lists and dicts are found, at no cost while handlers run. An entity that is too
large for that is several entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from stretto.protocol.transactions import Conflicts, EntityName, Place

ABORTED, REORDERED, DRY, FALLBACK = range(4)
"""The phases of `Place`."""


class Sets(NamedTuple):
    """What a transaction has read and written of one worker's entities. What it writes, it has read."""

    reads: Set[EntityName]
    writes: Set[EntityName]


def found(sets: Mapping[int, Sets]) -> Conflicts:
    """Returns the conflicts on one worker's entities."""
    written: set[EntityName] = set()
    read: set[EntityName] = set()
    conflicts = Conflicts([], [], [])
    for tid in sorted(sets):  # So what was written and read before is that of lower ones.
        reads, writes = sets[tid].reads, sets[tid].writes
        if not written.isdisjoint(writes):
            conflicts.writes_written.append(tid)
        if not written.isdisjoint(reads):
            conflicts.reads_written.append(tid)
        if not read.isdisjoint(writes):
            conflicts.writes_read.append(tid)
        written |= writes
        read |= reads
    return conflicts


@dataclass
class Decision:
    """What all workers decide alike when they know all conflicts."""

    losers: list[int] = field(default_factory=list)
    reordered: set[int] = field(default_factory=set)
    """Those that committed although they have read what a lower one writes."""

    def place(self, epoch: int, tid: int) -> Place:
        """Returns the place of a transaction that committed."""
        return Place(epoch, REORDERED, -tid) if tid in self.reordered else Place(epoch, DRY, tid)


def decided(conflicts: Iterable[Conflicts], reordering: bool) -> Decision:
    """Returns which transactions lose, given the conflicts of all workers."""
    writes_written: set[int] = set()
    reads_written: set[int] = set()
    writes_read: set[int] = set()
    for each in conflicts:
        writes_written.update(each.writes_written)
        reads_written.update(each.reads_written)
        writes_read.update(each.writes_read)
    losers = writes_written | (reads_written & writes_read if reordering else reads_written)
    return Decision(sorted(losers), reads_written - losers)
