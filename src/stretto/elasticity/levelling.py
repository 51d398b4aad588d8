"""Divides the workers of one job's actors by their loads, where there are too few for all.

An actor that cannot keep up holds back its sources, and so all actors of the job receive less in proportion. The one
with the most load per worker bounds the job; it takes from the one that has the least with one worker fewer. Every step
lowers the greatest load per worker, so it ends; and a step must be worth `WORTH`, so that what was measured a little
differently does not undo it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WORTH = 1.05
"""A worker changes hands if its new owner has this much more load per worker than its old one without it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The load of an actor, its workers, and how many it may have: more than now if it cannot keep up and none are
    spare."""

    load: float
    workers: int
    workers_max: int


def level(holdings: Sequence[Holding], worth: float = WORTH) -> list[int]:
    """Returns the workers of each actor, in all as many as before."""
    found = [each.workers for each in holdings]
    for _ in range(sum(found)):
        takers = [place for place, each in enumerate(holdings) if found[place] < each.workers_max]
        givers = [place for place, workers in enumerate(found) if workers > 1]
        if not takers or not givers:
            break
        taker = max(takers, key=lambda place: (holdings[place].load / found[place], -place))
        giver = min(givers, key=lambda place: (holdings[place].load / (found[place] - 1), place))
        lost = holdings[giver].load / (found[giver] - 1)
        if giver == taker or holdings[taker].load / found[taker] <= worth * lost:
            break
        found[giver] -= 1
        found[taker] += 1
    return found
