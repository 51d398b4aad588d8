"""The queries of sponge.txt (figure 8, table 1) as dataflows of the production machines: what maps events, what groups
them by key in sliding windows, and, in query 7, a join whose state does not combine.

A row stands for a batch of events, since 2.7 million events a second would be too many: it takes as long as all of them
do. Each one has a key of its own in its second, so what a window keeps grows with the events in it (figure 2).
The figure is not in our copy of the paper. How much of the work is where follows from 6.3: five virtual machines can
map four times the usual events of queries 4 and 6, and not five times; in the others, mapping is never the bottleneck.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.actors.partitioning import hash_rows
from stretto.actors.shards import SHARDS
from stretto.actors.source import Reading
from stretto.simulator.engine.sources import SimulatedSource, Swallow
from stretto.simulator.experiments.sponge.patterns import SECOND_NS, Arrivals
from stretto.state import MapState

SCHEMA = pa.schema([("key", pa.int64())])
SLIDE_US = 1_000_000
KEYS_PER_SLIDE = 1 << 32
"""Keys of one second of event time are a range of so many numbers."""
TRIED = 8 * SHARDS
SHARD_STEP = 97
"""Rows come for shards in steps of so many, so that neighbours are far apart."""
INSIDE_ROWS = 80
"""So many rows may wait in an instance or be on their way to it, as far as credits allow: the others wait outside. With
20 sources each channel has 4."""
CREDITS = 32
ROW_BYTES = 8
JOB = "query"


@dataclass(frozen=True)
class Query:
    """A row of table 1, and how its work is divided among functions. The state is that of `keeper`."""

    name: str
    work: Mapping[str, float]
    events_per_s: float
    state_bytes: float = 0.0

    @property
    def keeper(self) -> str | None:
        return "join" if "join" in self.work else "group" if "group" in self.work else None


QUERIES = {
    query.name: query
    for query in (
        Query("q1", {"map": 1.0}, 550e3),
        Query("q4", {"map": 0.3, "group": 0.7}, 190e3, 90e6),
        Query("q5", {"map": 0.1, "group": 0.9}, 19e3, 2.4e9),
        Query("q6", {"map": 0.3, "group": 0.7}, 230e3, 73e6),
        Query("q7", {"map": 0.1, "group": 0.5, "join": 0.4}, 15e3, 1.5e9),
        Query("q8", {"map": 0.1, "group": 0.9}, 60e3, 7e9),
    )
}


class Meter:
    """What the run that has just ended took, counted where rows are processed, so that rows cost the same at home, at a
    twin, and when they run again. All functions of a run share one."""

    def __init__(self) -> None:
        self._spent_ns = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        return self

    def add(self, spent_ns: int) -> None:
        self._spent_ns += spent_ns

    def take(self) -> int:
        """Returns what was counted since the last call."""
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns


class Keys:
    """The keys of rows, by their second and number. A row stands for many events, whose keys are everywhere: rows come
    for all shards in turn, as if each instance had its part of every row."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[int, list[list[int]]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Keys:
        return self

    def at(self, second: int, number: int) -> int:
        """Returns the key of a row."""
        if second not in self._known:
            self._known = {each: known for each, known in self._known.items() if each >= second - 2}
            self._known[second] = self._of(second)
        keys = self._known[second][number * SHARD_STEP % SHARDS]
        return keys[number // SHARDS % len(keys)]

    def _of(self, second: int) -> list[list[int]]:
        chance = np.random.default_rng((self._seed, second))
        keys = second * KEYS_PER_SLIDE + chance.integers(KEYS_PER_SLIDE, size=TRIED)
        shards = hash_rows([pa.array(keys)]).astype(np.uint8)
        return [keys[shards == shard].tolist() or [int(keys[0])] for shard in range(SHARDS)]


class Events(SimulatedSource):
    """Reads a row when it has arrived, and one that is late as soon as it may. Event time is the time of arrival."""

    def __init__(self, arrivals: Arrivals, keys: Keys) -> None:
        self._arrivals = arrivals
        self._keys = keys
        self._sent_us = 0

    def open(self, ctx: Context) -> None:
        self._due_ns = self._arrivals.of(ctx.partition)
        self._first = ctx.partition
        self._read = 0

    def read(self, now_ns: int) -> Reading:
        if self._read >= len(self._due_ns):
            return Reading(None, now_ns, done=True)
        due_ns = int(self._due_ns[self._read])
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        key = self._keys.at(due_ns // SECOND_NS, self._read * self._arrivals.sources + self._first)
        self._read += 1
        batch = pa.RecordBatch.from_arrays([pa.array([key])], schema=SCHEMA)
        upcoming_ns = int(self._due_ns[self._read]) if self._read < len(self._due_ns) else None
        return Reading(batch, due_ns, next_ns=upcoming_ns)

    def due_watermark(self) -> int | None:
        if self._read >= len(self._due_ns):
            return None
        slide_us = int(self._due_ns[self._read]) // SECOND_NS * SLIDE_US
        if not self._read or slide_us == self._sent_us:
            return None
        self._sent_us = slide_us
        return slide_us

    def remember(self) -> int:
        return self._read

    def recall(self, remembered: int) -> None:
        self._read = remembered


class Map(Function):
    """Passes rows on, after some work."""

    def __init__(self, meter: Meter, row_ns: int) -> None:
        self._meter = meter
        self._row_ns = row_ns

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self._meter.add(batch.num_rows * self._row_ns)
        ctx.send(batch)


class Windows(Function):
    """Keeps the rows of sliding windows, and sends one row whenever one ends."""

    kept: Any

    def __init__(self, meter: Meter, row_ns: int, window_s: int) -> None:
        self._meter = meter
        self._row_ns = row_ns
        self._window_s = window_s

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if ctx.input == "side":
            return  # The greatest value of the window so far: it is looked at, and not kept.
        self._meter.add(batch.num_rows * self._row_ns)
        for key in batch.column(0).to_pylist():
            self.kept[key] = self.kept.get(key, 0) + 1

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us == EVENT_TIME_MAX_US:
            return
        slide = watermark_us // SLIDE_US
        oldest = (slide - self._window_s) * KEYS_PER_SLIDE
        for key in [key for key in self.kept if key < oldest]:
            del self.kept[key]
        ctx.send(pa.RecordBatch.from_arrays([pa.array([slide * KEYS_PER_SLIDE])], schema=SCHEMA))


class Group(Windows):
    """Whose state combines."""

    def __init__(self, meter: Meter, row_ns: int, window_s: int) -> None:
        super().__init__(meter, row_ns, window_s)
        self.kept = MapState(combine=operator.add)


class Join(Windows):
    """Whose state does not combine: its keys are in one place each."""

    def __init__(self, meter: Meter, row_ns: int, window_s: int) -> None:
        super().__init__(meter, row_ns, window_s)
        self.kept = MapState()

    def input_of(self, state: str) -> str | None:
        return "in"


def deployment(
    query: Query, parallelism: Mapping[str, int], row_ns: int, window_s: int, source: Events, meter: Meter
) -> Deployment:
    """Returns the dataflow of a query, with so many instances of each function; `row_ns` is what a row takes in all."""
    made: dict[str, Function] = {"map": Map(meter, int(row_ns * query.work["map"]))}
    for name, kind in (("group", Group), ("join", Join)):
        if name in query.work:
            made[name] = kind(meter, int(row_ns * query.work[name]), window_s)
    specs = {"events": FunctionSpec("events", source, parallelism["events"])}
    for name, function in made.items():
        spec = specs[name] = FunctionSpec(name, function, parallelism[name])
        if name != "map":
            spec.slide_us = SLIDE_US
            spec.partitioned_by["in"] = SCHEMA
            spec.sequential_because = None if name == "group" else "its state does not combine"
    if "join" in specs:
        specs["join"].partitioned_by["side"] = SCHEMA
    specs["results"] = FunctionSpec("results", Swallow(), 1, on_driver=True)
    for name, edges in _edges(query).items():
        specs[name].outputs["out"] = Stage(name, SCHEMA, edges=edges)
    rows_each = max(4, INSIDE_ROWS // parallelism["events"])
    return Deployment(JOB, specs, credit_bytes=max(1, ROW_BYTES * rows_each // CREDITS))


def _edges(query: Query) -> dict[str, list[Edge]]:
    """Returns what each function sends, and where to."""
    by_key, results = ByKey(("key",)), Edge("results", "in", Rebalance())
    found = {"events": [Edge("map", "in", Rebalance())], "map": [results]}
    if "group" in query.work:
        found["map"], found["group"] = [Edge("group", "in", by_key)], [results]
    if "join" in query.work:
        found["map"] = [*found["map"], Edge("join", "in", by_key)]
        found["group"], found["join"] = [Edge("join", "side", by_key)], [results]
    return found
