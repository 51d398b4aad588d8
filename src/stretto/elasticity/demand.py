"""What the elastic actors ask for: queues from measured rates and costs, and how many cores each would have if there
were enough.

Measured arrivals are too low where an actor cannot keep up, because its senders wait for credits. So what waits is
added, as if it had to be worked off in `drain_s`; and while an actor has messages waiting and its workers together have
nothing to spare, its arrivals count `surge` times. A demand that was overestimated shows as idle workers a few seconds
later. One full worker among others is no sign: its shards can be moved to them.

An actor that cannot keep up holds back the whole job: its sources wait, and all its actors receive less, in
proportion. So where there are too few cores, all actors of such a job count `surge` times, and what was measured of
them says how to divide.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.elasticity.queueing import Allocation, JobDemand, Station, allocate, mean_allowed_s
from stretto.elasticity.view import ActorView, ElasticView

FULL = 0.95
"""A worker that is busy for this share of its time has nothing to spare."""
UNEVEN = 1.15
"""Where several workers have an actor's shards, the most loaded one has this much more than the average."""
GOOD_PART = 0.3
"""An actor with less load than this part of a core has no need of another, whatever waits."""
ONE_SHARD = 0.8
"""Where one shard has this share of what an actor does on its most loaded worker, no other worker can help."""


@dataclass(frozen=True, slots=True)
class DemandSettings:
    """`light` is the load up to which an actor shares its home and gets no further worker; `margin` by how much the
    load may change without another allocation; `imbalance` how much more than the average the most loaded worker has,
    since the queueing model takes all as equal."""

    light: float = 0.7
    surge: float = 2.5
    drain_s: float = 1.0
    margin: float = 0.15
    imbalance: float = 1.1


@dataclass(frozen=True, slots=True)
class Wish:
    """The cores that an actor would have if its load were less by the margin, as measured, and more by the margin."""

    low: int
    cores: int
    high: int


def is_saturated(view: ElasticView, actor: ActorView) -> bool:
    """Returns whether messages wait because an actor's workers together have nothing to spare, and other workers could
    help: the load is more than one shard's."""
    workers = [name for name in actor.workers if name in view.workers]
    if actor.waiting < max(2, len(workers)) or actor.load < GOOD_PART:
        return False
    capacity = sum(max(0.0, view.left_on(name) + actor.load_on(name)) for name in workers)
    if actor.load < capacity * FULL / (UNEVEN if len(workers) > 1 else 1.0):
        return False
    most = max(workers, key=actor.load_on, default=actor.home)
    return len(workers) == 1 or actor.greatest_on(most) <= ONE_SHARD * actor.load_on(most)


def station_of(view: ElasticView, actor: ActorView, settings: DemandSettings, is_held_back: bool) -> Station:
    """Returns an actor as a queue. What else its home does, but for guests, which may be sent away, is added to its
    load. What an actor receives that `is_held_back` counts more than once."""
    cores_max = max(1, min(actor.workers_max, len(view.workers)))
    if actor.batches_per_s <= 0 or actor.service_ns <= 0 or actor.home not in view.workers:
        return Station(0.0, 1.0, 0.0, cores_max)
    services = 1e9 / actor.service_ns / settings.imbalance
    surge = settings.surge if is_held_back else 1.0
    home = view.workers[actor.home]
    others_load = view.elastic_load[actor.home] - view.guest_load[actor.home] - actor.load_on(actor.home)
    other = min(home.cores, home.other_share + max(0.0, others_load))
    arrivals = actor.batches_per_s * surge + actor.waiting / settings.drain_s + other * services
    read = view.jobs[actor.address.job].rows_per_s if actor.address.job in view.jobs else 0.0
    visits = actor.rows_per_s / read if read > 0 else 1.0 / actor.parallelism
    return Station(arrivals, services, visits, cores_max)


class Demands:
    """The queues of all actors of a view, by job."""

    def __init__(self, view: ElasticView, settings: DemandSettings) -> None:
        self._settings = settings
        self._places: list[list[int]] = []
        self._latency_s_max: list[float | None] = []
        by_job: dict[str, list[int]] = {}
        for place, actor in enumerate(view.actors):
            by_job.setdefault(actor.address.job, []).append(place)
        for job, places in by_job.items():
            found = view.jobs.get(job)
            allowed = None if found is None or found.objective_ns is None else found.objective_ns / 1e9
            self._places.append(places)
            self._latency_s_max.append(
                None if allowed is None or found is None else mean_allowed_s(allowed, found.percentile)
            )
        self.saturated = [is_saturated(view, actor) for actor in view.actors]
        self.stations = self._stations(view, self.saturated)
        held_back = {actor.address.job for actor, is_full in zip(view.actors, self.saturated, strict=True) if is_full}
        self._divided = self._stations(view, [actor.address.job in held_back for actor in view.actors])

    def _stations(self, view: ElasticView, held_back: list[bool]) -> list[Station]:
        pairs = zip(view.actors, held_back, strict=True)
        return [station_of(view, actor, self._settings, is_held) for actor, is_held in pairs]

    @property
    def has_objective(self) -> list[bool]:
        """Returns for each actor whether its job has an objective for latency."""
        found = [False] * len(self.stations)
        for places, latency_s in zip(self._places, self._latency_s_max, strict=True):
            for place in places:
                found[place] = latency_s is not None
        return found

    def wishes(self) -> list[Wish]:
        """Returns what each actor would have if there were enough cores for all."""
        margin = self._settings.margin
        factors = (1 - margin, 1.0, 1 + margin)
        low, cores, high = (self._flat(self._allocated(1 << 20, self.stations, factor)) for factor in factors)
        return [Wish(*each) for each in zip(low, cores, high, strict=True)]

    def shares(self, cores: int) -> list[int]:
        """Returns what each actor gets of so many cores, the one at its home included."""
        return self._flat(self._allocated(cores, self._divided, 1.0))

    def unreachable(self) -> list[int]:
        """Returns an actor of each job whose objective cannot be met with any number of cores."""
        jobs = self._jobs(self.stations, 1.0)
        latency_s = allocate(jobs, 1 << 20, self._settings.light).latency_s
        return [
            places[0]
            for places, allowed, found in zip(self._places, self._latency_s_max, latency_s, strict=True)
            if allowed is not None and found > allowed
        ]

    def _jobs(self, stations: list[Station], factor: float) -> list[JobDemand]:
        pairs = zip(self._places, self._latency_s_max, strict=True)
        return [JobDemand(tuple(_scaled(stations[place], factor) for place in places), s) for places, s in pairs]

    def _allocated(self, cores: int, stations: list[Station], factor: float) -> Allocation:
        return allocate(self._jobs(stations, factor), cores, self._settings.light)

    def _flat(self, allocation: Allocation) -> list[int]:
        found = [1] * len(self.stations)
        for places, cores in zip(self._places, allocation.cores, strict=True):
            for place, count in zip(places, cores, strict=True):
                found[place] = count
        return found


def _scaled(station: Station, factor: float) -> Station:
    return Station(station.arrivals_per_s * factor, station.services_per_s, station.visits, station.cores_max)
