"""Measures the time of a barrier by number of lessees and state size: on Spark, and simulated at larger scale.

The simulator uses the state costs that are measured here, so that only the network is assumed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from stretto.api.app import App
from stretto.bench.spread import HEAD_START_S, HotSource, Load
from stretto.runtime.cluster import Cluster
from stretto.scheduling.spreading import ForwardAll
from stretto.simulator.engine.cluster import Timing
from stretto.simulator.experiments.barrier_cost import Holder, StateCosts, barrier_ms
from stretto.sinks import callback
from stretto.state.packing import packed, unpacked

KB = 1024
SIZE = 1 * KB
LESSEES = 4
SIMULATED_LESSEES = (1, 2, 4, 8, 16, 32, 64)
SPARK_LESSEES = (1, 2, 4, 8)
SIZES = (1 * KB, 8 * KB, 64 * KB, 512 * KB, 4096 * KB)

TIMING = Timing(delay_ns=(40_000, 120_000), receive_ns=37_000, send_ns=25_000, ns_per_byte=1.0)
"""One network hop, the message path as measured by `stretto bench path`, and one gigabyte per second."""

RATE = 400.0
SECONDS = 6.0
TIMEOUT_S = 120.0
ROUNDS = 15


@dataclass(frozen=True)
class Cost:
    """One point: milliseconds from BLOCKED to the last UNSYNC."""

    lessees: int
    size: int
    simulated_ms: dict[str, float] | None = None
    spark_ms: dict[str, float | None] | None = None


@dataclass(frozen=True)
class CostReport:
    """Both curves of the paper's figure."""

    by_lessees: list[Cost]
    by_size: list[Cost]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def state_costs(size: int) -> StateCosts:
    """Measures handing over and merging a state of this size; returns medians."""
    give, take = [], []
    for _ in range(ROUNDS):
        holder = Holder(size)
        holder.held.set(bytes(size))
        began = time.perf_counter_ns()
        data = packed({"held": holder.held.export()})
        give.append(time.perf_counter_ns() - began)
        began = time.perf_counter_ns()
        theirs = holder.held.fresh()
        theirs.restore(unpacked(data)["held"])
        holder.held.merge(theirs)
        take.append(time.perf_counter_ns() - began)
    return StateCosts(size, int(statistics.median(give)), int(statistics.median(take)))


def on_spark(cluster: Cluster, lessees: int, size: int) -> dict[str, float | None]:
    """Runs some seconds of messages, forwarded round robin to all lessees, with a barrier every tenth of a second."""
    app = App("barriers", engine="actors", parallelism=1)
    load = Load(RATE, round(RATE * SECONDS), time.time_ns() + round(HEAD_START_S * 1e9))
    stream = app.source("rows", HotSource(load), time="t")
    held = stream.apply(Holder(size), "n bigint", name="holder", parallelism=1)
    held.sink(callback(lambda batch: None))
    app.spread("holder", lessees=lessees, strategy=ForwardAll())
    return cluster.submit(app).wait(TIMEOUT_S).metrics().functions["holder"].barrier_ms


def measure(cluster: Cluster | None, done: Callable[[str], None], seed: int = 7) -> CostReport:
    """Returns both curves, simulated, and on Spark as far as the cluster has workers."""
    by_lessees = [_cost(cluster, count, SIZE, seed, done) for count in SIMULATED_LESSEES]
    by_size = [_cost(cluster, LESSEES, size, seed, done) for size in SIZES]
    return CostReport(by_lessees, by_size)


def _cost(cluster: Cluster | None, lessees: int, size: int, seed: int, done: Callable[[str], None]) -> Cost:
    simulated = barrier_ms(lessees, state_costs(size), ForwardAll(), TIMING, seed)
    measured = on_spark(cluster, lessees, size) if cluster is not None and lessees in SPARK_LESSEES else None
    done(f"{lessees} lessees, {size // KB} KB")
    return Cost(lessees, size, simulated, measured)


STEPS = len(SIMULATED_LESSEES) + len(SIZES)
WORKERS = max(SPARK_LESSEES) + 2
