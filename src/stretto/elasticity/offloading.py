"""How much of a burst goes to transient workers (sponge.txt 4.3.1): rates in, throughput and cores out.

Events are rows that sources read. What has arrived and is not processed follows from the rates of the last seconds; it
is to be processed until the deadline, beside all that arrives meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """At a moment: events that arrive per second (r), and events that are processed per second (m)."""

    time_s: float
    arriving: float
    processed: float


def simpson(times: Sequence[float], values: Sequence[float]) -> float:
    """Returns the integral by Simpson's rule over samples that need not be at equal distances; the last one of an odd
    number of intervals is that of the parabola through the last three samples."""
    count = len(times)
    if count < 2:
        return 0.0
    if count == 2:
        return (times[1] - times[0]) * (values[0] + values[1]) / 2
    total = 0.0
    for first in range(0, count - 2, 2):
        h, k = times[first + 1] - times[first], times[first + 2] - times[first + 1]
        f0, f1, f2 = values[first : first + 3]
        total += (h + k) / 6 * ((2 - k / h) * f0 + (h + k) ** 2 / (h * k) * f1 + (2 - h / k) * f2)
    if count % 2 == 0:
        h, k = times[-2] - times[-3], times[-1] - times[-2]
        f0, f1, f2 = values[-3:]
        total += f2 * (2 * k**2 + 3 * h * k) / (6 * (h + k))
        total += f1 * (k**2 + 3 * h * k) / (6 * h)
        total -= f0 * k**3 / (6 * h * (h + k))
    return total


def events_in_queue(samples: Sequence[Sample]) -> float:
    """Returns how many events have arrived and are not processed: the left side of equation (1), from the moment from
    which more arrive than are processed."""
    excess = simpson([each.time_s for each in samples], [each.arriving - each.processed for each in samples])
    return max(0.0, excess)


def target_throughput(arriving: float, queued: float, deadline_s: float) -> float:
    """Returns the least throughput that fulfils equation (1): what arrives, and within the deadline what has piled
    up. What arrives is taken to stay as it is."""
    return arriving + queued / deadline_s


def rate_per_core(rate: float, cores: float) -> float:
    """Returns how many events per second one core takes that does nothing else (equation 2), from the average rate
    and the average number of busy cores under a stable load."""
    return rate / cores if cores > 0 else math.inf


def transient_cores(throughput: float, per_core: float, rho: float, target: float) -> int:
    """Returns how many transient cores take a throughput, each busy to the target (equation 3); `rho` is what one of
    them does, by what an ordinary one does."""
    return max(0, math.ceil(throughput / (target * rho * per_core) - 1e-9)) if per_core > 0 else 0
