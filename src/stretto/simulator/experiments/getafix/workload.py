"""What clients ask: some hours of a table, recent ones more often, so that the most popular percent of the segments is
asked for ten times as often as the least popular forty percent (thesis 4.1). Hours of a question are chosen one by one:
what replication depends on is how popular each is."""

from __future__ import annotations

import math
import random
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate

MOST, LEAST = 0.01, 0.4
"""The shares of the segments that are the most and the least popular."""
TIMES = 13.5
"""How many times as likely the first are to be chosen as the last. A question has each hour once, so with two hours
they are in ten times as many questions."""


def weights(segments: int) -> list[float]:
    """Returns how popular each segment is by its age, the newest first.

    The most popular are alike, so are the least popular; in between, popularity falls by a power of the rank."""
    most, others = max(1, round(MOST * segments)), segments - max(1, round(LEAST * segments))
    power = math.log(TIMES) / math.log(max(others - most + 2, 2))
    return [max(TIMES * max(rank - most + 2, 1) ** -power, 1.0) for rank in range(segments)]


@dataclass
class Workload:
    """The questions of one run. `newest` is the number of the newest hour; each has a segment."""

    segments: int
    hours_mean: float
    chance: random.Random
    newest: int = 0

    def __post_init__(self) -> None:
        self._sums = list(accumulate(weights(self.segments)))

    def ask(self) -> list[str]:
        """Returns the segments of a question, each once."""
        hours = 1
        while hours < self.segments and self.chance.random() > 1 / self.hours_mean:
            hours += 1
        ages: dict[int, None] = {}
        while len(ages) < hours:
            ages[bisect(self._sums, self.chance.random() * self._sums[-1])] = None
        return [name_of(self.newest - age) for age in ages]

    def present(self) -> list[str]:
        """Returns the segments that there are, the oldest first."""
        return [name_of(self.newest - age) for age in reversed(range(self.segments))]


def name_of(hour: int) -> str:
    return f"{hour:+05d}"
