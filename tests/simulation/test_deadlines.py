"""Deadlines in virtual time: an urgent and a bulk job on the same workers, under each policy.

Both jobs have the same work per message. The bulk job sends more than the workers can process, so its messages queue;
the policy decides how much that delays the urgent job.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.simulation.beats import SCHEMA, Beat, Pass

from stretto.actors.context import Context
from stretto.actors.deadlines import LAX_NS
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.metrics import LatencySketch
from stretto.scheduling.policies import EDF, FIFO, LLF, SJF, FairShare, Policy
from stretto.simulator.engine.cluster import SimulatedCluster, Timing

MS = 1_000_000
COST_NS = 1 * MS
TIMING = Timing(delay_ns=(20_000, 60_000), receive_ns=5_000)


class End(Function):
    """Discards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def job(name: str, gap_ns: int, count: int, latency_ns: int | None) -> Deployment:
    specs = [
        FunctionSpec("source", Beat(gap_ns, count), 1, {"out": Stage("source", SCHEMA)}),
        FunctionSpec("one", Pass(), 1, {"out": Stage("one", SCHEMA)}),
        FunctionSpec("two", Pass(), 1, {"out": Stage("two", SCHEMA)}),
        FunctionSpec("end", End(), 1),
    ]
    for above, below in itertools.pairwise(specs):
        above.outputs["out"].edges.append(Edge(below.name, "in", Rebalance()))
    return Deployment(name, {spec.name: spec for spec in specs}, latency_ns)


def costs(chance: random.Random, instance: Instance, work: Any) -> int:
    return COST_NS if instance.address.function in ("one", "two") else 20_000


def p99_ms(policy: type[Policy], longer: int = 1, gap_ns: int = 20 * MS, latency_ns: int = 30 * MS) -> dict[str, float]:
    """The p99 latency of an urgent job, and of a bulk job that alone has half as much again as one worker can do."""
    cluster = SimulatedCluster(1, 1, TIMING, costs=costs, policy=policy)
    cluster.submit(job("urgent", gap_ns, 1_200 * MS // gap_ns * longer, latency_ns))
    cluster.submit(job("bulk", 1_333_333, 900 * longer, latency_ns=None))
    cluster.run()
    found = {}
    for name in ("urgent", "bulk"):
        total = cluster.observation.jobs[name].functions["end"].totals
        sketch = LatencySketch()
        assert total.latency is not None
        sketch.merge(total.latency)
        quantile = sketch.quantile(0.99)
        assert quantile is not None
        found[name] = quantile
    return found


@pytest.fixture(scope="module")
def under_fifo() -> dict[str, float]:
    return p99_ms(FIFO)


@pytest.mark.parametrize("policy", [LLF, EDF])
def test_an_urgent_job_keeps_its_latency_beside_bulk_work(policy: type[Policy], under_fifo: dict[str, float]) -> None:
    found = p99_ms(policy)
    assert found["urgent"] < 30
    assert found["urgent"] < under_fifo["urgent"] / 2
    assert found["bulk"] < 1.05 * under_fifo["bulk"]


def test_who_has_promised_nothing_does_not_become_urgent_by_being_far_behind() -> None:
    found = p99_ms(LLF, longer=20)
    assert found["bulk"] > LAX_NS / 1e6, "it is further behind than what it is given"
    assert found["urgent"] < 30


def test_a_promise_of_as_much_time_as_others_get_without_one_is_kept() -> None:
    found = p99_ms(LLF, longer=20, gap_ns=3 * MS, latency_ns=LAX_NS)
    assert found["bulk"] > LAX_NS / 1e6, "who has promised nothing is further behind"
    assert found["urgent"] < LAX_NS / 1e6


@pytest.mark.parametrize("policy", [FIFO, LLF, EDF, SJF, FairShare])
def test_every_policy_runs_everything(policy: type[Policy]) -> None:
    found = p99_ms(policy)
    assert set(found) == {"urgent", "bulk"}
