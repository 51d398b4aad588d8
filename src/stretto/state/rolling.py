"""Which part of a large state a checkpoint writes: all that has changed since the last one, and a stretch of the rest.

The stretches go round: after so many checkpoints everything was written again, and what is older than a round is not
needed any more. So a checkpoint costs what has changed and a small share of the whole, always; a state is in at most a
round of fragments, of which later ones replace what earlier ones say; and no checkpoint has to write everything at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.state.fragments import Deferred, Fragment

ROUND = 64
"""After so many checkpoints everything was written again."""
STRETCH_MIN = 1024
"""A stretch has at least so many entries; a state that has fewer is written whole each time that it changes."""


@dataclass(slots=True)
class _Kept:
    """A fragment that is still needed, with the round and the place that had been reached when it was written."""

    fragment: Fragment
    round: int
    place: Any


class Rolling:
    """The fragments of one state. Entries have places; new ones get the last place, and an entry that is removed moves
    those behind it up by one. Or, where entries are found in the order of their keys, the key is the place: who writes
    a stretch then says how far it has come (`reach`, `end_round`)."""

    def __init__(self, read: Sequence[Fragment] = (), given: int = 0, start: int | bytes = 0) -> None:
        """`read` are the fragments that the state was read from; `given` is the greatest number ever given; `start` is
        a place before all others."""
        # Where entries are after a restart is not where they were before, so what was read waits for a whole round.
        self._kept = [_Kept(Fragment(fragment.number, None), 0, start) for fragment in read]
        self.given = max([given, *(fragment.number for fragment in read)])
        self._round = 0
        self._start = start
        self.place: Any = start

    def give(self) -> list[Fragment]:
        """Those that make up the state, the oldest first. A content is given once, and not kept after that."""
        given = [kept.fragment for kept in self._kept]
        for kept in self._kept:
            kept.fragment = Fragment(kept.fragment.number, None)
        return given

    def stretch(self, size: int, removed: int = 0) -> range:
        """The places that are to be written now beside what has changed. So many entries were removed since the last
        call, from wherever."""
        start = max(0, self.place - removed)
        stop = start + self.stretch_size(size)
        if stop >= size:
            self.end_round()
            return range(start, size)
        self.reach(stop)
        return range(start, stop)

    def stretch_size(self, size: int) -> int:
        """How many entries of so many are to be written beside what has changed."""
        return max(STRETCH_MIN, -(-size // ROUND)) if self._kept else size

    def reach(self, place: int | bytes) -> None:
        """All places up to this one are written in this round."""
        self.place = place

    def end_round(self) -> None:
        self._round += 1
        self.place = self._start

    def add(self, content: pa.Table | Deferred) -> None:
        """What has changed and the stretch together; forget what is older than a round."""
        self.given += 1
        self._kept.append(_Kept(Fragment(self.given, content), self._round, self.place))
        reached = (self._round, self.place)
        self._kept = [kept for kept in self._kept if reached < (kept.round + 1, kept.place)]
