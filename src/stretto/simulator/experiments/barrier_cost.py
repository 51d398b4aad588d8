"""Simulates how long a barrier takes, by number of lessees and size of their states (dirigo.txt figure 11)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.metrics import LatencySketch
from stretto.actors.source import Reading
from stretto.actors.work import SURRENDER, Barrier
from stretto.errors import InvariantError
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import SimulatedSource, Swallow
from stretto.state import ValueState

SCHEMA = pa.schema([("n", pa.int64())])
BARRIERS = 40
MESSAGES_PER_LESSEE = 4
"""Messages between two barriers, so that every lessee has a state to hand over."""
GAP_NS = 1_000_000
MESSAGE_NS = 20_000


@dataclass(frozen=True)
class StateCosts:
    """Measured costs of a state of some size, in nanoseconds: handing it over, and merging one."""

    size: int
    give_ns: int
    take_ns: int


class Steps(SimulatedSource):
    """A source: single rows, with a watermark after every few."""

    def __init__(self, every: int) -> None:
        self._every = every

    def open(self, ctx: Context) -> None:
        self._read = 0

    def read(self, now_ns: int) -> Reading:
        if self._read == BARRIERS * self._every:
            return Reading(None, now_ns, done=True)
        self._read += 1
        batch = pa.RecordBatch.from_arrays([pa.array([self._read])], schema=SCHEMA)
        # It pauses after a watermark, so that barriers do not overlap.
        rest_ns = 50 * GAP_NS if self._read % self._every == 0 else GAP_NS // self._every
        return Reading(batch, now_ns, next_ns=now_ns + rest_ns)

    def due_watermark(self) -> int | None:
        return self._read if self._read % self._every == 0 else None


def either(mine: bytes, theirs: bytes) -> bytes:
    """Merges two states without growing."""
    return mine or theirs


class Holder(Function):
    """Holds a state of a given size on every instance that has run a message."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.held: Any = ValueState(b"", combine=either)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if not self.held.get():
            self.held.set(bytes(self._size))


def barrier_ms(lessees: int, costs: StateCosts, strategy: Strategy, timing: Timing, seed: int) -> dict[str, float]:
    """Returns percentiles of the time from BLOCKED to the last UNSYNC, in virtual milliseconds."""
    source = FunctionSpec("source", Steps(MESSAGES_PER_LESSEE * lessees), 1, {"out": Stage("source", SCHEMA)})
    holder = FunctionSpec("holder", Holder(costs.size), 1, {"out": Stage("holder", SCHEMA)})
    holder.lessees_max, holder.strategy = lessees, strategy
    source.outputs["out"].edges.append(Edge("holder", "in", Rebalance()))
    holder.outputs["out"].edges.append(Edge("sink", "in", Rebalance()))
    specs = (source, holder, FunctionSpec("sink", Swallow(), 1))

    def cost_ns(chance: random.Random, instance: Instance, work: Any) -> int:
        if work is SURRENDER:
            return costs.give_ns
        if isinstance(work, Barrier):
            return MESSAGE_NS + len(work.parts) * costs.take_ns
        return MESSAGE_NS

    cluster = SimulatedCluster(lessees + 3, seed, timing, costs=cost_ns)
    job = cluster.submit(Deployment("barriers", {spec.name: spec for spec in specs}))
    cluster.run()
    cluster.close()
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    sketch = LatencySketch()
    durations = cluster.observation.jobs["barriers"].functions["holder"].totals.barriers
    if durations is None:
        raise InvariantError("no barrier had lessees")
    sketch.merge(durations)
    return {name: round(value, 3) for name, value in sketch.percentiles().items() if value is not None}
