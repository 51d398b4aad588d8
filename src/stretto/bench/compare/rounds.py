"""Which rate does a system sustain? First a search that closes in on it, then a step up or down in every round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RISE = 2.0
"""A search without an upper bound yet tries so much more."""
CLOSE = 1.12
"""A search ends when what is not sustained is so little above what is."""
STEP_UP = 1.04
STEP_DOWN = 0.92


@dataclass
class Search:
    """Closes in on the highest rate that is sustained, by bisection on a logarithmic scale."""

    rate: float
    low: float | None = None
    high: float | None = None

    def learn(self, sustained: bool, reached: float) -> None:
        """Take in what a run at `rate` showed, and choose the next rate."""
        if sustained:
            if self.low is None:
                self.high = None  # What failed before was perhaps not warm yet.
            self.low = max(self.low or 0.0, self.rate)
        else:
            self.high = min(self.high or math.inf, self.rate)
        if self.low is None:
            # What was reached under overload is close to what can be sustained.
            self.rate = max(min(reached * 0.95, self.rate * 0.9), self.rate * 0.2)
        elif self.high is None:
            self.rate = self.low * RISE
        else:
            if self.high <= self.low:
                self.high = self.low * 1.1  # The machine was slower for a while: a sustained rate is a fact.
            self.rate = math.sqrt(self.low * self.high)

    @property
    def is_close(self) -> bool:
        """Whether going on would tell little more."""
        return self.low is not None and self.high is not None and self.high <= self.low * CLOSE

    @property
    def found(self) -> float:
        return self.low if self.low is not None else self.rate


@dataclass
class Staircase:
    """One run in each round: up a little when the rate was sustained, down when not."""

    rate: float
    reached: list[float] = field(default_factory=list)

    def learn(self, sustained: bool, events_per_s: float) -> None:
        self.reached.append(events_per_s)
        self.rate = self.rate * STEP_UP if sustained else max(min(events_per_s, self.rate) * STEP_DOWN, 1.0)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ours divided by a peer's in each round: the median and the range."""

    median: dict[str, float]
    range: dict[str, tuple[float, float]]


def ratios(rounds: Mapping[str, Sequence[float | None]], ours: str) -> Ratios:
    """Round by round, since what slows the machine down slows down all that run in that round."""
    median: dict[str, float] = {}
    spread: dict[str, tuple[float, float]] = {}
    for name, theirs in rounds.items():
        pairs = [(a, b) for a, b in zip(rounds[ours], theirs, strict=False) if a is not None and b]
        if name == ours or not pairs:
            continue
        found = sorted(a / b for a, b in pairs)
        median[name] = statistics.median(found)
        spread[name] = (found[0], found[-1])
    return Ratios(median, spread)
