"""When a burst has lasted so long that ordinary workers are cheaper (sponge.txt 6.5, figure 15).

A transient worker costs more and is paid while it works. An ordinary one costs less and stays for a while. The share of
the time for which both cost the same is the break-even share: with four times the price, a quarter. What is to come is
not known, so the past decides: once transient workers have cost as much within the time for which an ordinary one would
be kept as the ordinary ones would have, those are added.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """What a core costs per second on each kind of worker, in any unit, and for how long a worker that is added is
    kept."""

    ordinary: float = 1.0
    transient: float = 4.0
    kept_s: float = 600.0

    def __post_init__(self) -> None:
        if min(self.ordinary, self.transient, self.kept_s) <= 0:
            raise ValueError(f"Prices and times must be more than nothing: {self}.")


def break_even_share(prices: Prices, transient: float, ordinary: float) -> float:
    """Returns the share of the time for which so many transient cores cost as much as so many ordinary ones that are
    there all the time."""
    return prices.ordinary * ordinary / (prices.transient * transient)


class Spending:
    """The transient core seconds of the last while."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._spent: deque[tuple[int, float, float]] = deque()
        """Until when so many cores were in use for so many seconds."""

    def add(self, cores: float, since_ns: int, now_ns: int) -> None:
        """So many transient cores were in use since a moment."""
        if cores and now_ns > since_ns:
            self._spent.append((now_ns, cores, (now_ns - since_ns) / SECOND_NS))
        while self._spent and now_ns - self._spent[0][0] > self._prices.kept_s * SECOND_NS:
            self._spent.popleft()

    def transient(self, cores: float) -> float:
        """Returns what those have cost that so many cores would have stood for: no more of them at any time."""
        return sum(min(cores, used) * seconds for _, used, seconds in self._spent) * self._prices.transient

    def ordinary(self, cores: float) -> float:
        """Returns what so many ordinary cores cost while they are kept."""
        return cores * self._prices.ordinary * self._prices.kept_s

    def is_dearer(self, cores: float) -> bool:
        """Whether so many ordinary cores would have cost no more than the transient ones in their place. A burst that
        is nearly over needs few, and what it has cost before was not in the place of those."""
        return bool(self._spent) and self.transient(cores) >= self.ordinary(cores)

    def forget(self) -> None:
        """Others have taken over: what was spent is spent."""
        self._spent.clear()
