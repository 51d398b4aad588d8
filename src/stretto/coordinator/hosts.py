"""The workers that may host lessees of a job, how many lessees there may be, and when nothing of any job is left on a
worker."""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.interfaces import Observers
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.placement import idlest_first
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.jobs import Hosts, HostsLeft


class Leavers(Protocol):
    """Whoever has workers leave that are drained."""

    def dismiss_idle(self) -> None: ...


class LesseeHosts(Part):
    """The hosts of every job."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership

    def connect(self, leavers: Leavers, observers: Observers) -> None:
        self._leavers = leavers
        self._observers = observers

    def frames(self) -> FrameHandlers:
        return {HostsLeft: self._on_hosts_left}

    def workers(self) -> list[str]:
        """Returns the members that host ordinary actors, in a stable order."""
        return self._membership.active()

    @property
    def wanted(self) -> int:
        """How many workers there are to be."""
        return self._membership.wanted

    def loaded(self, job: Job, sender: str) -> None:
        """Adds a worker that joined later as a host, since it has loaded the code of a running job."""
        if sender in self.workers():
            self._change(job, [*job.hosts, sender])

    def started(self, job: Job) -> None:
        """Removes hosts that began to drain while the job was deployed."""
        staying = set(self.workers())
        if not staying.issuperset(job.hosts):
            self._change(job, [name for name in job.hosts if name in staying])

    def set_lessees(self, job: Job, function: str, lessees: int) -> str | None:
        """Sets how many lessees each actor of a running function may have, also in later attempts; returns why not, if
        it cannot have so many. New ones go to the least busy workers first; those beyond it lose their leases at their
        next barrier."""
        shape = job.shapes.get(function)
        if shape is None or not shape.lessees_max:
            return f"function '{function}' has no lessees" if shape is not None else "there is no such function"
        if not 0 <= lessees <= shape.lessees_max:
            return f"it may have 0 to {shape.lessees_max} lessees"
        if job.lessees_of(shape) != lessees:
            job.lessees = {**job.lessees, function: lessees}
            self._change(job, idlest_first(job.hosts, self._observers.last.busy_shares))
        return None

    def _change(self, job: Job, hosts: list[str]) -> None:
        """Sends the new hosts to all members of a job; removed hosts may still have lessees until the next barrier, and
        are members of the job until then: if one is lost, what its lessees know is lost."""
        before = job.members
        job.leaving = {*job.leaving, *job.hosts}.difference(hosts)
        job.hosts = hosts
        job.change += 1
        job.unchanged = {member for member in {*before, *job.members} if member in self._membership.members}
        for member in sorted(job.unchanged):
            self._host.send(member, Hosts(job.attempt, hosts, job.change, job.lessees))

    def _on_hosts_left(self, sender: str, frame: HostsLeft) -> None:
        job = self._host.running(frame.job)
        if job is not None and frame.change == job.change:
            job.unchanged.discard(sender)
            if not job.unchanged:
                job.leaving = set()
            self.dismiss_idle()

    def withdraw(self, member: str) -> None:
        """Takes a worker from the hosts of all running jobs: leases and shards leave it. A job that is being deployed
        follows when it starts."""
        for job in self._host.jobs.values():
            if job.status is JobStatus.RUNNING and member in job.hosts:
                self._change(job, [name for name in job.hosts if name != member])

    def is_free(self, member: str) -> bool:
        """Whether nothing of a job that has not ended is on a worker. A lessee may be anywhere until all members have
        confirmed the last change, and a task may be writing its part of a checkpoint after it has given its last shard
        away."""
        running = [job for job in self._host.jobs.values() if not job.status.ended]
        return not any(self._has_part(job, member) for job in running)

    def _has_part(self, job: Job, member: str) -> bool:
        next_members = job.handover.members if job.handover is not None else ()
        held = member in job.members or member in next_members
        return held or bool(job.unchanged) or job.awaits_part_of(member)

    def dismiss_idle(self) -> None:
        """Asks the draining workers that are idle to leave."""
        self._leavers.dismiss_idle()
