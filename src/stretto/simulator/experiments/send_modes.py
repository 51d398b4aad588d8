"""Compares REJECTSEND with DIRECTSEND at the paper's scale (dirigo.txt figures 8 and 9).

There are 128 workers, each with a source. The n actors of a second stage do the work, each with up to m - 1 lessees, so
that there are always 128 instances. One actor of a third stage merges the windows. Costs were measured on a real
cluster (`stretto bench path`), so a lessor that forwards everything pays for it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message, OutChannel
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, Forward, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.partitioning import HashPartitioner
from stretto.actors.seat import Seat
from stretto.actors.shards import ShardMap
from stretto.actors.source import Reading
from stretto.errors import InvariantError
from stretto.scheduling.strategy import Desk, Pending, Strategy, seeded_random
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import Swallow, WindowedSource
from stretto.state import MapState

WORKERS = 128
SHAPES = ((64, 2), (32, 4), (16, 8), (8, 16))
SCHEMA = pa.schema([("window", pa.int64()), ("value", pa.int64()), ("source", pa.int64())])
WINDOW_NS = 100_000_000
COST_NS = 1_000_000
"""Time of the second stage per message."""
OTHER_COST_NS = 20_000
UTILISATION = 0.45
WARM_UP_NS = 300_000_000
"""Time until every sender has registered with every actor."""
SLO_NS = 8 * COST_NS
PAUSED_SENDS = 64
"""Number of batches for which a sender avoids an instance that seemed too slow; the paper's fixed period."""
SKEWS = (0.0, 0.2, 0.4, 0.6)
SKEW_SHAPE = (32, 4)

TIMING = Timing(delay_ns=(40_000, 120_000), receive_ns=37_000, send_ns=25_000)
"""One hop on a local network, and the measured message path: about 60 us of worker time for a remote message."""


def _batch(windows: list[int], values: list[int], source: int) -> pa.RecordBatch:
    columns = [pa.array(windows), pa.array(values), pa.array([source] * len(windows))]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Clocked(WindowedSource):
    """A source that sends single rows at random times, with a watermark at the end of each window."""

    def __init__(self, gaps_ns: list[float], keys: list[int], until_ns: int, seed: int) -> None:
        self._gaps_ns = gaps_ns
        self._keys = keys
        self._until_ns = until_ns
        self._seed = seed

    def open(self, ctx: Context) -> None:
        self._random = random.Random(self._seed + ctx.partition)
        self._key = self._keys[ctx.partition]
        self._gap_ns = self._gaps_ns[ctx.partition]
        self._due_ns = self._start_ns = ctx.now_ns + int(self._random.expovariate(1 / self._gap_ns))

    def read(self, now_ns: int) -> Reading:
        if self._due_ns - self._start_ns > self._until_ns:
            return Reading(None, now_ns, done=True)
        if now_ns < self._due_ns:
            return Reading(None, now_ns, next_ns=self._due_ns)
        due_ns = self._due_ns
        window = due_ns // WINDOW_NS
        self._due_ns += int(self._random.expovariate(1 / self._gap_ns)) + 1
        return Reading(_batch([window], [due_ns % 1_000], self._key), due_ns, next_ns=self._due_ns)

    def next_window(self) -> int:
        return self._due_ns // WINDOW_NS


class WindowMax(Function):
    """The greatest value per window; watermarks are window numbers."""

    def __init__(self) -> None:
        self.greatest: Any = MapState(combine=max)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for window, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            self.greatest[window] = max(value, self.greatest.get(window, -1))

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = sorted(window for window in self.greatest if window < watermark_us)
        if closed:
            ctx.send(_batch(closed, [self.greatest[window] for window in closed], ctx.partition))
        for window in closed:
            del self.greatest[window]


class SeededStrategy(Strategy):
    """Base of the strategies here: random choices from a generator per worker, seeded."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def bind(self, desk: Desk) -> None:
        super().bind(desk)
        self._random = seeded_random(desk, self._seed)


class RandomReject(SeededStrategy):
    """The lessor distributes its messages over all instances at random."""

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        chosen = self._random.randrange(len(candidates) + 1)
        return candidates[chosen - 1] if chosen else None


class RandomDirect(SeededStrategy):
    """The senders distribute their messages over all instances at random."""

    waits = True

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel:
        chosen = self._random.choice([channel, *direct])
        return chosen if chosen.credits > 0 else channel


class SloReject(SeededStrategy):
    """The lessor forwards messages that would wait longer than the objective allows to a random instance."""

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        late = (len(lessor.mailbox) + 1) * COST_NS > SLO_NS
        return self._random.choice(candidates) if late and candidates else None


class SloDirect(SeededStrategy):
    """The sender avoids an instance for a while when too many of its messages there are unanswered."""

    waits = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._paused: dict[int, int] = {}

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel:
        sends = channel.seq + sum(extra.seq for extra in direct)
        for place in (channel, *direct):
            if place.unsettled * COST_NS > SLO_NS:
                self._paused[id(place)] = sends + PAUSED_SENDS
        if self._paused.get(id(channel), 0) <= sends:
            return channel
        open_places = [place for place in direct if self._paused.get(id(place), 0) <= sends and place.credits > 0]
        return self._random.choice(open_places) if open_places else channel


@dataclass(frozen=True)
class Distribution:
    """Latencies in milliseconds: from the end of a window to its result, and of the second stage's messages."""

    windows: int
    p50: float
    p95: float
    message_p50: float
    message_p99: float


