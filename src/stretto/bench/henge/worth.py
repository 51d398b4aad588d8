"""What the results of a job are worth over time, by what has arrived at the driver and when. Pure.

It does not ask the controller how jobs stand, nor what was reported of them: each row has a time at which it was due
and one at which its result arrived. In a slice of time, latency is that of the results that arrived in it, and juice
their number by that of the rows that were due in it. A slice without results is worth nothing while rows are due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stretto.api.slo import SLO


@dataclass(frozen=True)
class Slice:
    """A job in a slice of time that ends after `until_s`. Latency is None if nothing has arrived, juice if nothing was
    due."""

    until_s: float
    utility: float
    latency_ms: float | None
    juice: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "utility": round(self.utility, 2),
            "latency_ms": None if self.latency_ms is None else round(self.latency_ms, 1),
            "juice": None if self.juice is None else round(self.juice, 3),
        }


def slices(slo: SLO, due_s: Any, arrived_s: Any, slice_s: float, count: int) -> list[Slice]:
    """Returns a job slice by slice. Rows are in the order in which they were due, of all that were due in this time;
    `arrived_s` is when their results arrived, NaN for those that have not."""
    found = []
    for place in range(count):
        from_s, until_s = place * slice_s, (place + 1) * slice_s
        came = (arrived_s >= from_s) & (arrived_s < until_s)
        was_due = int(((due_s >= from_s) & (due_s < until_s)).sum())
        late = bool(((due_s < until_s) & ~(arrived_s < until_s)).any())
        latency_ms = None
        if came.any():
            waited_s = np.maximum(0.0, arrived_s[came] - due_s[came])
            latency_ms = float(np.percentile(waited_s, slo.percentile)) * 1e3
        juice = min(1.0, float(came.sum()) / was_due) if was_due else None
        utility = slo.utility(latency_ms, juice, is_stuck=late and not came.any())
        found.append(Slice(until_s, utility, latency_ms, juice))
    return found


def totals(jobs: Sequence[Sequence[Slice]]) -> list[float]:
    """Returns the utility of all jobs together, slice by slice."""
    return [sum(each.utility for each in at_once) for at_once in zip(*jobs, strict=True)]


def arrivals_by_number(numbers: Any, arrived_s: Any, rows: int) -> Any:
    """Returns when the result of each of the first rows arrived, by their numbers; NaN for those that have not."""
    found = np.full(rows, np.nan)
    known = numbers < rows
    found[numbers[known]] = arrived_s[known]
    return found
