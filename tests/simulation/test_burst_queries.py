"""Bursts in NEXMark queries, whose instances at home read, merge and wait for watermarks: the controller knows what
rows cost while many of them are elsewhere, and brings them back; the answers are those of a run without a burst.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.metrics import FunctionMetrics, LatencySketch, difference
from stretto.api.lowering import lowered
from stretto.bench.burst import queries
from stretto.bench.nexmark.events import NexmarkConfig, Surge
from stretto.bench.nexmark.workload import Workload
from stretto.elasticity.burst_controller import BurstController
from stretto.elasticity.decisions import EndBurst, RedirectBurst
from stretto.elasticity.records import Outcome
from stretto.elasticity.team import Team
from stretto.simulator.engine.cluster import SimulatedCluster, Timing

SECOND_NS = 1_000_000_000
BEGINS_NS = 3 * SECOND_NS
BEFORE_S, BURST_S, AFTER_S, TIMES = 5, 5, 6, 5
ROW_US, OVERHEAD_US = 20_000, 1_000
WORKERS, BUSY, TRANSIENT = 2, 0.55, 14
ROWS = 8


class Waited(queries.Waiting):
    """Takes virtual time."""

    spent_ns = 0

    def __call__(self, values: pa.Array) -> pa.Array:
        Waited.spent_ns += int(len(values) * self.row_us * 1e3)
        return values


class WaitingCluster(SimulatedCluster):
    """What a run takes is what its rows have waited, and some overhead."""

    def spent_ns(self) -> int:
        spent_ns, Waited.spent_ns = Waited.spent_ns, 0
        return spent_ns


@dataclass
class Ran:
    """p99 in milliseconds in the burst and after it, when something was redirected and brought back, in seconds from
    the start of the burst, and the answer."""

    during_ms: float
    after_ms: float
    redirected_s: list[float]
    ended_s: list[float]
    rows: Counter[tuple[Any, ...]]


def run(query: str, controllers: list[BurstController]) -> Ran:
    worked = queries.query_of(query)
    rate = BUSY * WORKERS / (worked.rows_per_event * ROW_US / 1e6)
    row_us = ROW_US / worked.times
    first, surge = int(rate * BEFORE_S), int(rate * BURST_S * TIMES)
    config = NexmarkConfig(
        seed=1,
        events=first + surge + int(rate * AFTER_S),
        event_rate=int(rate),
        surge=Surge(first, first + surge, TIMES),
        hot_auction_ratio=1,
        in_flight_auctions=1_000,
    )
    workload = Workload(config, rate, WORKERS, ROWS, block=ROWS, begins_ns=BEGINS_NS)
    cluster = WaitingCluster(
        WORKERS,
        1,
        Timing(delay_ns=(100_000, 500_000)),
        costs=lambda chance, instance, work: OVERHEAD_US * 1_000,
        controllers=Team(controllers),
        checked=False,
        transient=TRANSIENT,
    )
    job = cluster.submit(lowered(queries.build(query, workload, row_us).plan(), query, WORKERS, ROWS))
    p99_ms, before = [], FunctionMetrics()
    for moment_s in (BEFORE_S, BEFORE_S + BURST_S, None):
        while cluster.next_ns is not None and (moment_s is None or cluster.next_ns < BEGINS_NS + moment_s * SECOND_NS):
            cluster.step()
        (sink,) = [actor.totals for actor in cluster.observation.jobs[query].functions["out"].actors]
        p99_ms.append(quantile(difference(sink, before)))
        before = sink
    rows = answer(query, job.writers["out"].batches)
    began_ns = BEGINS_NS + BEFORE_S * SECOND_NS
    done = [record for record in cluster.decisions.values() if record.outcome is Outcome.DONE]
    moments = [
        [(record.at_ns - began_ns) / SECOND_NS for record in done if isinstance(record.decision, kind)]
        for kind in (RedirectBurst, EndBurst)
    ]
    found = Ran(p99_ms[1], p99_ms[2], *moments, rows)
    cluster.close()
    return found


def answer(query: str, batches: list[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """Returns the rows of a query; those of query 4 replace earlier ones of their category."""
    rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
    return Counter({row[0]: row for row in rows}.values() if query == "q4" else rows)


def quantile(metrics: FunctionMetrics) -> float:
    sketch = LatencySketch()
    if metrics.latency is not None:
        sketch.merge(metrics.latency)
    return sketch.quantile(0.99) or 0.0


@pytest.mark.parametrize("query", ["q1", "q4", "q5"])
def test_a_burst_of_a_query_goes_and_comes_back(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "Waiting", Waited)
    alone, led = run(query, []), run(query, [BurstController()])
    assert led.rows == alone.rows
    assert led.during_ms <= 0.4 * alone.during_ms or not alone.during_ms  # Some have their first results later.
    assert led.after_ms < 0.1 * alone.after_ms
    assert 0 < led.redirected_s[0] < 1.5
    (ended_s,) = led.ended_s
    assert BURST_S < ended_s < BURST_S + 4
