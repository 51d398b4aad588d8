"""Builds the observation of the cluster from the reports of its workers, and announces it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.metrics import ShardTotals
from stretto.checkpoints.manifest import Manifest
from stretto.coordinator.events import Observed
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Actor, Durability, Job, JobStatus, failure_text
from stretto.coordinator.shard_observing import ShardSeries, elastic_observed
from stretto.coordinator.standing import Standing
from stretto.observation.intervals import Series
from stretto.observation.model import (
    ActorObserved,
    CheckpointsObserved,
    DeployingObserved,
    FunctionObserved,
    JobObserved,
    LongRunsObserved,
    Observation,
    WorkerObserved,
    worker_loads,
)
from stretto.observation.shards import ElasticObserved
from stretto.observation.transactions import EntitiesObserved
from stretto.protocol.bursts import To
from stretto.protocol.membership import Member
from stretto.protocol.reports import Report

OBSERVE_EVERY_NS = 250_000_000

Place = tuple[str, int, str]
"""A function, a partition and the member of an instance: an actor may have instances on several members."""


class Allotments(Protocol):
    """Whoever knows which workers elastic actors may use."""

    def workers_of(self, actor: Address, home: str, shards: ShardTotals) -> tuple[str, ...]: ...

    def is_changing(self, actor: Address) -> bool: ...


class LongRunners(Protocol):
    """Whoever knows of runs that delay other jobs."""

    def observed(self) -> tuple[LongRunsObserved, ...]: ...


class Transactions(Protocol):
    """Whoever has jobs with entities."""

    def observed(self) -> dict[str, EntitiesObserved]: ...


class Bursts(Protocol):
    """Whoever has batches go to transient workers."""

    def warm(self, job: Job) -> list[str]: ...

    def redirected(self, job: Job) -> dict[str, To]: ...


class Observing(Part):
    """The last reports of every instance of every job."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership
        self._series: dict[str, dict[Place, Series]] = {}
        self._shards: dict[str, dict[Actor, ShardSeries]] = {}
        self.last = Observation()
        """The last observation that was announced."""
        self._refused: dict[str, int] = {}
        self._memory_bytes: dict[str, int] = {}
        self._changed = False
        self._next_ns = 0

    def connect(
        self,
        attempts: dict[str, Job],
        allotments: Allotments,
        long_runners: LongRunners,
        bursts: Bursts,
        transactions: Transactions,
    ) -> None:
        self._attempts = attempts
        self._transactions = transactions
        self._allotments = allotments
        self._long_runners = long_runners
        self._bursts = bursts

    def frames(self) -> FrameHandlers:
        return {Report: self._on_report}

    def tick(self) -> None:
        if self._changed and self._host.now_ns >= self._next_ns:
            self.observe()

    def began(self, job: Job) -> None:
        """Begins an attempt of a job; the reports of the one before are dropped."""
        self._series[job.name] = {}
        self._shards[job.name] = {}
        self.note()

    def succeeded(self, job: Job, before: Mapping[str, list[str]]) -> None:
        """Begins an attempt that has taken over from a running one with this placement. Actors that have stayed where
        they were go on counting."""
        kept = {place: series for place, series in self._series[job.name].items() if _stays(job, before, place)}
        self.began(job)
        self._series[job.name] = kept

    def note(self) -> None:
        """Something has changed that the next observation shows."""
        self._changed = True

    def _on_report(self, sender: str, frame: Report) -> None:
        self._changed = True
        self._refused[sender] = frame.refused
        if frame.memory_bytes:
            self._memory_bytes[sender] = frame.memory_bytes
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
                if totals.shards is not None:
                    shards = self._shards[job.name].setdefault((function, partition), ShardSeries())
                    shards.add(totals.shards, frame.measured_ns)

    def observe(self) -> None:
        """Announces the present observation."""
        self._changed = False
        self._next_ns = self._host.now_ns + OBSERVE_EVERY_NS
        self._series = {name: series for name, series in self._series.items() if name in self._host.jobs}
        present = self._membership.members
        self._memory_bytes = {name: size for name, size in self._memory_bytes.items() if name in present}
        self._shards = {name: shards for name, shards in self._shards.items() if name in self._host.jobs}
        self.last = self.present()
        self._host.effects.append(Observed(self.last))

    def present(self) -> Observation:
        """Returns the present observation without announcing it."""
        return self._observation({name: self._observed(job) for name, job in self._host.jobs.items()})

    def _observation(self, jobs: dict[str, JobObserved]) -> Observation:
        busy, queued = worker_loads(jobs.values())
        workers = {
            name: WorkerObserved(
                member,
                name in self._membership.parked,
                busy.get(name, 0.0),
                queued.get(name, 0),
                self._refused.get(name, 0),
                memory_bytes=self._memory_bytes.get(name, 0),
                leaving=(self._membership.standings.of(name) or Standing.DISMISSED).is_leaving,
            )
            for name, member in self._membership.members.items()
        }
        long_runs = self._long_runners.observed()
        entities = self._transactions.observed()
        return Observation(self._host.now_ns, jobs, workers, dict(self._refused), long_runs, entities)

    def _observed(self, job: Job) -> JobObserved:
        by_function: dict[str, list[ActorObserved]] = {name: [] for name in job.shapes}
        for (function, partition, member), series in self._series.get(job.name, {}).items():
            by_function[function].append(series.observed(partition, member, self._host.now_ns))
        away = self._bursts.redirected(job)
        functions: dict[str, FunctionObserved] = {
            name: FunctionObserved(
                shape,
                tuple(by_function[name]),
                _state_bytes(job.origin, name),
                tuple(self._elastic(job, name, by_function[name])) if shape.workers_max else (),
                job.lessees_of(shape),
                away.get(name),
            )
            for name, shape in job.shapes.items()
        }
        placement = {name: tuple(members) for name, members in job.placement.items()}
        members, warm = tuple(job.members), tuple(self._bursts.warm(job))
        return JobObserved(
            job.name,
            job.status.value,
            job.attempt,
            members,
            placement,
            functions,
            job.objective,
            _deploying(job),
            warm,
            _checkpoints(job.durability),
            None if job.failure is None else failure_text(job.failure),
            job.waits_for,
        )

    def _elastic(self, job: Job, function: str, instances: list[ActorObserved]) -> Iterator[ElasticObserved]:
        """Yields what is observed of the partitions of an elastic function whose homes have reported."""
        shape = job.shapes[function]
        per_partition = (_state_bytes(job.origin, function) or 0) // shape.parallelism
        members = self._membership.members
        for (name, partition), series in sorted(self._shards.get(job.name, {}).items()):
            homes = job.placement.get(function, [])
            if name != function or partition >= len(homes):
                continue
            home = homes[partition]
            address = Address(job.name, function, partition)
            yield elastic_observed(
                partition,
                home,
                series,
                [each for each in instances if each.partition == partition],
                self._allotments.workers_of(address, home, series.last),
                shape.workers_max,
                per_partition,
                self._allotments.is_changing(address),
                partial(_same_node, members, home),
            )


