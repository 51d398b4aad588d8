"""What the coordinator announces about the cluster, and when."""

from __future__ import annotations

import pytest

from stretto.actors.address import Address
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import FunctionShape
from stretto.api.slo import SLO
from stretto.coordinator.events import AnnounceJob, Effect, Observed, SubmitRequested, WorkerExpected
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.observing import OBSERVE_EVERY_NS
from stretto.coordinator.records import MOVES, Job, JobStatus
from stretto.errors import InvariantError
from stretto.protocol.jobs import Failed, Failure, Finished, Loaded, Ready
from stretto.protocol.machines import FrameArrived, Ticked
from stretto.protocol.membership import Join, Member
from stretto.protocol.reports import Report

SHAPES = {"source": FunctionShape("source", 1)}


def running() -> Coordinator:
    """Returns a coordinator with one job, whose one actor is on one worker."""
    coordinator = Coordinator()
    coordinator.handle(WorkerExpected("w0~1", "key"), 0)
    coordinator.handle(FrameArrived("w0~1", Join(Member("w0~1", "tcp://w0", "key", "host", 1))), 0)
    coordinator.handle(SubmitRequested("job", "", SHAPES, objective=SLO(latency_ms=5.0)), 0)
    coordinator.handle(FrameArrived("w0~1", Ready("job")), 0)
    return coordinator


def report(rows: int, measured_ns: int) -> FrameArrived:
    totals = FunctionMetrics(rows_in=rows, rows_out=rows, busy_ns=measured_ns // 2)
    return FrameArrived("w0~1", Report("job", {"source": {0: totals}}, 3, measured_ns))


def observed(effects: list[Effect]) -> list[Observed]:
    return [effect for effect in effects if isinstance(effect, Observed)]


def test_reports_are_announced_with_the_next_tick_and_not_more_often_than_that() -> None:
    coordinator = running()
    assert not observed(coordinator.handle(report(100, 1), 1))
    assert not observed(coordinator.handle(Ticked(), 2)), "the start of the job was announced at 0"
    (effect,) = observed(coordinator.handle(Ticked(), OBSERVE_EVERY_NS))
    assert effect.observation.jobs["job"].totals["source"].rows_in == 100
    assert not observed(coordinator.handle(Ticked(), 3 * OBSERVE_EVERY_NS)), "nothing has changed"


def test_an_observation_has_jobs_with_their_objectives_and_workers_with_their_load() -> None:
    coordinator = running()
    coordinator.handle(report(0, 0), 1)
    coordinator.handle(report(500, 1_000_000_000), 2)
    (effect,) = observed(coordinator.handle(Ticked(), OBSERVE_EVERY_NS))
    job, worker = effect.observation.jobs["job"], effect.observation.workers["w0~1"]
    assert (job.status, job.members, job.objective) == ("running", ("w0~1",), SLO(latency_ms=5.0))
    assert (job.functions["source"].input_rate, job.functions["source"].output_rate) == (500.0, 500.0)
    assert (worker.busy_share, worker.refused, worker.parked) == (0.5, 3, False)


def test_an_observation_says_what_a_job_waits_for_before_it_starts() -> None:
    coordinator = Coordinator()
    for name in ("w0~1", "w1~1", "w2~1"):
        coordinator.handle(WorkerExpected(name, "key"), 0)
        coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", "key", "host", 1))), 0)

    def deploying(now_ns: int) -> str:
        (effect,) = observed(coordinator.handle(Ticked(), now_ns * OBSERVE_EVERY_NS))
        return str(effect.observation.jobs["job"].deploying)

    coordinator.handle(SubmitRequested("job", "", {"f": FunctionShape("f", 3)}, code_bytes=8_100_000), 0)
    assert deploying(1) == "0 of 3 members are ready, waiting for w0~1, w1~1, w2~1 to load 8.1 MB of code"
    coordinator.handle(FrameArrived("w1~1", Loaded("job")), 0)
    coordinator.handle(FrameArrived("w0~1", Loaded("job")), 0)
    coordinator.handle(FrameArrived("w0~1", Ready("job")), 0)
    said = "1 of 3 members are ready, waiting for w2~1 to load 8.1 MB of code, waiting for w1~1 to open functions"
    assert deploying(2) == said
    for name in ("w1~1", "w2~1"):
        effects = coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert observed(effects)[0].observation.jobs["job"].deploying is None


def test_the_last_observation_of_a_job_is_announced_before_its_end() -> None:
    coordinator = running()
    coordinator.handle(report(700, 1), 1)
    effects = coordinator.handle(FrameArrived("w0~1", Finished(Address("job", "source", 0))), 2)
    kinds = [type(effect) for effect in effects if isinstance(effect, Observed | AnnounceJob)]
    assert kinds == [Observed, AnnounceJob]
    assert observed(effects)[0].observation.jobs["job"].totals["source"].rows_in == 700


def test_an_observation_never_changes() -> None:
    coordinator = running()
    coordinator.handle(report(100, 1), 1)
    (before,) = observed(coordinator.handle(Ticked(), OBSERVE_EVERY_NS))
    coordinator.handle(report(200, 2), OBSERVE_EVERY_NS + 1)
    assert before.observation.jobs["job"].totals["source"].rows_in == 100


@pytest.mark.parametrize("status", [status for status in JobStatus if status.ended])
def test_a_job_that_has_ended_does_not_change_its_status(status: JobStatus) -> None:
    job = Job("job", {})
    job.become(status)
    with pytest.raises(InvariantError, match="cannot become running"):
        job.become(JobStatus.RUNNING)


def test_a_running_job_is_not_deployed_again() -> None:
    assert JobStatus.DEPLOYING not in MOVES[JobStatus.RUNNING]
    job = Job("job", {})
    job.become(JobStatus.RUNNING)
    with pytest.raises(InvariantError, match="cannot become deploying"):
        job.become(JobStatus.DEPLOYING)


def test_a_function_of_a_worker_that_leaves_credits_to_nobody_is_named_in_the_observation() -> None:
    coordinator = running()
    waiting = FunctionMetrics(rows_in=1, busy_ns=1, waited_ns={"sink": 400_000_000}, waits_for=("sink",))
    before = FunctionMetrics(rows_in=1, busy_ns=1)
    for totals, measured_ns in ((before, 0), (waiting, 500_000_000)):
        frame = Report("job", {"source": {0: totals}}, 0, measured_ns)
        coordinator.handle(FrameArrived("w0~1", frame), measured_ns)
    seen = coordinator.observed().jobs["job"].functions["source"]
    assert seen.waits == {"sink": 1.0}, "it has not run since, and still waits"
    assert coordinator.observed() == coordinator.observed(), "looking changes nothing"


def test_a_failure_is_in_the_last_observation() -> None:
    coordinator = running()
    failure = Failure("FunctionError", "it raised", "ValueError: no such price", function="source")
    effects = coordinator.handle(FrameArrived("w0~1", Failed("job", failure)), 2)
    (last,) = observed(effects)
    assert (
        last.observation.jobs["job"].failure
        == "FunctionError: it raised (function 'source'): ValueError: no such price"
    )


def test_a_worker_has_the_memory_that_it_last_reported() -> None:
    coordinator = running()
    coordinator.handle(FrameArrived("w0~1", Report("job", {}, 0, 1, memory_bytes=5_000_000)), 1)
    coordinator.handle(FrameArrived("w0~1", Report("job", {}, 0, 2)), 2)
    assert coordinator.observed().workers["w0~1"].memory_bytes == 5_000_000
