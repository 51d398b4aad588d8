"""How many cores each elastic actor needs: a Jackson network of M/M/k stations, and a greedy allocation
(elasticutor.txt 4.1, after DRS).

A station is an actor. Messages (batches) arrive and are served at rates per second; `visits` says how often one input
of the job comes by, which is lambda_j / lambda_0 of equation 1. It is a ratio of rows, because a batch is divided among
partitions and is no visit to each.

The paper starts from ceil(lambda/mu) + 1 cores and adds the core that lowers the expected latency most, until the
objective is met. Each station's latency is convex and falls with its cores, so this is optimal. Where the cores do not
suffice even for the start, which the paper leaves open, they go to the most overloaded station first. Jobs with an
objective come before those without: these get what they need to be stable, of what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil, inf, log

ROUNDING = 1e-9
TAIL_LEAST = 1e-4
"""An objective for all results is taken as one for all but so many: an exponential distribution has no greatest
value."""
NEAREST = 1.05
"""No number of cores makes a job faster than its service times alone. Where the objective is below that, this factor
above them is as near as it needs to get."""


@dataclass(frozen=True, slots=True)
class Station:
    """An actor as a queue: messages that arrive per second, that one core serves per second, how often one input of the
    job visits it, and how many cores it can use."""

    arrivals_per_s: float
    services_per_s: float
    visits: float = 1.0
    cores_max: int = 1 << 20

    @property
    def load(self) -> float:
        """The number of cores that it keeps busy."""
        return self.arrivals_per_s / self.services_per_s


@dataclass(frozen=True, slots=True)
class JobDemand:
    """A job's stations, and the mean latency that it allows: None without an objective."""

    stations: tuple[Station, ...]
    latency_s_max: float | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """Cores per job and station, the expected latency of each job with them, and how many cores are left."""

    cores: tuple[tuple[int, ...], ...]
    latency_s: tuple[float, ...]
    left: int


def erlang_b(cores: int, load: float) -> float:
    """Returns the blocking probability of M/M/k/k, by the recursion over k, which is stable for any k."""
    blocking = 1.0
    for k in range(1, cores + 1):
        blocking = load * blocking / (k + load * blocking)
    return blocking


def erlang_c(cores: int, load: float) -> float:
    """Returns the probability that a message waits in M/M/k: 1 where the load is not less than the cores."""
    return _waits(erlang_b(cores, load), cores, load)


def response_s(cores: int, station: Station) -> float:
    """Returns the mean time in a station, waiting and service; infinity if it is not stable."""
    return _response_s(erlang_c(cores, station.load), cores, station)


def least_cores(load: float, light: float = 0.0) -> int:
    """Returns the paper's start, ceil(load) + 1; one where the load is at most `light`: it shares its home."""
    return 1 if load <= light else ceil(load - ROUNDING) + 1


def mean_allowed_s(objective_s: float, percentile: float) -> float:
    """Returns the mean latency of an exponential distribution that has the objective at the percentile, as the response
    of M/M/1 is: a p99 is 4.6 times the mean."""
    return objective_s / -log(max(TAIL_LEAST, 1 - percentile / 100))


def allocate(jobs: Sequence[JobDemand], cores: int, light: float = 0.0) -> Allocation:
    """Returns the cores of every station, at least one each. `cores` is the total; the one that each station has anyway
    counts."""
    growing = [[_Growing(station) for station in job.stations] for job in jobs]
    left = cores - sum(len(stations) for stations in growing)
    urgent = [place for place, job in enumerate(jobs) if job.latency_s_max is not None]
    others = [place for place, job in enumerate(jobs) if job.latency_s_max is None]
    left = _stabilise([each for place in urgent for each in growing[place]], left, light)
    left = _satisfy([(jobs[place].latency_s_max or inf, growing[place]) for place in urgent], left)
    left = _stabilise([each for place in others for each in growing[place]], left, light)
    return Allocation(
        tuple(tuple(each.cores for each in stations) for stations in growing),
        tuple(sum(each.latency_s for each in stations) for stations in growing),
        left,
    )