def latencies(
    actors: int, instances: int, strategy: Strategy, skew: float | None, seed: int, virtual_s: float
) -> Distribution:
    """Run one configuration. With skew, source rates follow Zipf's law and each source feeds one actor; without, each
    source feeds all actors evenly."""
    deployment = _deployment(actors, instances, strategy, skew, seed, virtual_s)
    windows: list[float] = []
    messages: list[float] = []

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        is_batch = isinstance(work, Message) and isinstance(work.payload, pa.RecordBatch)
        if instance.address.function == "local" and is_batch:
            cost_ns = int(chance.uniform(0.5, 1.5) * COST_NS)
            if work.arrived_ns > warm_ns:
                messages.append((cluster.now_ns + cost_ns - work.arrived_ns) / 1e6)
            return cost_ns
        if instance.address.function == "sink" and is_batch:
            ends_ns = [(window + 1) * WINDOW_NS for window in work.payload.column(0).to_pylist()]
            windows.extend((cluster.now_ns - end_ns) / 1e6 for end_ns in ends_ns if warm_ns < end_ns <= last_ns)
        return OTHER_COST_NS

    cluster = SimulatedCluster(WORKERS, seed, TIMING, steps_max=50_000_000, costs=costs)
    warm_ns, last_ns = cluster.now_ns + WARM_UP_NS, cluster.now_ns + int(virtual_s * 1e9)
    job = cluster.submit(deployment)
    cluster.run()
    cluster.close()
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    p50, p95 = np.quantile(np.array(windows), [0.5, 0.95]).round(3).tolist()
    return Distribution(len(windows), p50, p95, *np.quantile(np.array(messages), [0.5, 0.99]).round(3).tolist())


def _keys(actors: int) -> list[int]:
    """Returns a key for each source, so that all actors have the same number of sources."""
    keys = list(range(64 * WORKERS))
    split = HashPartitioner(("source",), ShardMap.even(actors)).split(_batch_of_keys(keys)) if actors > 1 else []
    queues = {partition: deque(rows.column("source").to_pylist()) for partition, rows in split}
    return [queues[source % actors].popleft() if queues else source for source in range(WORKERS)]


def _batch_of_keys(keys: list[int]) -> pa.RecordBatch:
    zeros = pa.array([0] * len(keys))
    return pa.RecordBatch.from_arrays([zeros, zeros, pa.array(keys)], schema=SCHEMA)


def _deployment(
    actors: int, instances: int, strategy: Strategy, skew: float | None, seed: int, virtual_s: float
) -> Deployment:
    mean_gap_ns = COST_NS / UTILISATION
    skewed = skew is not None
    weights = [1 / (rank + 1) ** (skew or 0.0) for rank in range(WORKERS)]
    random.Random(seed).shuffle(weights)
    total = sum(weights)
    gaps_ns = [mean_gap_ns * total / (WORKERS * weight) for weight in weights]
    sources = FunctionSpec(
        "map", Clocked(gaps_ns, _keys(actors), int(virtual_s * 1e9), seed), WORKERS, {"out": Stage("map", SCHEMA)}
    )
    local = FunctionSpec("local", WindowMax(), actors, {"out": Stage("local", SCHEMA)})
    local.lessees_max, local.strategy = instances - 1, strategy
    final = FunctionSpec("global", WindowMax(), 1, {"out": Stage("global", SCHEMA)})
    sink = FunctionSpec("sink", Swallow(), 1)
    # With skew each source feeds one actor, so that skewed sources make skewed actors.
    routing = ByKey(("source",)) if skewed else Rebalance()
    sources.outputs["out"].edges.append(Edge("local", "in", routing))
    local.outputs["out"].edges.append(Edge("global", "in", Rebalance()))
    final.outputs["out"].edges.append(Edge("sink", "in", Forward()))
    return Deployment("spread", {spec.name: spec for spec in (sources, local, final, sink)})


@dataclass(frozen=True)
class Point:
    """The latencies of both modes in one setting."""

    actors: int
    instances: int
    skew: float | None
    reject: Distribution
    direct: Distribution

    @property
    def reject_by_direct(self) -> float:
        """REJECTSEND's median latency divided by DIRECTSEND's."""
        return round(self.reject.p50 / self.direct.p50, 3)


def by_instances(seed: int, virtual_s: float, done: Callable[[], None]) -> list[Point]:
    """Figure 9a: with more instances per actor, routing all messages through the lessor costs more."""
    return [_point(shape, None, (RandomReject(seed), RandomDirect(seed)), seed, virtual_s, done) for shape in SHAPES]


def by_skew(seed: int, virtual_s: float, done: Callable[[], None]) -> list[Point]:
    """Figure 9b: with more skew, the lessor's knowledge of its own queue matters more."""
    return [_point(SKEW_SHAPE, skew, (SloReject(seed), SloDirect(seed)), seed, virtual_s, done) for skew in SKEWS]


def _point(
    shape: tuple[int, int],
    skew: float | None,
    strategies: tuple[Strategy, Strategy],
    seed: int,
    virtual_s: float,
    done: Callable[[], None],
) -> Point:
    found = []
    for strategy in strategies:
        found.append(latencies(*shape, strategy, skew, seed, virtual_s))
        done()
    return Point(*shape, skew, *found)


STEPS = 2 * (len(SHAPES) + len(SKEWS))
