"""The coordinator with checkpoints, event by event: how workers are replaced, and what a job waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stretto.actors.address import Address
from stretto.actors.shape import FunctionShape, Shapes
from stretto.checkpoints.manifest import ActorRecord, Manifest, Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.checkpointing import OVERDUE_NS, RETRY_NS
from stretto.coordinator.events import (
    AnnounceCheckpoint,
    AnnounceJob,
    CheckpointPlan,
    Effect,
    JobLost,
    ManifestFailed,
    ManifestWritten,
    PruneCheckpoints,
    ReplaceWorker,
    StopRequested,
    SubmitRequested,
    WorkerEnded,
    WorkerExpected,
    WriteManifest,
)
from stretto.coordinator.machine import WORKERLESS_NS, Coordinator
from stretto.coordinator.records import JobStatus
from stretto.protocol.checkpointing import (
    Abandon,
    Checkpoint,
    Overdue,
    Publish,
    Published,
    Stored,
    Unfetched,
    Unstored,
)
from stretto.protocol.jobs import Deploy, Failure, Ready
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Join, Member
from stretto.simulator.engine.storage import SimulatedFiles

SHAPES = {"source": FunctionShape("source", 1), "sink": FunctionShape("sink", 1, is_sink=True)}
PLAN = CheckpointPlan(Storage("memory", 1, "0123abcd"), 1_000_000, 3)


def expect(coordinator: Coordinator, name: str, parked: bool = False) -> None:
    coordinator.handle(WorkerExpected(name, name, parked), 0)


def join(coordinator: Coordinator, name: str, now_ns: int = 0) -> list[Effect]:
    return coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), now_ns)


def submit(coordinator: Coordinator, *manifests: Manifest, shapes: Shapes = SHAPES) -> list[Effect]:
    plan = replace(PLAN, manifests=manifests)
    return coordinator.handle(SubmitRequested("job", "digest", shapes, checkpoints=plan), 0)


def taken(checkpoint: int) -> Manifest:
    return Manifest("job", checkpoint, {name: [ActorRecord()] for name in SHAPES}, shapes=SHAPES)


def running(*manifests: Manifest, workerless_ns: int = WORKERLESS_NS) -> Coordinator:
    coordinator = Coordinator(workerless_ns=workerless_ns)
    expect(coordinator, "w0~1")
    join(coordinator, "w0~1")
    submit(coordinator, *manifests)
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


def test_a_job_that_has_lost_all_workers_waits_for_new_ones_as_long_as_it_is_told_to() -> None:
    coordinator = running(workerless_ns=900)
    coordinator.handle(WorkerEnded("w0~1", "died"), 0)
    assert coordinator.next_deadline_ns() == 900
    coordinator.handle(Ticked(), 899)
    assert coordinator.jobs["job"].status is JobStatus.RECOVERING
    coordinator.handle(Ticked(), 900)
    failure = coordinator.jobs["job"].failure
    assert failure is not None
    assert failure.fact == "job 'job' has no worker to resume on"


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


def test_a_job_goes_back_to_an_earlier_checkpoint_only_after_the_log_says_so() -> None:
    one, other = taken(1), taken(2)
    coordinator = Coordinator()
    expect(coordinator, "w0~1")
    join(coordinator, "w0~1")
    assert [deploy.origin for deploy in frames(Deploy, submit(coordinator, one, other))] == [other]
    effects = coordinator.handle(FrameArrived("w0~1", Unfetched("job", 2, "damaged", True)), 0)
    assert of(WriteManifest, effects) == [WriteManifest("job", one)]
    assert not frames(Deploy, effects)
    # The disk is full; it is tried again after a while.
    assert not frames(Deploy, coordinator.handle(ManifestFailed("job", 1, "full"), 0))
    assert not of(WriteManifest, coordinator.handle(Ticked(), RETRY_NS - 1))
    assert of(WriteManifest, coordinator.handle(Ticked(), RETRY_NS)) == [WriteManifest("job", one)]
    effects = coordinator.handle(ManifestWritten("job", 1), RETRY_NS)
    assert [deploy.origin for deploy in frames(Deploy, effects)] == [one]
    assert of(PruneCheckpoints, effects) == [PruneCheckpoints("job", (one,))]
    assert not of(AnnounceCheckpoint, effects)  # It was complete before.


def test_a_job_whose_rows_have_called_entities_does_not_go_back() -> None:
    coordinator = Coordinator()
    expect(coordinator, "w0~1")
    join(coordinator, "w0~1")
    calls = FunctionShape("source", 1, calls=True)
    submit(coordinator, taken(1), taken(2), shapes={**SHAPES, "source": calls})
    effects = coordinator.handle(FrameArrived("w0~1", Unfetched("job", 2, "damaged", True)), 0)
    assert not of(WriteManifest, effects)
    (failed,) = [each.failure for each in of(AnnounceJob, effects) if each.status is JobStatus.FAILED]
    assert failed.fact == "the last checkpoint of job 'job' is damaged"
    assert "its rows have called entities since: damaged" in failed.detail


def test_a_savepoint_that_could_not_be_written_is_tried_again_and_the_checkpoint_counts() -> None:
    coordinator = running()
    coordinator.handle(StopRequested("job", savepoint="half"), 1)
    for name in SHAPES:
        effects = coordinator.handle(FrameArrived("w0~1", Stored(Address("job", name, 0), 1, ActorRecord())), 2)
    assert [each.manifest.savepoint for each in of(WriteManifest, effects)] == ["half"]
    effects = coordinator.handle(ManifestWritten("job", 1, unsaved="no space"), 3)
    assert frames(Publish, effects) == [Publish("job", 1)]
    assert [(each.manifest is not None, each.reason) for each in of(AnnounceCheckpoint, effects)] == [
        (True, None),
        (False, "no space"),
    ]
    coordinator.handle(FrameArrived("w0~1", Published(Address("job", "sink", 0), 1)), 4)
    assert coordinator.jobs["job"].status is JobStatus.RUNNING
    assert frames(Checkpoint, coordinator.handle(Ticked(), 3 + RETRY_NS)) == [Checkpoint("job", 2)]


def test_a_job_whose_checkpoints_were_taken_over_fails_with_that() -> None:
    files = SimulatedFiles()
    one, other = CheckpointStore(files), CheckpointStore(files)
    one.claim("process 1", "one")
    failed = AnnounceJob("job", JobStatus.FAILED, Failure("UserError", "the output directory cannot be written"))
    assert failed.explained_by(one) == failed
    other.claim("process 2", "other")
    told = failed.explained_by(one).failure
    assert told is not None
    assert (told.error, told.fact) == (
        "TakenOverError",
        "another driver has taken over the checkpoints of job 'job'",
    )
    assert told.detail == "it is process 2; the job failed with: the output directory cannot be written"
    lost = WriteManifest("job", taken(1)).write_to(one)
    assert isinstance(lost, JobLost)
    assert AnnounceJob("job", JobStatus.FAILED, lost.failure).explained_by(one).failure == lost.failure
