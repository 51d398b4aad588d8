"""Workloads of many tenants (thesis 5.6, dirigo.txt 7): arrival times, costs, and the jobs that process them.

All arrivals are generated beforehand, from a seed: every policy gets the same arrivals, and a clairvoyant schedule can
know them. A burst is a greater volume in an interval, that is more messages, since gaps from the same Pareto
distributions would be smoother than random arrivals. Each input row carries the cost of its message.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, Forward, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.source import Reading
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.sources import SimulatedSource, Swallow
from stretto.state import MapState

SECOND_NS = 1_000_000_000
START_NS = 10 * SECOND_NS
"""When sources begin: all jobs are deployed by then, and a window of every size used here begins."""
SCHEMA = pa.schema([("time_us", pa.int64()), ("key", pa.int64()), ("events", pa.int64()), ("cost_ns", pa.int64())])
COST_SPREAD = 0.5
"""The cost of a message is between 0.5 and 1.5 times the mean."""


class Timetable:
    """The arrivals of each source of a job: times in order, and the cost of each message."""

    def __init__(
        self, sources: Sequence[Sequence[tuple[int, int]]], seconds: float, interval_counts: list[int]
    ) -> None:
        self.sources = sources
        self.until_ns = START_NS + int(seconds * SECOND_NS)
        self.interval_counts = interval_counts

    def __deepcopy__(self, memo: dict[int, Any]) -> Timetable:
        return self  # Every instance of a source has a copy of its function; they share the read-only timetable.

    def split(self, first: int) -> tuple[Timetable, Timetable]:
        """Splits the table into the first `first` sources and the others."""
        seconds = (self.until_ns - START_NS) / SECOND_NS
        return Timetable(self.sources[:first], seconds, []), Timetable(self.sources[first:], seconds, [])

    @property
    def messages(self) -> int:
        return sum(map(len, self.sources))

    @property
    def work_ns(self) -> int:
        return sum(cost_ns for source in self.sources for _, cost_ns in source)

    @property
    def variation(self) -> float:
        """The coefficient of variation of the generated volumes per source and interval."""
        return variation(self.interval_counts)


def variation(values: Sequence[float]) -> float:
    """Returns the standard deviation divided by the mean."""
    found = np.asarray(values, dtype=float)
    return float(found.std() / found.mean()) if found.size and found.mean() else 0.0


def volumes(chance: random.Random, alpha: float | None, count: int) -> list[float]:
    """Returns `count` volumes with mean 1: constant, or from a Pareto distribution."""
    if alpha is None:
        return [1.0] * count
    least = (alpha - 1) / alpha
    return [least * chance.paretovariate(alpha) for _ in range(count)]


def timetable(
    rates: Sequence[float],
    seconds: float,
    cost_ns: int,
    seed: int,
    alpha: float | None = None,
    interval_s: float = 1.0,
    in_step: bool = False,
) -> Timetable:
    """Returns messages for sources with these rates per second, at random times in each interval. In step, all sources
    of the job have the same volume in an interval; otherwise each source has its own."""
    chance = random.Random(seed)
    interval_ns, intervals = int(interval_s * SECOND_NS), round(seconds / interval_s)
    common = volumes(chance, alpha, intervals)
    sources, counts = [], []
    for rate in rates:
        moments: list[int] = []
        owed = chance.random()
        for index, volume in enumerate(common if in_step else volumes(chance, alpha, intervals)):
            owed += rate * interval_s * volume
            count, begin_ns = int(owed), START_NS + index * interval_ns
            owed -= count  # A fraction of a message is carried over to the next intervals.
            counts.append(count)
            moments.extend(sorted(begin_ns + chance.randrange(interval_ns) for _ in range(count)))
        low, high = 1 - COST_SPREAD, 1 + COST_SPREAD
        sources.append([(due_ns, int(chance.uniform(low, high) * cost_ns)) for due_ns in moments])
    return Timetable(sources, seconds, counts)


def skewed(total: float, sources: int, ratio: float, seed: int) -> list[float]:
    """Returns rates with this sum, evenly spaced in their logarithms; the greatest is `ratio` times the least."""
    weights = [ratio ** (rank / max(1, sources - 1)) for rank in range(sources)]
    random.Random(seed).shuffle(weights)
    return [total * weight / sum(weights) for weight in weights]


class Feed(SimulatedSource):
    """A source that follows a timetable, with a watermark at the end of each slide."""

    def __init__(self, table: Timetable, slide_us: int) -> None:
        self._table = table
        self._slide_ns = slide_us * 1_000

    def open(self, ctx: Context) -> None:
        arrivals = self._table.sources[ctx.partition]
        self._due_ns = [due_ns for due_ns, _ in arrivals]
        times_us, costs_ns = [due_ns // 1_000 for due_ns in self._due_ns], [cost_ns for _, cost_ns in arrivals]
        # Each message is a slice of one batch: creating batches row by row would take most of the simulation's time.
        self._rows = _rows(times_us, ctx.partition, [1] * len(arrivals), costs_ns)
        self._sent = 0
        self._boundary_ns = START_NS + self._slide_ns
        self._watermark_us: int | None = None
        # Nothing has been read yet: a first point long before the stream begins would spoil every prediction.
        self.progress_us = None

    def read(self, now_ns: int) -> Reading:
        due_ns = self._next_ns()
        if due_ns > self._table.until_ns:
            return Reading(None, now_ns, done=True)
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        self.progress_us = due_ns // 1_000
        if due_ns == self._boundary_ns:
            self._boundary_ns += self._slide_ns
            self._watermark_us = self.progress_us
            return Reading(None, due_ns, next_ns=self._next_ns())
        batch = self._rows.slice(self._sent, 1)
        self._sent += 1
        return Reading(batch, due_ns, next_ns=self._next_ns())

    def _next_ns(self) -> int:
        """Returns when the next message or the end of the slide is due."""
        left = self._sent < len(self._due_ns)
        return min(self._due_ns[self._sent], self._boundary_ns) if left else self._boundary_ns

    def due_watermark(self) -> int | None:
        watermark_us, self._watermark_us = self._watermark_us, None
        return watermark_us


def _rows(times_us: list[int], key: int, events: list[int], costs_ns: list[int]) -> pa.RecordBatch:
    columns = [times_us, [key] * len(times_us), events, costs_ns]
    return pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def _add(mine: int, theirs: int) -> int:
    return mine + theirs


class WindowSum(Function):
    """Sums events per window, by panes of one slide. The time of an output row is the last instant of its window."""

    def __init__(self, size_us: int, slide_us: int, cost_below_ns: int) -> None:
        self._size_us = size_us
        self._slide_us = slide_us
        self._cost_below_ns = cost_below_ns
        self._put_out_us = START_NS // 1_000
        self.panes: Any = MapState(combine=_add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for time_us, events in zip(batch.column(0).to_pylist(), batch.column(2).to_pylist(), strict=True):
            pane = time_us // self._slide_us
            self.panes[pane] = self.panes.get(pane, 0) + events

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        size = self._size_us // self._slide_us
        last = max(self.panes, default=-1)
        ends = range(self._put_out_us // self._slide_us + 1, min(watermark_us // self._slide_us, last + size) + 1)
        sums = {end: sum(self.panes.get(pane, 0) for pane in range(end - size, end)) for end in ends}
        times_us = [end * self._slide_us - 1 for end, events in sums.items() if events]
        if times_us:
            found = [events for events in sums.values() if events]
            ctx.send(_rows(times_us, ctx.partition, found, [self._cost_below_ns] * len(found)))
        if ends:
            self._put_out_us = ends[-1] * self._slide_us
            for pane in [pane for pane in self.panes if pane <= ends[-1] - size]:
                del self.panes[pane]


class WindowJoin(Function):
    """Counts the pairs of two streams per window."""

    def __init__(self, size_us: int, cost_below_ns: int) -> None:
        self._size_us = size_us
        self._cost_below_ns = cost_below_ns
        self.seen: Any = MapState(combine=_add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for time_us, events in zip(batch.column(0).to_pylist(), batch.column(2).to_pylist(), strict=True):
            place = (time_us // self._size_us, ctx.input)
            self.seen[place] = self.seen.get(place, 0) + events

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = sorted({window for window, _ in self.seen if (window + 1) * self._size_us <= watermark_us})
        for window in closed:
            left, right = (self.seen.get((window, side), 0) for side in ("in", "other"))
            if left and right:
                time_us = (window + 1) * self._size_us - 1
                ctx.send(_rows([time_us], ctx.partition, [left * right], [self._cost_below_ns]))
        for place in [place for place in self.seen if place[0] in closed]:
            del self.seen[place]


class Kind(Enum):
    """How the stages of a query are connected."""

    FORWARD = "each source has its own aggregate, and the results are merged"
    GROUPED = "rows go to the aggregate that owns their key"
    JOINED = "two streams are joined by key, and the pairs are aggregated"
    APART = "each source has its own aggregate, and the results are outputs"


@dataclass(frozen=True)
class Query:
    """A query: its window, and the cost of the stages after the first. Each row carries the cost of the first stage."""

    name: str
    kind: Kind = Kind.FORWARD
    size_us: int = 1_000_000
    slide_us: int = 1_000_000
    merging_ns: int = 1_000_000
    final_ns: int = 1_000_000


IPQ1 = Query("IPQ1")
IPQ2 = Query("IPQ2", slide_us=500_000)
IPQ3 = Query("IPQ3", Kind.GROUPED)
IPQ4 = Query("IPQ4", Kind.JOINED, merging_ns=4_000_000)
BULK = Query("bulk", size_us=10_000_000, slide_us=10_000_000)
GROUPED_BY = 4
"""Sources per actor of a stage that is partitioned by key."""
MERGED_BY = 8
"""Sources per actor that merges partial results."""


@dataclass(frozen=True)
class Tenant:
    """A job: a query over a timetable, with a latency objective and optional lessees."""

    name: str
    query: Query
    table: Timetable
    latency_ns: int | None = None
    lessees_max: int = 0
    strategy: Strategy | None = None

    def deployment(self) -> Deployment:
        """Returns the deployment for the coordinator."""
        query, sources = self.query, len(self.table.sources)
        if query.kind is Kind.JOINED:
            return self._deployed(self._joined(sources))
        local = WindowSum(query.size_us, query.slide_us, query.merging_ns)
        if query.kind is Kind.GROUPED:
            grouped = self._spec("local", local, max(1, sources // GROUPED_BY))
            feed = self._feed("source", self.table, Edge("local", "in", ByKey(("key",))))
            return self._deployed([feed, _to(grouped, Edge("final", "in", Rebalance())), *self._ends()])
        feed = self._feed("source", self.table, Edge("local", "in", Forward()))
        spread = self._spec("local", local, sources)
        spread.lessees_max, spread.strategy = self.lessees_max, self.strategy
        if query.kind is Kind.APART:
            sink = FunctionSpec("sink", Swallow(), sources)
            return self._deployed([feed, _to(spread, Edge("sink", "in", Forward())), sink])
        return self._deployed([feed, _to(spread, Edge("merging", "in", Rebalance())), self._merging(), *self._ends()])

    def _joined(self, sources: int) -> list[FunctionSpec]:
        half = sources // 2
        left, right = self.table.split(half)
        join = self._spec("local", WindowJoin(self.query.size_us, self.query.merging_ns), max(1, sources // GROUPED_BY))
        return [
            self._feed("source", left, Edge("local", "in", ByKey(("key",)))),
            self._feed("other", right, Edge("local", "other", ByKey(("key",)))),
            _to(join, Edge("merging", "in", Rebalance())),
            self._merging(),
            *self._ends(),
        ]

    def _merging(self) -> FunctionSpec:
        slide_us = self.query.slide_us  # Its input is the results of whole windows.
        actors = max(1, len(self.table.sources) // MERGED_BY)
        merging = self._spec("merging", WindowSum(slide_us, slide_us, self.query.final_ns), actors)
        return _to(merging, Edge("final", "in", Rebalance()))

    def _ends(self) -> list[FunctionSpec]:
        slide_us = self.query.slide_us
        final = self._spec("final", WindowSum(slide_us, slide_us, 0), 1)
        return [_to(final, Edge("sink", "in", Forward())), FunctionSpec("sink", Swallow(), 1)]

    def _feed(self, name: str, table: Timetable, edge: Edge) -> FunctionSpec:
        return _to(FunctionSpec(name, Feed(table, self.query.slide_us), len(table.sources)), edge)

    def _spec(self, name: str, function: Function, parallelism: int) -> FunctionSpec:
        return FunctionSpec(name, function, parallelism, slide_us=self.query.slide_us)

    def _deployed(self, specs: list[FunctionSpec]) -> Deployment:
        return Deployment(self.name, {spec.name: spec for spec in specs}, self.latency_ns)


def _to(spec: FunctionSpec, edge: Edge) -> FunctionSpec:
    spec.outputs["out"] = Stage(spec.name, SCHEMA, edges=[edge])
    return spec
