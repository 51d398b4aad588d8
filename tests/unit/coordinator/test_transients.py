"""Transient workers, event by event: they are home to nothing, load the code of running jobs, and nobody is lost with
them."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.shape import Feed, FunctionShape
from stretto.coordinator.events import (
    AnnounceDecision,
    AnnounceJob,
    Effect,
    RedirectRequested,
    ReplaceWorker,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.records import JobStatus
from stretto.elasticity.decisions import EndBurst, RedirectBurst, Redirection
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.protocol.bursts import Redirect, To
from stretto.protocol.checkpointing import Broken
from stretto.protocol.jobs import Deploy, Ready, Stop
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.membership import Join, Member, MemberRole, Members

SHAPES = {
    "source": FunctionShape("source", 1, stays_because="it only reads"),
    "counts": FunctionShape("counts", 1, feeds=(Feed("source", "in", True),), redirects=True),
    "sink": FunctionShape("sink", 1, on_driver=True, feeds=(Feed("counts", "in", True),)),
}
HOME, GUEST = "w0~1", "t0~1"
ROLES = {"w": MemberRole.WORKER, "t": MemberRole.TRANSIENT, "d": MemberRole.DRIVER}


def join(coordinator: Coordinator, name: str) -> list[Effect]:
    role = ROLES[name[0]]
    transient = role is MemberRole.TRANSIENT
    coordinator.handle(WorkerExpected(name, "key", transient=transient), 0)
    member = Member(name, "" if transient else f"tcp://{name}", "key", "host", 1, role)
    return coordinator.handle(FrameArrived(name, Join(member)), 0)


def frames(kind: type[Any], effects: list[Effect]) -> dict[str, Any]:
    return {each.to: each.frame for each in effects if isinstance(each, Send) and isinstance(each.frame, kind)}


def running(*guests: str) -> Coordinator:
    """A job that runs on one worker, with transient ones that have loaded it."""
    coordinator = Coordinator()
    for name in (HOME, "driver~1", *guests):
        join(coordinator, name)
    effects = coordinator.handle(SubmitRequested("job", "digest", SHAPES), 0)
    assert set(frames(Deploy, effects)) == {HOME, "driver~1"}
    for name in (HOME, "driver~1"):
        effects = coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert set(frames(Deploy, effects)) == set(guests)
    for name in guests:
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert coordinator.jobs["job"].members == ["driver~1", HOME]
    return coordinator


def redirected(coordinator: Coordinator, **functions: To) -> dict[str, Any]:
    return frames(Redirect, coordinator.handle(RedirectRequested("job", functions), 0))


def asked(coordinator: Coordinator, functions: dict[str, To], count: int | None = None) -> DecisionRecord:
    """The record of what a user asks for."""
    effects = coordinator.handle(RedirectRequested("job", functions, "token", count), 7)
    (announced,) = [each for each in effects if isinstance(each, AnnounceDecision)]
    assert announced.token == "token"
    return announced.record


def test_a_transient_worker_is_wanted_by_nobody_and_gets_the_code_of_running_jobs() -> None:
    coordinator = running()
    effects = join(coordinator, GUEST)
    assert set(frames(Deploy, effects)) == {GUEST}
    assert set(frames(Members, effects)) == {HOME, "driver~1", GUEST}
    assert coordinator.active == [HOME]
    assert coordinator.wanted == 1
    coordinator.handle(FrameArrived(GUEST, Ready("job")), 0)
    assert coordinator.jobs["job"].hosts == []
    assert coordinator.transients.warm(coordinator.jobs["job"]) == [GUEST]


def test_homes_are_told_where_batches_go_and_when_they_stay() -> None:
    coordinator = running(GUEST)
    to = To((GUEST,), 0.5)
    assert redirected(coordinator, counts=to) == {
        "driver~1": Redirect("job", {"counts": to}),
        HOME: Redirect("job", {"counts": to}),
    }
    assert redirected(coordinator, counts=to) == {}
    assert redirected(coordinator)[HOME] == Redirect("job", {})


WRONG = [
    ({"counts": To(("t9~1",), 0.5)}, None, "no transient worker that has loaded the job is called t9~1"),
    ({"counts": To((GUEST,), 0.0)}, None, "a share is more than 0 and at most 1, not 0"),
    ({"counts": To((), 1.5)}, None, "a share is more than 0 and at most 1, not 1.5"),
    ({"source": To((), 0.5)}, None, "'source' cannot run elsewhere: it only reads"),
    ({"other": To((), 0.5)}, None, "there is no function 'other'"),
    ({"counts": To((), 0.5)}, 3, "3 transient workers are needed, and 1 have loaded the job"),
]


@pytest.mark.parametrize(("functions", "count", "why"), WRONG)
def test_what_cannot_be_done_is_refused_with_the_reason(functions: dict[str, To], count: int | None, why: str) -> None:
    coordinator = running(GUEST)
    record = asked(coordinator, functions, count)
    assert record.outcome is Outcome.REFUSED
    assert (record.outcome_reason or "").startswith(why)
    assert coordinator.transients.redirected(coordinator.jobs["job"]) == {}


def test_nobody_is_there_before_the_code_is_loaded_and_nothing_after_the_job_has_ended() -> None:
    coordinator = running()
    join(coordinator, GUEST)
    assert asked(coordinator, {"counts": To((), 0.5)}).outcome_reason == "no transient worker has loaded the job"
    coordinator.handle(StopRequested("job"), 0)
    assert asked(coordinator, {"counts": To((), 0.5)}).outcome_reason == "the job does not run"


def test_what_a_user_asks_for_is_a_decision_with_a_record() -> None:
    coordinator = running(GUEST, "t1~1")
    record = asked(coordinator, {"counts": To((), 0.5)})
    assert record.decision == RedirectBurst("job", (Redirection("counts", (GUEST, "t1~1"), 0.5),))
    assert (record.outcome, record.trigger, record.where) == (Outcome.DONE, Trigger.ASKED, "job")
    assert str(record.decision) == "redirect 50% of 'counts' to 2 transient workers"
    assert record.plain()["decision"] == {
        "kind": "redirect burst",
        "functions": {"counts": {"workers": [GUEST, "t1~1"], "share": 0.5}},
    }
    record = asked(coordinator, {"counts": To((), 1.0)}, 1)
    assert record.decision == RedirectBurst("job", (Redirection("counts", (GUEST,), 1.0),))
    record = asked(coordinator, {})
    assert (record.decision, record.outcome) == (EndBurst("job"), Outcome.DONE)
    assert coordinator.transients.redirected(coordinator.jobs["job"]) == {}


def test_no_job_is_lost_with_a_transient_worker_and_another_one_comes() -> None:
    coordinator = running(GUEST, "t1~1")
    redirected(coordinator, counts=To((GUEST, "t1~1"), 0.5))
    effects = coordinator.handle(WorkerEnded(GUEST, "its process died"), 0)
    assert ReplaceWorker(GUEST, parked=False, joined=True, transient=True) in effects
    assert not [each for each in effects if isinstance(each, AnnounceJob)]
    assert GUEST not in {member.name for member in frames(Members, effects)[HOME].members}
    job = coordinator.jobs["job"]
    assert job.status is JobStatus.RUNNING
    assert coordinator.transients.redirected(job) == {"counts": To(("t1~1",), 0.5)}


def test_one_whose_connection_broke_is_replaced() -> None:
    for sender, other in ((HOME, GUEST), (GUEST, HOME)):
        coordinator = running(GUEST)
        effects = coordinator.handle(FrameArrived(sender, Broken("job", other, "it broke")), 0)
        assert ReplaceWorker(GUEST, parked=False, joined=True, transient=True) in effects
        assert coordinator.jobs["job"].status is JobStatus.RUNNING


def test_it_drops_a_job_that_has_ended() -> None:
    coordinator = running(GUEST)
    effects = coordinator.handle(StopRequested("job"), 0)
    assert frames(Stop, effects).keys() == {HOME, "driver~1", GUEST}
    assert coordinator.jobs["job"].unstopped == {HOME, "driver~1"}
