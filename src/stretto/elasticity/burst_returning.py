"""Ordinary workers that came because a burst lasted, and when they are given back.

They are paid for as long as the prices say that a worker is kept, so they stay that long. After it they leave once the
others have had room for all the work for a while: first the functions that were handed over to them get the partitions
back that they had, then the workers are drained, one after the other. A worker that cannot leave is asked again later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stretto.elasticity.burst_prices import SECOND_NS
from stretto.elasticity.decisions import DrainWorker, GiveCapacity, TakeCapacity
from stretto.elasticity.view import WorkerView

CALM_NS = 30 * SECOND_NS
"""For so long the other workers must have had room for everything."""
STEP_NS = 2 * SECOND_NS
"""From one step to the next: after a handover, it takes so long until it is known how busy workers are."""
ASK_AGAIN_NS = 30 * SECOND_NS
"""A worker that is still there so long after it was to leave is asked again."""


@dataclass
class _Borrowed:
    """A worker: since when it is there, and when it was asked to leave last."""

    since_ns: int
    asked_ns: int | None = None


@dataclass
class Returning:
    """The workers that have come, by their names without incarnations, and the units that functions got for them. They
    are kept for `kept_ns`, and those that stay are to be no busier than `level`."""

    kept_ns: int
    level: float
    _workers: dict[str, _Borrowed] = field(default_factory=dict)
    _given: list[GiveCapacity] = field(default_factory=list)
    _calm_since_ns: int | None = None
    _stepped_ns: int = 0

    @property
    def is_empty(self) -> bool:
        return not self._workers

    def came(self, workers: Iterable[str], given: Iterable[GiveCapacity], now_ns: int) -> None:
        """Workers have come, and functions have got units for them."""
        for worker in workers:
            self._workers.setdefault(_base(worker), _Borrowed(now_ns))
        self._given += given

    def next(
        self, workers: Mapping[str, WorkerView], jobs: Iterable[str], is_burst: bool, now_ns: int
    ) -> TakeCapacity | DrainWorker | None:
        """Returns what is given back now."""
        there = {_base(name): name for name in sorted(workers)}
        self._workers = {base: each for base, each in self._workers.items() if base in there}
        running = set(jobs)
        self._given = [each for each in self._given if each.job in running] if self._workers else []
        leaving = [base for base, each in self._workers.items() if self._may_leave(each, now_ns)]
        if is_burst or not leaving or not self._has_room(workers, there[leaving[-1]]):
            self._calm_since_ns = None
            return None
        self._calm_since_ns = now_ns if self._calm_since_ns is None else self._calm_since_ns
        if now_ns - self._calm_since_ns < CALM_NS or now_ns - self._stepped_ns < STEP_NS:
            return None
        self._stepped_ns = now_ns
        if self._given and self._has_room(workers, *(there[base] for base in self._workers)):
            given = self._given.pop()
            return TakeCapacity(given.job, given.function, given.units)
        # The last that came leaves first.
        self._workers[leaving[-1]].asked_ns = now_ns
        return DrainWorker(there[leaving[-1]])

    def _may_leave(self, worker: _Borrowed, now_ns: int) -> bool:
        if worker.asked_ns is not None and now_ns - worker.asked_ns < ASK_AGAIN_NS:
            return False
        return now_ns - worker.since_ns >= self.kept_ns

    def _has_room(self, workers: Mapping[str, WorkerView], *without: str) -> bool:
        """Whether the other workers can take everything."""
        busy = sum(each.busy_share for each in workers.values())
        return busy <= self.level * sum(each.cores for name, each in workers.items() if name not in without)


def _base(worker: str) -> str:
    return worker.partition("~")[0]
