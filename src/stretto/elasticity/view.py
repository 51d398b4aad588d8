"""What controllers see: the elastic actors, their jobs and the workers, taken from an observation.

Only keyed actors are here. What is stateless or combines is spread by strategies, message by message, and no controller
of this room acts on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from stretto.actors.address import Address
from stretto.observation.model import JobObserved, Observation
from stretto.observation.shards import ElasticObserved, ShardsObserved
from stretto.protocol.membership import MemberRole

RUNNING = "running"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that may hold tasks: the node that it is on, how many cores it keeps busy at most, how many it kept busy
    in the last second, and how many of these with other things than the rows of elastic actors: other functions,
    sources, and what homes route."""

    name: str
    node: str
    cores: float = 1.0
    busy_share: float = 0.0
    other_share: float = 0.0


@dataclass(frozen=True, slots=True)
class JobView:
    """A running job: the objective for its latency at a percentile, and the rows that its sources read."""

    name: str
    objective_ns: float | None = None
    percentile: float = 99.0
    priority: float = 1.0
    rows_per_s: float = 0.0


@dataclass(frozen=True)
class ActorView:
    """An elastic actor; see `ElasticObserved`. `parallelism` is that of its function."""

    address: Address
    home: str
    workers: tuple[str, ...]
    shards: ShardsObserved
    workers_max: int = 256
    parallelism: int = 1
    rows_per_s: float = 0.0
    batches_per_s: float = 0.0
    service_ns: float = 0.0
    bytes_per_s: float = 0.0
    waiting: int = 0
    routing_ns: int = 0
    remote_bytes_per_s: float = 0.0
    may_change: bool = True
    """False while a decision about it is carried out, or is too recent for its effect to be seen."""
    may_be_allotted: bool = True
    """Whether its workers may be changed: also while its shards move."""

    @cached_property
    def load(self) -> float:
        """The number of workers that its shards kept busy in the last second."""
        return sum(self.shards.costs_ns) / 1e9

    @cached_property
    def state_bytes(self) -> int:
        return sum(self.shards.state_bytes)

    def load_on(self, worker: str) -> float:
        """Returns the part of its load that is on a worker."""
        return self.shards.cost_of_worker.get(worker, 0) / 1e9

    def greatest_on(self, worker: str) -> float:
        """Returns the load of the most costly of its shards that are on a worker."""
        pairs = zip(self.shards.owners, self.shards.costs_ns, strict=True)
        return max((cost_ns for owner, cost_ns in pairs if owner == worker), default=0) / 1e9


@dataclass(frozen=True)
class ElasticView:
    """The cluster as controllers see it. Actors are in the order of their addresses."""

    time_ns: int = 0
    actors: tuple[ActorView, ...] = ()
    workers: Mapping[str, WorkerView] = field(default_factory=dict)
    jobs: Mapping[str, JobView] = field(default_factory=dict)
    observed: Observation = field(default_factory=Observation)
    """What it was taken from, for controllers that look at all functions and not only at elastic ones."""

    @staticmethod
    def of(observation: Observation) -> ElasticView:
        """Returns the view of an observation: running jobs, and workers that are neither parked nor leaving."""
        running = [job for _, job in sorted(observation.jobs.items()) if job.status == RUNNING]
        other = _other_shares(observation)
        workers = {
            name: WorkerView(name, worker.member.host, worker.cores, worker.busy_share, other.get(name, 0.0))
            for name, worker in sorted(observation.workers.items())
            if worker.member.role is MemberRole.WORKER and not worker.parked and not worker.leaving
        }
        actors = tuple(actor for job in running for actor in _actors(job))
        jobs = {job.name: _job(job) for job in running}
        return ElasticView(observation.time_ns, actors, workers, jobs, observation)

    @cached_property
    def by_address(self) -> dict[Address, ActorView]:
        return {actor.address: actor for actor in self.actors}

    @cached_property
    def elastic_load(self) -> dict[str, float]:
        """The load of all elastic actors' shards on each worker."""
        found = dict.fromkeys(self.workers, 0.0)
        for actor in self.actors:
            for worker, cost_ns in actor.shards.cost_of_worker.items():
                if worker in found:
                    found[worker] += cost_ns / 1e9
        return found

    @cached_property
    def guest_load(self) -> dict[str, float]:
        """The load on each worker of the actors that are not at home there."""
        found = dict.fromkeys(self.workers, 0.0)
        for actor in self.actors:
            for worker, cost_ns in actor.shards.cost_of_worker.items():
                if worker in found and worker != actor.home:
                    found[worker] += cost_ns / 1e9
        return found

    def left_on(self, worker: str) -> float:
        """Returns how much of a worker is left beside all shards and all other work; less than nothing if more was
        asked of it."""
        found = self.workers[worker]
        return found.cores - found.other_share - self.elastic_load[worker]

    def holding(self, held: set[Address]) -> ElasticView:
        """Returns the view in which these actors may not be changed."""
        if not held:
            return self
        actors = tuple(
            replace(actor, may_change=False, may_be_allotted=False) if actor.address in held else actor
            for actor in self.actors
        )
        return replace(self, actors=actors)

    def allotted(self, workers: Mapping[Address, tuple[str, ...]]) -> ElasticView:
        """Returns the view in which these actors have been allotted these workers."""
        if not workers:
            return self
        actors = tuple(
            replace(actor, workers=workers.get(actor.address, actor.workers), may_be_allotted=False)
            if actor.address in workers
            else actor
            for actor in self.actors
        )
        return replace(self, actors=actors)


