"""The coordinator machine, event by event: membership, placement, and how jobs begin and end."""

from __future__ import annotations

from typing import Any

from stretto.actors.address import Address
from stretto.actors.shape import FunctionShape
from stretto.coordinator.events import (
    AnnounceJob,
    AnnounceMembers,
    CloseRequested,
    Effect,
    ForgetRequested,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import LOST_AFTER_NS, Coordinator
from stretto.coordinator.records import JobStatus
from stretto.protocol.jobs import (
    Deploy,
    Drain,
    Failed,
    Failure,
    Finished,
    Hosts,
    Ready,
    Start,
    Stop,
    Stopped,
)
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Heartbeat, Join, Leave, Member, MemberRole, Members

SHAPES = {
    "source": FunctionShape("source", 2),
    "count": FunctionShape("count", 1),
    "sink": FunctionShape("sink", 1, on_driver=True),
}


def member(name: str) -> Member:
    role = MemberRole.DRIVER if name.startswith("driver") else MemberRole.WORKER
    return Member(name, f"tcp://{name}", f"key of {name}", "host", 1, role)


def joined(*names: str, now_ns: int = 0) -> Coordinator:
    coordinator = Coordinator()
    for name in names:
        coordinator.handle(WorkerExpected(name, f"key of {name}"), now_ns)
        coordinator.handle(FrameArrived(name, Join(member(name))), now_ns)
    return coordinator


def of(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def frames(kind: type[Any], effects: list[Effect]) -> dict[str, Any]:
    return {send.to: send.frame for send in of(Send, effects) if isinstance(send.frame, kind)}


def running(coordinator: Coordinator, job: str = "job") -> list[Effect]:
    coordinator.handle(SubmitRequested(job, "digest", SHAPES), 0)
    effects: list[Effect] = []
    for name in coordinator.jobs[job].members:
        effects += coordinator.handle(FrameArrived(name, Ready(job)), 0)
    return effects


def test_each_join_is_a_version_that_all_members_learn() -> None:
    coordinator = joined("w0~1", "w1~1")
    coordinator.handle(WorkerExpected("w2~1", "key of w2~1"), 0)
    effects = coordinator.handle(FrameArrived("w2~1", Join(member("w2~1"))), 0)
    assert coordinator.version == 3
    told = frames(Members, effects)
    assert sorted(told) == ["w0~1", "w1~1", "w2~1"]
    assert {frame.version for frame in told.values()} == {3}
    assert len(of(AnnounceMembers, effects)) == 1


def test_nobody_joins_unasked_twice_or_under_another_key() -> None:
    coordinator = joined("w0~1")
    for sender, who in (("w9~1", member("w9~1")), ("w0~1", member("w0~1"))):
        assert of(Refuse, coordinator.handle(FrameArrived(sender, Join(who)), 0))
    coordinator.handle(WorkerExpected("w1~1", "another key"), 0)
    assert of(Refuse, coordinator.handle(FrameArrived("w1~1", Join(member("w1~1"))), 0))
    assert sorted(coordinator.members) == ["w0~1"]


def test_frames_of_strangers_and_of_the_dead_change_nothing() -> None:
    coordinator = joined("w0~1", "driver~1")
    running(coordinator)
    coordinator.handle(WorkerExpected("w1~1", "key of w1~1"), 0)
    for frame in (
        Finished(Address("job", "sink", 0)),
        Failed("job", Failure("UserError", "x")),
        Stopped("job"),
        Heartbeat(),
    ):
        assert of(Refuse, coordinator.handle(FrameArrived("w0~0", frame), 0))
    assert coordinator.jobs["job"].status is JobStatus.RUNNING


def test_partitions_spread_over_workers_and_pinned_functions_stay_on_the_driver() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    effects = coordinator.handle(SubmitRequested("job", "digest", SHAPES), 0)
    deployed = frames(Deploy, effects)
    assert sorted(deployed) == ["driver~1", "w0~1", "w1~1"]
    placement = deployed["w0~1"].placement
    assert sorted(placement["source"]) == ["w0~1", "w1~1"]
    assert placement["sink"] == ["driver~1"]


def test_single_partitions_go_to_the_least_loaded_worker() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    single = {"count": FunctionShape("count", 1)}
    homes = []
    for index in range(4):
        coordinator.handle(SubmitRequested(f"job{index}", "digest", single), 0)
        homes += coordinator.jobs[f"job{index}"].placement["count"]
    assert sorted(homes) == ["w0~1", "w0~1", "w1~1", "w1~1"]


def test_sources_start_only_when_every_member_is_ready() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    coordinator.handle(SubmitRequested("job", "digest", SHAPES), 0)
    for name in ("w0~1", "driver~1"):
        assert not frames(Start, coordinator.handle(FrameArrived(name, Ready("job")), 0))
    effects = coordinator.handle(FrameArrived("w1~1", Ready("job")), 0)
    assert sorted(frames(Start, effects)) == ["driver~1", "w0~1", "w1~1"]
    assert of(AnnounceJob, effects) == [AnnounceJob("job", JobStatus.RUNNING)]


def test_a_job_is_finished_when_its_last_actor_is() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    running(coordinator)
    for function, partition in (("source", 0), ("source", 1), ("count", 0)):
        assert not coordinator.handle(FrameArrived("w0~1", Finished(Address("job", function, partition))), 0)
    effects = coordinator.handle(FrameArrived("driver~1", Finished(Address("job", "sink", 0))), 0)
    assert of(AnnounceJob, effects) == [AnnounceJob("job", JobStatus.FINISHED)]
    assert len(frames(Stop, effects)) == 3


def test_a_failure_ends_the_job_everywhere_and_leaves_the_others() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    running(coordinator, "bad")
    running(coordinator, "good")
    failure = Failure("FunctionError", "it raised")
    effects = coordinator.handle(FrameArrived("w0~1", Failed("bad", failure)), 0)
    assert of(AnnounceJob, effects) == [AnnounceJob("bad", JobStatus.FAILED, failure)]
    assert {frame.job for frame in frames(Stop, effects).values()} == {"bad"}
    assert coordinator.jobs["good"].status is JobStatus.RUNNING
    assert not coordinator.handle(FrameArrived("w1~1", Failed("bad", failure)), 0)


def test_a_silent_worker_is_lost_and_one_that_sends_frames_is_not() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    running(coordinator)
    coordinator.handle(FrameArrived("w1~1", Heartbeat()), LOST_AFTER_NS - 1)
    assert coordinator.next_deadline_ns() == LOST_AFTER_NS
    for second in range(int(LOST_AFTER_NS / 1e9)):
        coordinator.handle(Ticked(), second * 10**9)
    effects = coordinator.handle(Ticked(), LOST_AFTER_NS)
    assert sorted(coordinator.members) == ["driver~1", "w1~1"]
    (ended,) = of(AnnounceJob, effects)
    assert ended.status is JobStatus.FAILED
    assert "w0~1" in ended.failure.fact


def test_a_coordinator_that_was_delayed_itself_loses_no_worker() -> None:
    coordinator = joined("w0~1", "driver~1", now_ns=1)
    for second in range(1, 5):
        coordinator.handle(FrameArrived("w0~1", Heartbeat()), second * 10**9)
        coordinator.handle(Ticked(), second * 10**9)
    coordinator.handle(Ticked(), 60 * 10**9)
    assert "w0~1" in coordinator.members
    for second in range(61, 75):
        coordinator.handle(Ticked(), second * 10**9)
    assert "w0~1" not in coordinator.members


def test_a_worker_whose_task_ended_is_lost_at_once() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    effects = coordinator.handle(WorkerEnded("w0~1", "killed"), 0)
    assert sorted(frames(Members, effects)) == ["driver~1", "w1~1"]
    assert not coordinator.handle(WorkerEnded("w0~1", "killed"), 0)


def test_without_workers_a_submission_fails_with_a_reason() -> None:
    coordinator = joined("driver~1")
    (ended,) = of(AnnounceJob, coordinator.handle(SubmitRequested("job", "digest", SHAPES), 0))
    assert ended.status is JobStatus.FAILED
    assert "no worker left" in ended.failure.fact


def test_stopping_waits_for_every_member_and_draining_asks_the_sources() -> None:
    coordinator = joined("w0~1", "w1~1", "driver~1")
    running(coordinator)
    assert len(frames(Drain, coordinator.handle(StopRequested("job", drain=True), 0))) == 3
    assert coordinator.jobs["job"].status is JobStatus.RUNNING
    assert len(frames(Stop, coordinator.handle(StopRequested("job"), 0))) == 3
    for name in ("w0~1", "w1~1"):
        assert not coordinator.handle(FrameArrived(name, Stopped("job")), 0)
    # The last one dies instead of answering, which counts as an answer.
    effects = coordinator.handle(WorkerEnded("driver~1", "killed"), 0)
    assert AnnounceJob("job", JobStatus.STOPPED) in effects


def test_closing_stops_all_jobs_and_asks_all_workers_to_leave() -> None:
    coordinator = joined("w0~1", "driver~1")
    running(coordinator)
    effects = coordinator.handle(CloseRequested(), 0)
    assert of(AnnounceJob, effects) == [AnnounceJob("job", JobStatus.STOPPED)]
    assert sorted(frames(Leave, effects)) == ["driver~1", "w0~1"]
    assert of(Refuse, coordinator.handle(FrameArrived("w7~1", Join(member("w7~1"))), 0))


def test_only_ended_jobs_can_be_forgotten() -> None:
    coordinator = joined("w0~1", "driver~1")
    running(coordinator)
    coordinator.handle(ForgetRequested("job"), 0)
    assert "job" in coordinator.jobs
    coordinator.handle(FrameArrived("w0~1", Failed("job", Failure("UserError", "x"))), 0)
    coordinator.handle(ForgetRequested("job"), 0)
    assert "job" not in coordinator.jobs


# Workers that host lessees.

SINGLE = {"source": FunctionShape("source", 1)}


def spread_job(coordinator: Coordinator) -> dict[str, Deploy]:
    """Starts a job with its one actor on the first worker, and returns what was deployed."""
    deployed = frames(Deploy, coordinator.handle(SubmitRequested("job", "digest", SINGLE, spreads=True), 0))
    for name in deployed:
        effects = coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert frames(Start, effects)
    return deployed


def test_a_job_that_spreads_is_deployed_to_all_workers_and_gets_their_names() -> None:
    coordinator = joined("a~1", "b~1", "driver~1")
    assert set(spread_job(coordinator)) == {"a~1", "b~1"}
    assert coordinator.jobs["job"].hosts == ["a~1", "b~1"]


def test_a_worker_that_joins_later_may_host_lessees_once_it_has_the_code() -> None:
    coordinator = joined("a~1", "driver~1")
    spread_job(coordinator)
    coordinator.handle(WorkerExpected("b~1", "key of b~1"), 0)
    effects = coordinator.handle(FrameArrived("b~1", Join(member("b~1"))), 0)
    assert set(frames(Deploy, effects)) == {"b~1"}
    effects = coordinator.handle(FrameArrived("b~1", Ready("job")), 0)
    assert frames(Hosts, effects)["a~1"].hosts == ["a~1", "b~1"]
