"""Workers come and go while jobs run, event by event: what is started, what moves, who leaves and when."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.shape import FunctionShape
from stretto.checkpoints.manifest import ActorRecord, Storage
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceDecision,
    AnnounceJob,
    CheckpointPlan,
    CheckpointRequested,
    DrainRequested,
    Effect,
    LesseesRequested,
    ReleaseWorker,
    ReplaceWorker,
    ScaleInRequested,
    ScaleOutRequested,
    StartFailed,
    StartWorker,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.machine import LOST_AFTER_NS, Coordinator
from stretto.coordinator.records import JobStatus
from stretto.coordinator.standing import MOVES, Standing, Standings
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import AddWorkers, DrainWorker, SetLessees
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.elasticity.team import Team
from stretto.elasticity.view import ElasticView
from stretto.errors import InvariantError
from stretto.protocol.checkpointing import Abandon, Stored, StoredInParts
from stretto.protocol.jobs import Deploy, Failed, Failure, Hosts, HostsLeft, Ready
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Heartbeat, Join, Leave, Left, Member, MemberRole
from stretto.protocol.reports import Report

SINGLE = {
    "source": FunctionShape("source", 1),
    "sink": FunctionShape("sink", 1, on_driver=True),
}
HOME, OTHER = "w0~1", "w1~1"


def member(name: str) -> Member:
    role = MemberRole.DRIVER if name.startswith("driver") else MemberRole.WORKER
    return Member(name, f"tcp://{name}", f"key of {name}", "host", 1, role)


def join(coordinator: Coordinator, name: str, parked: bool = False, now_ns: int = 0) -> list[Effect]:
    coordinator.handle(WorkerExpected(name, f"key of {name}", parked), now_ns)
    return coordinator.handle(FrameArrived(name, Join(member(name))), now_ns)


def joined(*names: str, controllers: Team | None = None) -> Coordinator:
    coordinator = Coordinator(controllers=controllers)
    for name in names:
        join(coordinator, name)
    return coordinator


def running(*names: str) -> Coordinator:
    """A cluster with a running job that may have lessees everywhere, and is at home on the first worker."""
    coordinator = joined(*names)
    effects = coordinator.handle(SubmitRequested("job", "digest", SINGLE, spreads=True), 0)
    for name in frames(Deploy, effects):
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert coordinator.jobs["job"].status is JobStatus.RUNNING
    assert coordinator.jobs["job"].placement["source"] == [HOME]
    return coordinator


def of(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def frames(kind: type[Any], effects: list[Effect]) -> dict[str, Any]:
    return {send.to: send.frame for send in of(Send, effects) if isinstance(send.frame, kind)}


def outcome(effects: list[Effect]) -> DecisionRecord:
    (announced,) = of(AnnounceDecision, effects)
    return announced.record  # type: ignore[no-any-return]


# Adding.


def test_an_added_worker_is_started_gets_the_code_and_hosts_lessees_when_it_has_it() -> None:
    coordinator = running(HOME, OTHER, "driver~1")
    effects = coordinator.handle(ScaleOutRequested(1, "token"), 0)
    assert of(StartWorker, effects) == [StartWorker("w2~1")]
    assert outcome(effects).outcome is Outcome.PENDING
    assert coordinator.wanted == 3
    effects = join(coordinator, "w2~1")
    assert outcome(effects).outcome is Outcome.DONE
    assert set(frames(Deploy, effects)) == {"w2~1"}
    assert not frames(Hosts, effects)
    effects = coordinator.handle(FrameArrived("w2~1", Ready("job")), 0)
    assert frames(Hosts, effects)[HOME].hosts == [HOME, OTHER, "w2~1"]
    assert coordinator.wanted == 3


def test_a_worker_that_joins_while_a_job_is_deployed_gets_its_code_when_it_starts() -> None:
    coordinator = joined(HOME, "driver~1")
    coordinator.handle(SubmitRequested("job", "digest", SINGLE, spreads=True), 0)
    assert not frames(Deploy, join(coordinator, OTHER))
    effects = []
    for name in coordinator.jobs["job"].members:
        effects += coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert set(frames(Deploy, effects)) == {OTHER}


def test_an_added_worker_that_cannot_be_started_is_not_wanted_any_more() -> None:
    coordinator = joined(HOME, "driver~1")
    coordinator.handle(ScaleOutRequested(2), 0)
    assert not of(AnnounceDecision, coordinator.handle(StartFailed("w1~1", "Spark has no slot"), 0))
    record = outcome(join(coordinator, "w2~1"))
    assert record.outcome is Outcome.FAILED
    assert record.outcome_reason == "1 of 2 workers joined: Spark has no slot"
    assert coordinator.wanted == 2


def test_an_added_worker_that_dies_before_it_joins_is_replaced() -> None:
    coordinator = joined(HOME, "driver~1")
    coordinator.handle(ScaleOutRequested(1), 0)
    coordinator.handle(WorkerExpected("w1~1", "key of w1~1"), 0)
    effects = coordinator.handle(WorkerEnded("w1~1", "it died"), 0)
    assert of(ReplaceWorker, effects) == [ReplaceWorker("w1~1", parked=False, joined=False)]
    assert outcome(join(coordinator, "w1~2")).outcome is Outcome.DONE
    assert coordinator.wanted == 2


def test_a_name_is_not_used_again() -> None:
    coordinator = joined(HOME, OTHER, "driver~1")
    coordinator.handle(DrainRequested(OTHER), 0)
    coordinator.handle(WorkerEnded(OTHER, "it left"), 0)
    effects = coordinator.handle(ScaleOutRequested(1), 0)
    assert of(StartWorker, effects) == [StartWorker("w2~1")]


# Draining.


def test_a_worker_leaves_when_it_has_no_lessees_left_and_is_not_replaced() -> None:
    coordinator = running(HOME, OTHER, "driver~1")
    effects = coordinator.handle(DrainRequested(OTHER, "token"), 0)
    told = frames(Hosts, effects)
    assert told[HOME].hosts == [HOME]
    assert outcome(effects).outcome is Outcome.PENDING
    assert coordinator.wanted == 1
    for name in (OTHER, "driver~1"):
        assert not frames(Leave, coordinator.handle(FrameArrived(name, HostsLeft("job", told[name].change)), 0))
    effects = coordinator.handle(FrameArrived(HOME, HostsLeft("job", told[HOME].change)), 0)
    assert set(frames(Leave, effects)) == {OTHER}
    effects = coordinator.handle(FrameArrived(OTHER, Left()), 0)
    assert not of(AnnounceDecision, effects), "the slot is not free before the Spark task has returned"
    effects = coordinator.handle(WorkerEnded(OTHER, "its task returned"), 2_000_000_000)
    assert not of(ReplaceWorker, effects)
    record = outcome(effects)
    assert (record.outcome, record.spent) == (Outcome.DONE, {"seconds": 2.0})
    assert coordinator.jobs["job"].status is JobStatus.RUNNING


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("w2~1", "it is parked"),
        ("w9~1", "there is no worker w9~1"),
        ("driver~1", "there is no worker driver~1"),
    ],
)
def test_who_cannot_be_drained_stays(name: str, reason: str) -> None:
    coordinator = running(HOME, OTHER, "driver~1")
    join(coordinator, "w2~1", parked=True)
    record = outcome(coordinator.handle(DrainRequested(name), 0))
    assert record.outcome is Outcome.REFUSED
    assert reason in (record.outcome_reason or "")
    assert coordinator.wanted == 2


def test_homes_move_by_a_handover_and_the_worker_is_not_free_before() -> None:
    coordinator = running(HOME, OTHER, "driver~1")
    effects = coordinator.handle(DrainRequested(HOME), 0)
    deployed = frames(Deploy, effects)
    assert set(deployed) == {OTHER, "driver~1"}
    assert deployed[OTHER].placement["source"] == [OTHER]
    assert deployed[OTHER].job == "job~2"
    assert outcome(effects).outcome is Outcome.PENDING
    assert not frames(Leave, coordinator.handle(Ticked(), 1))


def test_a_handover_that_was_called_off_is_tried_again() -> None:
    coordinator = running(HOME, OTHER, "w2~1", "driver~1")
    coordinator.handle(DrainRequested(HOME), 0)
    coordinator.handle(FrameArrived(OTHER, Failed("job~2", Failure("UserError", "it does not open"))), 0)
    assert coordinator.jobs["job"].handover is None
    assert not frames(Deploy, coordinator.handle(Ticked(), 1))
    assert frames(Deploy, coordinator.handle(Ticked(), 1_000_000_000))[OTHER].job == "job~3"


def test_a_sink_on_a_worker_stays_without_checkpoints() -> None:
    coordinator = joined(HOME, OTHER, "driver~1")
    coordinator.handle(SubmitRequested("job", "digest", {"out": FunctionShape("out", 1, is_sink=True)}), 0)
    coordinator.handle(FrameArrived(HOME, Ready("job")), 0)
    record = outcome(coordinator.handle(DrainRequested(HOME), 0))
    assert record.outcome is Outcome.REFUSED
    assert "it is home to sink 'out' of job, and only with checkpoints" in (record.outcome_reason or "")


def test_the_only_worker_and_one_that_drains_already_cannot_be_drained() -> None:
    coordinator = joined(HOME, OTHER, "driver~1")
    assert outcome(coordinator.handle(DrainRequested(HOME), 0)).outcome is Outcome.PENDING
    assert outcome(coordinator.handle(DrainRequested(HOME), 0)).outcome_reason == "it is dismissed"
    assert outcome(coordinator.handle(DrainRequested(OTHER), 0)).outcome_reason == "it is the only worker"


def test_nothing_new_is_placed_on_a_draining_worker() -> None:
    coordinator = running(HOME, OTHER, "w2~1", "driver~1")
    coordinator.handle(DrainRequested(OTHER), 0)
    effects = coordinator.handle(SubmitRequested("next", "digest", SINGLE, spreads=True), 0)
    assert OTHER not in frames(Deploy, effects)


def test_a_loss_in_the_middle_of_a_drain_is_the_loss_of_its_lessees_and_is_not_replaced() -> None:
    coordinator = running(HOME, OTHER, "driver~1")
    coordinator.handle(DrainRequested(OTHER), 0)
    effects = coordinator.handle(WorkerEnded(OTHER, "its process died"), 0)
    assert not of(ReplaceWorker, effects)
    (failed,) = of(AnnounceJob, effects)
    assert failed.status is JobStatus.FAILED, "what its lessees knew is lost, and there is no checkpoint"
    assert outcome(effects).outcome is Outcome.DONE


def test_the_spark_task_of_a_draining_worker_that_hangs_is_ended() -> None:
    coordinator = joined(HOME, OTHER, "driver~1")
    coordinator.handle(DrainRequested(OTHER), 0)
    effects: list[Effect] = []
    for now_ns in range(0, LOST_AFTER_NS + 1, LOST_AFTER_NS // 50):
        coordinator.handle(FrameArrived(HOME, Heartbeat()), now_ns)
        effects += coordinator.handle(Ticked(), now_ns)
    assert of(ReleaseWorker, effects) == [ReleaseWorker(OTHER)]
    assert not of(ReplaceWorker, effects)
    assert outcome(coordinator.handle(WorkerEnded(OTHER, "cancelled"), LOST_AFTER_NS)).outcome is Outcome.DONE


def test_a_drain_ends_although_its_job_gets_another_attempt_meanwhile() -> None:
    coordinator = joined(HOME, OTHER, "w2~1", "driver~1")
    effects = coordinator.handle(SubmitRequested("job", "digest", SINGLE, spreads=True), 0)
    coordinator.handle(DrainRequested(OTHER), 0)
    effects = coordinator.handle(WorkerEnded("w2~1", "its process died"), 0)  # It is placed again.
    assert not coordinator.jobs["job"].hosts or OTHER not in coordinator.jobs["job"].hosts
    effects += coordinator.handle(Ticked(), 1)
    assert set(frames(Leave, effects)) == {OTHER}


def test_scale_in_takes_workers_without_homes_first_and_all_or_none() -> None:
    coordinator = running(HOME, OTHER, "w2~1", "driver~1")
    effects = coordinator.handle(ScaleInRequested(3, "token"), 0)
    record = outcome(effects)
    assert record.outcome is Outcome.REFUSED
    assert "2 of 3 workers can leave" in (record.outcome_reason or "")
    assert coordinator.wanted == 3
    effects = coordinator.handle(ScaleInRequested(2, "token"), 0)
    decisions = [announced.record.decision for announced in of(AnnounceDecision, effects)]
    assert decisions == [DrainWorker("w2~1"), DrainWorker(OTHER)], "the last to join first"
    assert coordinator.wanted == 1


def test_homes_leave_all_workers_that_are_drained_together_at_one_handover() -> None:
    coordinator = joined(HOME, OTHER, "w2~1", "driver~1")
    keyed = {**SINGLE, "source": FunctionShape("source", 3)}
    for name in frames(Deploy, coordinator.handle(SubmitRequested("job", "digest", keyed), 0)):
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    assert coordinator.jobs["job"].placement["source"] == [HOME, OTHER, "w2~1"]
    effects = coordinator.handle(ScaleInRequested(2, "token"), 0)
    leavers = [announced.record.decision.member for announced in of(AnnounceDecision, effects)]
    (staying,) = {HOME, OTHER, "w2~1"} - set(leavers)
    deployed = [send.frame for send in of(Send, effects) if isinstance(send.frame, Deploy)]
    assert {frame.job for frame in deployed} == {"job~2"}
    assert deployed[0].placement["source"] == [staying] * 3


def test_a_parked_worker_that_took_over_can_be_drained_and_its_successor_stays_parked() -> None:
    coordinator = joined(HOME, OTHER, "driver~1")
    join(coordinator, "w2~1", parked=True)
    (replaced,) = of(ReplaceWorker, coordinator.handle(WorkerEnded(OTHER, "it died"), 0))
    assert replaced.parked
    join(coordinator, "w1~2", parked=True)
    assert coordinator.wanted == 2
    assert set(frames(Leave, coordinator.handle(DrainRequested("w2~1"), 0))) == {"w2~1"}
    effects = coordinator.handle(WorkerEnded("w2~1", "it left"), 0)
    assert not of(ReplaceWorker, effects)
    assert outcome(coordinator.handle(DrainRequested("w1~2"), 0)).outcome_reason == "it is parked"


def test_moves_that_are_not_in_the_table_are_faults() -> None:
    for before in Standing:
        for after in Standing:
            standings = Standings()
            standings.begin("w0~1", before)
            if after in MOVES[before]:
                standings.move("w0~1", after)
                assert standings.of("w0~1") is after
            else:
                with pytest.raises(InvariantError):
                    standings.move("w0~1", after)


# The number of lessees.

SPREAD = {**SINGLE, "spread": FunctionShape("spread", 1, lessees_max=2)}


def spread(*names: str) -> Coordinator:
    coordinator = joined(*names)
    coordinator.handle(SubmitRequested("job", "digest", SPREAD, spreads=True), 0)
    for name in coordinator.jobs["job"].members:
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    return coordinator


def test_the_number_of_lessees_is_sent_to_all_members_and_to_those_that_come() -> None:
    coordinator = spread(HOME, OTHER, "driver~1")
    effects = coordinator.handle(LesseesRequested("job", "spread", 1), 0)
    record = outcome(effects)
    assert (record.decision, record.outcome) == (SetLessees("job", "spread", 1), Outcome.DONE)
    told = frames(Hosts, effects)
    assert set(told) == {HOME, OTHER, "driver~1"}
    assert {(tuple(frame.hosts), *frame.lessees.items()) for frame in told.values()} == {((HOME, OTHER), ("spread", 1))}
    assert frames(Hosts, coordinator.handle(LesseesRequested("job", "spread", 1), 0)) == {}, "nothing changes"
    join(coordinator, "w2~1")
    later = frames(Hosts, coordinator.handle(FrameArrived("w2~1", Ready("job")), 0))
    assert later["w2~1"].lessees == {"spread": 1}


def test_new_lessees_go_to_the_least_busy_workers_first() -> None:
    coordinator = spread(HOME, OTHER, "w2~1", "driver~1")
    for at_ns in (0, 1_000_000_000):
        for name, share in ((HOME, 0.5), (OTHER, 0.9)):
            busy = {"spread": {0: FunctionMetrics(busy_ns=int(share * at_ns))}}
            coordinator.handle(FrameArrived(name, Report("job", busy, 0, at_ns)), at_ns)
        coordinator.handle(Ticked(), at_ns)
    told = frames(Hosts, coordinator.handle(LesseesRequested("job", "spread", 1), 1_000_000_000))
    assert told[HOME].hosts == ["w2~1", HOME, OTHER]


@pytest.mark.parametrize(
    ("function", "lessees", "reason"),
    [
        ("spread", 3, "it may have 0 to 2 lessees"),
        ("spread", -1, "it may have 0 to 2 lessees"),
        ("source", 1, "function 'source' has no lessees"),
        ("other", 1, "there is no such function"),
    ],
)
def test_lessees_that_a_function_cannot_have_are_refused(function: str, lessees: int, reason: str) -> None:
    coordinator = spread(HOME, OTHER, "driver~1")
    record = outcome(coordinator.handle(LesseesRequested("job", function, lessees), 0))
    assert (record.outcome, record.outcome_reason) == (Outcome.REFUSED, reason)


# Controllers.


class Scripted(Controller):
    """Decides what it is told to, once."""

    def __init__(self, *decisions: Any) -> None:
        self._decisions = list(decisions)

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        if not self._decisions:
            return []
        return [self.cluster_record(now_ns, "it is in the script", self._decisions.pop(0))]


@pytest.mark.parametrize("decision", [AddWorkers(1), DrainWorker(OTHER)])
def test_controllers_can_ask_for_workers_and_have_them_leave(decision: AddWorkers | DrainWorker) -> None:
    coordinator = joined(HOME, OTHER, "driver~1", controllers=Team([Scripted(decision)]))
    elastic = {"keyed": FunctionShape("keyed", 1, workers_max=2)}
    coordinator.handle(SubmitRequested("job", "digest", elastic, spreads=True), 0)
    for name in coordinator.jobs["job"].members:
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    effects = coordinator.handle(Ticked(), 1_000_000_000)
    record = outcome(effects)
    assert (record.controller, record.where, record.decision) == ("Scripted", "cluster", decision)
    assert bool(of(StartWorker, effects)) is isinstance(decision, AddWorkers)
    assert bool(frames(Hosts, effects)) is isinstance(decision, DrainWorker)
    assert coordinator.wanted == (3 if isinstance(decision, AddWorkers) else 1)


def test_a_worker_can_be_drained_while_others_of_its_addition_are_still_coming() -> None:
    coordinator = joined(HOME, "driver~1")
    coordinator.handle(ScaleOutRequested(2), 0)
    join(coordinator, "w1~1")
    coordinator.handle(DrainRequested("w1~1"), 0)
    assert outcome(coordinator.handle(WorkerEnded("w1~1", "it left"), 0)).decision == DrainWorker("w1~1")
    assert outcome(join(coordinator, "w2~1")).decision == AddWorkers(2)


# A checkpoint that has a part of a worker that leaves.


def storing() -> Coordinator:
    """A cluster in which a worker has nothing of a job any more but a part of its checkpoint, which it still writes."""
    coordinator = joined(HOME, OTHER, "driver~1")
    plan = CheckpointPlan(Storage("memory", 1, "0123abcd"), None, 3)
    effects = coordinator.handle(SubmitRequested("job", "digest", SINGLE, spreads=True, checkpoints=plan), 0)
    for name in frames(Deploy, effects):
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    coordinator.handle(CheckpointRequested("job"), 0)
    coordinator.handle(FrameArrived(HOME, StoredInParts(Address("job", "source", 0), 1, [OTHER])), 0)
    effects = coordinator.handle(DrainRequested(OTHER), 0)
    for name, frame in frames(Hosts, effects).items():
        effects = coordinator.handle(FrameArrived(name, HostsLeft("job", frame.change)), 0)
    assert OTHER not in coordinator.jobs["job"].members
    assert not frames(Leave, effects), "it still writes"
    return coordinator


def test_a_worker_leaves_when_its_part_of_a_checkpoint_is_stored() -> None:
    coordinator = storing()
    part = Stored(Address("job", "source", 0), 1, ActorRecord(), is_part=True)
    effects = coordinator.handle(FrameArrived(OTHER, part), 0) + coordinator.handle(Ticked(), 0)
    assert set(frames(Leave, effects)) == {OTHER}


def test_a_checkpoint_is_called_off_if_a_worker_is_lost_that_had_only_a_part_of_it() -> None:
    coordinator = storing()
    effects = coordinator.handle(WorkerEnded(OTHER, "it died"), 0)
    (announced,) = of(AnnounceCheckpoint, effects)
    assert (announced.checkpoint, announced.manifest) == (1, None)
    assert announced.reason == f"{OTHER} is lost, and has not stored its part"
    assert HOME in frames(Abandon, effects)
    assert coordinator.jobs["job"].status is JobStatus.RUNNING, "nothing else of the job was there"
