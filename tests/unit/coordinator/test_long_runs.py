"""Runs that delay the jobs beside them: who is told, and where later jobs are placed."""

from __future__ import annotations

from stretto.actors.shape import FunctionShape
from stretto.api.slo import SLO
from stretto.coordinator.events import AnnounceLongRuns, Effect, StopRequested, SubmitRequested, WorkerExpected
from stretto.coordinator.machine import Coordinator
from stretto.protocol.jobs import Stopped
from stretto.protocol.machines import FrameArrived
from stretto.protocol.membership import Join, Member
from stretto.protocol.reports import LongRuns
from stretto.runtime.job import warning_of

MS = 1_000_000
SHAPES = {"f": FunctionShape("f", 1)}


def with_two_workers() -> Coordinator:
    coordinator = Coordinator()
    for name in ("w0~1", "w1~1"):
        coordinator.handle(WorkerExpected(name, name), 0)
        coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), 0)
    return coordinator


def home(coordinator: Coordinator, job: str, latency_ms: float | None) -> str:
    """Submits a job of one actor, and returns the worker where it is placed."""
    slo = SLO(latency_ms=latency_ms)
    coordinator.handle(SubmitRequested(job, "digest", SHAPES, objective=slo), 0)
    return coordinator.jobs[job].placement["f"][0]


def slow_beside_urgent() -> tuple[Coordinator, list[Effect]]:
    """A slow job on w0, an urgent one on w1, and a report of long runs on w0."""
    coordinator = with_two_workers()
    assert home(coordinator, "slow", None) == "w0~1"
    assert home(coordinator, "urgent", 100.0) == "w1~1"
    report = LongRuns("slow", "f", 900 * MS, {"urgent": 100 * MS, "gone": 5 * MS})
    return coordinator, coordinator.handle(FrameArrived("w0~1", report), 0)


def test_long_runs_are_announced_with_the_jobs_that_they_delay() -> None:
    _, effects = slow_beside_urgent()
    assert effects == [AnnounceLongRuns("slow", "w0~1", "f", 900 * MS, {"urgent": 100 * MS})]
    assert warning_of(effects[0]).fact == (
        "function 'f' of job 'slow' ran for 900 ms at a time on w0~1, which is longer than the objective of 'urgent' "
        "(100 ms) on the same worker; a run is not interrupted"
    )


def test_jobs_that_have_promised_less_time_are_placed_elsewhere() -> None:
    coordinator, _ = slow_beside_urgent()
    assert [home(coordinator, f"next{number}", 500.0) for number in range(3)] == ["w1~1"] * 3


def test_other_jobs_are_placed_by_load() -> None:
    coordinator, _ = slow_beside_urgent()
    assert home(coordinator, "lax", 2_000.0) == "w0~1"
    assert home(coordinator, "without", None) == "w1~1"


def test_a_job_runs_somewhere_even_if_all_workers_have_long_runs() -> None:
    coordinator, _ = slow_beside_urgent()
    coordinator.handle(FrameArrived("w1~1", LongRuns("slow", "f", 900 * MS, {})), 0)
    assert home(coordinator, "next", 10.0) == "w0~1"


def test_long_runs_of_a_job_that_has_ended_are_forgotten() -> None:
    coordinator, _ = slow_beside_urgent()
    coordinator.handle(StopRequested("slow"), 0)
    coordinator.handle(FrameArrived("w0~1", Stopped("slow")), 0)
    assert home(coordinator, "next", 10.0) == "w0~1"


def test_late_reports_of_an_ended_job_say_nothing() -> None:
    coordinator = with_two_workers()
    assert coordinator.handle(FrameArrived("w0~1", LongRuns("unknown", "f", 900 * MS, {})), 0) == []
