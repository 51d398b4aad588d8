"""Which phase of a burst a row belongs to, and what its load is."""

from __future__ import annotations

import pytest

from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.bench.burst.load import SECOND_NS, BurstLoad
from stretto.bench.burst.phases import Phases
from stretto.bench.nexmark.events import count_before, event_time_us

LOAD = BurstLoad("q5", before_s=10.0, burst_s=5.0, after_s=5.0)
BEGINS_NS = 100 * SECOND_NS


def totals(*latencies: tuple[float, int]) -> FunctionMetrics:
    """The totals of a sink that has had so many rows of each latency, in seconds."""
    sketch = LatencySketch()
    for latency_s, rows in latencies:
        sketch.add(int(latency_s * SECOND_NS), rows)
    return FunctionMetrics(rows_in=sum(rows for _, rows in latencies), latency=sketch.export())


def test_a_row_belongs_to_the_phase_in_which_its_event_arrived() -> None:
    phases = Phases(LOAD, BEGINS_NS)
    assert phases.burst_ns == BEGINS_NS + 10 * SECOND_NS
    phases.take(BEGINS_NS + 2 * SECOND_NS, totals((0.1, 5)))  # Nothing is measured yet.
    phases.take(BEGINS_NS + 9 * SECOND_NS, totals((0.1, 5), (0.2, 10)))
    late = totals((0.1, 5), (0.2, 10), (4.0, 7), (0.3, 1))
    phases.take(BEGINS_NS + 17 * SECOND_NS, late)
    p99_ms = phases.p99_ms()
    assert p99_ms["before"] == pytest.approx(200, rel=0.02)
    assert p99_ms["during"] == pytest.approx(4_000, rel=0.02)
    assert p99_ms["after"] == pytest.approx(300, rel=0.02)


def test_another_attempt_counts_from_nothing() -> None:
    phases = Phases(LOAD, BEGINS_NS)
    phases.take(BEGINS_NS + 11 * SECOND_NS, totals((0.1, 50)))
    phases.take(BEGINS_NS + 12 * SECOND_NS, totals((1.0, 40)))
    assert phases.p99_ms()["during"] == pytest.approx(1_000, rel=0.02)
    assert phases.p99_ms()["after"] is None


def test_the_load_keeps_the_workers_as_busy_as_asked() -> None:
    config = LOAD.config
    assert config.surge is not None
    rows = count_before("bid", config.surge.first)
    assert rows * LOAD.row_us / 1e6 / LOAD.before_s == pytest.approx(LOAD.busy * LOAD.workers, rel=0.02)
    burst = count_before("bid", config.surge.last) - rows
    assert burst / LOAD.burst_s == pytest.approx(5 * rows / LOAD.before_s, rel=0.02)
    length_us = event_time_us(config, config.surge.last) - event_time_us(config, config.surge.first)
    assert length_us / 1e6 == pytest.approx(LOAD.burst_s, rel=0.02)
    assert LOAD.cores == 8
