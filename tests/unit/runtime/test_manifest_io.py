"""The thread that reads and writes the log of checkpoints: failures are explained there, and always announced."""

from __future__ import annotations

import threading

from stretto.checkpoints.manifest import Manifest
from stretto.checkpoints.store import CheckpointStore
from stretto.coordinator.events import AnnounceJob, Event, JobLost, WriteManifest
from stretto.coordinator.records import JobStatus
from stretto.protocol.jobs import Failure
from stretto.runtime.manifest_io import ManifestIO
from stretto.simulator.engine.storage import SimulatedFiles

FAILED = AnnounceJob("job", JobStatus.FAILED, Failure("UserError", "no such file"))
MANIFEST = Manifest("job", 1, {})


def replaced() -> CheckpointStore:
    """Returns the store of a driver that another one has replaced."""
    files = SimulatedFiles()
    store = CheckpointStore(files)
    store.claim("process 1", "one")
    CheckpointStore(files).claim("process 2", "other")
    return store


def errors(announced: list[AnnounceJob]) -> list[str]:
    return [each.failure.error for each in announced if each.failure is not None]


def test_a_failure_after_a_takeover_is_announced_as_that() -> None:
    announced: list[AnnounceJob] = []
    done = threading.Event()
    manifests = ManifestIO(lambda event: None)
    manifests.stores["job"] = replaced()
    manifests.explain(FAILED, lambda effect: (announced.append(effect), done.set()))
    assert done.wait(60)
    manifests.close()
    assert errors(announced) == ["TakenOverError"]


def test_a_failure_that_is_not_explained_before_the_end_is_announced() -> None:
    announced: list[AnnounceJob] = []
    began, closing = threading.Event(), threading.Event()

    class Slow(CheckpointStore):
        def check_owner(self) -> None:
            began.set()
            assert closing.wait(60)

    manifests = ManifestIO(lambda event: None)
    manifests.stores = {"slow": Slow(SimulatedFiles()), "job": replaced()}
    manifests.explain(AnnounceJob("slow", JobStatus.FAILED, FAILED.failure), announced.append)
    manifests.explain(FAILED, announced.append)
    assert began.wait(60)
    closer = threading.Thread(target=manifests.close)
    closer.start()
    closing.set()
    closer.join(60)
    assert sorted(each.job for each in announced) == ["job", "slow"]


def test_a_manifest_after_a_takeover_ends_the_job() -> None:
    events: list[Event] = []
    done = threading.Event()
    manifests = ManifestIO(lambda event: (events.append(event), done.set()))
    manifests.stores["job"] = replaced()
    manifests.begin(WriteManifest("job", MANIFEST))
    assert done.wait(60)
    manifests.close()
    (lost,) = events
    assert isinstance(lost, JobLost)
    assert lost.failure.fact == "another driver has taken over the checkpoints of job 'job'"
