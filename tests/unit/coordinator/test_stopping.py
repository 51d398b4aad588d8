"""Jobs that are to stop while one of their functions does not return, event by event."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import Storage
from stretto.coordinator.events import (
    AnnounceJob,
    AnnounceLoss,
    AnnounceMisbehaviour,
    CheckpointPlan,
    Effect,
    ReplaceWorker,
    StopRequested,
    SubmitRequested,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.records import JobStatus
from stretto.coordinator.stopping import GRACE_NS
from stretto.protocol.jobs import Failed, Failure, Ready, Stopped
from stretto.protocol.machines import FrameArrived, Ticked
from stretto.protocol.membership import Heartbeat, Join, Member
from stretto.protocol.reports import Stuck

SHAPES = {"source": FunctionShape("source", 2)}
PLAN = CheckpointPlan(Storage("memory", 1, "0123abcd"), None, 3)
STEP_NS = 500_000_000


class Bench:
    """Two workers that run the jobs 'spin' and 'other'; w0 reports that a run does not return."""

    def __init__(self) -> None:
        self.machine = Coordinator()
        self.now_ns = STEP_NS
        self.effects: list[Effect] = []
        for name in ("w0~1", "w1~1"):
            self.tell(WorkerExpected(name, name))
            self.tell(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))))
        for job in ("spin", "other"):
            self.tell(SubmitRequested(job, "digest", SHAPES, checkpoints=PLAN))
            for name in ("w0~1", "w1~1"):
                self.tell(FrameArrived(name, Ready(job)))

    def tell(self, event: Any) -> None:
        self.effects += self.machine.handle(event, self.now_ns)

    def wait(self, for_ns: int, stuck: str | None) -> None:
        """Lets time pass; w0 reports a run of this attempt as not returning."""
        for _ in range(for_ns // STEP_NS):
            self.now_ns += STEP_NS
            for name in list(self.machine.members):
                self.tell(FrameArrived(name, Heartbeat()))
            if stuck is not None and "w0~1" in self.machine.members:
                self.tell(FrameArrived("w0~1", Stuck(stuck, "forever", self.now_ns, "  File 'app.py', line 7")))
            self.tell(Ticked())

    def status(self, job: str) -> JobStatus:
        return self.machine.jobs[job].status

    def of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.effects if isinstance(each, kind)]


def test_a_worker_whose_function_does_not_return_is_replaced_when_its_job_is_to_stop() -> None:
    bench = Bench()
    bench.wait(10 * GRACE_NS, "spin")
    assert bench.machine.members.keys() == {"w0~1", "w1~1"}, "nobody has asked it to stop"
    bench.tell(StopRequested("spin"))
    bench.tell(FrameArrived("w1~1", Stopped("spin")))
    bench.wait(GRACE_NS, "spin")
    assert bench.status("spin") is JobStatus.STOPPED
    assert bench.status("other") is JobStatus.RECOVERING
    assert bench.of(ReplaceWorker) == [ReplaceWorker("w0~1", parked=False, joined=True)]
    (told,) = bench.of(AnnounceMisbehaviour)
    assert (told.job, told.member, told.said.function) == ("spin", "w0~1", "forever")
    assert "function 'forever' of job 'spin' had not returned 5 s after the job was to stop" in told.said.what
    assert "app.py" in told.said.traceback
    assert bench.effects.index(told) < bench.effects.index(AnnounceJob("spin", JobStatus.STOPPED)), "it still runs"
    assert "'forever'" in bench.of(AnnounceLoss)[0].reason


def test_a_worker_that_stops_in_time_stays() -> None:
    bench = Bench()
    bench.tell(StopRequested("spin"))
    bench.tell(FrameArrived("w1~1", Stopped("spin")))
    bench.wait(GRACE_NS - STEP_NS, "spin")
    bench.tell(FrameArrived("w0~1", Stopped("spin")))
    bench.wait(2 * GRACE_NS, None)
    assert bench.status("spin") is JobStatus.STOPPED
    assert not bench.of(ReplaceWorker)


def test_a_long_run_of_another_job_is_no_reason_to_replace_the_worker() -> None:
    bench = Bench()
    bench.tell(StopRequested("spin"))
    bench.wait(10 * GRACE_NS, "other")
    assert not bench.of(ReplaceWorker)
    assert bench.status("other") is JobStatus.RUNNING


def test_a_worker_that_is_slow_and_not_stuck_stays() -> None:
    bench = Bench()
    bench.tell(StopRequested("spin"))
    bench.wait(10 * GRACE_NS, None)
    assert not bench.of(ReplaceWorker)


@pytest.mark.parametrize("ends", ["fails", "recovers"])
def test_a_job_that_ends_or_recovers_is_to_stop_too(ends: str) -> None:
    bench = Bench()
    if ends == "fails":
        bench.tell(FrameArrived("w1~1", Failed("spin", Failure("FunctionError", "it raised"))))
    else:
        bench.machine._recovery.begin(bench.machine.jobs["spin"])
    bench.wait(GRACE_NS + STEP_NS, "spin")
    assert [each.name for each in bench.of(ReplaceWorker)] == ["w0~1"]
