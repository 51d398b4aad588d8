"""What a function costs, in time: per row and per batch, waiting or computing.

A function that waits sleeps, as for the answer of a service, so that eight workers run side by side on two cores. One
that computes takes processor time, whoever else wants the processor.
"""

from __future__ import annotations

import hashlib
import time
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


class Spending(Enum):
    WAIT = "wait"
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
        else:
            _compute(round(cost_us * 1e3))


FREE = Cost()


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
