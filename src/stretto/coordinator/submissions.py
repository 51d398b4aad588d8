"""Submissions that wait for workers: a job is placed once the replacements under way have joined, or not in time.

A part of the coordinator machine. A job stays where it is placed, so it waits a while for a worker that is being
replaced, even if others are there. If none is there, it waits longer, and fails when none has come back.
"""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.jobs import Failure

JOINED_WITHIN_NS = 10_000_000_000
"""How long a job waits for a worker that is being replaced, from the loss of that worker."""


class JobsHere(Protocol):
    """What submissions need of the jobs."""

    def begin(self, job: Job) -> None: ...

    def announce(self, job: Job, status: JobStatus) -> None: ...

    def fail(self, job: Job, failure: Failure) -> None: ...


class Workers(Protocol):
    """What submissions need of the hosts."""

    def workers(self) -> list[str]: ...


class Newcomers(Protocol):
    """What submissions need of the membership."""

    @property
    def coming(self) -> dict[str, int]: ...

    @property
    def workerless_ns(self) -> int: ...


class Submissions(Part):
    """The jobs that wait to be placed, with the time of their submission."""

    def __init__(self, host: Host, jobs: JobsHere, hosts: Workers, membership: Newcomers) -> None:
        self._host = host
        self._jobs = jobs
        self._hosts = hosts
        self._membership = membership
        self._since_ns: dict[str, int] = {}

    def submit(self, job: Job) -> None:
        """Begins a job now, or when it need not wait any more."""
        self._since_ns[job.name] = self._host.now_ns
        if not self._settle(job):
            job.waits_for = self._awaited()
            self._jobs.announce(job, JobStatus.WAITING)

    def tick(self) -> None:
        for job in self._waiting():
            self._settle(job)

    def deadline_ns(self) -> int | None:
        return min((self._until_ns(job) for job in self._waiting()), default=None)

    def _waiting(self) -> list[Job]:
        waiting = [job for job in self._host.jobs.values() if job.status is JobStatus.WAITING]
        self._since_ns = {job.name: self._since_ns[job.name] for job in waiting}
        return waiting

    def _settle(self, job: Job) -> bool:
        """Begins or fails a job, unless it has to wait; returns whether that is settled."""
        coming, workers = self._membership.coming, self._hosts.workers()
        if coming and self._host.now_ns < self._until_ns(job):
            return False
        job.waits_for = None
        if workers:
            self._jobs.begin(job)
        elif coming:
            waited_s = (self._host.now_ns - self._since_ns[job.name]) / 1e9
            fact = f"no worker has joined within {waited_s:g} s, so job '{job.name}' cannot start"
            fix = "Look for other jobs that hold Spark's slots, and submit it again."
            self._jobs.fail(job, Failure("ClusterError", fact, f"awaited: {self._awaited()}", fix))
        else:
            self._jobs.fail(
                job, Failure("ClusterError", "the cluster has no worker left", None, "Start a new cluster.")
            )
        return True

    def _until_ns(self, job: Job) -> int:
        """Returns when a job is placed or fails, if nobody joins: it does not wait again for a worker that was lost
        long ago, or that is lost again and again."""
        since_ns = self._since_ns[job.name]
        if not self._hosts.workers():
            return since_ns + self._membership.workerless_ns
        return min(since_ns, max(self._membership.coming.values(), default=since_ns)) + JOINED_WITHIN_NS

    def _awaited(self) -> str:
        names = sorted(self._membership.coming)
        return f"worker{'s' if len(names) > 1 else ''} {', '.join(names)}, being replaced"
