"""What is observed of entities: how the transactions of a job end, where its places are, and what waits.

The totals of a place go on from one attempt to the next, and when it moves. What a worker has counted since its last
report is lost with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from stretto.actors.metrics import FunctionMetrics, difference, merged
from stretto.protocol.transactions import TransactionTotals


@dataclass(frozen=True)
class PlaceObserved:
    """One place: its worker, if it has one, its totals now, and those at the beginning of the last interval."""

    number: int
    member: str | None
    totals: TransactionTotals
    before: TransactionTotals
    interval_ns: int

    @cached_property
    def interval(self) -> TransactionTotals:
        """Its totals of the last interval."""
        return between(self.totals, self.before)

    def per_second(self, amount: int) -> float:
        """Returns an amount of the last interval as a rate."""
        return amount * 1e9 / self.interval_ns if self.interval_ns else 0.0


@dataclass(frozen=True)
class EntitiesObserved:
    """The entities of a job. `moving` is the number of a place that is on its way, and the worker that gets it;
    `snapshot` the number of the last complete snapshot, None if they are in memory only."""

    status: str
    attempt: int
    places: tuple[PlaceObserved, ...]
    moving: tuple[int, str] | None = None
    snapshot: int | None = None
    failure: str | None = None
    waits_for: str | None = None

    @cached_property
    def totals(self) -> TransactionTotals:
        """The totals of all places."""
        return summed(place.totals for place in self.places)

    @property
    def members(self) -> tuple[str, ...]:
        """The workers that have places."""
        return tuple(sorted({place.member for place in self.places if place.member is not None}))


def summed(parts: Iterable[TransactionTotals]) -> TransactionTotals:
    """Returns the totals of several places."""
    total = TransactionTotals()
    for part in parts:
        total = plus(total, part)
    return total


def plus(one: TransactionTotals, other: TransactionTotals) -> TransactionTotals:
    """Returns the totals of two places, or of a place that began to count again and what it had counted before."""
    aborted = dict(one.aborted)
    for reason, count in other.aborted.items():
        aborted[reason] = aborted.get(reason, 0) + count
    both = [FunctionMetrics(latency=each.latency) for each in (one, other) if each.latency is not None]
    return TransactionTotals(
        one.committed + other.committed,
        aborted,
        one.conflicts + other.conflicts,
        one.again + other.again,
        one.epochs + other.epochs,
        one.looks + other.looks,
        one.refused + other.refused,
        one.entities + other.entities,
        one.waiting + other.waiting,
        one.delayed + other.delayed,
        merged(both).latency if both else None,
    )


def between(later: TransactionTotals, earlier: TransactionTotals) -> TransactionTotals:
    """Returns what was counted between two readings; what waits is that of the later one."""
    latency = later.latency
    if latency is not None and earlier.latency is not None:
        both = FunctionMetrics(latency=latency), FunctionMetrics(latency=earlier.latency)
        latency = difference(*both).latency
    aborted = {reason: count - earlier.aborted.get(reason, 0) for reason, count in later.aborted.items()}
    return TransactionTotals(
        later.committed - earlier.committed,
        {reason: count for reason, count in aborted.items() if count},
        later.conflicts - earlier.conflicts,
        later.again - earlier.again,
        later.epochs - earlier.epochs,
        later.looks - earlier.looks,
        later.refused - earlier.refused,
        later.entities,
        later.waiting,
        later.delayed,
        latency,
    )