def _same_node(members: Mapping[str, Member], home: str, worker: str) -> bool:
    both = members.get(home), members.get(worker)
    return both[0] is not None and both[1] is not None and both[0].host == both[1].host


def _deploying(job: Job) -> DeployingObserved | None:
    if job.status not in (JobStatus.DEPLOYING, JobStatus.RECOVERING) or not job.unready:
        return None
    loading = sorted(job.unready & job.unloaded)
    return DeployingObserved(
        job.code_bytes, len(job.members), tuple(loading), tuple(sorted(job.unready.difference(loading)))
    )


def _checkpoints(durability: Durability | None) -> CheckpointsObserved | None:
    if durability is None:
        return None
    since_ns = durability.began_ns if durability.underway or durability.committing else None
    return CheckpointsObserved(tuple(durability.ended), durability.interval_ns, since_ns)


def _state_bytes(last: Manifest | None, function: str) -> int | None:
    if last is None or function not in last.functions:
        return None
    records = [part for record in last.functions[function] for part in (record, *record.parts)]
    fragments = [each for record in records for state in record.states.values() for each in state]
    return sum(fragment.piece.bytes for fragment in fragments)


def _stays(job: Job, before: Mapping[str, list[str]], place: Place) -> bool:
    function, partition, member = place
    homes, former = job.placement.get(function, []), before.get(function, [])
    return len(homes) == len(former) > partition and homes[partition] == former[partition] == member
