"""Handovers at the coordinator, event by event: what each step waits for, and what becomes of the running attempt."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import SHARDS, ShardMap
from stretto.checkpoints.manifest import Storage
from stretto.coordinator.events import (
    CheckpointPlan,
    CheckpointRequested,
    CodeMade,
    Effect,
    MakeCode,
    ReshapeRequested,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.handovers import RETRY_NS, TIMEOUT_NS
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.placement import arriving, replaced
from stretto.coordinator.records import HandoverStage, JobStatus
from stretto.protocol.checkpointing import Broken, Checkpoint, Unstored
from stretto.protocol.handover import CallOff, HandOver, Passed, Prepared, Received, TakeOver
from stretto.protocol.jobs import Deploy, Failed, Failure, Hosts, Ready, Start, Stop
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Heartbeat, Join, Member, MemberRole
from stretto.protocol.reports import Report

WORKERS = ("w0~1", "w1~1", "w2~1")
PLAN = CheckpointPlan(Storage("memory", 1, "0123abcd"), None, 3)


def shapes(parallelism: int) -> dict[str, FunctionShape]:
    return {
        "source": FunctionShape("source", 1, splits=1),
        "keyed": FunctionShape(
            "keyed",
            parallelism,
            feeds=(Feed("source", "in", False),),
            partitioned_by={"in": ("k",)},
            shards=ShardMap.even(parallelism),
        ),
        "sink": FunctionShape("sink", 1, on_driver=True, feeds=(Feed("keyed", "in", False),), is_sink=True),
    }


class Told:
    """A coordinator with a running job, and what it has sent since it was last asked."""

    def __init__(self, plan: CheckpointPlan | None = None) -> None:
        self.machine = Coordinator()
        self.now_ns = 0
        self.effects: list[Effect] = []
        for name in (*WORKERS, "driver~1"):
            self.tell(WorkerExpected(name, name))
            self.frame(name, Join(member(name)))
        self.tell(SubmitRequested("job", "digest", shapes(1), checkpoints=plan))
        for name in self.machine.jobs["job"].members:
            self.frame(name, Ready("job"))
        assert self.job.status is JobStatus.RUNNING
        self.effects = []

    @property
    def job(self) -> Any:
        return self.machine.jobs["job"]

    def tell(self, event: Any) -> None:
        self.effects += self.machine.handle(event, self.now_ns)

    def frame(self, sender: str, frame: Any) -> None:
        self.tell(FrameArrived(sender, frame))

    def sent(self, kind: type[Any]) -> dict[str, Any]:
        """Returns the frames of a kind by their receivers, and forgets all others."""
        found = {
            each.to: each.frame for each in self.effects if isinstance(each, Send) and isinstance(each.frame, kind)
        }
        self.effects = []
        return found

    def prepared(self, parallelism: int = 2) -> list[str]:
        """Asks for another parallelism, up to where the next attempt is prepared; returns its members."""
        self.tell(ReshapeRequested("job", {"keyed": parallelism}))
        (wanted,) = [each for each in self.effects if isinstance(each, MakeCode)]
        self.tell(CodeMade("job", wanted.order, "other digest", shapes(parallelism)))
        members = sorted(self.sent(Deploy))
        for name in members:
            self.frame(name, Prepared("job~2"))
        return members

    def passed(self, number: int) -> None:
        for function, homes in self.job.placement.items():
            for partition, home in enumerate(homes):
                self.frame(home, Passed(Address(self.job.attempt, function, partition), number))

    def received(self, number: int) -> None:
        for name in list(self.job.handover.awaited):
            self.frame(name, Received("job~2", number))


def member(name: str) -> Member:
    role = MemberRole.DRIVER if name.startswith("driver") else MemberRole.WORKER
    return Member(name, f"tcp://{name}", name, "host", 1, role)


def test_the_next_attempt_is_made_beside_the_running_one_and_follows_it() -> None:
    told = Told()
    told.tell(ReshapeRequested("job", {"keyed": 2}))
    (wanted,) = [each for each in told.effects if isinstance(each, MakeCode)]
    assert (wanted.parallelism, wanted.current) == ({"keyed": 2}, {"source": 1, "keyed": 1, "sink": 1})
    told.effects = []
    told.tell(CodeMade("job", wanted.order, "other digest", shapes(2)))
    deployed = told.sent(Deploy)
    assert set(deployed) == {*WORKERS, "driver~1"}
    for frame in deployed.values():
        assert (frame.job, frame.digest, frame.follows.attempt) == ("job~2", "other digest", "job")
    assert told.job.attempt == "job", "nothing has changed yet"


def test_keys_are_dealt_otherwise_to_as_many_partitions() -> None:
    told = Told()
    members = told.prepared(2)
    for name in members:
        told.frame(name, Prepared("job~2"))
    told.passed(told.job.handover.number)
    told.received(told.job.handover.number)
    for name in members:
        told.frame(name, Ready("job~2"))
    assert told.job.attempt == "job~2"
    told.effects = []
    told.tell(ReshapeRequested("job", {"keyed": 2}, shards={"keyed": ShardMap.even(2).finer(2 * SHARDS)}))
    assert "nothing would change" in str(told.effects)
    told.effects = []
    dealt = ShardMap(2, bytes([0, 1] * (SHARDS // 2)))
    told.tell(ReshapeRequested("job", {"keyed": 2}, shards={"keyed": dealt}))
    (wanted,) = [each for each in told.effects if isinstance(each, MakeCode)]
    assert wanted.shards == {"keyed": dealt}


def test_the_barrier_begins_when_all_members_are_prepared() -> None:
    told = Told()
    told.tell(ReshapeRequested("job", {"keyed": 2}))
    told.tell(CodeMade("job", 0, "other digest", shapes(2)))
    told.effects = []
    for name in WORKERS:
        told.frame(name, Prepared("job~2"))
    assert not told.sent(HandOver)
    told.frame("driver~1", Prepared("job~2"))
    assert set(told.sent(HandOver)) == set(told.job.members)


def test_a_worker_that_becomes_a_host_before_all_have_passed_hears_of_the_barrier() -> None:
    """It may get a task of the running attempt, and what that has must be given to those that follow."""
    told = Told()
    told.job.spreads = True
    told.prepared()
    assert (told.job.handover.stage, told.job.handover.number) == (HandoverStage.MARKING, 1)
    told.tell(WorkerExpected("w3~1", "w3~1"))
    told.frame("w3~1", Join(member("w3~1")))
    told.effects = []
    told.frame("w3~1", Ready("job"))
    sent = [each for each in told.effects if isinstance(each, Send) and isinstance(each.frame, HandOver | Hosts)]
    assert isinstance(sent[0].frame, HandOver)
    assert (sent[0].to, sent[0].frame.number, sent[0].frame.successor) == ("w3~1", 1, "job~2")
    assert {each.to for each in sent[1:]} == set(told.job.members)
    told.effects = []
    told.passed(1)
    told.received(1)
    assert told.job.handover.stage is HandoverStage.OPENING
    told.tell(WorkerExpected("w4~1", "w4~1"))
    told.frame("w4~1", Join(member("w4~1")))
    told.frame("w4~1", Ready("job"))
    assert not told.sent(HandOver), "nobody of the running attempt runs any more"


def test_nothing_is_opened_before_all_have_passed_and_all_is_received() -> None:
    for first, second in ((Told.passed, Told.received), (Told.received, Told.passed)):
        told = Told()
        told.prepared()
        told.effects = []
        first(told, 1)
        assert not told.sent(TakeOver)
        second(told, 1)
        assert set(told.sent(TakeOver)) == {*WORKERS, "driver~1"}


def test_the_job_is_the_next_attempt_when_all_its_actors_are_open() -> None:
    told = Told()
    members = told.prepared()
    told.passed(1)
    told.received(1)
    told.effects = []
    for name in members[:-1]:
        told.frame(name, Ready("job~2"))
    assert told.job.attempt == "job"
    assert not told.sent(Start)
    told.frame(members[-1], Ready("job~2"))
    assert (told.job.attempt, told.job.handover, told.job.digest) == ("job~2", None, "other digest")
    starts = [each.frame.job for each in told.effects if isinstance(each, Send) and isinstance(each.frame, Start)]
    stops = [each.frame.job for each in told.effects if isinstance(each, Send) and isinstance(each.frame, Stop)]
    assert set(starts) == {"job~2"}
    assert set(stops) == {"job"}
    assert told.job.shapes["keyed"].parallelism == 2


def test_whoever_fails_to_open_calls_it_off_and_the_old_attempt_goes_on() -> None:
    told = Told()
    told.prepared()
    told.passed(1)
    told.received(1)
    told.effects = []
    told.frame("w0~1", Failed("job~2", Failure("StorageError", "a state cannot be divided")))
    assert (told.job.attempt, told.job.status, told.job.handover) == ("job", JobStatus.RUNNING, None)
    assert set(told.sent(CallOff)) == set(told.job.members)


def test_a_lost_member_of_the_next_attempt_alone_costs_nothing() -> None:
    told = Told()
    told.prepared()
    (other,) = set(WORKERS) - set(told.job.members)
    told.effects = []
    told.tell(WorkerEnded(other, "its process died"))
    assert (told.job.attempt, told.job.status, told.job.handover) == ("job", JobStatus.RUNNING, None)
    assert set(told.sent(CallOff)) == set(told.job.members)


def test_a_broken_connection_calls_it_off() -> None:
    told = Told()
    told.prepared()
    (other,) = set(WORKERS) - set(told.job.members)
    told.effects = []
    told.frame(told.job.placement["keyed"][0], Broken("job", other, "the connection broke"))
    assert told.job.handover is not None, "the other one may be gone"
    told.frame(other, Heartbeat())
    assert (told.job.attempt, told.job.status, told.job.handover) == ("job", JobStatus.RUNNING, None)
    assert set(told.sent(CallOff)) == set(told.job.members)


def test_a_lost_member_of_the_running_attempt_is_an_ordinary_loss() -> None:
    told = Told(PLAN)
    told.prepared()
    told.tell(WorkerEnded(told.job.placement["keyed"][0], "its process died"))
    assert (told.job.attempt, told.job.status, told.job.handover) == ("job~3", JobStatus.RECOVERING, None)
    assert told.job.shapes["keyed"].parallelism == 1, "it recovers as it was"


def test_a_checkpoint_that_has_begun_comes_first_and_none_begins_meanwhile() -> None:
    told = Told(PLAN)
    told.tell(CheckpointRequested("job"))
    told.prepared()
    assert not told.sent(HandOver), "checkpoint 1 is under way"
    for function, homes in told.job.placement.items():
        told.frame(homes[0], Unstored(Address("job", function, 0), 1, "the disk is full"))
    assert {frame.number for frame in told.sent(HandOver).values()} == {2}, "from the same sequence of numbers"
    told.tell(CheckpointRequested("job"))
    assert not told.sent(Checkpoint)


def test_a_barrier_that_the_app_crosses_is_tried_again() -> None:
    told = Told()
    told.prepared()
    told.effects = []
    told.frame("w0~1", Unstored(Address("job", "keyed", 0), 1, "a joint barrier of the app's own came across it"))
    assert set(told.sent(CallOff)) == set(told.job.members)
    told.now_ns += RETRY_NS
    told.tell(Ticked())
    assert {frame.number for frame in told.sent(HandOver).values()} == {2}
    told.passed(1)
    assert told.job.handover.unpassed, "what was said of the first barrier counts no more"


def test_it_does_not_take_for_ever() -> None:
    told = Told()
    told.prepared()
    told.effects = []
    assert told.machine.next_deadline_ns() is not None
    for name in (*WORKERS, "driver~1"):
        told.machine._membership.mark_alive(name)
    told.now_ns += TIMEOUT_NS
    told.machine._membership._lost_after_ns = 10 * TIMEOUT_NS
    told.tell(Ticked())
    assert told.job.handover is None
    assert set(told.sent(CallOff)) == set(told.job.members)


def test_stopping_the_job_drops_both_attempts() -> None:
    told = Told()
    members = told.prepared()
    told.effects = []
    told.tell(StopRequested("job"))
    stops = {
        (each.to, each.frame.job) for each in told.effects if isinstance(each, Send) and isinstance(each.frame, Stop)
    }
    assert stops >= {(name, "job~2") for name in members}
    assert stops >= {(name, "job") for name in told.job.members}


@pytest.mark.parametrize(
    ("parallelism", "avoid", "reason"),
    [
        ({"other": 2}, (), "no function 'other'"),
        ({"keyed": 0}, (), "a parallelism of 0"),
        ({"sink": 2}, (), "runs in the driver's process"),
        ({"keyed": 1}, (), "nothing would change"),
        ({"keyed": 2}, WORKERS, "no worker would be left"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    parallelism: dict[str, int], avoid: tuple[str, ...], reason: str
) -> None:
    told = Told()
    told.tell(ReshapeRequested("job", parallelism, frozenset(avoid)))
    (refused,) = [each for each in told.effects if isinstance(each, Refuse)]
    assert reason in refused.reason
    assert told.job.handover is None


def test_actors_leave_the_workers_to_avoid_and_nobody_else_moves() -> None:
    told = Told()
    home = told.job.placement["keyed"][0]
    source = told.job.placement["source"]
    told.tell(ReshapeRequested("job", {}, frozenset({home})))
    assert home not in told.job.handover.placement["keyed"]
    assert told.job.handover.placement["source"] == source
    assert told.job.handover.digest == "digest", "the code is the same"


def test_placement_keeps_what_it_can() -> None:
    before = {"source": ["a"], "keyed": ["a", "b"], "sink": ["d"]}
    wanted = {
        "source": FunctionShape("source", 1),
        "keyed": FunctionShape("keyed", 4),
        "sink": FunctionShape("sink", 1, on_driver=True),
    }
    found = replaced(before, wanted, ["a", "b", "c"], "d", [])
    assert found["source"] == ["a"]
    assert found["keyed"][:2] == ["a", "b"]
    assert found["keyed"][2] == "c", "the least loaded one"
    assert found["sink"] == ["d"]


def test_new_actors_go_to_workers_that_are_not_busy() -> None:
    before = {"keyed": ["a"]}
    wanted = {"keyed": FunctionShape("keyed", 3)}
    others = [{"source": ["b"], "more": ["b"]}]
    busy = {"a": 1.0, "b": 0.04, "c": 0.97, "d": 0.4}
    assert replaced(before, wanted, ["a", "b", "c", "d"], None, others)["keyed"] == ["a", "c", "d"]
    found = replaced(before, wanted, ["a", "b", "c", "d"], None, others, busy)
    assert found["keyed"] == ["a", "b", "d"], "not the one with fewer actors, which has no time"
    # Until the new ones are observed, each counts for half a worker.
    more = replaced(before, {"keyed": FunctionShape("keyed", 5)}, ["a", "b", "c", "d"], None, others, busy)
    assert more["keyed"] == ["a", "b", "d", "b", "d"]


def test_how_busy_workers_are_is_what_they_have_reported() -> None:
    told = Told()
    (home,) = told.job.placement["keyed"]
    (taken, *_) = [name for name in WORKERS if name not in (home, *told.job.placement["source"])]
    other = next(name for name in WORKERS if name not in (home, taken))

    def reports(measured_ns: int) -> None:
        told.now_ns = measured_ns
        for name in (home, taken):
            busy = {"keyed": {0: FunctionMetrics(busy_ns=measured_ns)}}
            told.frame(name, Report("job", busy, 0, measured_ns))
        told.tell(Ticked())

    reports(0)
    reports(1_000_000_000)
    told.tell(ReshapeRequested("job", {"keyed": 2}))
    (wanted,) = [each for each in told.effects if isinstance(each, MakeCode)]
    told.tell(CodeMade("job", wanted.order, "other digest", shapes(2)))
    assert next(iter(told.sent(Deploy).values())).placement["keyed"] == [home, other]


def test_what_another_handover_brings_is_expected_there() -> None:
    before = {"source": ["a"], "keyed": ["b"]}
    assert arriving(before, {"source": ["a"], "keyed": ["b", "c", "c"], "next": ["b", "c"]}) == ["b", "c", "c"]
    told = Told()
    told.tell(SubmitRequested("other", "digest", shapes(1)))
    for name in told.machine.jobs["other"].members:
        told.frame(name, Ready("other"))
    placements = []
    for job in ("job", "other"):
        told.effects = []
        told.tell(ReshapeRequested(job, {"keyed": 2}))
        (wanted,) = [each for each in told.effects if isinstance(each, MakeCode)]
        told.tell(CodeMade(job, wanted.order, "other digest", shapes(2)))
        placements.append(told.machine.jobs[job].handover.placement["keyed"][1])
    assert len(set(placements)) == 2, "both would have gone to the same one"
