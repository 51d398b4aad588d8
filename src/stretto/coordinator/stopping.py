"""Stopping what runs: workers are asked to drop an attempt of a job, and one that cannot is replaced.

A part of the coordinator machine. A worker's loop cannot drop a job while a function of it runs, and a function that
never returns would keep the worker from everybody. Its pulse thread reports such a run (`Stuck`). When it belongs to an
attempt that was to stop, the worker counts as lost after a grace period, and the other jobs on it resume elsewhere. A
long run of another job is no reason: the worker drops the job when that run has returned.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import job_of
from stretto.coordinator.events import AnnounceMisbehaviour
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.protocol.jobs import Stop, Stopped
from stretto.protocol.reports import Misbehaved, Stuck

GRACE_NS = 5_000_000_000
"""How long a function may go on running after its job was to stop."""
FRESH_NS = 3_000_000_000
"""A report of a run that does not return is repeated within this time while it holds."""


class JobsHere(Protocol):
    """Who is told that a member has dropped an attempt."""

    def stopped_at(self, attempt: str, member: str) -> None: ...


class Members(Protocol):
    """Who replaces a worker."""

    def lose(self, name: str, reason: str) -> None: ...


class Stopping(Part):
    """What members were asked to drop and have not confirmed yet."""

    def __init__(self, host: Host, members: Members) -> None:
        self._host = host
        self._members = members
        self._asked: dict[tuple[str, str], int] = {}
        """When a member was asked to drop an attempt."""
        self._stuck: dict[str, tuple[int, Stuck]] = {}
        """The last report of a run that does not return, by member, and when it came."""

    def connect(self, jobs: JobsHere) -> None:
        self._jobs = jobs

    def frames(self) -> FrameHandlers:
        return {Stopped: self._on_stopped, Stuck: self._on_stuck}

    def ask(self, member: str, attempt: str) -> None:
        """Has a member drop an attempt of a job."""
        self._asked.setdefault((member, attempt), self._host.now_ns)
        self._host.send(member, Stop(attempt))

    def member_lost(self, member: str) -> None:
        self._stuck.pop(member, None)
        self._asked = {asked: since_ns for asked, since_ns in self._asked.items() if asked[0] != member}

    def _on_stopped(self, sender: str, frame: Stopped) -> None:
        self._asked.pop((sender, frame.job), None)
        self._jobs.stopped_at(frame.job, sender)

    def _on_stuck(self, sender: str, frame: Stuck) -> None:
        self._stuck[sender] = (self._host.now_ns, frame)

    def deadline_ns(self) -> int | None:
        overdue = (self._asked.get((member, stuck.job)) for member, (_, stuck) in self._stuck.items())
        return min((since_ns + GRACE_NS for since_ns in overdue if since_ns is not None), default=None)

    def tick(self) -> None:
        now_ns = self._host.now_ns
        self._stuck = {name: report for name, report in self._stuck.items() if now_ns - report[0] < FRESH_NS}
        for member, (_, stuck) in sorted(self._stuck.items()):
            since_ns = self._asked.get((member, stuck.job), now_ns)
            if now_ns - since_ns >= GRACE_NS:
                self._replace(member, stuck)

    def _replace(self, member: str, stuck: Stuck) -> None:
        job = job_of(stuck.job)
        what = f"function '{stuck.function}' of job '{job}'" if stuck.function else f"the code of job '{job}'"
        fact = f"{what} had not returned {GRACE_NS / 1e9:g} s after the job was to stop"
        said = Misbehaved(stuck.job, stuck.function, f"worker {member} is replaced: {fact}", stuck.stack)
        self._host.effects.append(AnnounceMisbehaviour(job, member, said))
        self._members.lose(member, fact)
