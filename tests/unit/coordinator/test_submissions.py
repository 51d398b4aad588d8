"""Submissions while workers are replaced, event by event: what a job waits for, how long, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import Storage
from stretto.coordinator.events import (
    AnnounceJob,
    CheckpointPlan,
    Effect,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.jobs import PLACEMENTS_MAX
from stretto.coordinator.machine import WORKERLESS_NS, Coordinator
from stretto.coordinator.records import JobStatus
from stretto.coordinator.submissions import JOINED_WITHIN_NS
from stretto.protocol.jobs import Deploy, Drain, Ready, Stop
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Join, Left, Member

SHAPES = {"f": FunctionShape("f", 2)}
PLANS = (None, CheckpointPlan(Storage("memory", 1, "0123abcd"), 1_000_000, 3))
SECOND = 1_000_000_000


def with_workers(*names: str) -> Coordinator:
    coordinator = Coordinator(lost_after_ns=1_000 * SECOND)
    for name in names:
        join(coordinator, name, 0)
    return coordinator


def join(coordinator: Coordinator, name: str, now_ns: int, parked: bool = False) -> list[Effect]:
    coordinator.handle(WorkerExpected(name, name, parked), now_ns)
    return coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), now_ns)


def submit(coordinator: Coordinator, now_ns: int, plan: CheckpointPlan | None = None) -> list[Effect]:
    return coordinator.handle(SubmitRequested("job", "digest", SHAPES, checkpoints=plan), now_ns)


def statuses(effects: list[Effect]) -> list[JobStatus]:
    return [effect.status for effect in effects if isinstance(effect, AnnounceJob)]


def sent(kind: type[Any], effects: list[Effect]) -> list[tuple[str, str]]:
    return [
        (effect.to, effect.frame.job)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.frame, kind)
    ]


@pytest.mark.parametrize("plan", PLANS, ids=("without checkpoints", "with checkpoints"))
def test_a_job_waits_for_the_only_worker_that_is_replaced_and_says_so(plan: CheckpointPlan | None) -> None:
    coordinator = with_workers("w0~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    effects = submit(coordinator, 2 * SECOND, plan)
    assert effects[-1] == AnnounceJob("job", JobStatus.WAITING, waits_for="worker w0, being replaced")
    effects = join(coordinator, "w0~2", 3 * SECOND)
    assert statuses(effects) == [JobStatus.DEPLOYING]
    assert sent(Deploy, effects) == [("w0~2", "job")]
    assert coordinator.jobs["job"].waits_for is None


def test_a_job_waits_for_a_replacement_while_others_are_there() -> None:
    """It would stay on the workers that it is placed on at first."""
    coordinator = with_workers("w0~1", "w1~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    assert statuses(submit(coordinator, 2 * SECOND)) == [JobStatus.WAITING]
    assert sent(Deploy, join(coordinator, "w0~2", 3 * SECOND)) == [("w0~2", "job"), ("w1~1", "job")]


@pytest.mark.parametrize("plan", PLANS, ids=("without checkpoints", "with checkpoints"))
def test_a_replacement_that_does_not_come_is_awaited_for_a_while(plan: CheckpointPlan | None) -> None:
    coordinator = with_workers("w0~1", "w1~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    submit(coordinator, 2 * SECOND, plan)
    until_ns = SECOND + JOINED_WITHIN_NS
    assert coordinator.next_deadline_ns() == until_ns
    assert not sent(Deploy, coordinator.handle(Ticked(), until_ns - 1))
    assert sent(Deploy, coordinator.handle(Ticked(), until_ns)) == [("w1~1", "job")]


def test_a_worker_that_has_been_missing_for_long_is_not_awaited() -> None:
    coordinator = with_workers("w0~1", "w1~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    assert sent(Deploy, submit(coordinator, SECOND + JOINED_WITHIN_NS)) == [("w1~1", "job")]


def test_a_worker_that_is_lost_again_and_again_does_not_hold_a_job_up_for_ever() -> None:
    coordinator = with_workers("w0~1", "w1~1")
    for number in range(1, 4):
        at_ns = number * 4 * SECOND
        coordinator.handle(WorkerEnded(f"w0~{number}", "killed"), at_ns)
        if number == 1:
            submit(coordinator, at_ns)
        coordinator.handle(WorkerExpected(f"w0~{number + 1}", f"w0~{number + 1}"), at_ns)
    assert sent(Deploy, coordinator.handle(Ticked(), 4 * SECOND + JOINED_WITHIN_NS)) == [("w1~1", "job")]


@pytest.mark.parametrize("plan", PLANS, ids=("without checkpoints", "with checkpoints"))
def test_a_job_fails_when_no_worker_has_come_back(plan: CheckpointPlan | None) -> None:
    coordinator = with_workers("w0~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    submit(coordinator, 2 * SECOND, plan)
    assert not statuses(coordinator.handle(Ticked(), SECOND + WORKERLESS_NS))
    assert statuses(coordinator.handle(Ticked(), 2 * SECOND + WORKERLESS_NS)) == [JobStatus.FAILED]
    failure = coordinator.jobs["job"].failure
    assert failure is not None
    assert failure.fact == "no worker has joined within 120 s, so job 'job' cannot start"
    assert failure.detail == "awaited: worker w0, being replaced"


@pytest.mark.parametrize("plan", PLANS, ids=("without checkpoints", "with checkpoints"))
def test_a_job_fails_at_once_when_no_worker_can_come_back(plan: CheckpointPlan | None) -> None:
    coordinator = with_workers("w0~1")
    coordinator.handle(FrameArrived("w0~1", Left()), SECOND)
    assert statuses(submit(coordinator, 2 * SECOND, plan)) == [JobStatus.FAILED]
    assert coordinator.jobs["job"].failure is not None
    assert coordinator.jobs["job"].failure.fact == "the cluster has no worker left"


def test_nobody_waits_where_a_parked_worker_has_taken_over() -> None:
    coordinator = with_workers("w0~1")
    join(coordinator, "w1~1", 0, parked=True)
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    assert sent(Deploy, submit(coordinator, SECOND)) == [("w1~1", "job")]


def test_a_waiting_job_can_be_stopped_and_then_stays_so() -> None:
    coordinator = with_workers("w0~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    submit(coordinator, SECOND)
    assert statuses(coordinator.handle(StopRequested("job"), SECOND)) == [JobStatus.STOPPED]
    assert not sent(Deploy, join(coordinator, "w0~2", 2 * SECOND))


def test_a_waiting_job_that_is_drained_ends_its_sources_when_it_starts() -> None:
    coordinator = with_workers("w0~1")
    coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    submit(coordinator, SECOND)
    coordinator.handle(StopRequested("job", drain=True), SECOND)
    join(coordinator, "w0~2", 2 * SECOND)
    effects = coordinator.handle(FrameArrived("w0~2", Ready("job")), 3 * SECOND)
    assert sent(Drain, effects) == [("w0~2", "job")]


def test_a_job_whose_worker_is_lost_before_it_began_is_placed_again() -> None:
    """The loss was not known when the job was submitted."""
    coordinator = with_workers("w0~1", "w1~1")
    submit(coordinator, SECOND)
    effects = coordinator.handle(WorkerEnded("w0~1", "killed"), SECOND)
    assert sent(Stop, effects) == [("w1~1", "job")]
    assert statuses(effects) == [JobStatus.WAITING]
    assert sent(Deploy, join(coordinator, "w0~2", 2 * SECOND)) == [("w0~2", "job~2"), ("w1~1", "job~2")]
    for name, attempt in (("w1~1", "job"), ("w0~2", "job~2")):
        assert not statuses(coordinator.handle(FrameArrived(name, Ready(attempt)), 3 * SECOND))
    assert statuses(coordinator.handle(FrameArrived("w1~1", Ready("job~2")), 3 * SECOND)) == [JobStatus.RUNNING]


def test_a_job_that_ends_its_workers_whenever_it_is_opened_fails() -> None:
    coordinator = with_workers("w0~1")
    submit(coordinator, SECOND)
    for number in range(1, PLACEMENTS_MAX):
        assert statuses(coordinator.handle(WorkerEnded(f"w0~{number}", "killed"), SECOND)) == [JobStatus.WAITING]
        assert sent(Deploy, join(coordinator, f"w0~{number + 1}", SECOND))
    assert statuses(coordinator.handle(WorkerEnded(f"w0~{PLACEMENTS_MAX}", "killed"), SECOND)) == [JobStatus.FAILED]