def _actors(job: JobObserved) -> list[ActorView]:
    return [
        _actor(Address(job.name, name, elastic.partition), elastic, function.shape.parallelism)
        for name, function in sorted(job.functions.items())
        if function.shape.shards is not None
        for elastic in sorted(function.elastic, key=lambda each: each.partition)
    ]


def _actor(address: Address, observed: ElasticObserved, parallelism: int) -> ActorView:
    return ActorView(
        address,
        observed.home,
        observed.workers,
        observed.shards,
        observed.workers_max,
        parallelism,
        observed.rows_per_s,
        observed.batches_per_s,
        observed.service_ns,
        observed.bytes_in_per_s + observed.bytes_out_per_s,
        observed.waiting,
        observed.routing_ns,
        observed.remote_bytes_per_s,
        not observed.changing,
    )


def _other_shares(observation: Observation) -> dict[str, float]:
    """Returns what each worker does besides the rows of elastic actors. It is added up rather than the difference of
    what a worker does and what its shards cost: shards that have just moved were another worker's in the last second.

    What a strategy spreads counts as if it were even over the workers of its job, without the driver's. It goes where
    there is room within milliseconds, so that where it was in the last second says nothing; a controller that followed
    it would chase it from worker to worker."""
    found: dict[str, float] = {}
    transient = observation.transient
    for job in observation.jobs.values():
        spread = 0.0
        for function in job.functions.values():
            elastic = {each.partition for each in function.elastic}
            at_home = [instance for instance in function.actors if instance.member not in transient]
            instances = Counter(instance.partition for instance in at_home)
            for instance in at_home:
                if instance.partition in elastic:
                    continue
                if instances[instance.partition] > 1:
                    spread += instance.busy_share
                else:
                    found[instance.member] = found.get(instance.member, 0.0) + instance.busy_share
            for each in function.elastic:
                found[each.home] = found.get(each.home, 0.0) + each.routing_ns / 1e9
        workers = observation.workers
        members = [name for name in job.members if name in workers and workers[name].member.role is MemberRole.WORKER]
        for name in members if spread else ():
            found[name] = found.get(name, 0.0) + spread / len(members)
    return found


def _job(job: JobObserved) -> JobView:
    sources = [function for function in job.functions.values() if not function.shape.feeds]
    read = sum(function.output_rate for function in sources)
    if job.objective is None:
        return JobView(job.name, rows_per_s=read)
    latency_ms = job.objective.latency_ms
    objective_ns = None if latency_ms is None else latency_ms * 1e6
    return JobView(job.name, objective_ns, job.objective.percentile, job.objective.priority, read)
