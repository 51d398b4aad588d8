"""Runs tenants together on simulated workers, and returns each one's output latencies, throughput and load."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.instance import Instance
from stretto.errors import InvariantError
from stretto.scheduling.policies import Policy
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.experiments.send_modes import OTHER_COST_NS, TIMING
from stretto.simulator.experiments.workloads import SECOND_NS, START_NS, Tenant


@dataclass(frozen=True)
class Scale:
    """The size and length of experiments, and the seed of all random choices."""

    workers: int = 128
    seconds: float = 10.0
    seed: int = 1

    @property
    def sources(self) -> int:
        """Number of sources of each job: 64 on 128 workers, as in the thesis."""
        return max(2, self.workers // 2)


@dataclass(frozen=True)
class Figure:
    """The results of an experiment: its settings, one row per point, and a summary with the paper's figures."""

    title: str
    settings: dict[str, Any]
    points: list[dict[str, Any]]
    ours: dict[str, Any]
    paper: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A figure that can be made, and the number of runs it takes."""

    make: Callable[[Scale, Callable[[], None]], Figure]
    runs: int


@dataclass
class Fate:
    """The results of one tenant. The latency of an output counts from the end of its window, in milliseconds."""

    latencies_ms: list[float] = field(default_factory=list)
    events: int = 0
    """The events counted in all its outputs, including the warm-up."""
    messages: int = 0
    """Inputs that its first stage processed while sources were sending."""


@dataclass
class Outcome:
    """The results of all tenants, and the utilisation of the workers while sources were sending."""

    fates: dict[str, Fate]
    utilisation: float

    def latencies_ms(self, group: str) -> list[float]:
        """Returns the latencies of the outputs of all tenants whose names begin with `group`."""
        return [ms for name, fate in self.fates.items() if name.startswith(group) for ms in fate.latencies_ms]

    def messages(self, group: str) -> int:
        return sum(fate.messages for name, fate in self.fates.items() if name.startswith(group))


def percentiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Returns the percentiles that are compared, in milliseconds."""
    if not latencies_ms:
        return {}
    found = np.asarray(latencies_ms)
    named = {f"p{q}": float(np.percentile(found, q)) for q in (50, 95, 99)}
    return {name: round(value, 2) for name, value in {**named, "sd": float(found.std())}.items()}


def satisfaction(latencies_ms: Sequence[float], slo_ms: float) -> float:
    """Returns the percentage of outputs in time."""
    return round(100 * sum(ms <= slo_ms for ms in latencies_ms) / len(latencies_ms), 2) if latencies_ms else 0.0


def together(
    tenants: Sequence[Tenant],
    workers: int,
    policy: Callable[[], Policy],
    seed: int,
    warm_s: float = 1.0,
) -> Outcome:
    """Run tenants until all their input is processed. Outputs of windows that end in the first `warm_s` seconds do not
    count: the workers have not learned costs and event-time progress yet."""
    fates = {tenant.name: Fate() for tenant in tenants}
    until_ns = max(tenant.table.until_ns for tenant in tenants)
    warm_ns = START_NS + int(warm_s * SECOND_NS)
    busy_ns = 0

    def output(fate: Fate, batch: pa.RecordBatch) -> None:
        for time_us, events in zip(batch.column(0).to_pylist(), batch.column(2).to_pylist(), strict=True):
            end_ns = (time_us + 1) * 1_000
            fate.events += events
            if warm_ns < end_ns <= until_ns:
                fate.latencies_ms.append((cluster.now_ns - end_ns) / 1e6)

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        nonlocal busy_ns
        cost_ns = OTHER_COST_NS
        if isinstance(work, Message) and isinstance(work.payload, pa.RecordBatch):
            fate, function = fates[instance.address.job], instance.address.function
            if function == "sink":
                output(fate, work.payload)
            else:
                cost_ns += sum(work.payload.column(3).to_pylist())
                fate.messages += function == "local" and cluster.now_ns <= until_ns
        if START_NS <= cluster.now_ns <= until_ns:
            busy_ns += cost_ns
        return cost_ns

    cluster = SimulatedCluster(workers, seed, TIMING, steps_max=50_000_000, costs=costs, policy=policy)
    jobs = {tenant.name: cluster.submit(tenant.deployment()) for tenant in tenants}
    cluster.run()
    cluster.close()
    for name, job in jobs.items():
        if job.failure is not None:
            raise InvariantError(f"the simulated job {name} failed", f"{job.failure.fact}: {job.failure.detail}")
    return Outcome(fates, busy_ns / (workers * (until_ns - START_NS)))
