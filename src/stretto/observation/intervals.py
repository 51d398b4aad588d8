"""From timed totals to the last second."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from stretto.actors.metrics import FunctionMetrics
from stretto.observation.model import ActorObserved

WINDOW_NS = 1_000_000_000
"""Rates are those of the last second (elasticutor.txt 3.1). What is done between two reports depends on which runs
happen to end there."""
IDLE_AFTER_NS = 1_000_000_000
"""An instance reports when something has changed. One that has not reported for this long is idle."""

T = TypeVar("T")


class LastSecond(Generic[T]):
    """Timed reports: the last one, and those of the second before it; at least two, if there were two."""

    __slots__ = ("_reports",)

    def __init__(self) -> None:
        self._reports: deque[tuple[int, T]] = deque()

    def add(self, report: T, measured_ns: int) -> None:
        """Adds a report, by the clock of whoever measured it."""
        reports = self._reports
        reports.append((measured_ns, report))
        # After a pause, what was done in the whole of it is no rate of now.
        while len(reports) > 2 and max(measured_ns - reports[1][0], reports[1][0] - reports[0][0]) >= WINDOW_NS:
            reports.popleft()

    def clear(self) -> None:
        self._reports.clear()

    @property
    def first(self) -> T:
        return self._reports[0][1]

    @property
    def last(self) -> T:
        return self._reports[-1][1]

    @property
    def interval_ns(self) -> int:
        """The time between the first and the last one."""
        return max(0, self._reports[-1][0] - self._reports[0][0]) if self._reports else 0


class Series:
    """The reports of one instance of an actor."""

    __slots__ = ("_reported_ns", "_reports")

    def __init__(self, totals: FunctionMetrics, measured_ns: int, now_ns: int) -> None:
        self._reports: LastSecond[FunctionMetrics] = LastSecond()
        self._reports.add(totals, measured_ns)
        self._reported_ns = now_ns

    def add(self, totals: FunctionMetrics, measured_ns: int, now_ns: int) -> None:
        """Adds a report; `measured_ns` is by the worker's clock, which may differ from that of `now_ns`."""
        if totals.busy_ns < self._reports.last.busy_ns:
            self._reports.clear()  # It has begun to count again.
        self._reports.add(totals, measured_ns)
        self._reported_ns = now_ns

    def observed(self, partition: int, member: str, now_ns: int) -> ActorObserved:
        """Returns the observation of the instance now."""
        reports, interval_ns = self._reports, self._reports.interval_ns
        if now_ns - self._reported_ns > IDLE_AFTER_NS:
            return ActorObserved(partition, member, reports.last, reports.last, IDLE_AFTER_NS)
        before = reports.first if interval_ns else FunctionMetrics()
        return ActorObserved(partition, member, reports.last, before, interval_ns)
