"""Recovery of a job with checkpoints that has lost a worker: it resumes from the last complete checkpoint.

A part of the coordinator machine. The job runs again under another name, on the present workers, from the last
manifest; whatever the old run still sends or writes is ignored. A parked worker takes the place of the lost one at
once; without one, the job waits a while for the replacement that Spark starts, and then resumes with fewer workers.
Where it may resume, and when, also depends on whether it is suspected of ending its workers (`blame.py`).
"""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.events import AnnounceCheckpoint, WriteManifest
from stretto.coordinator.interfaces import Rooms, Stops, Workers
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.checkpointing import Broken, Unfetched
from stretto.protocol.jobs import Failure
from stretto.protocol.membership import Heartbeat, MemberRole

REPLACED_WITHIN_NS = 10_000_000_000
"""How long a job waits for a replacement of a lost worker."""
UNREAD_MAX = 10
"""How often in a row reading a checkpoint is tried."""


class JobsHere(Protocol):
    """What recovery needs of the jobs."""

    def deploy(self, job: Job) -> None: ...

    def rename(self, job: Job, attempt: str) -> None: ...

    def announce(self, job: Job, status: JobStatus) -> None: ...

    def fail(self, job: Job, failure: Failure) -> None: ...

    def holders(self, job: Job) -> list[str]: ...


class HandedOver(Protocol):
    """What recovery needs of the handovers."""

    def give_up(self, job: Job, reason: str) -> None: ...

    def broken(self, attempt: str, one: str, other: str) -> None: ...


class Recovery(Part):
    """The recoveries of all jobs."""

    def __init__(
        self, host: Host, jobs: JobsHere, hosts: Workers, membership: Membership, rooms: Rooms, stops: Stops
    ) -> None:
        self._host = host
        self._jobs = jobs
        self._hosts = hosts
        self._membership = membership
        self._rooms = rooms
        self._stops = stops
        self._suspects: dict[str, list[tuple[str, Broken]]] = {}
        """Reports of a broken connection, by the member at its other end, until it is known whether that is alive."""

    def connect(self, handovers: HandedOver) -> None:
        self._handovers = handovers

    def frames(self) -> FrameHandlers:
        return {Broken: self._on_broken, Unfetched: self._on_unfetched, Heartbeat: self._on_heartbeat}

    def begin(self, job: Job) -> None:
        """Gives up the running attempt."""
        durability = job.durability
        assert durability is not None
        self._handovers.give_up(job, "the job lost a worker and resumes from its last checkpoint")
        for member in self._jobs.holders(job):
            self._stops.ask(member, job.attempt)
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
        """Deploys a waiting job, if there are workers for it and its last checkpoint is known."""
        durability = job.durability
        if durability is None or durability.waits_since_ns is None or durability.committing is not None:
            return
        if durability.goes_back:
            if self._host.now_ns >= durability.retry_ns:
                durability.committing = durability.manifests[-1]
                self._host.effects.append(WriteManifest(job.name, durability.committing))
            return
        waited_ns = self._host.now_ns - self._waits_since_ns(job)
        if waited_ns < 0 or self._rooms.waits_for_place(job):
            return
        workers = self._rooms.workers_for(job)
        usual = min(durability.workers, max(1, self._membership.wanted))
        enough = len(workers) >= self._rooms.workers_wanted(job, usual)
        if enough or (self._hosts.workers() and waited_ns >= REPLACED_WITHIN_NS):
            if not workers:
                self._rooms.give_up_quarantine(job)
            durability.waits_since_ns = None
            self._jobs.deploy(job)
        elif waited_ns >= self._membership.workerless_ns:
            fact = f"job '{job.name}' has no worker to resume on"
            self._jobs.fail(job, Failure("ClusterError", fact, None, "Start it again from its checkpoints."))

    def _waits_since_ns(self, job: Job) -> int:
        """Returns since when a job waits for workers; that may be later than now, if it is held back."""
        assert job.durability is not None
        return max(job.durability.waits_since_ns or 0, self._rooms.resumes_ns(job))

    def tick(self) -> None:
        for job in self._waiting():
            self.resume(job)

    def _waiting(self) -> list[Job]:
        undeployed = (JobStatus.DEPLOYING, JobStatus.RECOVERING)
        return [
            job
            for job in self._host.jobs.values()
            if job.status in undeployed and job.durability is not None and job.durability.waits_since_ns is not None
        ]

    def deadline_ns(self) -> int | None:
        return min(map(self._due_ns, self._waiting()), default=None)

    def _due_ns(self, job: Job) -> int:
        since_ns = self._waits_since_ns(job)
        if since_ns > self._host.now_ns:
            return since_ns
        return since_ns + (REPLACED_WITHIN_NS if self._hosts.workers() else self._membership.workerless_ns)

    def _on_broken(self, sender: str, frame: Broken) -> None:
        """Records a broken connection. Frames between the two members may be lost, so a job on both must recover. Most
        often the other member is gone, which is detected soon; its next heartbeat shows that it is not. A transient one
        is replaced, since everybody can do without it."""
        for guest in {sender, frame.member}.intersection(self._membership.transient()):
            self._membership.lose(guest, f"its connection broke: {frame.reason}")
            return
        self._suspects.setdefault(frame.member, []).append((sender, frame))
        member = self._membership.members.get(frame.member)
        if member is not None and member.role is MemberRole.DRIVER:
            self._confirm_broken(frame.member)

    def _on_heartbeat(self, sender: str, frame: Heartbeat) -> None:
        self._confirm_broken(sender)

    def _confirm_broken(self, member: str) -> None:
        """Recovers or fails the jobs of broken connections with a member, since the member is alive."""
        for sender, frame in self._suspects.pop(member, ()):
            self._handovers.broken(frame.job, sender, member)
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
            # The next driver must not resume from the damaged ones either: their output will be withdrawn.
            durability.goes_back = True
            durability.manifests = [
                manifest for manifest in durability.manifests if manifest.checkpoint < frame.checkpoint
            ]
        if frame.damaged and (job.callers or job.irrevocable):
            fact = f"the last checkpoint of job '{job.name}' is damaged"
            since = "what it has written since would stay"
            if job.callers:
                since = "its rows have called entities since"
            elif job.readers:
                since = "what entities had emitted before the last one is not kept"
            detail = f"it cannot go back to an earlier one, since {since}: {frame.reason}"
            self._jobs.fail(job, Failure("StorageError", fact, detail, "Restore the directory from a backup."))
        elif not durability.manifests or durability.unread > UNREAD_MAX:
            # Starting from the beginning would be wrong too: the output of the damaged checkpoints is published.
            fact = f"no checkpoint of job '{job.name}' can be read"
            self._jobs.fail(job, Failure("StorageError", fact, frame.reason))
        else:
            self.begin(job)
