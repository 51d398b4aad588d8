"""Transient workers beyond those that wait: they are asked for in a burst that needs more, start cold, and leave when
the burst is over.

They come after seconds, if they come: what can go to the warm ones goes there at once, and more as soon as others have
loaded the job. One that comes when nothing is redirected any more is not used, and leaves like the others.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from stretto.elasticity.burst_prices import SECOND_NS
from stretto.elasticity.decisions import AddWorkers, DrainWorker

SPARE_NS = 20 * SECOND_NS
"""They stay for so long after the last burst: the next wave may come soon."""
COMING_NS = 120 * SECOND_NS
"""So long those that were asked for are counted as on their way."""
ASK_AGAIN_NS = 30 * SECOND_NS


@dataclass
class ColdWorkers:
    """How many transient workers wait all the time (`warm`), and how many there may be."""

    warm: int
    most: int
    _awaited: int = 0
    """So many there will be when all that were asked for have come ..."""
    _until_ns: int = 0
    """... which is expected until then."""
    _burst_ns: int = 0
    """When something was redirected last."""
    _asked_ns: int = -ASK_AGAIN_NS

    def more(self, short: int, there: int, now_ns: int) -> AddWorkers | None:
        """Returns how many are to be started, if a burst is short of so many."""
        coming = max(0, self._awaited - there) if now_ns < self._until_ns else 0
        count = min(short - coming, self.most - there - coming)
        if count < 1:
            return None
        self._awaited, self._until_ns = there + coming + count, now_ns + COMING_NS
        return AddWorkers(count, transient=True)

    def fewer(self, there: AbstractSet[str], is_burst: bool, now_ns: int) -> list[DrainWorker]:
        """Returns those that leave now: the last ones, by their numbers."""
        if is_burst:
            self._burst_ns = now_ns
        spare = len(there) - self.warm
        if spare < 1 or self.most <= self.warm or now_ns - self._burst_ns < SPARE_NS:
            return []
        if now_ns - self._asked_ns < ASK_AGAIN_NS:
            return []
        self._asked_ns, self._awaited = now_ns, 0
        return [DrainWorker(member) for member in sorted(there, key=_number)[-spare:]]


def _number(member: str) -> tuple[int, str]:
    digits = member.partition("~")[0].lstrip("t")
    return int(digits) if digits.isdigit() else 0, member
