"""Finds the rate that a system sustains: first a search by bisection, then a step up or down in every round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RISE = 2.0
"""Factor by which a search without an upper bound raises the rate."""
CLOSE = 1.12
"""A search ends when the lowest unsustained rate is within this factor of the highest sustained one."""
STEP_UP = 1.04
STEP_DOWN = 0.92


@dataclass
class Search:
    """Searches for the highest sustained rate, by bisection on a logarithmic scale."""

    rate: float
    low: float | None = None
    high: float | None = None

    def learn(self, sustained: bool, reached: float) -> None:
        """Record the result of a run at `rate`, and choose the next rate."""
        if sustained:
            if self.low is None:
                self.high = None  # The run that failed before was perhaps not warm yet.
            self.low = max(self.low or 0.0, self.rate)
        else:
            self.high = min(self.high or math.inf, self.rate)
        if self.low is None:
            # The throughput reached under overload is close to the sustainable rate.
            self.rate = max(min(reached * 0.95, self.rate * 0.9), self.rate * 0.2)
        elif self.high is None:
            self.rate = self.low * RISE
        else:
            if self.high <= self.low:
                self.high = self.low * 1.1  # The machine was slower for a while: a sustained rate stays a lower bound.
            self.rate = math.sqrt(self.low * self.high)

    @property
    def is_close(self) -> bool:
        """Whether more runs would change the result little."""
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
    """stretto's figure divided by a peer's in each round: the median and the range."""

    median: dict[str, float]
    range: dict[str, tuple[float, float]]


def ratios(rounds: Mapping[str, Sequence[float | None]], ours: str) -> Ratios:
    """Returns the ratios by round, because a slow machine affects all systems of a round."""
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
