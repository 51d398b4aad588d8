"""A source whose splits are numbered outside, and appear while it is read, such as the partitions of a topic.

Partition p of n reads the splits p, p + n, p + 2n and so on, also those that are not there yet. So whoever resumes from
a checkpoint, with any parallelism, works out from the numbers alone who reads what. To checkpoints the source has
`SPLITS_MAX` splits from the start; most of them never appear.

A split that no checkpoint knows is read from its beginning, wherever the source was told to start: it has appeared
since.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stretto.actors.context import Context
from stretto.actors.source import SPLITS_MAX, GrowingSource, Lookout, Reading
from stretto.errors import SourceError
from stretto.operators.ends import Positions, SourceFunction


class GrowingSourceFunction(SourceFunction):
    """Reads its splits of a growing source; without an end, also those that appear."""

    splits = SPLITS_MAX
    source: GrowingSource
    _lookout: Lookout | None = None

    def open(self, ctx: Context) -> None:
        self.begin(ctx)
        self._first, self._stride = ctx.partition, ctx.parallelism
        self._known = self.source.splits()
        self._lookout = self.source.lookout() if self.source.is_endless else None
        self._check(ctx.parallelism)
        self.read_from({number: self.source.reader(number, SPLITS_MAX) for number in self._own(0, self._known)})

    def read(self, now_ns: int) -> Reading:
        if self._lookout is not None and (found := self._lookout.splits()) > self._known:
            self._admit(found)
        return super().read(now_ns)

    def recall(self, remembered: Any) -> None:
        if not self.source.is_endless:
            super().recall(remembered)
            return
        last_step, positions = msgspec.convert(remembered, type=Positions)
        known = {position[0]: position for position in positions if position[0] in self._own(0, SPLITS_MAX)}
        self.forget_splits()
        self._known = max([self._known, *(number + 1 for number in known)])
        self.read_from({number: self.source.newcomer(number) for number in self._own(0, self._known)})
        self._last_step = last_step
        for split in self._splits:
            if split.number in known:
                split.recall(known[split.number])

    def close(self) -> None:
        super().close()
        if self._lookout is not None:
            self._lookout.close()

    def _admit(self, found: int) -> None:
        """Reads also the splits that have appeared."""
        if found > SPLITS_MAX:
            raise SourceError(f"{self.source.describe()} has too many splits", f"{found}; {SPLITS_MAX} can be read")
        self.read_from({number: self.source.newcomer(number) for number in self._own(self._known, found)})
        self._known = found

    def _own(self, first: int, end: int) -> range:
        """Returns the numbers of this partition's splits in a range."""
        return range(first + (self._first - first) % self._stride, end, self._stride)

    def _check(self, parallelism: int) -> None:
        if parallelism > self._known:
            raise SourceError(
                f"{self.source.describe()} cannot be read by {parallelism} partitions",
                f"it has {self._known} splits, and a partition without one would hold back the others",
                f"Use a parallelism of at most {self._known}.",
            )
