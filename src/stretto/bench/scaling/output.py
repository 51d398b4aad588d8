"""When results came, and what a change did to them: the gap, the dip, and when all was steady again. Pure.

A *gap* is the longest time without results, beyond the usual time between two of them: the median of the stretch
before the change. Throughput is the events read per slice of time. The *dip* is how much of the throughput before is
missing in the worst slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

SLICE_S = 0.5
STEADY = 0.9
"""Throughput is steady when a slice has this share of the median of the slices that follow the change."""


@dataclass(frozen=True)
class Change:
    """A change of the workers: the stretch before it begins at `steady_s`; it was asked for, done, and the stretch
    after it lasted until `until_s`."""

    steady_s: float
    asked_s: float
    done_s: float
    until_s: float


@dataclass(frozen=True)
class Figures:
    """What a change did to the output. `normal_ms` is the usual time between two results before it."""

    gap_ms: float
    normal_ms: float
    dip: float
    converged_s: float | None


Samples = Sequence[tuple[float, int]]
"""Times in seconds, each with the events read by then."""


def figures(results_s: Sequence[float], read: Samples, change: Change) -> Figures:
    """Returns what a change did to the results, which came at these times, and to the events that were read."""
    normal_s, gap_s, gap_end_s = gap(results_s, change)
    before = rates(read, change.steady_s, change.asked_s)
    during = rates(read, change.asked_s, change.done_s + SLICE_S)
    steady_s = _steady_s(read, max(gap_end_s, change.done_s), change.until_s)
    return Figures(
        gap_ms=max(0.0, gap_s - normal_s) * 1e3,
        normal_ms=normal_s * 1e3,
        dip=max(0.0, 1 - min(during) / max(1e-9, sum(before) / len(before))),
        converged_s=None if steady_s is None else steady_s - change.asked_s,
    )


def gap(results_s: Sequence[float], change: Change) -> tuple[float, float, float]:
    """Returns the usual time between two results before a change, the longest around it, and when that ended. Without
    any result in the stretch before, all of it is usual: nothing can be said of the gap."""
    steady = results_s[bisect_left(results_s, change.steady_s) : bisect_left(results_s, change.asked_s)]
    normal_s = median([after - before for before, after in pairwise(steady)] or [change.asked_s - change.steady_s])
    around = [
        (after - before, after)
        for before, after in pairwise([*results_s, max(change.until_s, *results_s[-1:])])
        if after > change.asked_s and before < change.done_s + SLICE_S
    ]
    return normal_s, *max(around)


def rates(read: Samples, from_s: float, to_s: float) -> list[float]:
    """Returns the events per second in whole slices of a stretch; in all of it, if it is shorter than one."""
    slices = max(1, int((to_s - from_s) / SLICE_S))
    length_s = min(SLICE_S, max(1e-9, to_s - from_s))
    marks = [_read_by(read, from_s + place * length_s) for place in range(slices + 1)]
    return [(after - before) / length_s for before, after in pairwise(marks)]


def _read_by(read: Samples, at_s: float) -> float:
    """Returns how much was read by a time, in a straight line between two samples."""
    place = bisect_left(read, (at_s, 0))
    if place in (0, len(read)):
        return float(read[0][1] if place == 0 else read[-1][1])
    (begin_s, begin), (end_s, end) = read[place - 1], read[place]
    return begin + (end - begin) * (at_s - begin_s) / (end_s - begin_s)


def _steady_s(read: Samples, from_s: float, to_s: float) -> float | None:
    """Returns when the first slice ends that has the throughput of the stretch."""
    found = rates(read, from_s, to_s)
    usual = median(found)
    for place, rate in enumerate(found):
        if rate >= STEADY * usual > 0:
            return from_s + (place + 1) * SLICE_S
    return None
