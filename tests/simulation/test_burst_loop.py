"""The controller of bursts on a running cluster, in virtual time: a burst goes to transient workers within a second and
a half, comes back when it is over, and stays with ordinary workers where they have room or have come for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.metrics import FunctionMetrics, LatencySketch, difference
from stretto.actors.source import Reading
from stretto.actors.twins import RunHere, RunTwin
from stretto.elasticity.burst_controller import BurstController, BurstSettings
from stretto.elasticity.burst_prices import Prices
from stretto.elasticity.decisions import (
    AddWorkers,
    DrainWorker,
    EndBurst,
    GiveCapacity,
    RedirectBurst,
    TakeCapacity,
)
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.elasticity.team import Team
from stretto.simulator.engine.cluster import SimulatedCluster, Timing, is_transient
from stretto.simulator.engine.sources import SimulatedSource, Swallow

SECOND_NS = 1_000_000_000
BEGINS_NS = SECOND_NS
EVERY_NS = 40_000_000
ROWS = 10
COST_NS = 28_000_000
"""What a batch costs: seven tenths of the time until the next one, before the burst."""
SCHEMA = pa.schema([("k", pa.int64())])
BURST_S = (4, 12)
UNTIL_S = 18
TIMES = 5


class Arrivals(SimulatedSource):
    """A batch every 40 ms, and five times as often while the burst lasts; one that is late is read as soon as it may
    be."""

    def __init__(self, burst_s: tuple[float, float] = BURST_S) -> None:
        self._burst_ns = [BEGINS_NS + int(moment * SECOND_NS) for moment in burst_s]

    def open(self, ctx: Context) -> None:
        self._due_ns = BEGINS_NS

    def read(self, now_ns: int) -> Reading:
        due_ns = self._due_ns
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        begin_ns, end_ns = self._burst_ns
        self._due_ns += EVERY_NS // TIMES if begin_ns <= due_ns < end_ns else EVERY_NS
        batch = pa.RecordBatch.from_arrays([pa.array(np.arange(ROWS))], schema=SCHEMA)
        return Reading(batch, due_ns)

    def remember(self) -> int:
        return self._due_ns

    def recall(self, remembered: int) -> None:
        self._due_ns = remembered


class Unpaced(Arrivals):
    """Reads as fast as it may."""

    def read(self, now_ns: int) -> Reading:
        return Reading(pa.RecordBatch.from_arrays([pa.array(np.arange(ROWS))], schema=SCHEMA), now_ns)


class Pass(Function):
    """Sends every row on."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def flow(source: Arrivals, lessees: int = 0) -> Deployment:
    work = FunctionSpec("work", Pass(), 2, {"out": Stage("work", SCHEMA, edges=[Edge("sink", "in", Rebalance())])})
    work.lessees_max = lessees
    read = Stage("source", SCHEMA, edges=[Edge("work", "in", Rebalance())])
    specs = [FunctionSpec("source", source, 2, {"out": read}), work, FunctionSpec("sink", Swallow(), 1)]
    return Deployment("job", {spec.name: spec for spec in specs})


def costs(slower: float) -> Callable[[random.Random, Instance, Any], int]:
    """Returns what work costs: on transient workers, more by this factor."""

    def cost(chance: random.Random, instance: Instance, work: Any) -> int:
        if isinstance(work, RunHere):
            work = work.slot.work
        if isinstance(work, RunTwin):
            return int(COST_NS * slower * work.message.payload.num_rows / ROWS)
        if instance.address.function != "work" or not isinstance(work, Message):
            return 20_000
        return COST_NS * work.payload.num_rows // ROWS if isinstance(work.payload, pa.RecordBatch) else 20_000

    return cost


@dataclass
class Loop:
    """What a run has shown: p99 in milliseconds before, during and after the burst, and the decisions with their
    seconds from the start of the burst."""

    p99_ms: list[float]
    decisions: list[tuple[float, DecisionRecord]]
    rho: float
    workers: int
    transient: int

    def done(self, kind: type[Any]) -> list[tuple[float, Any]]:
        return [
            (at_s, record.decision)
            for at_s, record in self.decisions
            if isinstance(record.decision, kind) and record.outcome is Outcome.DONE
        ]


def run(
    deployment: Deployment,
    controllers: list[BurstController],
    workers: int = 2,
    slower: float = 1.0,
    until_s: float = UNTIL_S,
    transient: int = 12,
) -> Loop:
    cluster = SimulatedCluster(
        workers,
        1,
        Timing(delay_ns=(40_000, 120_000)),
        costs=costs(slower),
        begins_ns=BEGINS_NS,
        controllers=Team(controllers),
        checked=False,
        transient=transient,
    )
    cluster.submit(deployment)
    moments = [BEGINS_NS + int(second * SECOND_NS) for second in (*BURST_S, until_s)]
    p99_ms, before = [], FunctionMetrics()
    for moment_ns in moments:
        while cluster.next_ns is not None and cluster.next_ns < moment_ns:
            cluster.step()
        (sink,) = [actor.totals for actor in cluster.observation.jobs["job"].functions["sink"].actors]
        p99_ms.append(quantile(difference(sink, before)))
        before = sink
    started_ns = BEGINS_NS + BURST_S[0] * SECOND_NS
    decisions = [((record.at_ns - started_ns) / SECOND_NS, record) for record in cluster.decisions.values()]
    rho = controllers[0]._jobs["job"].known.rho if controllers else 1.0
    transients = sum(is_transient(name) for name in cluster.coordinator.members)
    found = Loop(p99_ms, decisions, rho, len(cluster.coordinator.active), transients)
    cluster.close()
    return found


