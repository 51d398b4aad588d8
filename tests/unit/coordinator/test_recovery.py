"""The coordinator with checkpoints, event by event: how workers are replaced, and what a job waits for."""

from __future__ import annotations

from typing import Any

from stretto.actors.address import Address
from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import Storage
from stretto.coordinator.checkpointing import OVERDUE_NS
from stretto.coordinator.events import (
    AnnounceJob,
    CheckpointPlan,
    Effect,
    ReplaceWorker,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.records import JobStatus
from stretto.protocol.checkpointing import Abandon, Checkpoint, Overdue, Unstored
from stretto.protocol.jobs import Deploy, Ready
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Join, Member

SHAPES = {"source": FunctionShape("source", 1), "sink": FunctionShape("sink", 1, is_sink=True)}
PLAN = CheckpointPlan(Storage("memory", 1, "0123abcd"), 1_000_000, 3)


def expect(coordinator: Coordinator, name: str, parked: bool = False) -> None:
    coordinator.handle(WorkerExpected(name, name, parked), 0)


def join(coordinator: Coordinator, name: str, now_ns: int = 0) -> list[Effect]:
    return coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), now_ns)


def submit(coordinator: Coordinator) -> list[Effect]:
    return coordinator.handle(SubmitRequested("job", "digest", SHAPES, checkpoints=PLAN), 0)


def running() -> Coordinator:
    coordinator = Coordinator()
    expect(coordinator, "w0~1")
    join(coordinator, "w0~1")
    submit(coordinator)
    coordinator.handle(FrameArrived("w0~1", Ready("job")), 0)
    assert coordinator.jobs["job"].status is JobStatus.RUNNING
    return coordinator


def frames(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [each.frame for each in effects if isinstance(each, Send) and isinstance(each.frame, kind)]


def of(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def workers_of(coordinator: Coordinator) -> list[str]:
    """Returns the workers that a job would be placed on."""
    effects = coordinator.handle(SubmitRequested("probe", "", {"f": FunctionShape("f", 8)}), 0)
    return sorted({effect.to for effect in effects if isinstance(effect, Send)})


def test_a_worker_that_ended_before_it_joined_is_replaced() -> None:
    coordinator = Coordinator()
    expect(coordinator, "w0~1")
    assert of(ReplaceWorker, coordinator.handle(WorkerEnded("w0~1", "died"), 0)) == [
        ReplaceWorker("w0~1", parked=False, joined=False)
    ]
    assert not of(ReplaceWorker, coordinator.handle(WorkerEnded("w0~1", "died"), 0))


def test_a_parked_worker_that_ends_is_replaced_by_a_parked_one() -> None:
    coordinator = Coordinator()
    for name, parked in (("w0~1", False), ("w1~1", True)):
        expect(coordinator, name, parked)
        join(coordinator, name)
    assert workers_of(coordinator) == ["w0~1"]
    assert of(ReplaceWorker, coordinator.handle(WorkerEnded("w1~1", "died"), 0)) == [
        ReplaceWorker("w1~1", parked=True, joined=True)
    ]
    assert workers_of(coordinator) == ["w0~1"]


def test_a_parked_worker_takes_the_place_of_a_lost_one_at_once() -> None:
    coordinator = Coordinator()
    for name, parked in (("w0~1", False), ("w1~1", True)):
        expect(coordinator, name, parked)
        join(coordinator, name)
    submit(coordinator)
    effects = coordinator.handle(WorkerEnded("w0~1", "died"), 0)
    assert [frame.job for frame in frames(Deploy, effects)] == ["job~2"]
    assert of(ReplaceWorker, effects) == [ReplaceWorker("w0~1", parked=True, joined=True)]


def test_a_job_with_checkpoints_waits_for_its_first_worker() -> None:
    coordinator = Coordinator()
    expect(coordinator, "w0~1")
    assert not frames(Deploy, submit(coordinator))
    assert frames(Deploy, join(coordinator, "w0~1", 5_000_000_000))


def test_a_job_that_waits_for_workers_can_be_stopped() -> None:
    coordinator = running()
    coordinator.handle(WorkerEnded("w0~1", "died"), 0)
    assert coordinator.jobs["job"].status is JobStatus.RECOVERING
    told = of(AnnounceJob, coordinator.handle(StopRequested("job"), 0))
    assert [each.status for each in told] == [JobStatus.STOPPED]
    assert coordinator.next_deadline_ns() is None


def test_a_checkpoint_that_an_actor_declines_as_overdue_is_abandoned() -> None:
    coordinator = running()
    assert [frame.checkpoint for frame in frames(Checkpoint, coordinator.handle(Ticked(), 2_000_000))] == [1]
    assert not frames(Overdue, coordinator.handle(Ticked(), 3_000_000))
    due_ns = 2_000_000 + OVERDUE_NS
    assert frames(Overdue, coordinator.handle(Ticked(), due_ns)) == [Overdue("job", 1)]
    assert not frames(Overdue, coordinator.handle(Ticked(), due_ns + 1))
    declined = Unstored(Address("job", "sink", 0), 1, "something is in the way")
    effects = coordinator.handle(FrameArrived("w0~1", declined), due_ns)
    assert frames(Abandon, effects) == [Abandon("job", 1)]
