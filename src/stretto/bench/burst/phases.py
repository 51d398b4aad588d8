"""Latency before, during and after a burst, from the totals of a sink. Pure.

A row belongs to the phase in which the last event that influenced it arrived: what a burst delays comes after it.
"""

from __future__ import annotations

from enum import Enum

from stretto.actors.metrics import FunctionMetrics, LatencySketch, difference, value_of
from stretto.bench.burst.load import SECOND_NS, BurstLoad

WARM_UP = 0.4
"""This share of the time before the burst is not measured: code is loaded, and the first windows are open."""


class Phase(Enum):
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Phases:
    """Takes the totals of the sink often, and has the latency of the rows of each phase."""

    def __init__(self, load: BurstLoad, begins_ns: int) -> None:
        self._load = load
        self._begins_ns = begins_ns
        self._last = FunctionMetrics()
        self._sketches = {phase: LatencySketch() for phase in Phase}

    @property
    def burst_ns(self) -> int:
        """When the burst begins."""
        return self._begins_ns + int(self._load.before_s * SECOND_NS)

    def at(self, now_ns: int) -> Phase | None:
        """Returns the phase at a moment; None before the first."""
        elapsed_s = (now_ns - self._begins_ns) / SECOND_NS
        if elapsed_s < WARM_UP * self._load.before_s:
            return None
        if elapsed_s < self._load.before_s:
            return Phase.BEFORE
        return Phase.DURING if elapsed_s < self._load.before_s + self._load.burst_s else Phase.AFTER

    def take(self, now_ns: int, sink: FunctionMetrics) -> None:
        """Counts what has come since the last call. Another attempt of the job begins to count again."""
        if sink.rows_in < self._last.rows_in:
            self._last = FunctionMetrics()
        recent, self._last = difference(sink, self._last).latency, sink
        if recent is None:
            return
        self._add(now_ns, 0.0, recent.zeros)
        for place, rows in recent.bins.items():
            self._add(now_ns, value_of(place), rows)

    def _add(self, now_ns: int, latency_ms: float, rows: float) -> None:
        latency_ns = int(latency_ms * 1e6)
        phase = self.at(now_ns - latency_ns)
        if phase is not None and rows >= 1:
            self._sketches[phase].add(latency_ns, round(rows))

    def p99_ms(self) -> dict[str, float | None]:
        """Returns the 99th percentile of each phase; None where nothing came."""
        found = {phase.value: sketch.quantile(0.99) for phase, sketch in self._sketches.items()}
        return {name: None if value is None else round(value, 1) for name, value in found.items()}
