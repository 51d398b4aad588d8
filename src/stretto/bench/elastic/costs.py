"""What a function costs, in time: per row and per batch, waiting or computing.

A function that waits sleeps, as for the answer of a service, so that eight workers run side by side on two cores. On a
busy machine it sleeps longer than it asked for. A metered one makes up for that: what one wait took too long, the next
one on its worker is shorter. One that computes takes processor time, whoever else wants the processor.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from stretto.bench.draws import Int64s, below, hashed, stream
from stretto.errors import UserError

PAPER_DEVIATION = 0.5**0.5
"""The paper's cost of 1 ms has a variance of half a square millisecond."""
_QUANTILES = 4096
_HASHED = bytes(16_384)
"""Long enough for the hash to release the interpreter's lock, so that heartbeats are sent meanwhile."""


OWED_S_MAX = 1.0
"""What is made up for at most."""


class Spending(Enum):
    WAIT = "wait"
    METERED = "wait, on average for as long as asked"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Cost:
    """`row_us` for each row and `batch_us` for each batch. The cost of a row is normally distributed with a standard
    deviation of `deviation` times its mean, and not below 0; it is a function of the row's number."""

    row_us: float = 0.0
    batch_us: float = 0.0
    deviation: float = 0.0
    spending: Spending = Spending.WAIT

    def __post_init__(self) -> None:
        if min(self.row_us, self.batch_us, self.deviation) < 0:
            raise UserError("a cost must not be negative", f"{self}")

    def of_us(self, numbers: Int64s) -> float:
        """Returns what a batch of these rows costs."""
        if not self.deviation:
            return self.batch_us + self.row_us * len(numbers)
        draw = below(hashed(stream(0, "cost"), numbers), _QUANTILES)
        factors = np.maximum(0.0, 1.0 + self.deviation * _normal().take(draw))
        return self.batch_us + self.row_us * float(factors.sum())

    def spend(self, numbers: Int64s) -> None:
        """Takes as long as a batch of these rows costs."""
        cost_us = self.of_us(numbers)
        if cost_us <= 0:
            return
        if self.spending is Spending.WAIT:
            time.sleep(cost_us / 1e6)
        elif self.spending is Spending.METERED:
            _METER.wait(cost_us / 1e6)
        else:
            _compute(round(cost_us * 1e3))


FREE = Cost()


class Meter:
    """The waits of one worker, whatever functions they are of: on average they take as long as they should."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._owed_s = 0.0
        """By how much the waits so far were too long."""

    def wait(self, wanted_s: float) -> None:
        began_s = self._clock()
        if wanted_s > self._owed_s:
            self._sleep(wanted_s - self._owed_s)
        took_s = self._clock() - began_s
        self._owed_s = min(OWED_S_MAX, max(0.0, self._owed_s + took_s - wanted_s))


_METER = Meter()
"""That of this process, which is one worker."""


def _compute(cost_ns: int) -> None:
    """Computes for this long in this thread's own processor time."""
    end_ns = time.thread_time_ns() + cost_ns
    while time.thread_time_ns() < end_ns:
        hashlib.sha256(_HASHED).digest()


@cache
def _normal() -> npt.NDArray[np.float64]:
    """Returns quantiles of the standard normal distribution."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((place + 0.5) / _QUANTILES) for place in range(_QUANTILES)])
