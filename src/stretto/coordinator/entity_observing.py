"""What is observed of jobs with entities, from the reports of their places."""

from __future__ import annotations

from msgspec.structs import replace

from stretto.observation.intervals import IDLE_AFTER_NS, LastSecond
from stretto.observation.transactions import PlaceObserved, plus
from stretto.protocol.transactions import TransactionTotals


class PlaceSeries:
    """The reports of one place, whichever worker has it."""

    __slots__ = ("_before", "_last", "_reported_ns", "_reports")

    def __init__(self) -> None:
        self._before = TransactionTotals()
        """What workers have counted that are lost."""
        self._last = TransactionTotals()
        self._reports: LastSecond[TransactionTotals] = LastSecond()
        self._reported_ns = 0

    def add(self, totals: TransactionTotals, measured_ns: int, now_ns: int) -> None:
        """Adds a report; `measured_ns` is by the worker's clock."""
        self._last = plus(self._before, totals)
        self._reports.add(self._last, measured_ns)
        self._reported_ns = now_ns

    def moved(self) -> None:
        """Another worker reports from now on, and continues the figures."""
        self._reports.clear()

    def lost(self) -> None:
        """Another worker reports from now on, and begins to count again."""
        self._before = replace(self._last, entities=0, waiting=0, delayed=0)
        self._reports.clear()

    def observed(self, number: int, member: str | None, now_ns: int) -> PlaceObserved:
        """Returns the observation of the place now."""
        interval_ns = self._reports.interval_ns
        if not interval_ns or now_ns - self._reported_ns > IDLE_AFTER_NS:
            return PlaceObserved(number, member, self._last, self._last, IDLE_AFTER_NS)
        return PlaceObserved(number, member, self._last, self._reports.first, interval_ns)
