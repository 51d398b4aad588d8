"""The workers that may host lessees of a job; a worker retires when no job has anything left there."""

from __future__ import annotations

from stretto.coordinator.events import RetireRequested
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.jobs import Hosts, HostsLeft
from stretto.protocol.membership import Leave, MemberRole


class LesseeHosts(Part):
    """The hosts of every job, and the workers that are about to leave."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership
        self.retiring: set[str] = set()
        self._dismissed: set[str] = set()

    def events(self) -> Handlers:
        return {RetireRequested: self._on_retire_requested}

    def frames(self) -> FrameHandlers:
        return {HostsLeft: self._on_hosts_left}

    def member_lost(self, member: str) -> None:
        self.retiring.discard(member)
        self._dismissed.discard(member)

    def workers(self) -> list[str]:
        """Returns the members that host ordinary actors, in a stable order."""
        return [name for name in self._membership.active() if name not in self.retiring]

    def loaded(self, job: Job, sender: str) -> None:
        """Adds a worker that joined later as a host, since it has loaded the code of a running job."""
        if sender in self.workers():
            self._change(job, [*job.hosts, sender])

    def started(self, job: Job) -> None:
        """Removes hosts that began to retire while the job was deployed."""
        if any(name in self.retiring for name in job.hosts):
            self._change(job, [name for name in job.hosts if name not in self.retiring])

    def _change(self, job: Job, hosts: list[str]) -> None:
        """Sends the new hosts to all members of a job; removed hosts may still have lessees until the next barrier."""
        before = job.members
        job.hosts = hosts
        job.change += 1
        job.unchanged = {member for member in {*before, *job.members} if member in self._membership.members}
        for member in sorted(job.unchanged):
            self._host.send(member, Hosts(job.attempt, hosts, job.change))

    def _on_hosts_left(self, sender: str, frame: HostsLeft) -> None:
        job = self._host.running(frame.job)
        if job is not None and frame.change == job.change:
            job.unchanged.discard(sender)
            self.dismiss_idle()

    def _on_retire_requested(self, event: RetireRequested) -> None:
        member = self._membership.members.get(event.name)
        homes = [job.name for job in self._host.jobs.values() if not job.status.ended and event.name in job.homes]
        if member is None or member.role is MemberRole.DRIVER or homes or event.name in self.retiring:
            why = f"it is home to actors of {', '.join(homes)}" if homes else "it is no worker, or is already leaving"
            self._host.refuse(f"{event.name} cannot retire: {why}")
            return
        self.retiring.add(event.name)
        for job in self._host.jobs.values():
            if job.status is JobStatus.RUNNING and event.name in job.hosts:
                self._change(job, [name for name in job.hosts if name != event.name])
        self.dismiss_idle()

    def dismiss_idle(self) -> None:
        """Asks the retiring workers that are idle to leave."""
        running = [job for job in self._host.jobs.values() if not job.status.ended]
        for name in sorted(self.retiring - self._dismissed):
            if not any(name in job.members or job.unchanged for job in running):
                self._dismissed.add(name)
                self._host.send(name, Leave())
