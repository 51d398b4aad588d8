"""Henge as a controller: what it takes from observations, over its own period."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.actors.shape import Feed, FunctionShape
from stretto.api.slo import SLO, objective
from stretto.elasticity import ElasticView, controllers_named
from stretto.elasticity.decisions import GiveCapacity, Repartition
from stretto.elasticity.effects import measured_effect
from stretto.elasticity.intent_controller import EVERY_NS, IntentController
from stretto.elasticity.records import DecisionRecord, Trigger
from stretto.elasticity.standings import standings_since
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved, Observation, WorkerObserved
from stretto.protocol.membership import Member, MemberRole

SECOND = 1_000_000_000


def totals(seconds: int, latency_ms: float, child: str | None = None, parent: str | None = None) -> FunctionMetrics:
    """So many seconds of 100 rows; latencies were 1 ms at first, and are others since the tenth second."""
    sketch = LatencySketch()
    sketch.add(SECOND // 1_000, 1_000)
    if seconds > 10:
        sketch.add(int(latency_ms * 1e6), 100 * (seconds - 10))
    return FunctionMetrics(
        messages_in=seconds if parent else 0,
        rows_in=100 * seconds,
        rows_out=100 * seconds if child else 0,
        executed_from={parent: 100 * seconds} if parent else {},
        sent_to={child: 100 * seconds} if child else {},
        busy_ns=seconds * SECOND if parent else 0,
        queued=9 if parent else 0,
        latency=sketch.export() if parent else None,
    )


def observation(seconds: int, slo: SLO, attempt: str = "job") -> Observation:
    def function(name: str, worker: str, child: str | None, parent: str | None) -> FunctionObserved:
        now, before = (totals(s, 400.0, child, parent) for s in (seconds, seconds - 1))
        feeds = (Feed(parent, "in", False),) if parent else ()
        return FunctionObserved(FunctionShape(name, 1, feeds=feeds), (ActorObserved(0, worker, now, before, SECOND),))

    functions = {"source": function("source", "a~1", "slow", None), "slow": function("slow", "b~1", None, "source")}
    job = JobObserved("job", "running", attempt, ("a~1", "b~1"), {}, functions, slo)
    workers = {
        name: WorkerObserved(Member(name, "", "", "host", 1, MemberRole.WORKER), False, busy, 0, 0)
        for name, busy in (("a~1", 0.0), ("b~1", 1.0), ("c~1", 0.0))
    }
    return Observation(seconds * SECOND, {"job": job}, workers)


def test_latency_counts_since_the_last_look_and_the_congested_function_gets_what_is_idle() -> None:
    team = controllers_named("henge")
    slo = objective(latency="100 ms", priority=4)
    assert team.decide(ElasticView.of(observation(10, slo)), EVERY_NS) == []
    (record,) = team.decide(ElasticView.of(observation(20, slo)), 2 * EVERY_NS)
    assert record.decision == GiveCapacity("job", "slow", 1)
    # The median since the start would be met: half of all rows took 1 ms.
    assert record.seen["attained"] == pytest.approx(100 / 400, rel=0.02)
    assert record.seen["utility"] == pytest.approx(1.0, rel=0.02)
    assert record.seen["load"] == pytest.approx(2.0)
    assert record.controller == "henge"


def test_an_attempt_that_began_since_the_last_look_is_left_alone() -> None:
    controller = IntentController()
    slo = objective(latency="100 ms")
    controller.decide(ElasticView.of(observation(10, slo)), EVERY_NS)
    assert controller.decide(ElasticView.of(observation(20, slo, attempt="job~2")), 2 * EVERY_NS) == []


def test_a_job_without_an_objective_gets_nothing() -> None:
    controller = IntentController()
    for at in (1, 2):
        assert controller.decide(ElasticView.of(observation(10 * at, SLO())), at * EVERY_NS) == []


def test_the_effect_of_a_step_is_measured_by_how_jobs_stand_since_it_was_done() -> None:
    team = controllers_named("henge")
    slo = objective(latency="100 ms", priority=4)
    team.decide(ElasticView.of(observation(10, slo)), EVERY_NS)
    (record,) = team.decide(ElasticView.of(observation(20, slo)), 2 * EVERY_NS)
    later = ElasticView.of(observation(40, slo))
    effect = measured_effect(later, record, observation(30, slo))
    assert effect == pytest.approx(record.seen, rel=0.02)
    # Nothing is known of an attempt that began since then, nor without an earlier observation.
    assert measured_effect(later, record, observation(30, slo, attempt="job~2")) is None
    assert measured_effect(later, record) is None


def test_the_effect_on_a_function_that_is_not_elastic_is_what_it_did_since_then() -> None:
    record = DecisionRecord(
        0, "own", "job", "slow", None, Trigger.OWN, "it may", decision=Repartition("job", "slow", 2)
    )
    found = measured_effect(ElasticView.of(observation(40, SLO())), record, observation(30, SLO()))
    assert found == {"instances": 1.0, "load": 1.0, "waiting": 9.0, "rows_per_s": 100.0}


def with_totals(observed: Observation, function: str, **totals: Any) -> Observation:
    """The same observation in which other totals of a function were reported, and it had none before."""
    job = observed.jobs["job"]
    (actor,) = job.functions[function].actors
    changed = replace(actor, totals=FunctionMetrics(**totals), before=FunctionMetrics())
    functions = {**job.functions, function: replace(job.functions[function], actors=(changed,))}
    return replace(observed, jobs={"job": replace(job, functions=functions)})


def test_a_job_whose_function_processes_nothing_of_what_waits_is_worth_nothing() -> None:
    slo = objective(latency="100 ms", priority=4)
    before, after = (with_totals(observation(at, slo), "slow", queued=9) for at in (10, 20))
    standing = standings_since(after, before).jobs["job"]
    assert (standing.latency_ms, standing.is_stuck, standing.utility) == (None, True, 0.0)
    # The same without anything that waits, or with windows that have not closed.
    quiet = [with_totals(observation(at, slo), "slow", queued=0) for at in (10, 20)]
    assert standings_since(quiet[1], quiet[0]).jobs["job"].utility == 4.0
    busy = [with_totals(observation(at, slo), "slow", queued=9, messages_in=at, rows_in=at) for at in (10, 20)]
    assert standings_since(busy[1], busy[0]).jobs["job"].utility == 4.0


def test_the_load_of_a_job_is_what_arrives_and_not_what_it_could_read() -> None:
    slo = objective(throughput=0.9)
    read = {"rows_out": 1_000, "sent_to": {"slow": 1_000}}
    before = with_totals(observation(10, slo), "source", rows_in=1_000, rows_due=1_500, **read)
    after = with_totals(
        observation(20, slo), "source", rows_in=2_000, rows_due=4_000, rows_out=2_000, sent_to={"slow": 2_000}
    )
    standing = standings_since(after, before).jobs["job"]
    assert standing.rows_per_s == pytest.approx(250.0)
    assert standing.juice == pytest.approx(1_000 / 2_500)
