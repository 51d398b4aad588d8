"""Batches that run in pieces: whatever fails meanwhile, and however small the pieces are, results stay the same; and an
urgent job beside long runs keeps its latency: as far as runs can be cut, or else because it moves away from them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
from tests.simulation.beats import SCHEMA, Beat, Pass

from stretto.actors.address import job_of
from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.metrics import LatencySketch
from stretto.actors.seat import Seat
from stretto.api.slo import objective
from stretto.coordinator.events import AnnounceLongRuns
from stretto.elasticity.naming import controllers_named
from stretto.elasticity.records import Outcome
from stretto.elasticity.team import Team
from stretto.observation.longer import observed_since
from stretto.observation.model import Observation
from stretto.scheduling.run_length import UNBOUNDED, RowCost
from stretto.simulator.checking.faults import try_seed
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.durable import Parts
from stretto.worker.events import Ran
from stretto.worker.machine import WorkerParts
from stretto.worker.run_bounds import RunBounds

SEEDS = 50


class Chopped(RunBounds):
    """Every message of more than one row runs in pieces of one row, of which some wait while others run."""

    pieces = 0

    def changed(self) -> None:
        self.bounded = True

    def _row_cost(self, seat: Seat) -> RowCost:
        seat.row_cost = UNBOUNDED if seat.instance.is_source else RowCost(LATENCY_NS)
        return seat.row_cost

    def ran(self, event: Ran) -> None:
        """Nothing is learned: pieces stay as small as the first."""

    def piece(self, seat: Seat, message: Message) -> Message:
        found = super().piece(seat, message)
        Chopped.pieces += found is not message
        return found


class RestDropped(Chopped):
    """What is left of a message after its first piece does not run."""

    def piece(self, seat: Seat, message: Message) -> Message:
        found = super().piece(seat, message)
        if seat.rest is not None:
            seat.rest = None
        return found


def chopped(kind: type[RunBounds]) -> Parts:
    return Parts(worker=WorkerParts(run_bounds=kind))


def test_pieces_change_no_result() -> None:
    for seed in range(SEEDS):
        trial = try_seed(seed, 5, 7, chopped(Chopped))
        assert not trial.violations, f"seed {seed}: {trial.faults}: {trial.violations[0]}"
    assert Chopped.pieces > 10 * SEEDS


def test_rows_that_are_lost_between_pieces_are_noticed() -> None:
    assert any(try_seed(seed, 5, 7, chopped(RestDropped)).violations for seed in range(20))


# An urgent job beside long runs.

MS = 1_000_000
LATENCY_NS = 100 * MS
ROWS = 4_096


class Counts(Function):
    """Counts its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.count("rows", batch.num_rows)


def job(name: str, source: Beat, latency_ns: int | None) -> Deployment:
    specs = [
        FunctionSpec("source", source, 1, {"out": Stage("source", SCHEMA)}),
        FunctionSpec("work", Pass(), 1, {"out": Stage("work", SCHEMA)}),
        FunctionSpec("end", Counts(), 1),
    ]
    for above, below in itertools.pairwise(specs):
        above.outputs["out"].edges.append(Edge(below.name, "in", Rebalance()))
    return Deployment(name, {spec.name: spec for spec in specs}, latency_ns)


def by_rows(chance: random.Random, instance: Instance, work: Any) -> int:
    """The bulk job's work takes 200 ms for a whole batch, by its rows."""
    is_bulk = job_of(instance.address.job) == "bulk" and instance.address.function == "work"
    return 50_000 * work.payload.num_rows if is_bulk and isinstance(work, Message) and is_batch(work) else 20_000


def by_calls(chance: random.Random, instance: Instance, work: Any) -> int:
    """It takes as long, however many rows it gets."""
    return 200 * MS if by_rows(chance, instance, work) > 20_000 else 20_000


def is_batch(message: Message) -> bool:
    return isinstance(message.payload, pa.RecordBatch)


class Unbounded(RunBounds):
    """Runs are as long as batches make them."""

    def changed(self) -> None:
        """Does nothing."""


