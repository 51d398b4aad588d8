"""What becomes of a job with checkpoints when a worker of it is lost: it goes on from the last complete one.

A part of the coordinator machine. The job runs again under another name, on the workers that are there, from the last
manifest; whatever the old run still sends or writes counts for nothing. A parked worker takes the place of the lost one
at once; without one, the job waits a while for the replacement that Spark starts, and then goes on with fewer workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto.checkpointing import AnnounceCheckpoint
from stretto.jobs import Job, JobStatus
from stretto.machine import Send
from stretto.protocol.checkpointing import Broken, Unfetched
from stretto.protocol.jobs import Failure, Stop

if TYPE_CHECKING:
    from stretto.coordinator import Coordinator

REPLACED_WITHIN_NS = 10_000_000_000
"""So long a job waits for a worker in place of the lost one."""
UNREAD_MAX = 10
"""So often in a row it is tried to read a checkpoint."""
WORKERLESS_NS = 60_000_000_000
"""So long a job waits for any worker at all."""


class Recovery:
    """The recoveries of all jobs."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._suspects: dict[str, list[tuple[str, Broken]]] = {}
        """By member: who has said that a connection with it broke, until it is known whether it lives."""
        self.frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Broken: self._on_broken,
            Unfetched: self._on_unfetched,
        }

    def begin(self, job: Job, now_ns: int) -> None:
        """Give the running attempt up."""
        durability = job.durability
        assert durability is not None
        for member in self._coordinator.holders(job):
            self._coordinator.effects.append(Send(member, Stop(job.run)))
        durability.attempt += 1
        self._coordinator.rename(job, f"{job.name}~{durability.attempt}")
        durability.underway = None
        durability.unpublished = set()
        durability.waits_since_ns = now_ns
        job.placement, job.hosts = {}, []
        self._coordinator.announce(job, JobStatus.RECOVERING)
        self.go_on(job, now_ns)

    def go_on(self, job: Job, now_ns: int) -> None:
        """Deploy a job that waits to be, if there are the workers for it and it is known where it goes on from."""
        durability = job.durability
        if durability is None or durability.waits_since_ns is None or durability.committing is not None:
            return
        waited_ns = now_ns - durability.waits_since_ns
        workers = self._coordinator.workers()
        if len(workers) >= durability.workers or (workers and waited_ns >= REPLACED_WITHIN_NS):
            durability.waits_since_ns = None
            self._coordinator.deploy(job)
        elif waited_ns >= WORKERLESS_NS:
            fact = f"job '{job.name}' has no worker to go on with"
            self._coordinator.fail(job, Failure("ClusterError", fact, None, "Start it again from its checkpoints."))

    def tick(self, now_ns: int) -> None:
        for job in self._waiting():
            self.go_on(job, now_ns)

    def _waiting(self) -> list[Job]:
        undeployed = (JobStatus.DEPLOYING, JobStatus.RECOVERING)
        return [job for job in self._coordinator.jobs.values() if job.status in undeployed]

    def deadline_ns(self) -> int | None:
        waits = [
            job.durability.waits_since_ns
            for job in self._waiting()
            if job.durability is not None and job.durability.waits_since_ns is not None
        ]
        if not waits:
            return None
        return min(waits) + (REPLACED_WITHIN_NS if self._coordinator.workers() else WORKERLESS_NS)

    def _on_broken(self, sender: str, frame: Broken, now_ns: int) -> None:
        """Frames between two members may be lost, so a job that both have a part in cannot go on as it is. But most
        often the other one is gone, which is known soon; if it is heard of again, it is not."""
        self._suspects.setdefault(frame.member, []).append((sender, frame))
        if frame.member in self._coordinator.members and self._coordinator.members[frame.member].on_driver:
            self.heard(frame.member, now_ns)

    def heard(self, member: str, now_ns: int) -> None:
        """A member lives: what was said of connections with it is true."""
        for sender, frame in self._suspects.pop(member, ()):
            job = self._coordinator.running(frame.job)
            if job is None or not {sender, member} <= set(job.members):
                continue
            if job.durability is not None:
                self.begin(job, now_ns)
            else:
                fact = f"the connection between {sender} and {member} broke while they ran job '{job.name}'"
                self._coordinator.fail(job, Failure("ClusterError", fact, frame.reason, "Submit the job again."))

    def lost(self, member: str) -> None:
        """It is gone, and not only a connection with it."""
        self._suspects.pop(member, None)

    def _on_unfetched(self, sender: str, frame: Unfetched, now_ns: int) -> None:
        job = self._coordinator.running(frame.job)
        if job is None or job.durability is None:
            return
        durability = job.durability
        self._coordinator.effects.append(AnnounceCheckpoint(job.name, frame.checkpoint, None, frame.reason))
        durability.unread += 1
        if frame.damaged:
            durability.manifests = [
                manifest for manifest in durability.manifests if manifest.checkpoint < frame.checkpoint
            ]
        if not durability.manifests or durability.unread > UNREAD_MAX:
            # From the beginning would be wrong too: what the damaged ones had is published.
            fact = f"no checkpoint of job '{job.name}' can be read"
            self._coordinator.fail(job, Failure("StorageError", fact, frame.reason))
        else:
            self.begin(job, now_ns)
