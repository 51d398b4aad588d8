"""From timed totals to the last interval."""

from __future__ import annotations

from stretto.actors.metrics import FunctionMetrics
from stretto.observation.model import ActorObserved

IDLE_AFTER_NS = 1_000_000_000
"""An instance reports when something has changed. One that has not reported for this long is idle."""


class Series:
    """The reports of one instance of an actor: the last one, and the one before."""

    __slots__ = ("_before", "_interval_ns", "_measured_ns", "_reported_ns", "_totals")

    def __init__(self, totals: FunctionMetrics, measured_ns: int, now_ns: int) -> None:
        self._before = FunctionMetrics()
        self._interval_ns = 0
        self._totals = totals
        self._measured_ns = measured_ns
        self._reported_ns = now_ns

    def add(self, totals: FunctionMetrics, measured_ns: int, now_ns: int) -> None:
        """Adds a report; `measured_ns` is by the worker's clock, which may differ from that of `now_ns`."""
        self._before, self._interval_ns = self._totals, max(0, measured_ns - self._measured_ns)
        self._totals, self._measured_ns, self._reported_ns = totals, measured_ns, now_ns

    def observed(self, partition: int, member: str, now_ns: int) -> ActorObserved:
        """Returns the observation of the instance now."""
        if now_ns - self._reported_ns > IDLE_AFTER_NS:
            return ActorObserved(partition, member, self._totals, self._totals, IDLE_AFTER_NS)
        return ActorObserved(partition, member, self._totals, self._before, self._interval_ns)
