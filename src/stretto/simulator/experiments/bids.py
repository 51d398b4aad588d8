"""Two windowed aggregations of NEXMark's bids (thesis 6.7.4): the highest bid, whose state is one number, and the
distribution of the prices, whose state grows with the input.

Sources send batches of bids; an actor with lessees aggregates them; windows close at a barrier. Strategies differ in
where a batch runs, and in how much a barrier has to wait for and to merge.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.source import Reading
from stretto.actors.work import SURRENDER, Barrier
from stretto.errors import InvariantError
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.engine.sources import Swallow, WindowedSource
from stretto.simulator.experiments import send_modes
from stretto.state import MapState

SCHEMA = pa.schema([("window", pa.int64()), ("price", pa.int64())])
SOURCES = 32
BATCH_NS = 2_000_000
"""Time to aggregate a batch of bids."""
WINDOW_NS = 250_000_000
WINDOWS = 20
WARM_UP_WINDOWS = 2
OTHER_NS = 20_000
PRICES = 100_000
"""Number of different prices. Each batch brings new ones, so the distribution grows with the length of the window."""
PER_BATCH = 8
"""Prices that a batch adds to the distribution."""
PRICE_BYTES = 24
GIVE_NS_PER_PRICE, TAKE_NS_PER_PRICE = 700, 900
"""Cost per price of handing a distribution over at a barrier, and of merging it, as measured for map states
(`stretto bench barriers`)."""
TIMING = replace(send_modes.TIMING, ns_per_byte=1.0)


class Bids(WindowedSource):
    """A source: batches of bids at random times, and a watermark at the end of each window."""

    def __init__(self, gap_ns: float, seed: int) -> None:
        self._gap_ns = gap_ns
        self._seed = seed

    def open(self, ctx: Context) -> None:
        self._random = random.Random(self._seed * 1_000 + ctx.partition)
        self._first_ns = ctx.now_ns
        self._due_ns = ctx.now_ns + self._pause_ns()

    def _pause_ns(self) -> int:
        return int(self._random.expovariate(1 / self._gap_ns)) + 1

    def next_window(self) -> int:
        return (self._due_ns - self._first_ns) // WINDOW_NS

    def read(self, now_ns: int) -> Reading:
        window = self.next_window()
        if window >= WINDOWS:
            return Reading(None, now_ns, done=True)
        if now_ns < self._due_ns:
            return Reading(None, now_ns, next_ns=self._due_ns)
        due_ns = self._due_ns
        self._due_ns += self._pause_ns()
        prices = [self._random.randrange(PRICES) for _ in range(PER_BATCH)]
        columns = [pa.array([window] * PER_BATCH), pa.array(prices)]
        return Reading(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), due_ns, next_ns=self._due_ns)


class HighestBid(Function):
    """The highest price of each window; watermarks are window numbers."""

    def __init__(self) -> None:
        self.highest: Any = MapState(combine=max)

    @property
    def prices(self) -> int:
        """Number of prices to hand over at a barrier."""
        return 1

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        window = batch.column(0)[0].as_py()
        self.highest[window] = max(self.highest.get(window, 0), *batch.column(1).to_pylist())

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = sorted(window for window in self.highest if window < watermark_us)
        for window in closed:
            ctx.send(pa.RecordBatch.from_arrays([pa.array([window]), pa.array([self.highest[window]])], schema=SCHEMA))
            del self.highest[window]


class BidQuantisation(Function):
    """How often each price was bid in each window."""

    def __init__(self) -> None:
        self.times: Any = MapState(combine=operator.add)

    @property
    def prices(self) -> int:
        return len(self.times)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for window, price in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            self.times[window, price] = self.times.get((window, price), 0) + 1

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = [key for key in self.times if key[0] < watermark_us]
        for window in sorted({window for window, _ in closed}):
            ctx.send(pa.RecordBatch.from_arrays([pa.array([window]), pa.array([len(closed)])], schema=SCHEMA))
        for key in closed:
            del self.times[key]


QUERIES: dict[str, Callable[[], Function]] = {"highest bid": HighestBid, "bid quantisation": BidQuantisation}


@dataclass(frozen=True)
class Latencies:
    """Milliseconds from the end of a window to its result, and to the last batch that went into it."""

    windows: int
    p50: float
    p95: float
    updates_p50: float


@dataclass(frozen=True)
class Setting:
    """One experiment. `load` is the number of workers that an actor's batches keep busy."""

    query: str
    actors: int
    instances: int
    load: float
    workers: int = 64
    seed: int = 1


def latencies(setting: Setting, strategy: Strategy, latency_ns: int) -> Latencies:
    """Run one setting under one strategy."""
    results: dict[tuple[int, int], int] = {}
    updates: dict[int, int] = {}

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        is_batch = isinstance(work, Message) and isinstance(work.payload, pa.RecordBatch)
        if instance.address.function == "aggregate":
            if work is SURRENDER:
                prices: int = instance.function.prices
                return OTHER_NS + prices * GIVE_NS_PER_PRICE
            if isinstance(work, Barrier):
                prices = sum(map(len, work.parts)) // PRICE_BYTES
                return OTHER_NS + prices * TAKE_NS_PER_PRICE
            if is_batch:
                window = work.payload.column(0)[0].as_py()
                updates[window] = max(updates.get(window, 0), cluster.now_ns + BATCH_NS)
                return BATCH_NS
        elif is_batch and instance.address.function == "end":
            results[work.channel.sender.partition, work.payload.column(0)[0].as_py()] = cluster.now_ns
        return OTHER_NS

    cluster = SimulatedCluster(setting.workers, setting.seed, TIMING, steps_max=100_000_000, costs=costs)
    began_ns = cluster.now_ns
    job = cluster.submit(_deployment(setting, strategy, latency_ns))
    cluster.run()
    cluster.close()
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    return _summary(results, updates, began_ns)


def _summary(results: dict[tuple[int, int], int], updates: dict[int, int], began_ns: int) -> Latencies:
    """Summarises the windows after the warm-up, except the last one, which ends with the input."""
    counted = range(WARM_UP_WINDOWS, WINDOWS - 1)

    def after_ms(window: int, at_ns: int) -> float:
        return (at_ns - began_ns - (window + 1) * WINDOW_NS) / 1e6

    found = np.array([after_ms(window, at_ns) for (_, window), at_ns in results.items() if window in counted])
    before = np.array([after_ms(window, at_ns) for window, at_ns in updates.items() if window in counted])
    p50, p95 = np.quantile(found, [0.5, 0.95]).round(3).tolist()
    return Latencies(len(found), p50, p95, round(float(np.median(before)), 3))


def _deployment(setting: Setting, strategy: Strategy, latency_ns: int) -> Deployment:
    gap_ns = BATCH_NS * SOURCES / (setting.load * setting.actors)
    bids = FunctionSpec("bids", Bids(gap_ns, setting.seed), SOURCES, {"out": Stage("bids", SCHEMA)})
    aggregate = FunctionSpec("aggregate", QUERIES[setting.query](), setting.actors, {"out": Stage("out", SCHEMA)})
    aggregate.lessees_max, aggregate.strategy = setting.instances - 1, strategy
    bids.outputs["out"].edges.append(Edge("aggregate", "in", Rebalance()))
    aggregate.outputs["out"].edges.append(Edge("end", "in", Rebalance()))
    specs = (bids, aggregate, FunctionSpec("end", Swallow(), 1))
    return Deployment("bids", {spec.name: spec for spec in specs}, latency_ns)
