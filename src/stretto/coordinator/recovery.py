"""What becomes of a job with checkpoints when a worker of it is lost: it goes on from the last complete one.

A part of the coordinator machine. The job runs again under another name, on the workers that are there, from the last
manifest; whatever the old run still sends or writes counts for nothing. A parked worker takes the place of the lost one
at once; without one, the job waits a while for the replacement that Spark starts, and then goes on with fewer workers.
"""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.events import AnnounceCheckpoint
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.checkpointing import Broken, Unfetched
from stretto.protocol.jobs import Failure, Stop
from stretto.protocol.membership import Heartbeat, MemberRole

REPLACED_WITHIN_NS = 10_000_000_000
"""So long a job waits for a worker in place of the lost one."""
UNREAD_MAX = 10
"""So often in a row it is tried to read a checkpoint."""
WORKERLESS_NS = 60_000_000_000
"""So long a job waits for any worker at all."""


class JobsHere(Protocol):
    """Whoever deploys, renames and fails jobs."""

    def deploy(self, job: Job) -> None: ...

    def rename(self, job: Job, attempt: str) -> None: ...

    def announce(self, job: Job, status: JobStatus) -> None: ...

    def fail(self, job: Job, failure: Failure) -> None: ...

    def holders(self, job: Job) -> list[str]: ...


class Workers(Protocol):
    """Whoever knows the workers that there are."""

    def workers(self) -> list[str]: ...


class Recovery(Part):
    """The recoveries of all jobs."""

    def __init__(self, host: Host, jobs: JobsHere, hosts: Workers, membership: Membership) -> None:
        self._host = host
        self._jobs = jobs
        self._hosts = hosts
        self._membership = membership
        self._suspects: dict[str, list[tuple[str, Broken]]] = {}
        """By member: who has said that a connection with it broke, until it is known whether it lives."""

    def frames(self) -> FrameHandlers:
        return {Broken: self._on_broken, Unfetched: self._on_unfetched, Heartbeat: self._on_heartbeat}

    def begin(self, job: Job) -> None:
        """Give the running attempt up."""
        durability = job.durability
        assert durability is not None
        for member in self._jobs.holders(job):
            self._host.tell(member, Stop(job.attempt))
        durability.attempt += 1
        self._rename(job, f"{job.name}~{durability.attempt}")
        durability.underway = None
        durability.unpublished = set()
        durability.waits_since_ns = self._host.now_ns
        job.placement, job.hosts = {}, []
        self._jobs.announce(job, JobStatus.RECOVERING)
        self.resume(job)

    def _rename(self, job: Job, attempt: str) -> None:
        self._jobs.rename(job, attempt)

    def resume(self, job: Job) -> None:
        """Deploy a job that waits to be, if there are the workers for it and it is known where it goes on from."""
        durability = job.durability
        if durability is None or durability.waits_since_ns is None or durability.committing is not None:
            return
        waited_ns = self._host.now_ns - durability.waits_since_ns
        workers = self._hosts.workers()
        if len(workers) >= durability.workers or (workers and waited_ns >= REPLACED_WITHIN_NS):
            durability.waits_since_ns = None
            self._jobs.deploy(job)
        elif waited_ns >= WORKERLESS_NS:
            fact = f"job '{job.name}' has no worker to go on with"
            self._jobs.fail(job, Failure("ClusterError", fact, None, "Start it again from its checkpoints."))

    def tick(self) -> None:
        for job in self._waiting():
            self.resume(job)

    def _waiting(self) -> list[Job]:
        undeployed = (JobStatus.DEPLOYING, JobStatus.RECOVERING)
        return [job for job in self._host.jobs.values() if job.status in undeployed]

    def deadline_ns(self) -> int | None:
        waits = [
            job.durability.waits_since_ns
            for job in self._waiting()
            if job.durability is not None and job.durability.waits_since_ns is not None
        ]
        if not waits:
            return None
        return min(waits) + (REPLACED_WITHIN_NS if self._hosts.workers() else WORKERLESS_NS)

    def _on_broken(self, sender: str, frame: Broken) -> None:
        """Frames between two members may be lost, so a job that both have a part in cannot go on as it is. But most
        often the other one is gone, which is known soon; if it is heard of again, it is not."""
        self._suspects.setdefault(frame.member, []).append((sender, frame))
        member = self._membership.members.get(frame.member)
        if member is not None and member.role is MemberRole.DRIVER:
            self._heard(frame.member)

    def _on_heartbeat(self, sender: str, frame: Heartbeat) -> None:
        self._heard(sender)

    def _heard(self, member: str) -> None:
        """A member lives: what was said of connections with it is true."""
        for sender, frame in self._suspects.pop(member, ()):
            job = self._host.running(frame.job)
            if job is None or not {sender, member} <= set(job.members):
                continue
            if job.durability is not None:
                self.begin(job)
            else:
                fact = f"the connection between {sender} and {member} broke while they ran job '{job.name}'"
                self._jobs.fail(job, Failure("ClusterError", fact, frame.reason, "Submit the job again."))

    def member_lost(self, member: str) -> None:
        self._suspects.pop(member, None)

    def _on_unfetched(self, sender: str, frame: Unfetched) -> None:
        job = self._host.running(frame.job)
        if job is None or job.durability is None:
            return
        durability = job.durability
        self._host.effects.append(AnnounceCheckpoint(job.name, frame.checkpoint, None, frame.reason))
        durability.unread += 1
        if frame.damaged:
            durability.manifests = [
                manifest for manifest in durability.manifests if manifest.checkpoint < frame.checkpoint
            ]
        if not durability.manifests or durability.unread > UNREAD_MAX:
            # From the beginning would be wrong too: what the damaged ones had is published.
            fact = f"no checkpoint of job '{job.name}' can be read"
            self._jobs.fail(job, Failure("StorageError", fact, frame.reason))
        else:
            self.begin(job)
