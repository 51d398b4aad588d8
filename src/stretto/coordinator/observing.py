"""Builds the observation of the cluster from the reports of its workers, and announces it."""

from __future__ import annotations

from stretto.checkpoints.manifest import Manifest
from stretto.coordinator.events import Observed
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.observation.intervals import Series
from stretto.observation.model import (
    ActorObserved,
    DeployingObserved,
    FunctionObserved,
    JobObserved,
    Observation,
    WorkerObserved,
)
from stretto.protocol.reports import Report

OBSERVE_EVERY_NS = 250_000_000

Place = tuple[str, int, str]
"""A function, a partition and the member of an instance: an actor may have instances on several members."""


class Observing(Part):
    """The last reports of every instance of every job."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership
        self._series: dict[str, dict[Place, Series]] = {}
        self._refused: dict[str, int] = {}
        self._changed = False
        self._next_ns = 0

    def connect(self, attempts: dict[str, Job]) -> None:
        self._attempts = attempts

    def frames(self) -> FrameHandlers:
        return {Report: self._on_report}

    def tick(self) -> None:
        if self._changed and self._host.now_ns >= self._next_ns:
            self.observe()

    def began(self, job: Job) -> None:
        """Begins an attempt of a job; the reports of the one before are dropped."""
        self._series[job.name] = {}
        self.note()

    def note(self) -> None:
        """Something has changed that the next observation shows."""
        self._changed = True

    def _on_report(self, sender: str, frame: Report) -> None:
        self._changed = True
        self._refused[sender] = frame.refused
        job = self._attempts.get(frame.job)
        if job is None:
            return
        known = self._series[job.name]
        for function, partitions in frame.functions.items():
            for partition, totals in partitions.items():
                place, now_ns = (function, partition, sender), self._host.now_ns
                if place in known:
                    known[place].add(totals, frame.measured_ns, now_ns)
                else:
                    known[place] = Series(totals, frame.measured_ns, now_ns)

    def observe(self) -> None:
        """Announces the present observation."""
        self._changed = False
        self._next_ns = self._host.now_ns + OBSERVE_EVERY_NS
        self._series = {name: series for name, series in self._series.items() if name in self._host.jobs}
        jobs = {name: self._observed(job) for name, job in self._host.jobs.items()}
        self._host.effects.append(Observed(self._observation(jobs)))

    def _observation(self, jobs: dict[str, JobObserved]) -> Observation:
        busy: dict[str, float] = {}
        queued: dict[str, int] = {}
        for job in jobs.values():
            for function in job.functions.values():
                for actor in function.actors:
                    busy[actor.member] = busy.get(actor.member, 0.0) + actor.busy_share
                    queued[actor.member] = queued.get(actor.member, 0) + actor.totals.queued
        workers = {
            name: WorkerObserved(
                member,
                name in self._membership.parked,
                busy.get(name, 0.0),
                queued.get(name, 0),
                self._refused.get(name, 0),
            )
            for name, member in self._membership.members.items()
        }
        return Observation(self._host.now_ns, jobs, workers, dict(self._refused))

    def _observed(self, job: Job) -> JobObserved:
        by_function: dict[str, list[ActorObserved]] = {name: [] for name in job.shapes}
        for (function, partition, member), series in self._series.get(job.name, {}).items():
            by_function[function].append(series.observed(partition, member, self._host.now_ns))
        functions: dict[str, FunctionObserved] = {
            name: FunctionObserved(shape, tuple(by_function[name]), _state_bytes(job.origin, name))
            for name, shape in job.shapes.items()
        }
        placement = {name: tuple(members) for name, members in job.placement.items()}
        members = tuple(job.members)
        return JobObserved(
            job.name, job.status.value, job.attempt, members, placement, functions, job.objective, _deploying(job)
        )


def _deploying(job: Job) -> DeployingObserved | None:
    if job.status not in (JobStatus.DEPLOYING, JobStatus.RECOVERING) or not job.unready:
        return None
    loading = sorted(job.unready & job.unloaded)
    return DeployingObserved(
        job.code_bytes, len(job.members), tuple(loading), tuple(sorted(job.unready.difference(loading)))
    )


def _state_bytes(last: Manifest | None, function: str) -> int | None:
    if last is None or function not in last.functions:
        return None
    records = [part for record in last.functions[function] for part in (record, *record.parts)]
    fragments = [each for record in records for state in record.states.values() for each in state]
    return sum(fragment.piece.bytes for fragment in fragments)
