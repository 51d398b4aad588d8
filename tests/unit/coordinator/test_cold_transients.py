"""Transient workers that are asked for and leave while jobs run, event by event."""

from __future__ import annotations

from tests.unit.coordinator.test_scaling import HOME, frames, of, outcome, running

from stretto.actors.shape import FunctionShape
from stretto.coordinator.adding import COLD_WITHIN_NS
from stretto.coordinator.events import (
    DrainRequested,
    Effect,
    GiveUpWorker,
    RedirectRequested,
    ReplaceWorker,
    ScaleOutRequested,
    StartFailed,
    StartWorker,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.elasticity.decisions import AddWorkers, DrainWorker
from stretto.elasticity.records import Outcome
from stretto.protocol.bursts import Redirect, To
from stretto.protocol.jobs import Deploy, Ready
from stretto.protocol.machines import FrameArrived, Ticked
from stretto.protocol.membership import Join, Leave, Left, Member, MemberRole

BURSTING = {
    "source": FunctionShape("source", 1),
    "work": FunctionShape("work", 1, redirects=True),
    "sink": FunctionShape("sink", 1, on_driver=True),
}


def expect(coordinator: Coordinator, name: str) -> None:
    coordinator.handle(WorkerExpected(name, f"key of {name}", False, True), 0)


def join(coordinator: Coordinator, name: str) -> list[Effect]:
    member = Member(name, "", f"key of {name}", "", 1, MemberRole.TRANSIENT)
    return coordinator.handle(FrameArrived(name, Join(member)), 0)


def bursting() -> Coordinator:
    """A cluster with one transient worker and a job that can use it."""
    coordinator = running(HOME, "driver~1")
    expect(coordinator, "t0~1")
    join(coordinator, "t0~1")
    effects = coordinator.handle(SubmitRequested("bursty", "digest", BURSTING, spreads=False), 0)
    for name in frames(Deploy, effects):
        effects = coordinator.handle(FrameArrived(name, Ready("bursty")), 0)
    coordinator.handle(FrameArrived("t0~1", Ready("bursty")), 0)
    return coordinator


def redirected(coordinator: Coordinator) -> dict[str, To]:
    return coordinator.transients.redirected(coordinator.jobs["bursty"])


def test_a_cold_one_is_started_under_a_new_name_and_used_when_it_has_the_code() -> None:
    coordinator = bursting()
    expect(coordinator, "t1~1")  # One of those at the start is not there yet: its name is taken.
    effects = coordinator.handle(ScaleOutRequested(1, "token", transient=True), 0)
    assert of(StartWorker, effects) == [StartWorker("t2~1", transient=True)]
    assert outcome(effects).decision == AddWorkers(1, transient=True)
    assert coordinator.wanted == 1
    expect(coordinator, "t2~1")
    effects = join(coordinator, "t2~1")
    assert outcome(effects).outcome is Outcome.DONE
    assert set(frames(Deploy, effects)) == {"t2~1"}
    to = {"work": To(("t2~1",), 1.0)}
    assert outcome(coordinator.handle(RedirectRequested("bursty", to), 0)).outcome is Outcome.REFUSED
    coordinator.handle(FrameArrived("t2~1", Ready("bursty")), 0)
    effects = coordinator.handle(RedirectRequested("bursty", to), 0)
    assert frames(Redirect, effects)[HOME].functions == to


def test_one_that_never_comes_is_given_up_and_one_that_comes_later_is_refused() -> None:
    coordinator = bursting()
    coordinator.handle(ScaleOutRequested(2, "token", transient=True), 0)
    for name in ("t1~1", "t2~1"):
        expect(coordinator, name)
    join(coordinator, "t1~1")
    assert coordinator.next_deadline_ns() is not None
    assert coordinator.handle(Ticked(), COLD_WITHIN_NS - 1) is not None
    effects = coordinator.handle(Ticked(), COLD_WITHIN_NS)
    assert of(GiveUpWorker, effects) == [GiveUpWorker("t2")]
    assert outcome(effects).outcome is Outcome.FAILED
    assert "1 of 2 workers joined: it has not come within 120 s" in (outcome(effects).outcome_reason or "")
    assert not frames(Deploy, join(coordinator, "t2~1"))
    assert "t2~1" not in coordinator.members
    # Its task ends, and nobody starts it again.
    assert not of(ReplaceWorker, coordinator.handle(WorkerEnded("t2~1", "cancelled"), COLD_WITHIN_NS))


def test_one_that_cannot_be_started_fails_the_decision() -> None:
    coordinator = bursting()
    coordinator.handle(ScaleOutRequested(1, "token", transient=True), 0)
    effects = coordinator.handle(StartFailed("t1~1", "Spark has no slot"), 0)
    assert outcome(effects).outcome is Outcome.FAILED
    assert coordinator.wanted == 1


def test_one_that_vanishes_while_joining_is_replaced_and_counts_then() -> None:
    coordinator = bursting()
    coordinator.handle(ScaleOutRequested(1, "token", transient=True), 0)
    expect(coordinator, "t1~1")
    effects = coordinator.handle(WorkerEnded("t1~1", "its process died"), 0)
    assert of(ReplaceWorker, effects) == [ReplaceWorker("t1~1", False, False, transient=True)]
    expect(coordinator, "t1~2")
    assert outcome(join(coordinator, "t1~2")).outcome is Outcome.DONE


def test_one_that_leaves_gets_nothing_more_at_once_and_is_not_replaced() -> None:
    coordinator = bursting()
    coordinator.handle(RedirectRequested("bursty", {"work": To(("t0~1",), 1.0)}), 0)
    effects = coordinator.handle(DrainRequested("t0~1", "token"), 0)
    assert outcome(effects).outcome is Outcome.PENDING
    assert set(frames(Leave, effects)) == {"t0~1"}
    assert frames(Redirect, effects)[HOME].functions == {}
    assert redirected(coordinator) == {}
    assert coordinator.transients.warm(coordinator.jobs["bursty"]) == []
    effects = coordinator.handle(FrameArrived("t0~1", Left()), 0)
    assert not of(ReplaceWorker, effects)
    effects = coordinator.handle(WorkerEnded("t0~1", "its task returned"), 0)
    assert outcome(effects).decision == DrainWorker("t0~1")
    assert outcome(effects).outcome is Outcome.DONE


def test_the_code_of_a_job_that_begins_does_not_go_to_one_that_leaves() -> None:
    coordinator = bursting()
    coordinator.handle(DrainRequested("t0~1", "token"), 0)
    effects = coordinator.handle(SubmitRequested("next", "digest", BURSTING, spreads=False), 0)
    found = list(frames(Deploy, effects))
    for name in list(found):
        found += frames(Deploy, coordinator.handle(FrameArrived(name, Ready("next")), 0))
    assert "t0~1" not in found
