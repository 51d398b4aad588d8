"""The controller of objectives on a running cluster: two jobs want the same workers, capacity means another parallelism
of a keyed function, and each change is a handover of the running job.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from tests.simulation.keyed_flows import SCHEMA, Counts, keyed_flow

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.instance import Instance
from stretto.actors.source import Reading
from stretto.api.slo import SLO, objective
from stretto.coordinator.records import JobStatus
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import GiveCapacity
from stretto.elasticity.naming import controllers_named
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.standings import standing_of
from stretto.elasticity.subjects import Subject
from stretto.elasticity.team import Team
from stretto.elasticity.view import ElasticView
from stretto.observation.longer import observed_since
from stretto.observation.model import Observation
from stretto.protocol.membership import MemberRole
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import SimulatedSource

SECOND_NS = 1_000_000_000
BEGINS_NS = SECOND_NS
EVERY_NS = 100_000_000
KEYS = 64
MS_PER_BATCH = {"urgent": 130, "patient": 40}
"""What the rows of a batch cost the keyed function: one instance of the urgent job cannot keep up with ten a second."""
UNTIL_S, WARM_S = 240, 180


class Beats(SimulatedSource):
    """A batch of all keys every tenth of a second; one that is late is read as soon as it may be."""

    def open(self, ctx: Context) -> None:
        self._read = 0

    def read(self, now_ns: int) -> Reading:
        due_ns = BEGINS_NS + self._read * EVERY_NS
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        self._read += 1
        return Reading(pa.RecordBatch.from_arrays([pa.array(np.arange(KEYS))], schema=SCHEMA), due_ns)

    def remember(self) -> int:
        return self._read

    def recall(self, remembered: int) -> None:
        self._read = remembered


def costs(chance: random.Random, instance: Instance, work: Any) -> int:
    job, function, _ = instance.address
    if function != "keyed" or not isinstance(work, Message) or not isinstance(work.payload, pa.RecordBatch):
        return 20_000
    return MS_PER_BATCH[job.partition("~")[0]] * 1_000_000 * int(work.payload.num_rows) // KEYS


@dataclass
class Loop:
    """What a run has shown: the utility of both jobs in the end, and the decisions."""

    utility: float
    parallelism: dict[str, int]
    decisions: list[DecisionRecord]
    handed_over: int


OBJECTIVES: dict[str, SLO] = {
    "urgent": objective(latency="400 ms", priority=10),
    "patient": objective(latency="200 ms", priority=1),
}


def run(controllers: Team) -> Loop:
    """Runs both jobs on three workers."""
    timing = Timing(delay_ns=(40_000, 120_000))
    cluster = SimulatedCluster(3, 1, timing, costs=costs, begins_ns=BEGINS_NS, controllers=controllers, checked=False)
    for job, slo in OBJECTIVES.items():
        cluster.submit(keyed_flow(job, Beats()), objective=slo)
    early: Observation | None = None
    while cluster.next_ns is not None and cluster.next_ns < BEGINS_NS + UNTIL_S * SECOND_NS:
        cluster.step()
        if early is None and cluster.now_ns >= BEGINS_NS + WARM_S * SECOND_NS:
            early = cluster.observation
    assert early is not None
    assert {job.status for job in cluster.jobs.values()} == {JobStatus.RUNNING}
    since = observed_since(cluster.observation, early)
    workers = {name: each for name, each in since.workers.items() if each.member.role is MemberRole.WORKER}
    standing = [standing_of(job, workers) for job in since.jobs.values()]
    parallelism = {name: job.shapes["keyed"].parallelism for name, job in cluster.coordinator.jobs.items()}
    found = Loop(
        sum(each.utility for each in standing), parallelism, list(cluster.decisions.values()), len(cluster.handed_over)
    )
    cluster.close()
    return found


def test_the_controller_hands_capacity_to_the_job_that_misses_its_objective_and_comes_to_rest() -> None:
    left_alone, led = run(Team([])), run(controllers_named("henge"))
    assert left_alone.decisions == []
    assert led.utility > left_alone.utility + 1
    assert led.parallelism["urgent"] > 1
    done = [record for record in led.decisions if record.outcome is Outcome.DONE]
    assert len(done) == led.handed_over > 0
    first = next(record for record in done if record.job == "urgent")
    assert (first.controller, first.function, first.because) == ("henge", "keyed", "its job misses its objective")
    assert isinstance(first.decision, GiveCapacity)
    assert first.spent is not None
    assert first.spent["took_ms"] > 0
    # What it brought is measured by the same values, over the time since the job was handed over.
    assert first.effect is not None
    assert set(first.effect) >= set(first.seen) - {"attained"}
    assert first.effect["units"] > first.seen["units"]
    assert 0 < first.effect["utility"] <= 10
    assert all(record.effect is not None for record in done)
    last_ns = max(record.at_ns for record in led.decisions)
    assert last_ns < BEGINS_NS + WARM_S * SECOND_NS, "it comes to rest"


class Both(Controller):
    """Gives both functions of a job capacity, once."""

    looks_at = Subject.JOBS
    effect_ns = 5 * SECOND_NS

    def __init__(self) -> None:
        self._done = False

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        if self._done or "urgent" not in view.jobs:
            return []
        self._done = True
        at_ns = now_ns + self.effect_ns
        asks = [GiveCapacity("urgent", name, 1) for name in ("keyed", "again")]
        return [
            DecisionRecord(now_ns, "both", ask.job, ask.function, None, Trigger.OWN, "both", {}, (), ask, at_ns)
            for ask in asks
        ]


def test_two_functions_of_a_job_get_capacity_by_one_handover() -> None:
    deployment = keyed_flow("urgent", Beats())
    deployment.functions["keyed"].outputs["out"].edges[:] = [Edge("again", "in", ByKey(("k",)))]
    again = FunctionSpec("again", Counts(), 1, {"out": Stage("again", SCHEMA, edges=[Edge("sink", "in", Rebalance())])})
    again.partitioned_by["in"] = SCHEMA
    sink = deployment.functions.pop("sink")
    deployment.functions.update({"again": again, "sink": sink})
    cluster = SimulatedCluster(
        3, 1, Timing(delay_ns=(40_000, 120_000)), costs=costs, begins_ns=BEGINS_NS, controllers=Team([Both()])
    )
    cluster.submit(deployment)
    while cluster.next_ns is not None and cluster.next_ns < BEGINS_NS + 12 * SECOND_NS:
        cluster.step()
    shapes = cluster.coordinator.jobs["urgent"].shapes
    assert (shapes["keyed"].parallelism, shapes["again"].parallelism) == (2, 2)
    assert len(cluster.handed_over) == 1
    found = list(cluster.decisions.values())
    assert [record.outcome for record in found] == [Outcome.DONE, Outcome.DONE]
    assert [record.effect is not None and record.effect["units"] for record in found] == [2.0, 2.0]
    cluster.close()
