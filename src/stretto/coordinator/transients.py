"""The transient workers: which jobs' code each has loaded (warm), and where the batches of bursts go.

A transient worker is home to nothing and no member of any job. It gets the code of all jobs that can use it, and says
when it has loaded it; only then may a burst go there. If it is lost, no job is: whoever has sent it batches runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stretto.coordinator.membership import Membership
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.bursts import Redirect, To
from stretto.protocol.jobs import Deploy


class Deploying(Protocol):
    """Whoever has the code of jobs."""

    def deployment(self, job: Job) -> Deploy: ...


class Stops(Protocol):
    """Whoever has members drop attempts."""

    def ask(self, member: str, attempt: str) -> None: ...


class Transients(Part):
    """The transient workers, and what goes there."""

    def __init__(self, host: Host, membership: Membership, stops: Stops) -> None:
        self._host = host
        self._membership = membership
        self._stops = stops
        self._holding: dict[str, set[str]] = {}
        """The transient workers that were sent the code of an attempt."""
        self._warm: dict[str, set[str]] = {}
        """Those of them that have loaded it."""
        self._redirected: dict[str, dict[str, To]] = {}
        """Where the batches of an attempt's functions go."""

    def connect(self, jobs: Deploying) -> None:
        self._jobs = jobs

    def joined(self, member: str) -> None:
        """Sends a new transient worker the code of all running jobs."""
        if member in self._membership.transient():
            for job in self._host.jobs.values():
                if job.status is JobStatus.RUNNING:
                    self._warm_up(job, member)

    def started(self, job: Job) -> None:
        """Sends the code of a job that begins to run to all transient workers."""
        for member in self._membership.transient():
            self._warm_up(job, member)

    def _warm_up(self, job: Job, member: str) -> None:
        if any(shape.redirects for shape in job.shapes.values()):
            self._holding.setdefault(job.attempt, set()).add(member)
            self._host.send(member, self._jobs.deployment(job))

    def ready(self, job: Job, member: str) -> bool:
        """Whether a member that has loaded a job is a transient one, and so has no part in it."""
        if member not in self._holding.get(job.attempt, ()):
            return False
        self._warm.setdefault(job.attempt, set()).add(member)
        return True

    def holding(self, attempt: str) -> set[str]:
        """Returns the transient workers that have code or twins of an attempt."""
        return self._holding.get(attempt, set())

    def warm(self, job: Job) -> list[str]:
        """Returns the transient workers that a job can use, in a stable order."""
        return sorted(self._warm.get(job.attempt, ()))

    def forget(self, attempt: str) -> None:
        """An attempt has ended: transient workers drop what they have of it."""
        for member in sorted(self._holding.get(attempt, ())):
            self._stops.ask(member, attempt)
        for known in (self._holding, self._warm, self._redirected):
            known.pop(attempt, None)

    def redirect(self, job: Job, to: Mapping[str, To]) -> str | None:
        """Has the batches of some functions go to transient workers from now on, and those of all others stay; returns
        why not, if it cannot be done."""
        for function, where in to.items():
            shape = job.shapes.get(function)
            if shape is None:
                return f"there is no function '{function}'"
            if not shape.redirects:
                return f"'{function}' cannot run elsewhere: {shape.stays_because}"
            if not where.members:
                return "no transient worker has loaded the job"
            cold = sorted(set(where.members) - self._warm.get(job.attempt, set()))
            if cold:
                return f"no transient worker that has loaded the job is called {' or '.join(cold)}"
            if not 0 < where.share <= 1:
                return f"a share is more than 0 and at most 1, not {where.share:g}"
        if dict(to) != self._redirected.get(job.attempt, {}):
            self._redirected[job.attempt] = dict(to)
            for member in sorted(job.homes):
                self._host.send(member, Redirect(job.attempt, dict(to)))
        return None

    def withdraw(self, member: str) -> None:
        """A transient worker leaves: no batch is to go there any more."""
        for members in (*self._holding.values(), *self._warm.values()):
            members.discard(member)
        for job in self._host.jobs.values():
            now = self._redirected.get(job.attempt, {})
            if any(member in to.members for to in now.values()):
                self.redirect(job, _without(now, member))

    def redirected(self, job: Job) -> dict[str, To]:
        """Returns where the batches of a job go now."""
        return self._redirected.get(job.attempt, {})

    def member_lost(self, member: str) -> None:
        for members in (*self._holding.values(), *self._warm.values()):
            members.discard(member)
        # The homes hear of the loss from the membership.
        self._redirected = {attempt: _without(to, member) for attempt, to in self._redirected.items()}


def _without(functions: Mapping[str, To], member: str) -> dict[str, To]:
    """Returns where batches go if one transient worker is not used."""
    found = {}
    for function, to in functions.items():
        staying = tuple(name for name in to.members if name != member)
        if staying:
            found[function] = To(staying, to.share)
    return found
