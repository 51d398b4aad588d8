"""Runs tenants together on simulated workers, and tells what became of each: latencies of outputs, throughput, load."""

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
    """How large and how long experiments are, and the seed of all that is drawn."""

    workers: int = 128
    seconds: float = 10.0
    seed: int = 1

    @property
    def sources(self) -> int:
        """Of each job: 64 on 128 workers, as in the thesis."""
        return max(2, self.workers // 2)


@dataclass(frozen=True)
class Figure:
    """What an experiment gave: its settings, a row for each point, and what sums it up beside the paper's."""

    title: str
    settings: dict[str, Any]
    points: list[dict[str, Any]]
    ours: dict[str, Any]
    paper: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A figure that can be made, and how many runs that takes."""

    make: Callable[[Scale, Callable[[], None]], Figure]
    runs: int


@dataclass
class Fate:
    """What became of one tenant. An output's latency counts from the end of its window, in milliseconds."""

    latencies_ms: list[float] = field(default_factory=list)
    events: int = 0
    """Of all its outputs, in windows of any time."""
    messages: int = 0
    """Inputs that its first stage has done while sources were sending."""


@dataclass
class Outcome:
    """What became of all of them, and how much of the workers' time was used while sources were sending."""

    fates: dict[str, Fate]
    utilisation: float

    def latencies_ms(self, group: str) -> list[float]:
        """Of the outputs of all tenants whose names begin so."""
        return [ms for name, fate in self.fates.items() if name.startswith(group) for ms in fate.latencies_ms]

    def messages(self, group: str) -> int:
        return sum(fate.messages for name, fate in self.fates.items() if name.startswith(group))


def percentiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    """The figures that are compared, in milliseconds."""
    if not latencies_ms:
        return {}
    found = np.asarray(latencies_ms)
    named = {f"p{q}": float(np.percentile(found, q)) for q in (50, 95, 99)}
    return {name: round(value, 2) for name, value in {**named, "sd": float(found.std())}.items()}


def satisfaction(latencies_ms: Sequence[float], slo_ms: float) -> float:
    """The percentage of outputs that came in time."""
    return round(100 * sum(ms <= slo_ms for ms in latencies_ms) / len(latencies_ms), 2) if latencies_ms else 0.0


def together(
    tenants: Sequence[Tenant],
    workers: int,
    policy: Callable[[], Policy],
    seed: int,
    warm_s: float = 1.0,
) -> Outcome:
    """Run tenants until all that they were sent is done. Outputs of windows that end in the first `warm_s` seconds do
    not count: costs and the course of time are not known yet."""
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
