"""One run: the network's requests on many workers, under one strategy.

As in the thesis, a function waits for each object that its worker has no copy of. A post is written to the server, and
its objects are copied at the worker that wrote it. Nothing tells other workers, and copies do not age.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Stage, Transform
from stretto.actors.instance import Instance
from stretto.errors import InvariantError
from stretto.scheduling.strategy import Strategy
from stretto.sharing.cache import Cache
from stretto.sharing.freshness import freshness
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.sources import Swallow
from stretto.simulator.experiments.send_modes import TIMING
from stretto.simulator.experiments.social.workload import ASKS, CLIENTS, SCHEMA, Clients, Network, Setting

RANGE = 16
"""PARALLELISM_RANGE: the maximum number of instances of an actor."""
WARM_UP = 0.3
"""The share of a run's requests that are not counted."""
_COPIED = freshness("1 hour")


@dataclass(frozen=True)
class Measured:
    """Latencies in milliseconds, the share done in time, reads and how many of them were remote, and how the workers
    differ: the greatest of their medians and 99th percentiles by the mean of all."""

    p50: float
    p99: float
    mean: float
    success: float
    reads: int
    fetches: int
    worker_p50_spread: float
    worker_p99_spread: float


@dataclass
class _Found:
    done: list[tuple[int, int, str]] = field(default_factory=list)
    """When a request came, how long it took, and where it ran."""
    served: int = 0
    reads: int = 0
    fetches: int = 0


class Stores:
    """The copies at each worker."""

    def __init__(self, cached: int) -> None:
        self._cached = cached
        self._caches: dict[str, Cache] = {}

    def read(self, worker: str, name: str) -> bool:
        """Reads an object; returns whether it had to be fetched."""
        if not self._cached:
            return True
        cache = self._cache(worker)
        copy = cache.find(name, _COPIED, 0)
        if copy is None:
            self.keep(worker, name)
            return True
        cache.release(name, copy)
        return False

    def keep(self, worker: str, name: str) -> None:
        """An object is at a worker."""
        if self._cached:
            cache = self._cache(worker)
            cache.take_in(name, None, 0, 0)
            cache.trim()

    def _cache(self, worker: str) -> Cache:
        cache = self._caches.get(worker)
        if cache is None:
            cache = self._caches[worker] = Cache(self._cached)
        return cache


def measured(setting: Setting, strategy: Callable[[], Strategy]) -> Measured:
    """Runs one setting under one strategy."""
    network, stores, found = Network(setting), Stores(setting.cached), _Found()

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        if not isinstance(work, Message) or not isinstance(work.payload, pa.RecordBatch):
            return 20_000
        worker = cluster.where(instance)
        accesses = _accesses(network, stores, found, setting, instance.address.function, worker, work.payload)
        cost_ns = setting.service_ns + accesses * setting.access_ns
        found.done.append((work.arrived_ns, cluster.now_ns + cost_ns - work.arrived_ns, worker))
        return cost_ns

    cluster = SimulatedCluster(setting.workers, setting.seed, TIMING, steps_max=200_000_000, costs=costs, checked=False)
    job = cluster.submit(_deployment(setting, strategy))
    cluster.run()
    cluster.close()
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    return _measured(found, setting)


def _accesses(
    network: Network, stores: Stores, found: _Found, setting: Setting, ask: str, worker: str, batch: pa.RecordBatch
) -> int:
    """Returns how many accesses to the server a request waits for. The objects of a post are written together."""
    user = batch.column("user")[0].as_py()
    found.served += 1
    if ask == "compose":
        for name in network.writes(user):
            stores.keep(worker, name)
        return 1
    names = network.reads(ask, user)
    fetched = sum(stores.read(worker, name) for name in names)
    if found.served > WARM_UP * setting.requests:
        found.reads += len(names)
        found.fetches += fetched
    return fetched


def _measured(found: _Found, setting: Setting) -> Measured:
    counted = sorted(found.done)[int(WARM_UP * len(found.done)) :]
    took_ms = np.array([took_ns for _, took_ns, _ in counted]) / 1e6
    p50, p99 = np.quantile(took_ms, [0.5, 0.99])
    by_worker: dict[str, list[float]] = {}
    for _, took_ns, worker in counted:
        by_worker.setdefault(worker, []).append(took_ns / 1e6)
    medians = [float(np.quantile(each, 0.5)) for each in by_worker.values()]
    tails = [float(np.quantile(each, 0.99)) for each in by_worker.values()]
    return Measured(
        round(float(p50), 3),
        round(float(p99), 3),
        round(float(took_ms.mean()), 3),
        round(float((took_ms <= setting.latency_ns / 1e6).mean()), 4),
        found.reads,
        found.fetches,
        round(max(medians) / float(np.mean(medians)), 3),
        round(max(tails) / float(np.mean(tails)), 3),
    )


def _deployment(setting: Setting, strategy: Callable[[], Strategy]) -> Deployment:
    root = Stage("parse", SCHEMA)
    functions = {"parse": FunctionSpec("parse", Clients(setting), CLIENTS, {"out": root})}
    for number, ask in enumerate(ASKS):
        stage = Stage(f"{ask}_requests", SCHEMA, _only(number), [Edge(ask, "in", ByKey(("user",)))])
        root.stages.append(stage)
        spec = functions[ask] = FunctionSpec(ask, Swallow(), setting.workers)
        spec.lessees_max, spec.strategy = min(RANGE, setting.workers) - 1, strategy()
    return Deployment("social", functions, setting.latency_ns)


def _only(number: int) -> Transform:
    """Returns a step that keeps requests of one kind; a batch has one request."""
    return lambda batch: [batch] if batch.column("ask")[0].as_py() == number else []
