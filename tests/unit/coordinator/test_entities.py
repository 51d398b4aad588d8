"""Jobs with entities, event by event: which workers have them, when attempts begin, and when the job fails."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.coordinator.entities import DEATHS_MAX, entity_manifest
from stretto.coordinator.events import (
    AnnounceEntities,
    AnnounceJob,
    CloseRequested,
    CommitEntities,
    Death,
    DeathCause,
    Effect,
    EntitiesCommitted,
    EntitiesLost,
    EntitiesStopRequested,
    EntitiesSubmitted,
    EntityPlan,
    LastRun,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.records import JobStatus
from stretto.protocol.entities import (
    DropEntities,
    EntitiesAt,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityOrder,
    EntityPlaces,
    EntityReport,
    HostEntities,
    Pace,
    WhereEntities,
)
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Join, Member
from stretto.protocol.transactions import Piece, Proceed, Resume, Resumed, SnapshotKept, SnapshotTaken
from stretto.transactions.events import Manifest

PLAN = EntityPlan("/data", entity_manifest("bank", 1, Manifest(0, [[], []])), 1_000)


class Scene:
    """A coordinator, and what it has sent and announced since it was last asked."""

    def __init__(self, *workers: str, plan: EntityPlan | None = PLAN, coming: tuple[str, ...] = ()) -> None:
        self.coordinator = Coordinator(lost_after_ns=10**15)
        self.effects: list[Effect] = []
        self._now_ns = 0
        for name in workers:
            self.join(name)
        for name in coming:
            self.tell(WorkerExpected(name, name))
        self.effects.clear()
        self.tell(EntitiesSubmitted("bank", "bank", "digest", 2, Pace(1, 2, 3, 4), plan))

    def tell(self, event: Any) -> None:
        self._now_ns += 1
        self.effects += self.coordinator.handle(event, self._now_ns)

    def pass_time(self, by_ns: int) -> None:
        self._now_ns += by_ns

    def join(self, name: str) -> None:
        self.tell(WorkerExpected(name, name))
        self.tell(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))))

    def hear(self, member: str, frame: Any) -> None:
        self.tell(FrameArrived(member, frame))

    def run(self, *workers: str) -> None:
        """Host the entities on these workers, and begin an attempt."""
        for place, name in enumerate(workers, 1):
            self.hear(name, EntitiesHosted("bank", place))
        attempt = next(order.attempt for _, order in self.orders() if isinstance(order, Resume))
        for place, name in enumerate(workers, 1):
            self.hear(name, EntityReport("bank", place, Resumed(attempt, 0)))

    def sent(self, kind: type[Any]) -> list[tuple[str, Any]]:
        """Returns and forgets the frames of this type."""
        found = [each for each in self.effects if isinstance(each, Send) and isinstance(each.frame, kind)]
        self.effects = [each for each in self.effects if each not in found]
        return [(each.to, each.frame) for each in found]

    def orders(self) -> list[tuple[str, Any]]:
        return [(to, frame.order) for to, frame in self.sent(EntityOrder)]

    def announced(self, kind: type[Any]) -> list[Any]:
        found = [each for each in self.effects if isinstance(each, kind)]
        self.effects = [each for each in self.effects if not isinstance(each, kind)]
        return found

    def statuses(self) -> list[JobStatus]:
        return [each.status for each in self.announced(AnnounceJob)]


def test_entities_are_hosted_and_then_an_attempt_begins() -> None:
    scene = Scene("w0~1", "w1~1")
    assert scene.sent(HostEntities) == [
        ("w0~1", HostEntities("bank", "digest", 1, "/data", Pace(1, 2, 3, 4))),
        ("w1~1", HostEntities("bank", "digest", 2, "/data", Pace(1, 2, 3, 4))),
    ]
    scene.hear("w0~1", EntitiesHosted("bank", 1))
    assert not scene.orders()
    scene.hear("w1~1", EntitiesHosted("bank", 2))
    members = ["w0~1", "w1~1"]
    assert scene.sent(EntityPlaces) == [(name, EntityPlaces("bank", members)) for name in members]
    assert scene.orders() == [(name, Resume(1_001, ["1", "2"], [])) for name in members]
    scene.hear("w0~1", EntityReport("bank", 1, Resumed(1_001, 4)))
    scene.hear("w1~1", EntityReport("bank", 2, Resumed(1_001, 3)))
    assert scene.orders() == [(name, Proceed(1_001, 3)) for name in members]
    assert scene.announced(AnnounceEntities) == [AnnounceEntities("bank", ("w0~1", "w1~1"))]
    assert scene.statuses() == [JobStatus.DEPLOYING, JobStatus.RUNNING]


def test_a_job_waits_for_workers_that_are_coming_and_says_so_once() -> None:
    scene = Scene("w0~1", coming=("w1~1",))
    (waiting,) = scene.announced(AnnounceJob)
    assert waiting.status is JobStatus.WAITING
    assert waiting.waits_for == "workers: 1 of the 2 places of its entities have none"
    scene.tell(Ticked())
    assert not scene.statuses()
    scene.join("w1~1")
    assert scene.statuses() == [JobStatus.DEPLOYING]


def test_another_worker_takes_the_place_of_a_lost_one_and_all_begin_again() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.sent(HostEntities)
    scene.tell(WorkerEnded("w0~1", "killed"))
    scene.join("w0~2")
    assert [(to, frame.number) for to, frame in scene.sent(HostEntities)] == [("w0~2", 1)]
    scene.hear("w0~2", EntitiesHosted("bank", 1))
    resumed = [(to, order) for to, order in scene.orders() if isinstance(order, Resume)]
    assert resumed == [(name, Resume(1_002, ["1", "2"], [])) for name in ("w0~2", "w1~1")]
    for place, name in enumerate(("w0~2", "w1~1"), 1):
        scene.hear(name, EntityReport("bank", place, Resumed(1_002, 7)))
    assert scene.announced(AnnounceEntities)[-1].members == ("w0~2", "w1~1")
    assert scene.statuses() == [JobStatus.DEPLOYING, JobStatus.RUNNING, JobStatus.RECOVERING, JobStatus.RUNNING]


def test_what_is_not_in_an_attempt_is_not_heard() -> None:
    scene = Scene("w0~1", "w1~1", "w2~1")
    scene.run("w0~1", "w1~1")
    scene.orders()
    scene.hear("w2~1", EntityReport("bank", 1, SnapshotTaken(1_001, 5, [Piece(1_001, 5)])))
    scene.hear("w2~1", EntitiesFailed("bank", Failure("StorageError", "no"), 1))
    scene.hear("w2~1", EntitiesFailed("bank", Failure("StorageError", "no")))
    scene.hear("w1~1", EntitiesFailed("bank", Failure("StorageError", "no"), 1))
    scene.hear("w2~1", EntitiesBroken("bank", "w0~1"))
    assert not scene.orders()
    assert not scene.announced(CommitEntities)
    assert JobStatus.FAILED not in scene.statuses()


def test_a_broken_connection_begins_another_attempt() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.orders()
    scene.hear("w0~1", EntitiesBroken("bank", "w1~1"))
    assert [order.attempt for _, order in scene.orders()] == [1_002, 1_002]


def test_a_snapshot_is_committed_and_then_logs_are_trimmed() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.orders()
    for place, name in enumerate(("w0~1", "w1~1"), 1):
        scene.hear(name, EntityReport("bank", place, SnapshotTaken(1_001, 5, [Piece(1_001, 5)])))
    (commit,) = scene.announced(CommitEntities)
    assert commit.manifest == entity_manifest("bank", 2, Manifest(5, [[Piece(1_001, 5)], [Piece(1_001, 5)]]))
    assert not scene.orders()
    scene.tell(EntitiesCommitted("bank", 2))
    assert scene.orders() == [(name, SnapshotKept(1_001, 5)) for name in ("w0~1", "w1~1")]


def test_without_a_directory_the_loss_of_a_worker_is_the_end() -> None:
    scene = Scene("w0~1", "w1~1", plan=None)
    scene.run("w0~1", "w1~1")
    scene.tell(WorkerEnded("w0~1", "killed"))
    failed = scene.announced(AnnounceJob)[-1]
    assert failed.status is JobStatus.FAILED
    assert failed.failure.detail == "the entities of job 'bank' are in memory only, and cannot survive that"
    assert scene.sent(DropEntities) == [("w1~1", DropEntities("bank"))]


@pytest.mark.parametrize("broken", ["w0~1", "w1~1"])
def test_without_a_directory_there_is_no_other_attempt(broken: str) -> None:
    """It would begin with entities that nobody has written."""
    scene = Scene("w0~1", "w1~1", plan=None)
    scene.run("w0~1", "w1~1")
    scene.effects.clear()
    scene.hear("w0~1", EntitiesBroken("bank", broken))
    failed = scene.announced(AnnounceJob)[-1]
    assert failed.status is JobStatus.FAILED
    assert failed.failure.detail == "the entities of job 'bank' are in memory only, and cannot begin again"
    assert ("took too long" in failed.failure.fact) == (broken == "w0~1")
    assert {to for to, _ in scene.sent(DropEntities)} == {"w0~1", "w1~1"}
    assert not scene.orders()


@pytest.mark.parametrize("cause", DeathCause)
def test_a_handler_that_ends_its_workers_ends_the_job_in_the_end(cause: DeathCause) -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    dead = Death("exited with code 3", cause, LastRun("bank", None, underway=True))
    for number in range(1, DEATHS_MAX[cause] + 1):
        assert JobStatus.FAILED not in scene.statuses()
        scene.tell(WorkerEnded(f"w0~{number}", "its process died", dead))
        scene.join(f"w0~{number + 1}")
        scene.hear(f"w0~{number + 1}", EntitiesHosted("bank", 1))
    failed = scene.announced(AnnounceJob)[-1]
    assert failed.status is JobStatus.FAILED
    assert "have ended" in failed.failure.fact


def test_deaths_count_from_the_last_snapshot_on() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    dead = Death("exited with code 3", DeathCause.OWN, LastRun("bank", None, underway=True))
    for number in range(1, 3 * DEATHS_MAX[DeathCause.OWN]):
        scene.tell(WorkerEnded(f"w0~{number}", "its process died", dead))
        scene.join(f"w0~{number + 1}")
        scene.effects.clear()
        scene.hear(f"w0~{number + 1}", EntitiesHosted("bank", 1))
        taken = SnapshotTaken(PLAN.attempt + number + 1, number, [])
        for place, name in enumerate((f"w0~{number + 1}", "w1~1"), 1):
            scene.hear(name, EntityReport("bank", place, taken))
        assert len(scene.announced(CommitEntities)) == 1
        scene.tell(EntitiesCommitted("bank", number + 1))
    assert JobStatus.FAILED not in scene.statuses()


def test_a_job_stops_when_all_workers_have_dropped_it() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.tell(EntitiesStopRequested("bank"))
    assert [to for to, _ in scene.sent(DropEntities)] == ["w0~1", "w1~1"]
    scene.hear("w0~1", EntitiesDropped("bank"))
    assert JobStatus.STOPPED not in scene.statuses()
    scene.tell(WorkerEnded("w1~1", "killed"))
    assert scene.statuses() == [JobStatus.STOPPED]


def test_a_driver_that_was_replaced_gives_its_entities_up() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.tell(EntitiesLost("bank", Failure("TakenOverError", "another driver has taken over")))
    assert scene.statuses()[-1] is JobStatus.FAILED
    assert [to for to, _ in scene.sent(DropEntities)] == ["w0~1", "w1~1"]


def test_all_jobs_end_when_the_cluster_closes() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.run("w0~1", "w1~1")
    scene.tell(CloseRequested())
    assert scene.statuses()[-1] is JobStatus.STOPPED


def test_a_stop_while_an_attempt_begins_is_not_undone_by_it() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.hear("w0~1", EntitiesHosted("bank", 1))
    scene.hear("w1~1", EntitiesHosted("bank", 2))
    scene.tell(EntitiesStopRequested("bank"))
    for place, name in enumerate(("w0~1", "w1~1"), 1):
        scene.hear(name, EntityReport("bank", place, Resumed(1_001, 0)))
    for name in ("w0~1", "w1~1"):
        scene.hear(name, EntitiesDropped("bank"))
    assert scene.statuses() == [JobStatus.DEPLOYING, JobStatus.STOPPING, JobStatus.STOPPED]


def test_who_asks_where_entities_are_is_told_now_and_whenever_they_move() -> None:
    scene = Scene("w0~1", "w1~1")
    scene.hear("w1~1", WhereEntities("bank"))
    members = ["w0~1", "w1~1"]
    assert scene.sent(EntitiesAt) == [("w1~1", EntitiesAt("bank", members))]
    scene.hear("w0~1", WhereEntities("later"))
    assert not scene.sent(EntitiesAt)
    scene.run("w0~1", "w1~1")
    assert scene.sent(EntitiesAt) == [("w1~1", EntitiesAt("bank", members))]
    scene.tell(EntitiesSubmitted("later", "later", "digest", 2, Pace(1, 2, 3, 4), None))
    for place, name in enumerate(members, 1):
        scene.hear(name, EntitiesHosted("later", place))
    for place, name in enumerate(members, 1):
        scene.hear(name, EntityReport("later", place, Resumed(1, 0)))
    assert [to for to, _ in scene.sent(EntitiesAt)] == ["w0~1"]
