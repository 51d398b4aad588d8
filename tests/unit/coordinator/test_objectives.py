"""A running job gets another objective: who hears of it, and what the record says."""

from __future__ import annotations

from tests.unit.coordinator.test_handovers import WORKERS, Told, shapes

from stretto.api.slo import SLO
from stretto.coordinator.events import (
    AnnounceDecision,
    CodeMade,
    MakeCode,
    ObjectiveRequested,
    ReshapeRequested,
    StopRequested,
)
from stretto.elasticity.decisions import SetObjective
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.protocol.jobs import Deploy, Promise, Promised

TIGHT = SLO(50.0, 95.0, priority=4.0, share=2.0)


def asked(told: Told, slo: SLO) -> DecisionRecord:
    told.tell(ObjectiveRequested("job", slo, "token"))
    announced = [each for each in told.effects if isinstance(each, AnnounceDecision)][-1]
    assert announced.token == "token"
    return announced.record


def test_all_members_hear_of_it_and_it_is_observed_and_recorded() -> None:
    told = Told()
    record = asked(told, TIGHT)
    assert (record.outcome, record.decision) == (Outcome.DONE, SetObjective("job", TIGHT))
    assert str(record.decision) == "promise p95 latency <= 50 ms; priority 4, share 2"
    assert told.machine.observed().jobs["job"].objective == TIGHT
    assert told.sent(Promised) == {name: Promised("job", Promise(50_000_000, 2.0)) for name in told.job.members}
    again = asked(told, SLO())
    assert again.seen == {"latency_ms": 50, "percentile": 95, "priority": 4, "share": 2}, "what it promised before"
    assert {frame.promise for frame in told.sent(Promised).values()} == {Promise(None, 1.0)}


def test_an_attempt_that_is_to_take_over_hears_of_it_too() -> None:
    told = Told()
    told.prepared(2)
    told.tell(ObjectiveRequested("job", TIGHT))
    frames = [getattr(effect, "frame", None) for effect in told.effects]
    assert {frame.job for frame in frames if isinstance(frame, Promised)} == {"job", "job~2"}


def test_an_attempt_that_is_made_later_is_deployed_with_it() -> None:
    told = Told()
    told.tell(ObjectiveRequested("job", TIGHT))
    told.effects = []
    told.tell(ReshapeRequested("job", {"keyed": 2}))
    (wanted,) = [each for each in told.effects if isinstance(each, MakeCode)]
    told.tell(CodeMade("job", wanted.order, "other digest", shapes(2)))
    deployed = told.sent(Deploy)
    assert {frame.promise for frame in deployed.values()} == {Promise(50_000_000, 2.0)}
    assert set(deployed) == {*WORKERS, "driver~1"}


def test_a_job_that_does_not_run_keeps_what_it_promised() -> None:
    told = Told()
    told.tell(StopRequested("job"))
    told.effects = []
    record = asked(told, TIGHT)
    assert (record.outcome, record.outcome_reason) == (Outcome.REFUSED, "the job does not run")
    assert told.job.objective is None
    assert not told.sent(Promised)
