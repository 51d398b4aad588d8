"""The controlled dataflow of thesis 6.7.2: requests to objects of different popularity, on many workers.

Each object is an actor with one home worker. Senders choose objects at random (seeded, Zipf's law) and send requests to
their actors; the cost of a request is fixed. With state, a worker must first fetch an object that is not in its small
cache. So asking and moving a request have a cost, and so has leaving popular objects at home.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Stage
from stretto.actors.instance import Instance
from stretto.actors.partitioning import HashPartitioner
from stretto.actors.shards import ShardMap
from stretto.actors.source import Reading
from stretto.errors import InvariantError
from stretto.scheduling.spreading import PriorityBased
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.sources import SimulatedSource, Swallow
from stretto.simulator.experiments.send_modes import TIMING
from stretto.state import MapState

SCHEMA = pa.schema([("object", pa.int64())])
WORKERS = 128
SENDERS = 16
RANGE = 16
"""PARALLELISM_RANGE: the maximum number of instances of an actor; with only one object, all workers."""
FETCH_NS = 500_000
"""Time to fetch an object from a remote store."""
CACHED = 2
"""Number of objects that a worker caches."""
UTILISATION = 0.5
REQUESTS = 12_000
WARM_UP = 0.2
"""The share of a run's requests that are not counted."""


@dataclass(frozen=True)
class Setting:
    """One experiment. `skew` is Zipf's exponent; infinite means that all requests are for one object."""

    task_ns: int
    skew: float
    stateful: bool
    requests: int = REQUESTS
    seed: int = 1
    utilisation: float = UTILISATION
    workers: int = WORKERS


@dataclass(frozen=True)
class Latencies:
    """Latencies of the requests of one run, in milliseconds; `success` is the share done in time."""

    p50: float
    p95: float
    p99: float
    mean: float
    success: float
    fetches: int


class Senders(SimulatedSource):
    """A source: requests at random times, each for a random object (seeded)."""

    def __init__(self, setting: Setting, objects: list[int], gap_ns: float) -> None:
        self._setting = setting
        self._objects = objects
        self._gap_ns = gap_ns
        self._count = setting.requests // SENDERS

    def open(self, ctx: Context) -> None:
        self._random = random.Random(self._setting.seed * 1_000 + ctx.partition)
        skew = self._setting.skew
        weights = [rank**-skew for rank in range(1, len(self._objects) + 1)]
        self._drawn = self._random.choices(self._objects, weights, k=self._count)
        self._due_ns = ctx.now_ns + 10_000_000 + self._pause_ns()

    def _pause_ns(self) -> int:
        return int(self._random.expovariate(1 / self._gap_ns))

    def read(self, now_ns: int) -> Reading:
        if not self._drawn:
            return Reading(None, now_ns, done=True)
        if now_ns < self._due_ns:
            return Reading(None, now_ns, next_ns=self._due_ns)
        due_ns = self._due_ns
        self._due_ns += self._pause_ns()
        batch = pa.RecordBatch.from_arrays([pa.array([self._drawn.pop()], pa.int64())], schema=SCHEMA)
        return Reading(batch, due_ns, next_ns=self._due_ns)


class ServeWithState(Swallow):
    """Serves a request on an object; the simulator determines its cost."""

    def __init__(self) -> None:
        self.objects: Any = MapState(combine=max)


class Caches:
    """The objects cached by each worker, the most recently used at the end."""

    def __init__(self) -> None:
        self._kept: dict[str, OrderedDict[int, None]] = {}
        self.fetches = 0

    def fetched(self, worker: str, what: int) -> bool:
        """Use an object; returns whether it had to be fetched."""
        kept = self._kept.setdefault(worker, OrderedDict())
        missing = what not in kept
        kept[what] = None
        kept.move_to_end(what)
        if len(kept) > CACHED:
            kept.popitem(last=False)
        self.fetches += missing
        return missing


def latencies(setting: Setting, strategy: Callable[[], Strategy], latency_ns: int) -> Latencies:
    """Run one setting under one strategy."""
    deployment = _deployment(setting, strategy(), latency_ns)
    done: list[tuple[int, int]] = []
    caches = Caches()

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        if instance.address.function != "serve" or not isinstance(work, Message):
            return 20_000
        if not isinstance(work.payload, pa.RecordBatch):
            return 20_000
        cost_ns = setting.task_ns
        if setting.stateful and caches.fetched(cluster.where(instance), instance.address.partition):
            cost_ns += FETCH_NS
        done.append((work.arrived_ns, cluster.now_ns + cost_ns - work.arrived_ns))
        return cost_ns

    cluster = SimulatedCluster(setting.workers, setting.seed, TIMING, steps_max=100_000_000, costs=costs)
    job = cluster.submit(deployment)
    cluster.run()
    cluster.close()
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    counted = np.array([took_ns for _, took_ns in sorted(done)[int(WARM_UP * len(done)) :]]) / 1e6
    p50, p95, p99 = np.quantile(counted, [0.5, 0.95, 0.99]).round(3).tolist()
    success = float((counted <= latency_ns / 1e6).mean())
    return Latencies(p50, p95, p99, round(float(counted.mean()), 3), round(success, 4), caches.fetches)


def objective_ns(task_ns: int, workers: int = WORKERS, requests: int = REQUESTS) -> int:
    """Returns twice the p95 latency at half utilisation, with equally popular objects and every request at home."""
    alone = latencies(Setting(task_ns, 0.0, False, requests, workers=workers), PriorityBased, 10**12)
    return int(2 * alone.p95 * 1e6)


def _deployment(setting: Setting, strategy: Strategy, latency_ns: int) -> Deployment:
    single = setting.skew == float("inf")
    actors, instances = (1, setting.workers) if single else (setting.workers, min(RANGE, setting.workers))
    objects = _one_key_each(actors)
    gap_ns = setting.task_ns * SENDERS / (setting.workers * setting.utilisation)
    even = replace(setting, skew=0.0) if single else setting
    senders = FunctionSpec("send", Senders(even, objects, gap_ns), SENDERS, {"out": Stage("send", SCHEMA)})
    function = ServeWithState() if setting.stateful else Swallow()
    serve = FunctionSpec("serve", function, actors)
    serve.lessees_max, serve.strategy = instances - 1, strategy
    senders.outputs["out"].edges.append(Edge("serve", "in", ByKey(("object",))))
    return Deployment("requests", {"send": senders, "serve": serve}, latency_ns)


def _one_key_each(actors: int) -> list[int]:
    """Returns one object for each actor, whose requests are routed to that actor."""
    if actors == 1:
        return [0]
    keys = pa.array(range(64 * actors), pa.int64())
    split = HashPartitioner(("object",), ShardMap.even(actors)).split(pa.RecordBatch.from_arrays([keys], schema=SCHEMA))
    first = {partition: rows.column(0)[0].as_py() for partition, rows in split}
    found = [first[partition] for partition in range(actors)]
    random.Random(0).shuffle(found)
    return found
