"""The micro-benchmark of elasticutor.txt 5.1 in virtual time: generators, and a calculator with a cost per tuple.

Tuples are rows of 1 ms, but travel in batches, since 256,000 messages a second would be too many events: a generator
reads `rows_per_core` rows for each core at once, and a run takes as long as all rows of its message. So
latencies are those of batches, and to be compared with each other only. The generators are outside the cluster and read
as fast as credits allow, so the calculator is always saturated, as in the paper.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.shards import SHARDS
from stretto.actors.source import Reading
from stretto.actors.tasks import GiveShards, Route, TakeShards
from stretto.elasticity import Controller, Team
from stretto.elasticity.assignment import THRESHOLD_BYTES_PER_S
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.shard_balancer import ShardBalancer
from stretto.elasticity.worker_allocator import NaiveAssignment, WorkerAllocator
from stretto.errors import InvariantError
from stretto.protocol.elastic import ShardsMoved
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import SimulatedSource
from stretto.simulator.experiments.links import OUTSIDE, NodeLinks
from stretto.simulator.experiments.resource_centric import KeyDealer, ShardLoads
from stretto.state import MapState

SECOND_NS = 1_000_000_000
SCHEMA = pa.schema([("key", pa.int64()), ("made_ns", pa.int64())])
ROW_BYTES = 16
"""The size of a row as it really is: controllers measure it, so their threshold is scaled by what it stands for."""
CREDITS_EACH = 8
"""What a message from a generator costs of the 32 credits of its channel: queues hold seconds of work otherwise."""
CORES_PER_NODE = 8
KEPT_BYTES = 1024
"""The size of the state of each key as it really is; it stands for the state of the setting, and is
large beside what packing adds."""
TIMING = Timing(delay_ns=(40_000, 120_000))
OTHER_NS = 20_000
"""What any run costs besides its rows (`stretto bench path`)."""
ROUTE_NS = 100
"""What the home spends per tuple on routing."""

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """What is varied. Defaults are those of the paper, but for batches, `warm_s` and `seconds`.

    `executors` is the number of partitions of the calculator: one per core for the static and the resource-centric
    approach. `controllers` makes those of elastic executors from the threshold of data intensity; None for others."""

    nodes: int = 32
    executors: int = 32
    controllers: Callable[[float], Sequence[Controller]] | None = None
    dealt: bool = False
    """Whether keys are dealt to the partitions by load while it runs, the resource-centric approach."""
    shuffles_per_minute: float = 2.0
    skew: float = 0.5
    keys: int = 10_000
    functions: int = 1
    """How many functions work on each key: a row is for one of them, and its key is the pair."""
    tuple_ms: float = 1.0
    tuple_bytes: int = 128
    shard_bytes: int = 32 * 1024
    """The state of each of the 256 shards of an elastic executor, of which there is one on each node."""
    load: float | None = None
    """The share of all cores that the input needs; None for as much as there can be."""
    drift: float = 0.0
    """How much popularity changes in each second, as the deviation of its logarithm (5.4); 0 for shuffles only."""
    generators: int = 4
    rows_per_core: int = 16
    """Rows of a batch from a generator, by the number of cores."""
    warm_s: float = 50.0
    seconds: float = 15.0
    tasks_max: int = 254
    seed: int = 1

    @property
    def cores(self) -> int:
        return self.nodes * CORES_PER_NODE

    @property
    def state_bytes(self) -> int:
        return self.shard_bytes * SHARDS * self.nodes

    @property
    def row_ns(self) -> int:
        return int(self.tuple_ms * 1e6)

    @property
    def batch_rows(self) -> int:
        return self.rows_per_core * self.cores

    @property
    def threshold_bytes_per_s(self) -> float:
        """The threshold of data intensity in the bytes that controllers measure."""
        return THRESHOLD_BYTES_PER_S * ROW_BYTES / self.tuple_bytes


def no_controllers(threshold: float) -> list[Controller]:
    return []


def balancing_only(threshold: float) -> list[Controller]:
    return [ShardBalancer()]


def elastic_controllers(threshold: float) -> list[Controller]:
    return [ShardBalancer(), WorkerAllocator(threshold)]


def naive_controllers(threshold: float) -> list[Controller]:
    return [ShardBalancer(), NaiveAssignment(threshold)]


class Popularity:
    """Which keys come when: Zipf shares that are permuted so many times a minute, or that drift from second to second
    like those of stocks (figure 18)."""

    def __init__(self, setting: Setting, begins_ns: int) -> None:
        self._setting = setting
        self._begins_ns = begins_ns
        self._shares = np.arange(1, setting.keys + 1, dtype=float) ** -setting.skew
        self._era = -1
        self._logs = np.zeros(setting.keys)

    def __deepcopy__(self, memo: dict[int, Any]) -> Popularity:
        return self  # Shared by all generators.

    def keys(self, chance: np.random.Generator, count: int, now_ns: int) -> Keys:
        """Returns so many keys. Time must not go back."""
        while self._era < self._era_at(now_ns):
            self._era += 1
            self._change(np.random.default_rng((self._setting.seed, self._era)))
        found: Keys = self._order[np.searchsorted(self._ends, chance.random(count) * self._ends[-1])]
        functions = self._setting.functions
        return found if functions == 1 else found * functions + chance.integers(functions, size=count)

    def _era_at(self, now_ns: int) -> int:
        setting = self._setting
        per_minute = 60.0 if setting.drift else setting.shuffles_per_minute
        if not per_minute:
            return 0
        period_s = 60 / per_minute
        # One of the shuffles is a second after the warm-up: a short run would see none if they were rare.
        first_s = (setting.warm_s + 1) % period_s
        return max(0, 1 + floor(((now_ns - self._begins_ns) / SECOND_NS - first_s) / period_s))

    def _change(self, chance: np.random.Generator) -> None:
        drift = self._setting.drift
        if not drift or not self._era:
            self._order = chance.permutation(self._setting.keys)
        # A walk that returns to its mean, so that the skew stays what it is on average.
        self._logs = 0.9 * self._logs + drift * chance.standard_normal(self._setting.keys)
        self._ends = np.cumsum(self._shares * np.exp(self._logs))


class Generator(SimulatedSource):
    """Sends rows whenever it may."""

    def __init__(self, popularity: Popularity, setting: Setting, until_ns: int) -> None:
        self._popularity = popularity
        self._setting = setting
        self._until_ns = until_ns
        self.progress_us: int | None = None

    def open(self, ctx: Context) -> None:
        setting = self._setting
        self._chance = np.random.default_rng((setting.seed, ctx.partition, 7))
        self._gap_ns = 0
        self._due_ns = ctx.now_ns
        if setting.load is not None:
            self._gap_ns = int(
                setting.batch_rows * setting.generators * setting.row_ns / (setting.cores * setting.load)
            )
            self._due_ns += self._gap_ns * ctx.partition // setting.generators

    def read(self, now_ns: int) -> Reading:
        if now_ns >= self._until_ns:
            return Reading(None, now_ns, done=True)
        if now_ns < self._due_ns:
            return Reading(None, now_ns, next_ns=self._due_ns)
        next_ns, made_ns = None, now_ns
        if self._gap_ns:
            # Rows that are read late were made when they were due: their latency begins there.
            made_ns = self._due_ns
            next_ns = self._due_ns = self._due_ns + self._gap_ns
        count = self._setting.batch_rows
        keys = self._popularity.keys(self._chance, count, now_ns)
        made = np.full(count, made_ns, np.int64)
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(made)], schema=SCHEMA)
        return Reading(batch, now_ns, next_ns=next_ns)


class Calculator(Function):
    """Keeps a state of a fixed size for each key."""

    def __init__(self) -> None:
        self.kept: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for key in batch.column(0).to_pylist():
            if key not in self.kept:
                self.kept[key] = bytes(KEPT_BYTES)


@dataclass
class Measured:
    """What was measured after the warm-up: rows per second of virtual time and their latencies, moves of shards and
    what they sent, and all decisions of controllers."""

    setting: Setting
    rows_by_second: dict[int, int] = field(default_factory=dict)
    message_ms: array[float] = field(default_factory=lambda: array("d"))
    """The latency of each message, in milliseconds: its rows were read at the same time."""
    message_rows: array[int] = field(default_factory=lambda: array("q"))
    decisions: list[DecisionRecord] = field(default_factory=list)
    moves: list[ShardsMoved] = field(default_factory=list)
    state_bytes: float = 0.0
    remote_bytes: float = 0.0
    workers: float = 0.0
    """Workers that executors had at the end, on average."""

    @property
    def tuples_per_s(self) -> float:
        """The throughput, of which the number of cores by the cost of a tuple is the bound."""
        return sum(self.rows_by_second.values()) / self.setting.seconds

    @property
    def utilisation(self) -> float:
        """The throughput by its bound."""
        return self.tuples_per_s * self.setting.tuple_ms / 1e3 / self.setting.cores

    @property
    def latencies_ms(self) -> npt.NDArray[np.float64]:
        """The latency of each row."""
        if not self.message_ms:
            return np.zeros(1)
        return np.repeat(np.asarray(self.message_ms), np.asarray(self.message_rows))

    @property
    def mean_ms(self) -> float:
        return float(self.latencies_ms.mean())

    @property
    def p99_ms(self) -> float:
        return float(np.percentile(self.latencies_ms, 99))

    def summary(self) -> dict[str, Any]:
        """Returns the figures that are compared."""
        return {
            "tuples_per_s": round(self.tuples_per_s),
            "of_all_cores": round(self.utilisation, 3),
            "latency_ms": {"mean": round(self.mean_ms, 1), "p99": round(self.p99_ms, 1)},
            "decisions": sum(record.decision is not None for record in self.decisions),
            "shards_moved": sum(each.moved for each in self.moves),
            "state_mb_per_s": round(self.state_bytes / 1e6 / self.setting.seconds, 2),
            "remote_mb_per_s": round(self.remote_bytes / 1e6 / self.setting.seconds, 2),
        }


def deployment(setting: Setting, popularity: Popularity, until_ns: int) -> Deployment:
    """Returns the topology: generators, which are outside, and the calculator."""
    source = FunctionSpec("generator", Generator(popularity, setting, until_ns), setting.generators)
    source.on_driver = True
    source.outputs["out"] = Stage("generator", SCHEMA, edges=[Edge("calculator", "in", ByKey(("key",)))])
    calculator = FunctionSpec("calculator", Calculator(), setting.executors)
    calculator.partitioned_by["in"] = pa.schema([SCHEMA.field("key")])
    calculator.sequential_because = "its state does not combine"
    if setting.controllers is not None:
        calculator.tasks_max = setting.tasks_max
    credit_bytes = max(1, ROW_BYTES * setting.batch_rows // setting.executors // CREDITS_EACH)
    return Deployment("micro", {"generator": source, "calculator": calculator}, credit_bytes=credit_bytes)


class Trial:
    """One run of a setting: `Trial(setting).run()`."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._begins_ns = SECOND_NS
        self._warm_ns = self._begins_ns + int(setting.warm_s * SECOND_NS)
        self._until_ns = self._warm_ns + int(setting.seconds * SECOND_NS)
        self._measured = Measured(setting)
        names = sorted(f"w{i}~1" for i in range(setting.cores))
        # Placement goes by the order of names, so executors are on the nodes in turn, as in the paper.
        self._nodes = {name: f"node{rank % setting.nodes}" for rank, name in enumerate(names)}
        real = KEPT_BYTES * setting.keys * setting.functions
        row_bytes = float(setting.tuple_bytes)
        self.links = NodeLinks(self.host_of, row_bytes, setting.state_bytes / real)
        self.loads = ShardLoads(setting.keys * setting.functions, setting.nodes) if setting.dealt else None
        self.cluster = self._cluster()

    def _cluster(self) -> SimulatedCluster:
        setting = self._setting
        return SimulatedCluster(
            setting.cores,
            setting.seed,
            TIMING,
            costs=self.cost_ns,
            begins_ns=self._begins_ns,
            controllers=self.team(),
            host_of=self.host_of,
            links=self.links,
            checked=False,
        )

    def team(self) -> Team | None:
        """Returns the controllers; None where nothing changes."""
        setting = self._setting
        if self.loads is not None:
            return Team([KeyDealer(self.loads, "calculator")])
        if setting.controllers is not None:
            return Team(setting.controllers(setting.threshold_bytes_per_s))
        return None

    def workers_on(self, node: int) -> list[str]:
        """Returns the workers of a node, in the order in which actors are placed on them."""
        return [name for name, host in self._nodes.items() if host == f"node{node}"]

    def host_of(self, name: str) -> str:
        return self._nodes.get(name, OUTSIDE)

    def deployment(self) -> Deployment:
        """Returns what is run."""
        return deployment(self._setting, Popularity(self._setting, self._begins_ns), self._until_ns)

    def run(self) -> Measured:
        """Returns what was measured. The run ends with the time, not with the work."""
        cluster, measured = self.cluster, self._measured
        job = cluster.submit(self.deployment())
        self._step_until(self._warm_ns)
        before = self.links.state_bytes, self.links.remote_bytes, len(cluster.moves)
        self._step_until(self._until_ns)
        if job.failure is not None:
            raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
        measured.state_bytes = self.links.state_bytes - before[0]
        measured.remote_bytes = self.links.remote_bytes - before[1]
        measured.moves = cluster.moves[before[2] :]
        measured.decisions = list(cluster.decisions.values())
        observed = [each for function in _functions(cluster) for each in function.elastic]
        measured.workers = float(np.mean([len(each.workers) for each in observed])) if observed else 1.0
        cluster.close()
        return measured

    def _step_until(self, time_ns: int) -> None:
        cluster = self.cluster
        while (next_ns := cluster.next_ns) is not None and next_ns < time_ns:
            cluster.step()

    def cost_ns(self, chance: random.Random, instance: Instance, work: Any) -> int:
        """Returns how long a run takes, and counts the rows of the calculator."""
        if isinstance(work, Route):
            return OTHER_NS + int(work.message.payload.num_rows) * ROUTE_NS
        if isinstance(work, GiveShards | TakeShards):
            return OTHER_NS
        if not isinstance(work, Message) or not isinstance(work.payload, pa.RecordBatch):
            return OTHER_NS
        rows = int(work.payload.num_rows)
        if self.loads is not None:
            self.loads.note(work.payload.column(0).to_numpy())
        cost_ns = OTHER_NS + rows * self._setting.row_ns
        done_ns = self.cluster.now_ns + cost_ns
        if self._warm_ns <= done_ns < self._until_ns:
            second = (done_ns - self._warm_ns) // SECOND_NS
            measured = self._measured
            measured.rows_by_second[second] = measured.rows_by_second.get(second, 0) + rows
            measured.message_ms.append((done_ns - work.payload.column(1)[0].as_py()) / 1e6)
            measured.message_rows.append(rows)
        return cost_ns


def _functions(cluster: SimulatedCluster) -> list[Any]:
    return [function for job in cluster.observation.jobs.values() for function in job.functions.values()]