class Neighbours(SimulatedCluster):
    """One worker with an urgent job, and a bulk job that has more than it can do."""

    def __init__(self, costs: Any, kind: type[RunBounds] = RunBounds) -> None:
        self.long_runs: list[AnnounceLongRuns] = []
        timing = Timing(delay_ns=(20_000, 60_000), receive_ns=5_000)
        super().__init__(1, 1, timing, costs=costs, worker_parts=WorkerParts(run_bounds=kind))
        self.submit(job("urgent", Beat(2 * MS, 2_000, 1), LATENCY_NS))
        self.submit(job("bulk", Beat(20 * MS, 40, ROWS), None))
        self.run()

    def carry_out_for_coordinator(self, effect: Any) -> None:
        if isinstance(effect, AnnounceLongRuns):
            self.long_runs.append(effect)

    def latency_ms(self) -> float:
        """The p99 latency of the urgent job."""
        total = self.observation.jobs["urgent"].functions["end"].totals
        sketch = LatencySketch()
        assert total.latency is not None
        sketch.merge(total.latency)
        return sketch.quantile(0.99) or 0.0

    def counted(self) -> int:
        return self.observation.jobs["bulk"].functions["end"].totals.counts["rows"]


def test_an_urgent_job_waits_for_a_piece_and_not_for_a_batch() -> None:
    unbounded, bounded = Neighbours(by_rows, Unbounded), Neighbours(by_rows)
    assert unbounded.latency_ms() > LATENCY_NS / MS
    assert bounded.latency_ms() < LATENCY_NS / MS / 4
    assert bounded.counted() == unbounded.counted() == 40 * ROWS
    assert not bounded.long_runs


def test_a_function_that_cannot_be_cut_is_reported_with_those_that_it_delays() -> None:
    cluster = Neighbours(by_calls)
    assert cluster.counted() == 40 * ROWS
    (found,) = cluster.long_runs
    assert (found.job, found.function, found.delayed) == ("bulk", "work", {"urgent": LATENCY_NS})
    assert found.run_ns == 200 * MS


# Runs that cannot be cut, on several workers.


def spread_over(name: str, source: Beat, latency_ns: int | None) -> Deployment:
    """A job that works on both workers."""
    deployment = job(name, source, latency_ns)
    deployment.functions["work"].parallelism = 2
    deployment.functions["end"].on_driver = True  # Without checkpoints a sink on a worker could not move.
    return deployment


class Parted(SimulatedCluster):
    """Two workers with an urgent job and a bulk job on both, and controllers."""

    SETTLED_NS = 60_000 * MS
    UNTIL_NS = 90_000 * MS

    def __init__(self, controllers: Team) -> None:
        timing = Timing(delay_ns=(20_000, 60_000), receive_ns=5_000)
        super().__init__(2, 1, timing, costs=by_calls, controllers=controllers)
        self.submit(spread_over("urgent", Beat(20 * MS, 5_000, 1), LATENCY_NS), objective=objective(latency="100 ms"))
        self.submit(spread_over("bulk", Beat(300 * MS, 1_000, ROWS), None))
        settled: Observation | None = None
        while self.next_ns is not None and self.now_ns < self.UNTIL_NS:
            self.step()
            if settled is None and self.now_ns >= self.SETTLED_NS:
                settled = self.observation
        assert settled is not None
        self.since = observed_since(self.observation, settled)

    def latency_ms(self) -> float:
        """The p99 latency of the urgent job in the last third."""
        counted = self.since.jobs["urgent"].functions["end"].interval.latency
        assert counted is not None
        sketch = LatencySketch()
        sketch.merge(counted)
        return sketch.quantile(0.99) or 0.0

    def rows(self, name: str) -> int:
        return self.since.jobs[name].functions["end"].interval.rows_in


def test_jobs_are_parted_where_runs_cannot_be_cut() -> None:
    left_alone, led = Parted(Team([])), Parted(controllers_named("neighbours"))
    assert left_alone.latency_ms() > LATENCY_NS / MS
    assert led.latency_ms() < LATENCY_NS / MS / 4
    homes = {name: set(job.placement["work"]) for name, job in led.observation.jobs.items()}
    assert homes["urgent"].isdisjoint(homes["bulk"])
    assert led.rows("bulk") >= 0.9 * left_alone.rows("bulk"), "one worker is enough for it"
    assert led.rows("urgent") >= left_alone.rows("urgent")
    done = [record for record in led.decisions.values() if record.decision is not None]
    assert [(record.job, record.outcome) for record in done] == [("bulk", Outcome.DONE), ("urgent", Outcome.DONE)]
    assert done[1].effect == {"workers": 0.0, "run_ms": 0.0}
