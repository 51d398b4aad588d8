"""Transient workers, event by event: they are home to nothing, load the code of running jobs, and nobody is lost with
them."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.shape import Feed, FunctionShape
from stretto.coordinator.events import (
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
from stretto.protocol.bursts import Redirect, To
from stretto.protocol.checkpointing import Broken
from stretto.protocol.jobs import Deploy, Ready, Stop
from stretto.protocol.machines import FrameArrived, Send
from stretto.protocol.membership import Join, Member, MemberRole, Members

SHAPES = {
    "source": FunctionShape("source", 1),
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": To(("t9~1",), 0.5)},
        {"counts": To((GUEST,), 0.0)},
        {"counts": To((GUEST,), 1.5)},
        {"source": To((GUEST,), 0.5)},
        {"other": To((GUEST,), 0.5)},
    ],
    ids=["not loaded there", "no share", "more than all", "it cannot go elsewhere", "no such function"],
)
def test_what_cannot_be_done_is_refused(wrong: dict[str, To]) -> None:
    coordinator = running(GUEST)
    assert redirected(coordinator, **wrong) == {}
    assert coordinator.transients.redirect(coordinator.jobs["job"], wrong) is not None


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
