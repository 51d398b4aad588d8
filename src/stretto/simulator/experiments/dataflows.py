"""Dataflows of stateless operators with a cost per batch, run by the production machines in virtual time.

A batch of rows is a message. An operator forwards all or a part of its rows to each of its children, whose instances
get batches in turn. Its sources read as fast as their credits allow, or by a timetable. Workers have one thread, so
the instances of one worker share it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.source import Reading
from stretto.actors.work import POLL
from stretto.elasticity.topology import Placement
from stretto.errors import InvariantError
from stretto.observation.longer import observed_since
from stretto.observation.model import Observation
from stretto.simulator.engine.cluster import Timing
from stretto.simulator.engine.sources import SimulatedSource
from stretto.simulator.experiments.restarting import PlacedCluster

SECOND_NS = 1_000_000_000
BEGINS_NS = SECOND_NS
JOB = "flow"
ROWS = 20
"""Rows of a batch at a source."""
SCHEMA = pa.schema([("read_ns", pa.int64())])
OTHER_NS = 20_000
"""What any run costs besides its rows (`stretto bench path`)."""
TIMING = Timing(delay_ns=(40_000, 120_000))
CREDITS_EACH = 8
"""What a batch costs of the 32 credits of its channel, so that queues are a few batches long."""


@dataclass(frozen=True)
class OperatorModel:
    """An operator: what a batch of a source costs it, its children, and the share of the rows that it passes on."""

    name: str
    cost_ms: float
    children: tuple[str, ...] = ()
    passes: float = 1.0

    @property
    def row_ns(self) -> int:
        return int(self.cost_ms * 1e6 / ROWS)


Dataflow = Mapping[str, OperatorModel]
Pace = Callable[[int, int], Sequence[int]]
"""Returns when a source instance, by its number of how many, reads: times in nanoseconds, in order."""


def dataflow(*operators: OperatorModel) -> Dataflow:
    """Returns operators by name; they come in topological order."""
    return {operator.name: operator for operator in operators}


def sources_of(flow: Dataflow) -> list[str]:
    """Returns the operators that nobody sends anything."""
    below = {child for operator in flow.values() for child in operator.children}
    return [name for name in flow if name not in below]


class Spout(SimulatedSource):
    """Reads a batch whenever it may, or at the times of its pace."""

    def __init__(self, instances: int, pace: Pace | None, until_ns: int) -> None:
        self._instances = instances
        self._pace = pace
        self._until_ns = until_ns
        self.progress_us: int | None = None

    def open(self, ctx: Context) -> None:
        self._due_ns = list(self._pace(ctx.partition, self._instances)) if self._pace else None
        self._read = 0

    def read(self, now_ns: int) -> Reading:
        if now_ns >= self._until_ns:
            return Reading(None, now_ns, done=True)
        if self._due_ns is None:
            return Reading(_batch(now_ns), now_ns)
        due_ns = self._due_ns[self._read] if self._read < len(self._due_ns) else self._until_ns
        if due_ns >= self._until_ns:
            return Reading(None, now_ns, next_ns=self._until_ns)
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        self._read += 1
        return Reading(_batch(due_ns), due_ns)


def _batch(read_ns: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(np.full(ROWS, read_ns, np.int64))], schema=SCHEMA)


class Pass(Function):
    """Passes a share of its rows on."""

    def __init__(self, share: float) -> None:
        self._share = share

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        rows = max(1, round(batch.num_rows * self._share))
        ctx.send(batch.slice(0, rows))


class End(Function):
    """A sink, or a filter that drops everything."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def deployment(flow: Dataflow, homes: Placement, pace: Pace | None, until_ns: int) -> Deployment:
    """Returns the deployment of a dataflow with as many instances as there are homes."""
    specs = {}
    for name, operator in flow.items():
        function: Function = Pass(operator.passes) if operator.children else End()
        if name in sources_of(flow):
            function = Spout(len(homes[name]), pace, until_ns)
        spec = specs[name] = FunctionSpec(name, function, len(homes[name]))
        if operator.children:
            edges = [Edge(child, "in", Rebalance()) for child in operator.children]
            spec.outputs["out"] = Stage(name, SCHEMA, edges=edges)
    return Deployment(JOB, specs, credit_bytes=8 * ROWS // CREDITS_EACH)


@dataclass
class PhaseMeasured:
    """What a run has shown: rows at sinks by window of time, their latencies, and what was observed from the end of the
    warm-up on."""

    window_s: float
    rows: list[int] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    observation: Observation = field(default_factory=Observation)

    def throughput(self, warm: int) -> float:
        """Returns rows per second after so many windows."""
        after = self.rows[warm:]
        return sum(after) / (len(after) * self.window_s) if after else 0.0


def run_phase(
    flow: Dataflow,
    homes: Placement,
    workers: int,
    seconds: float,
    seed: int,
    pace: Pace | None = None,
    warm_s: float = 0.0,
    window_s: float = 0.25,
) -> PhaseMeasured:
    """Runs a dataflow on workers for so many virtual seconds; latencies count from `warm_s` on."""
    until_ns = BEGINS_NS + int(seconds * SECOND_NS)
    warm_ns = BEGINS_NS + int(warm_s * SECOND_NS)
    found = PhaseMeasured(window_s, [0] * round(seconds / window_s))
    spouts = set(sources_of(flow))

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        name = instance.address.function
        operator = flow[name]
        if name in spouts:
            return OTHER_NS + operator.row_ns * ROWS if work is POLL else OTHER_NS
        if not isinstance(work, Message) or not isinstance(work.payload, pa.RecordBatch):
            return OTHER_NS
        rows = int(work.payload.num_rows)
        cost_ns = OTHER_NS + int(rows * operator.row_ns * chance.uniform(0.5, 1.5))
        done_ns = cluster.now_ns + cost_ns
        if not operator.children and done_ns < until_ns:
            found.rows[min(len(found.rows) - 1, int((done_ns - BEGINS_NS) / (window_s * SECOND_NS)))] += rows
            read_ns = work.payload.column(0)[0].as_py()
            if read_ns >= warm_ns:
                found.latencies_ms.append((done_ns - read_ns) / 1e6)
        return cost_ns

    cluster = PlacedCluster(workers, homes, seed, timing=TIMING, costs=costs, begins_ns=BEGINS_NS)
    job = cluster.submit(deployment(flow, homes, pace, until_ns))
    early = None
    while cluster.next_ns is not None and cluster.next_ns < until_ns:
        cluster.step()
        if early is None and cluster.observation.time_ns >= warm_ns and cluster.observation.jobs:
            early = cluster.observation
    if job.failure is not None:
        raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
    found.observation = cluster.observation if early is None else observed_since(cluster.observation, early)
    cluster.close()
    return found
