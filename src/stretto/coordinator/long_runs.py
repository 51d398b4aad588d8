"""Functions with runs that are longer than what other jobs on their worker have promised: announced, and avoided.

A part of the coordinator machine. A run is not interrupted, so the users of both jobs are told, later jobs and attempts
with an objective are placed on workers without such runs, and the controller `neighbours` has running ones moved
(`elasticity/neighbours.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.coordinator.events import AnnounceLongRuns
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job
from stretto.observation.model import LongRunsObserved
from stretto.protocol.reports import LongRuns


class LongRunners(Part):
    """The longest runs on each worker that has long ones, by the attempt of the job that has them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._runs: dict[str, dict[str, LongRunsObserved]] = {}

    def connect(self, attempts: Mapping[str, Job]) -> None:
        self._attempts = attempts

    def frames(self) -> FrameHandlers:
        return {LongRuns: self._on_long_runs}

    def _on_long_runs(self, sender: str, frame: LongRuns) -> None:
        job = self._host.running(frame.job)
        if job is None:
            return
        members = self._runs.setdefault(frame.job, {})
        if sender not in members or frame.run_ns > members[sender].run_ns:
            members[sender] = LongRunsObserved(job.name, frame.function, sender, frame.run_ns)
        delayed = {self._attempts[name].name: ns for name, ns in frame.delayed.items() if name in self._attempts}
        self._host.effects.append(AnnounceLongRuns(job.name, sender, frame.function, frame.run_ns, delayed))

    def member_lost(self, member: str) -> None:
        for members in self._runs.values():
            members.pop(member, None)

    def observed(self) -> tuple[LongRunsObserved, ...]:
        """Returns the long runs of the attempts that run."""
        self._runs = {name: runs for name, runs in self._runs.items() if self._host.running(name) is not None}
        return tuple(each for _, members in sorted(self._runs.items()) for _, each in sorted(members.items()))

    def calm(self, job: Job, workers: list[str]) -> list[str]:
        """Returns the workers where no other job has runs longer than what this one has promised; all of them, if it
        has promised nothing or there is none."""
        if job.objective is None or job.objective.latency_ms is None:
            return workers
        latency_ns = job.objective.latency_ms * 1e6
        busy = {each.member for each in self.observed() if each.job != job.name and each.run_ns > latency_ns}
        return [worker for worker in workers if worker not in busy] or workers
