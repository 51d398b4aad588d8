"""Small random dataflows with elastic functions, whose answers show a row that was lost, repeated or out of order.

Keyed functions of all kinds: windows, timers, sums at critical messages, and a chain that depends on the order of the
rows of a key. Some feed functions that combine and are spread by strategies: these run rows in any order, so that only
barriers keep what a task sends behind the critical messages that its home has sent before. As in `scenarios.py`,
results do not depend on the schedule.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Edge, FunctionSpec, Routing
from stretto.actors.function import Function
from stretto.actors.partitioning import hash_rows
from stretto.actors.shards import SHARDS, shards_within
from stretto.simulator.checking.scenarios import (
    KEYS,
    SCHEMA,
    WINDOW,
    MarkedSum,
    Marking,
    Relay,
    Scenario,
    SequentialWindows,
    Ticks,
    Windows,
    batch_of,
    rows_of,
)
from stretto.state import MapState

CHAIN = 1_000_003


class Chain(Function):
    """The rows of each key in their order: each number depends on all before it."""

    def __init__(self) -> None:
        self.last: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        made = []
        for n, k, t in rows_of(batch):
            self.last[k] = (self.last.get(k, 0) * 31 + n) % CHAIN
            made.append((self.last[k], k, t))
        ctx.send(batch_of(made))


class Tally(Function):
    """Counts the rows of each key, and sends every row on."""

    def __init__(self) -> None:
        self.counts: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for _, k, _ in rows_of(batch):
            self.counts[k] = self.counts.get(k, 0) + 1
        ctx.send(batch)


class KeyedMarking(Marking):
    """Counts the rows of each key and sends them on, and a critical message whenever event time advances."""

    def __init__(self, add: int, every_upstream: bool) -> None:
        super().__init__(add, every_upstream)
        self.counts: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for _, k, _ in rows_of(batch):
            self.counts[k] = self.counts.get(k, 0) + 1
        super().process(batch, ctx)


class Timed(Function):
    """Counts the rows of each key and window, and sends the count when a timer of the key is due."""

    def __init__(self) -> None:
        self.counts: Any = MapState(stream_key=_key_of)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for _, k, t in rows_of(batch):
            end = (t // WINDOW + 1) * WINDOW
            known = self.counts.get((end, k), 0)
            if not known:
                ctx.set_timer(end, (end, k))
            self.counts[end, k] = known + 1

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        end, k = tag
        ctx.send(batch_of([(self.counts[end, k], k, end)]))
        del self.counts[end, k]

    def timer_key(self, tag: Any) -> int:
        return int(tag[1])


def _key_of(entry: tuple[int, int]) -> int:
    return entry[1]


class KeyedSums(Function):
    """Sends the sum of each key at every critical message, which is right only if the barrier is exact on all tasks.

    With several upstream sources, one may be ahead of a mark; without `fixed`, only rows from before its time count."""

    def __init__(self, fixed: bool) -> None:
        self._fixed = fixed
        self.sums: Any = MapState(stream_key=_key_of)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for n, k, t in rows_of(batch):
            entry = (0 if self._fixed else t, k)
            self.sums[entry] = self.sums.get(entry, 0) + n

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        marks = payload if isinstance(payload, list) else [payload]
        totals: dict[int, int] = {}
        for (t, k), value in self.sums.items():
            if self._fixed or t < min(marks):
                totals[k] = totals.get(k, 0) + value
        if totals:
            ctx.send(batch_of([(total, k, max(marks)) for k, total in sorted(totals.items())]))


KEYED = (Chain, Tally, KeyedMarking, Timed, KeyedSums, SequentialWindows)
SPREAD = (MarkedSum, Windows)
"""Functions that are spread by strategies, as in `scenarios.py`. They send at barriers only, so that what follows them
gets rows in an order that does not depend on where they ran."""


class ElasticScenario(Scenario):
    """A random (seeded) deployment in which most functions are elastic.

    `comes_home` is how often all shards of an actor come home instead of moving at random, and `rests_ns` for how long
    they then stay there, on average. Meanwhile its tasks lose their leases."""

    comes_home = 0.2
    rests_ns: tuple[int, ...] = (0, 0, 5_000_000, 20_000_000)

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        marks = [name for name in inputs if isinstance(self._specs[name].function, Marking)]
        fixed = all(self._is_fixed(name) for name in inputs)
        alone = fixed and len(inputs) == 1
        sums = len(marks) == len(inputs) and (alone or self._is_joint(inputs[0]))
        if sums and self._random.random() < 0.6:
            return KeyedSums(fixed) if self._random.random() < 0.5 else MarkedSum(fixed)
        kinds: list[Any] = [Windows, SequentialWindows, Timed, Tally, Tally, Tally, lambda: Relay(number)]
        kinds += [lambda: Marking(number, every_upstream=False), lambda: Marking(number, every_upstream=True)]
        kinds += [lambda: KeyedMarking(number, every_upstream=False), lambda: KeyedMarking(number, every_upstream=True)]
        if alone:
            kinds += [Chain, Chain, Chain]
        made: Function = self._random.choice(kinds)()
        return made

    def _is_fixed(self, name: str) -> bool:
        """A window or a timer sends the rows of its keys in an order that depends on where they are."""
        return not isinstance(self._specs[name].function, Windows | Timed | KeyedSums) and super()._is_fixed(name)

    def _may_divide(self, function: Function) -> bool:
        return isinstance(function, Relay | Windows | Timed | Tally)

    def _add(self, name: str, function: Function, inputs: list[str], parallelism: int) -> None:
        super()._add(name, function, inputs, parallelism)
        spec = self._specs[name]
        if not self._is_spread(function):
            spec.lessees_max, spec.strategy = 0, None
        if isinstance(function, KEYED):
            spec.sequential_because = "it is elastic"
            spec.tasks_max = self._random.randint(1, 4)

    def _is_spread(self, function: Function) -> bool:
        return isinstance(function, SPREAD) and not isinstance(function, KEYED)

    def _routing(self, source: str, target: FunctionSpec) -> Routing:
        if not isinstance(target.function, KEYED):
            return super()._routing(source, target)
        target.partitioned_by["in"] = pa.schema([SCHEMA.field("k")])
        return ByKey(("k",))

    def _needs_one_path(self, function: Function) -> bool:
        return isinstance(function, Chain) or super()._needs_one_path(function)

    def _divides(self, function: Function) -> bool:
        return isinstance(function, Ticks | Relay | Windows | Timed | Tally)

    def _rerouted(self, specs: dict[str, FunctionSpec], source: str, edge: Edge) -> Routing:
        target = specs[edge.target]
        if not isinstance(target.function, KEYED):
            return super()._rerouted(specs, source, edge)
        target.partitioned_by["in"] = pa.schema([SCHEMA.field("k")])
        return ByKey(("k",))

    @property
    def elastic(self) -> list[tuple[str, int]]:
        """The actors of elastic functions."""
        specs = [spec for spec in self._specs.values() if spec.tasks_max]
        return [(spec.name, partition) for spec in specs for partition in range(spec.parallelism)]

    @property
    def spread(self) -> set[str]:
        """The functions whose rows may run on any worker, in any order between two critical messages."""
        return {spec.name for spec in self._specs.values() if spec.lessees_max}


class FirstTasks(ElasticScenario):
    """Two elastic functions send joint critical messages to one that is spread, and get their first task often.

    A joint critical message waits downstream until the other function has sent its own. A receiver that is spread runs
    what comes on other channels meanwhile, so a task that begins too early overtakes it."""

    comes_home = 0.5
    rests_ns = (20_000_000,)

    def _add_inner(self, number: int) -> None:
        sources = [name for name in self._specs if not self._inputs[name]]
        marking = [name for name, spec in self._specs.items() if isinstance(spec.function, KeyedMarking)]
        if len(marking) < 2:
            source = sources[len(marking) % len(sources)]
            self._add(f"marking{number}", KeyedMarking(number, every_upstream=True), [source], 1)
        elif "sum" not in self._specs:
            self._add("sum", MarkedSum(fixed=False), marking, 1)
        else:
            self._add(f"f{number}", Relay(number), ["sum"], 1)


@cache
def shards_with_rows() -> tuple[int, ...]:
    """Returns the shards that the keys of a scenario fall into."""
    return tuple(sorted(set(shards_within(hash_rows([pa.array(np.arange(KEYS))])).tolist())))


def random_moves(chance: random.Random, workers: list[str]) -> tuple[tuple[int, str], ...]:
    """Returns some shards, mostly such that have rows, each with a worker to go to."""
    known = shards_with_rows()
    chosen = chance.sample(known, chance.randint(1, len(known)))
    if chance.random() < 0.3:
        chosen.append(chance.randrange(SHARDS))
    one = chance.choice(workers)
    together = chance.random() < 0.3
    return tuple((shard, one if together else chance.choice(workers)) for shard in sorted(set(chosen)))
