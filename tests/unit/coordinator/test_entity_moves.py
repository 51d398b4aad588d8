"""Places of entities move between workers: which, where to, in which steps, and what calls a move off."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.coordinator.test_entities import PLAN, Scene

from stretto.coordinator.entity_moves import AGAIN_NS, next_move
from stretto.coordinator.events import AnnounceEntities, AnnounceJob, DrainRequested, EntityPlan, WorkerEnded
from stretto.coordinator.records import JobStatus
from stretto.protocol.entities import (
    EntitiesBroken,
    EntitiesFailed,
    EntitiesHosted,
    EntityPlaces,
    EntityReport,
    HostEntities,
    LeavePlace,
    MovePlace,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import Ticked
from stretto.protocol.membership import Leave
from stretto.protocol.transactions import Copied, CopyOut, Resume, Resumed, Stay, Switch, TakenOver

ATTEMPT = PLAN.attempt + 1


def drained(plan: EntityPlan | None = PLAN) -> Scene:
    """Returns a scene in which place 1 is about to be copied from w0 to w2."""
    scene = Scene("w0~1", "w1~1", "w2~1", plan=plan)
    scene.run("w0~1", "w1~1")
    scene.effects.clear()
    scene.tell(DrainRequested("w0~1", "token"))
    scene.tell(Ticked())
    assert [(to, frame.number) for to, frame in scene.sent(HostEntities)] == [("w2~1", 1)]
    scene.hear("w2~1", EntitiesHosted("bank", 1))
    assert scene.sent(MovePlace) == [("w0~1", MovePlace("bank", 1, "w2~1", CopyOut(attempt_of(plan))))]
    return scene


def switching(plan: EntityPlan | None = PLAN) -> Scene:
    """Returns a scene in which w0 has been told to hand the place over."""
    scene = drained(plan)
    scene.hear("w0~1", EntityReport("bank", 1, Copied(attempt_of(plan))))
    assert scene.orders() == [("w0~1", Switch(attempt_of(plan)))]
    return scene


def attempt_of(plan: EntityPlan | None) -> int:
    return 1 if plan is None else plan.attempt + 1


def test_a_place_leaves_a_worker_that_drains_and_then_the_worker_leaves() -> None:
    scene = switching()
    assert not scene.sent(Leave)
    scene.hear("w2~1", EntityReport("bank", 1, TakenOver(ATTEMPT, 5)))
    members = ["w2~1", "w1~1"]
    assert scene.sent(LeavePlace) == [("w0~1", LeavePlace("bank", 1))]
    assert scene.sent(EntityPlaces)[-2:] == [(name, EntityPlaces("bank", members, 1)) for name in members]
    assert scene.announced(AnnounceEntities) == [AnnounceEntities("bank", tuple(members), 5)]
    assert not scene.orders()  # Nobody goes back to a snapshot.
    scene.tell(Ticked())
    assert [to for to, _ in scene.sent(Leave)] == ["w0~1"]


def test_another_worker_takes_over_only_what_was_told_to_switch() -> None:
    scene = drained()
    scene.hear("w2~1", EntityReport("bank", 1, TakenOver(ATTEMPT, 5)))
    scene.hear("w1~1", EntityReport("bank", 1, Copied(ATTEMPT)))
    scene.hear("w0~1", EntityReport("bank", 1, Copied(ATTEMPT - 1)))
    assert not scene.orders()
    assert not scene.sent(LeavePlace)


@pytest.mark.parametrize("what", ["lost", "broken", "failed"])
def test_a_move_that_cannot_go_on_is_called_off_and_made_again(what: str) -> None:
    scene = drained()
    if what == "lost":
        scene.tell(WorkerEnded("w2~1", "killed"))
    elif what == "broken":
        scene.hear("w0~1", EntitiesBroken("bank", "w2~1"))
    else:
        scene.hear("w2~1", EntitiesFailed("bank", Failure("FunctionError", "no such module")))
    assert scene.orders() == [("w0~1", Stay(ATTEMPT))]
    assert bool(scene.sent(LeavePlace)) == (what != "lost")
    scene.tell(Ticked())
    assert not scene.sent(HostEntities)
    scene.pass_time(AGAIN_NS)
    scene.tell(Ticked())
    to = "w1~1" if what == "lost" else "w2~1"
    assert [(name, frame.number) for name, frame in scene.sent(HostEntities)] == [(to, 1)]


def test_no_move_begins_before_all_places_have_begun_the_attempt() -> None:
    scene = Scene("w0~1", "w1~1", "w2~1")
    scene.run("w0~1", "w1~1")
    scene.hear("w1~1", EntitiesBroken("bank", "w1~1"))  # A handler ran out of time.
    scene.tell(DrainRequested("w0~1", "token"))
    scene.effects.clear()
    scene.hear("w0~1", EntityReport("bank", 1, Resumed(ATTEMPT + 1, 4)))
    scene.tell(Ticked())
    assert not scene.sent(HostEntities)
    scene.hear("w1~1", EntityReport("bank", 2, Resumed(ATTEMPT + 1, 4)))
    scene.tell(Ticked())
    assert [(to, frame.number) for to, frame in scene.sent(HostEntities)] == [("w2~1", 1)]
    scene.hear("w2~1", EntitiesHosted("bank", 1))
    assert scene.sent(MovePlace) == [("w0~1", MovePlace("bank", 1, "w2~1", CopyOut(ATTEMPT + 1)))]


@pytest.mark.parametrize("lost", ["w2~1", "w1~1"])
def test_a_loss_during_the_switch_begins_another_attempt_with_the_place_where_it_was(lost: str) -> None:
    scene = switching()
    scene.tell(WorkerEnded(lost, "killed"))
    if lost == "w1~1":
        scene.pass_time(10**12)
        scene.tell(Ticked())
        scene.hear("w2~1", EntitiesHosted("bank", 2))
    assert next(to for to, order in scene.orders() if isinstance(order, Resume)) == "w0~1"
    scene.hear("w2~1", EntityReport("bank", 1, TakenOver(ATTEMPT, 5)))
    assert not scene.announced(AnnounceEntities)


def test_what_is_in_memory_only_survives_the_loss_of_who_was_to_have_it_but_for_the_switch() -> None:
    scene = drained(plan=None)
    scene.tell(WorkerEnded("w2~1", "killed"))
    assert JobStatus.FAILED not in scene.statuses()
    scene = switching(plan=None)
    scene.tell(WorkerEnded("w2~1", "killed"))
    failed = scene.announced(AnnounceJob)[-1]
    assert failed.status is JobStatus.FAILED
    assert "in memory only" in failed.failure.detail


def test_places_are_on_all_workers_and_on_none_two_more_than_on_another() -> None:
    places: list[str | None] = ["w0"] * 5
    active = ["w0", "w1", "w2"]
    moves = 0
    while (found := next_move(places, active, {})) is not None:
        place, to = found
        places[place - 1] = to
        moves += 1
    assert moves == 3
    assert sorted(Counter(places).values()) == [1, 2, 2]


def test_a_worker_that_leaves_has_no_place_in_the_end_also_if_that_is_uneven() -> None:
    assert next_move(["w0", "w1", "w1"], ["w0"], {}) == (2, "w0")
    assert next_move(["w0", "w1"], [], {}) is None
    assert next_move(["w0", "w0"], ["w1", "w2"], {"w1": 1}) == (1, "w2")


def test_places_without_a_worker_go_to_those_that_are_there_when_no_other_is_coming() -> None:
    scene = Scene("w0~1")
    assert [(to, frame.number) for to, frame in scene.sent(HostEntities)] == [("w0~1", 1), ("w0~1", 2)]
    assert scene.statuses() == [JobStatus.DEPLOYING]