class _Growing:
    """A station with its cores so far, and what it contributes to the latency with them and with one more."""

    __slots__ = ("_blocking", "cores", "gain_s", "latency_s", "station")

    def __init__(self, station: Station) -> None:
        self.station = station
        self._blocking = 1.0
        self.cores = 0
        self.latency_s = inf if _used(station) else 0.0
        self.gain_s = 0.0
        self.add(1)

    def add(self, cores: int) -> None:
        if not _used(self.station):
            self.cores += cores
            return
        load = self.station.load
        for _ in range(cores):
            self.cores += 1
            self._blocking = load * self._blocking / (self.cores + load * self._blocking)
        now = _waits(self._blocking, self.cores, load)
        self.latency_s = self.station.visits * _response_s(now, self.cores, self.station)
        more = _waits(load * self._blocking / (self.cores + 1 + load * self._blocking), self.cores + 1, load)
        next_s = self.station.visits * _response_s(more, self.cores + 1, self.station)
        self.gain_s = inf if self.latency_s == inf else self.latency_s - next_s

    @property
    def fastest_s(self) -> float:
        """Returns what it contributes to the latency when nothing waits."""
        return self.station.visits / self.station.services_per_s if _used(self.station) else 0.0

    @property
    def is_full(self) -> bool:
        return self.cores >= self.station.cores_max

    def missing(self, light: float) -> int:
        """Returns how many cores it needs to be stable."""
        load = self.station.load if _used(self.station) else 0.0
        return max(0, min(least_cores(load, light), self.station.cores_max) - self.cores)


def _stabilise(stations: list[_Growing], left: int, light: float) -> int:
    """Gives each station what makes it stable; if there are too few cores, one by one to the most overloaded."""
    missing = [each.missing(light) for each in stations]
    if sum(missing) <= left:
        for each, cores in zip(stations, missing, strict=True):
            if cores:
                each.add(cores)
        return left - sum(missing)
    heap = [(-each.station.load / each.cores, place) for place, each in enumerate(stations) if missing[place]]
    heapify(heap)
    while heap and left > 0:
        each = stations[heap[0][1]]
        each.add(1)
        left -= 1
        if each.missing(light):
            heapreplace(heap, (-each.station.load / each.cores, heap[0][1]))
        else:
            heappop(heap)
    return max(0, left)


def _satisfy(jobs: list[tuple[float, list[_Growing]]], left: int) -> int:
    """Adds the core that lowers the latency of a job most, by its target, until all jobs are within theirs."""
    latency_s = [sum(each.latency_s for each in stations) for _, stations in jobs]
    limit_s = [max(target_s, NEAREST * _fastest_s(stations)) for target_s, stations in jobs]
    heap = [
        (-each.gain_s / target_s, job, place)
        for job, (target_s, stations) in enumerate(jobs)
        for place, each in enumerate(stations)
        if not each.is_full
    ]
    heapify(heap)
    while heap and left > 0:
        _, job, place = heappop(heap)
        target_s, stations = jobs[job]
        if latency_s[job] <= limit_s[job]:
            continue
        each = stations[place]
        each.add(1)
        left -= 1
        latency_s[job] = sum(one.latency_s for one in stations)
        if each.is_full:
            limit_s[job] = max(target_s, NEAREST * _fastest_s(stations))
        else:
            heappush(heap, (-each.gain_s / target_s, job, place))
    return left


def _fastest_s(stations: list[_Growing]) -> float:
    """Returns the latency with any number of cores, but for stations that can use no more."""
    return sum(each.latency_s if each.is_full else each.fastest_s for each in stations)


def _used(station: Station) -> bool:
    return station.arrivals_per_s > 0


def _waits(blocking: float, cores: int, load: float) -> float:
    return blocking / (1 - load / cores * (1 - blocking)) if load < cores else 1.0


def _response_s(waits: float, cores: int, station: Station) -> float:
    if station.load >= cores:
        return inf
    return waits / (cores * station.services_per_s - station.arrivals_per_s) + 1 / station.services_per_s