def quantile(metrics: FunctionMetrics) -> float:
    sketch = LatencySketch()
    if metrics.latency is not None:
        sketch.merge(metrics.latency)
    return sketch.quantile(0.99) or 0.0


def test_a_burst_goes_to_transient_workers_and_comes_back() -> None:
    alone, led = run(flow(Arrivals()), []), run(flow(Arrivals()), [BurstController()], slower=1.25)
    assert alone.p99_ms[1] > 4_000
    before_ms, during_ms, after_ms = led.p99_ms
    assert during_ms < 0.4 * alone.p99_ms[1]
    assert after_ms < 5 * before_ms
    redirected, ended = led.done(RedirectBurst), led.done(EndBurst)
    assert 0 < redirected[0][0] < 1.4
    burst_s = BURST_S[1] - BURST_S[0]
    (over,) = ended
    assert burst_s + 1.5 < over[0] < burst_s + 4
    # It comes to rest: the first guess, corrections while the queue is worked off, and then nothing.
    assert len(redirected) <= 8
    assert not [at_s for at_s, _ in redirected if 5 < at_s < burst_s]
    assert led.rho == pytest.approx(1 / 1.25, rel=0.1)


def test_sources_that_read_as_fast_as_they_may_have_no_burst() -> None:
    found = run(flow(Unpaced()), [BurstController()], until_s=BURST_S[1] + 1)
    assert not found.done(RedirectBurst)


def test_a_burst_that_a_strategy_absorbs_is_left_to_it() -> None:
    found = run(flow(Arrivals(), lessees=8), [BurstController()], workers=12)
    assert not found.done(RedirectBurst)
    assert [record.because for _, record in found.decisions] == [
        "a strategy or an elastic executor can use the room of other ordinary workers"
    ]


def test_ordinary_workers_come_for_a_burst_that_lasts_and_take_over() -> None:
    endless = (BURST_S[0], 1_000.0)
    controller = BurstController(BurstSettings(prices=Prices(kept_s=10.0)))
    found = run(flow(Arrivals(endless)), [controller], until_s=30)
    (added,) = found.done(AddWorkers)
    assert added[0] > 2  # A quarter of the time for which they are kept, at four times the price.
    given = found.done(GiveCapacity)
    assert [decision.function for _, decision in given] == ["work"]
    assert found.workers > 2
    # The next attempt of the job has enough of them, and nothing is redirected any more.
    assert max(at_s for at_s, _ in found.done(RedirectBurst)) < given[0][0]
    assert found.p99_ms[2] < 5 * found.p99_ms[0]


def test_cold_transient_workers_come_for_a_burst_and_leave_after_it() -> None:
    controller = BurstController(BurstSettings(warm=2, transient_max=12))
    found = run(flow(Arrivals()), [controller], until_s=40, transient=2)
    warm_only = run(flow(Arrivals()), [BurstController()], transient=2)
    asked = [decision for _, decision in found.done(AddWorkers)]
    assert all(decision.transient for decision in asked)
    assert 7 <= sum(decision.count for decision in asked) <= 10
    redirected = [{name for each in to.redirections for name in each.members} for _, to in found.done(RedirectBurst)]
    assert len(redirected[0]) == 2  # Those that wait are used at once.
    assert max(map(len, redirected)) >= 8
    assert found.p99_ms[1] < 0.3 * warm_only.p99_ms[1]
    # They leave a while after it, and those that wait stay.
    assert found.transient == 2
    ended_s = found.done(EndBurst)[-1][0]
    assert all(at_s > ended_s + 19 for at_s, _ in found.done(DrainWorker))


def test_workers_that_came_for_a_burst_are_given_back() -> None:
    lasts_s, kept_s = 12.0, 20.0
    controller = BurstController(BurstSettings(prices=Prices(kept_s=kept_s)))
    found = run(flow(Arrivals((BURST_S[0], BURST_S[0] + lasts_s))), [controller], until_s=90)
    (added,) = found.done(AddWorkers)
    (taken,) = found.done(TakeCapacity)
    drained = found.done(DrainWorker)
    came_s = found.done(GiveCapacity)[0][0]
    # They are paid for that long, and the others have had room for half a minute.
    assert taken[0] > max(came_s + kept_s, lasts_s + 30)
    assert len(drained) == added[1].count
    assert all(at_s > taken[0] for at_s, _ in drained)
    assert found.workers == 2
    assert found.p99_ms[2] < 5 * found.p99_ms[0]  # Of the whole time after the burst, with all handovers.
    assert not [at_s for at_s, _ in found.done(RedirectBurst) if at_s > lasts_s + 5]
