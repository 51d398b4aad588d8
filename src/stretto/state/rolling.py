"""Chooses what a checkpoint of a large state writes: all entries changed since the last one, and a stretch of the rest.

The stretches go round: after ROUND checkpoints every entry has been written again, and fragments older than a round are
not needed any more. So a checkpoint always costs the changed entries and a small part of the whole. A state is in at
most one round of fragments, where later fragments overwrite earlier ones. No checkpoint has to write
everything, except the first and one that follows a failed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.state.fragments import Deferred, Fragment

ROUND = 64
"""The number of checkpoints after which every entry has been written again."""
STRETCH_MIN = 1024
"""The least number of entries in a stretch; a smaller state is written whole each time that it changes."""


@dataclass(slots=True)
class _Kept:
    """A fragment that is still needed, with the round and the place reached when it was written."""

    fragment: Fragment
    round: int
    place: Any


class Rolling:
    """The fragments of one state. Each entry has a place. Either places are numbers: a new entry gets the last place,
    and removing an entry moves those behind it up by one. Or entries are ordered by key and the key is the place: the
    caller that writes a stretch then reports how far it got (`reach`, `end_round`)."""

    def __init__(self, read: Sequence[Fragment] = (), given: int = 0, start: int | bytes = 0) -> None:
        """`read` are the fragments that the state was read from; `given` is the greatest number used so far; `start`
        is a place before all others."""
        # Entries have other places after a restart than before, so fragments that were read are kept a whole round.
        self._kept = [_Kept(Fragment(fragment.number, None), 0, start) for fragment in read]
        self.given = max([given, *(fragment.number for fragment in read)])
        self._round = 0
        self._start = start
        self.place: Any = start

    def fragments(self) -> list[Fragment]:
        """Returns the fragments of the state, the oldest first. Each content is returned once and not kept."""
        given = [kept.fragment for kept in self._kept]
        for kept in self._kept:
            kept.fragment = Fragment(kept.fragment.number, None)
        return given

    def stretch(self, size: int, removed: int = 0) -> range:
        """Returns the places to write now in addition to the changed entries. `removed` is the number of entries
        removed since the last call, anywhere in the state."""
        start = max(0, self.place - removed)
        stop = start + self.stretch_size(size)
        if stop >= size:
            self.end_round()
            return range(start, size)
        self.reach(stop)
        return range(start, stop)

    def stretch_size(self, size: int) -> int:
        """Returns how many of `size` entries to write in addition to the changed ones."""
        return max(STRETCH_MIN, -(-size // ROUND)) if self._kept else size

    def reach(self, place: int | bytes) -> None:
        """Record that all places up to this one are written in this round."""
        self.place = place

    def end_round(self) -> None:
        self._round += 1
        self.place = self._start

    def add(self, content: pa.Table | Deferred) -> None:
        """Add a fragment with the changed entries and the stretch, and drop fragments older than a round."""
        self.given += 1
        self._kept.append(_Kept(Fragment(self.given, content), self._round, self.place))
        reached = (self._round, self.place)
        self._kept = [kept for kept in self._kept if reached < (kept.round + 1, kept.place)]
