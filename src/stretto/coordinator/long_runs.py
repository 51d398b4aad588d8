"""Functions with runs that are longer than what other jobs on their worker have promised: announced, and avoided.

A part of the coordinator machine. An actor does not move while it runs, so what can be done is to tell the users of
both jobs, and to place later jobs and attempts with an objective on workers without such runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.coordinator.events import AnnounceLongRuns
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job
from stretto.protocol.reports import LongRuns


class LongRunners(Part):
    """The workers with long runs, by the attempt of the job that has them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._runs_ns: dict[str, dict[str, int]] = {}

    def connect(self, attempts: Mapping[str, Job]) -> None:
        self._attempts = attempts

    def frames(self) -> FrameHandlers:
        return {LongRuns: self._on_long_runs}

    def _on_long_runs(self, sender: str, frame: LongRuns) -> None:
        job = self._host.running(frame.job)
        if job is None:
            return
        members = self._runs_ns.setdefault(frame.job, {})
        members[sender] = max(frame.run_ns, members.get(sender, 0))
        delayed = {self._attempts[name].name: ns for name, ns in frame.delayed.items() if name in self._attempts}
        self._host.effects.append(AnnounceLongRuns(job.name, sender, frame.function, frame.run_ns, delayed))

    def calm(self, job: Job, workers: list[str]) -> list[str]:
        """Returns the workers where no other job has runs longer than what this one has promised; all of them, if it
        has promised nothing or there is none."""
        if job.objective is None or job.objective.latency_ms is None:
            return workers
        self._runs_ns = {name: runs for name, runs in self._runs_ns.items() if self._host.running(name) is not None}
        latency_ns = job.objective.latency_ms * 1e6
        busy = {
            member
            for name, runs in self._runs_ns.items()
            if name != job.attempt
            for member, run_ns in runs.items()
            if run_ns > latency_ns
        }
        return [worker for worker in workers if worker not in busy] or workers
