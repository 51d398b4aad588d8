"""What is asked for: how much work questions make of each segment, and how many ask for it at the same time.

Both are counted in rounds, as brokers report them. Work is smoothed, since one round is short and popularity lasts
longer; the greatest number at the same time is that of the last rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

KEPT = 0.7
"""The part of a segment's popularity that is of the rounds before the last one."""
WINDOW = 6
"""Rounds over which the greatest number of questions at the same time is looked for."""
NEGLIGIBLE = 0.001
"""Work below this part of all is none: a segment that nobody asks for any more is forgotten after some rounds."""


@dataclass(frozen=True)
class Asked:
    """What was asked of one segment in a round."""

    work: float = 0.0
    """Time that questions took at nodes, by any unit that all segments have."""
    at_once_max: int = 0
    """The greatest number of its questions that waited or ran at the same time."""


@dataclass
class Popularity:
    """The popularity of all segments, after each round."""

    work: dict[str, float] = field(default_factory=dict)
    """The work of a round, smoothed."""
    _at_once: deque[dict[str, int]] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def round_over(self, asked: Mapping[str, Asked]) -> None:
        """Counts what was asked since the last round."""
        segments = sorted(self.work.keys() | asked.keys())
        kept = KEPT if self.work else 0.0
        smoothed = {each: kept * self.work.get(each, 0.0) + (1 - kept) * _work_of(asked, each) for each in segments}
        least = NEGLIGIBLE * sum(smoothed.values())
        self.work = {each: units for each, units in smoothed.items() if units > least}
        self._at_once.append({each: found.at_once_max for each, found in asked.items() if found.at_once_max})

    def at_once_max(self, segment: str) -> int:
        """Returns how many questions were there for a segment at the same time."""
        return max((each.get(segment, 0) for each in self._at_once), default=0)

    def begin(self, segment: str, like: str | None) -> None:
        """A segment is new. It is expected to be as popular as another one, such as that of the hour before."""
        if like in self.work:
            self.work[segment] = self.work[like]

    def forget(self, segment: str) -> None:
        """The segment is there no more."""
        self.work.pop(segment, None)
        for each in self._at_once:
            each.pop(segment, None)


def _work_of(asked: Mapping[str, Asked], segment: str) -> float:
    found = asked.get(segment)
    return 0.0 if found is None else found.work
