"""Small random dataflows with many barriers, and functions whose answers show a violated barrier.

Every row carries its number, a key and a time. The results of a scenario do not depend on the schedule: windows close
by event time, and sums at critical messages are emitted only where the barrier determines them.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, Forward, FunctionSpec, Rebalance, Routing, Stage
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.actors.shards import FINE_MAX, SHARDS, ShardMap
from stretto.actors.source import Reading
from stretto.errors import UserError
from stretto.scheduling.spreading import Arbitrary
from stretto.scheduling.strategy import Strategy
from stretto.simulator.engine.sources import SimulatedSource
from stretto.state import ListState, MapState

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
WINDOW = 40
STEP = 10
KEYS = 5


def batch_of(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    columns = [pa.array(list(column), pa.int64()) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def rows_of(batch: pa.RecordBatch) -> list[tuple[int, int, int]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


class _Ticking:
    """One independent part of a source."""

    def __init__(self, seed: int, number: int, rows_max: int, keys_last: int) -> None:
        self.number = number
        self._rows_max = rows_max
        self._keys_last = keys_last
        self.read = 0
        self.watermark = 0
        self._random = random.Random(seed * 1_000 + number)
        self._first = (seed * 100 + number) * 100_000

    def rows(self) -> tuple[list[tuple[int, int, int]], int]:
        """Returns the next rows, and the time until more are available."""
        self.read += 1
        first, time, draw = self._first + self.read * 10, self.read * STEP, self._random.randrange
        key = KEYS * (self.read // self._keys_last)
        count = self._random.randint(1, self._rows_max)
        rows = [(first + i, key + draw(KEYS), time + draw(STEP)) for i in range(count)]
        return rows, self._random.choice((0, 0, 200_000, 3_000_000))


class Ticks(SimulatedSource):
    """A source: batches of a few rows at irregular times, with a watermark after every few. The content of its parts is
    independent of the number of partitions that read them."""

    def __init__(
        self, seed: int, batches: int, every: int, parts: int, rows_max: int = 2, keys_last: int = 1_000_000
    ) -> None:
        """Batches have at most `rows_max` rows, and after `keys_last` of them there are other keys."""
        self._seed = seed
        self._shape = rows_max, keys_last
        self._batches = batches
        self._every = every
        self._count = parts

    def open(self, ctx: Context) -> None:
        splits = range(ctx.partition, ctx.splits, ctx.parallelism)
        mine = sorted(number for split in splits for number in range(split, self._count, ctx.splits))
        self._parts = [_Ticking(self._seed, number, *self._shape) for number in mine]
        self._watermark = 0

    def read(self, now_ns: int) -> Reading:
        if not self._parts:
            return Reading(None, now_ns, done=True)
        part = self._parts.pop(0)
        if part.read == self._batches:
            return Reading(None, now_ns, done=not self._parts)
        rows, pause_ns = part.rows()
        if part.read % self._every == 0:
            part.watermark = (part.read + 1) * STEP
        self._parts.append(part)
        return Reading(batch_of(rows), now_ns, next_ns=now_ns + pause_ns)

    def due_watermark(self) -> int | None:
        watermark = min((part.watermark for part in self._parts), default=0)
        if watermark <= self._watermark:
            return None
        self._watermark = watermark
        return watermark

    def remember(self) -> list[tuple[int, int]]:
        return [(part.number, part.read) for part in self._parts]

    def recall(self, remembered: list[tuple[int, int]]) -> None:
        reads = dict(remembered)
        self._parts = [part for part in self._parts if part.number in reads]
        for part in self._parts:
            while part.read < reads[part.number]:
                part.rows()
            marked = part.read // self._every * self._every
            part.watermark = (marked + 1) * STEP if marked else 0
        self._watermark = min((part.watermark for part in self._parts), default=0)

    def regroup(self, remembered: dict[int, list[tuple[int, int]]], checkpoint: int) -> list[tuple[int, int]]:
        return [part for parts in remembered.values() for part in parts]


class Relay(Function):
    """Stateless: forwards its rows with other numbers."""

    def __init__(self, add: int) -> None:
        self._add = add

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch_of([(n + self._add, k, t) for n, k, t in rows_of(batch)]))


class Marking(Relay):
    """Stateless; also sends a critical message whenever event time advances."""

    def __init__(self, add: int, every_upstream: bool) -> None:
        super().__init__(add)
        self._every_upstream = every_upstream

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us != EVENT_TIME_MAX_US:
            ctx.send_critical("mark", watermark_us, every_upstream=self._every_upstream)


def _key_of(entry: tuple[int, int]) -> int:
    return entry[1]


class Windows(Function):
    """Combinable: the sum of the numbers per key and window, in constant size."""

    def __init__(self) -> None:
        self.sums: Any = MapState(combine=operator.add, stream_key=_key_of)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for n, k, t in rows_of(batch):
            key = (t // WINDOW, k)
            self.sums[key] = self.sums.get(key, 0) + n

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        closed = sorted(key for key in self.sums if (key[0] + 1) * WINDOW <= watermark_us)
        if closed:
            ctx.send(batch_of([(self.sums[key], key[1], (key[0] + 1) * WINDOW) for key in closed]))
        for key in closed:
            del self.sums[key]


class SequentialWindows(Windows):
    """The same without a combining function: it must not be spread."""

    def __init__(self) -> None:
        self.sums = MapState(stream_key=_key_of)


class Medians(Function):
    """Holistic: keeps all numbers, appends partial lists, and emits the median per window."""

    def __init__(self) -> None:
        self.kept: Any = ListState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.kept.extend([(t // WINDOW, n) for n, _, t in rows_of(batch)])

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        windows: dict[int, list[int]] = {}
        rest = []
        for window, n in self.kept:
            if (window + 1) * WINDOW <= watermark_us:
                windows.setdefault(window, []).append(n)
            else:
                rest.append((window, n))
        self.kept.restore(rest)
        for window, numbers in sorted(windows.items()):
            ctx.send(batch_of([(sorted(numbers)[len(numbers) // 2], 0, (window + 1) * WINDOW)]))


class MarkedSum(Function):
    """Combinable: emits the sum so far at every mark, which is right only if the barrier is exact.

    With several upstream sources, one may be ahead of a mark; without `fixed`, only rows from before its time count."""

    def __init__(self, fixed: bool) -> None:
        self._fixed = fixed
        self.sums: Any = MapState(combine=operator.add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for n, _, t in rows_of(batch):
            key = 0 if self._fixed else t
            self.sums[key] = self.sums.get(key, 0) + n

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        marks = payload if isinstance(payload, list) else [payload]
        total = sum(value for key, value in self.sums.items() if self._fixed or key < min(marks))
        ctx.send(batch_of([(total, len(marks), max(marks))]))


class Reader(MarkedSum):
    """Reads the state as of the last barrier for every row, on any worker."""

    reads_consolidated = True

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        super().process(batch, ctx)
        seen = ctx.consolidated("sums")
        known = sum(value for _, value in seen.items()) if isinstance(seen, MapState) else -1
        ctx.send(batch_of([(n + known, k, t) for n, k, t in rows_of(batch)]))


class Outside:
    """External storage for results: hidden files and visible files. It survives every crash."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self._hidden: dict[int, list[tuple[int, int, int]]] = {}
        self._published: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self._attempts: dict[int, Attempt] = {}
        """The attempt that made each file."""
        self.withdrawn = 0
        """Number of files that were visible and were withdrawn."""
        self._made = 0

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        return [*self.seen, *(row for _, rows in self._published.values() for row in rows)]

    def hide(self, rows: list[tuple[int, int, int]], attempt: Attempt) -> int:
        """Write a complete file that is not visible yet; returns its number."""
        self._made += 1
        self._hidden[self._made] = rows
        self._attempts[self._made] = attempt
        return self._made

    def publish(self, checkpoint: int, file: int) -> None:
        """Make a file visible; it may be already."""
        if file in self._hidden:
            self._published[file] = (checkpoint, self._hidden.pop(file))
        elif file not in self._published:
            raise UserError("a sealed file is gone", f"file {file} of checkpoint {checkpoint}")

    def withdraw(self, checkpoint: int, sealed: Collection[int], attempt: Attempt) -> None:
        """Remove visible files of later checkpoints and hidden files that are not sealed, except those of a later
        attempt."""
        later = {file for file, made_by in self._attempts.items() if made_by > attempt}
        seen = self._published
        self._published = {file: known for file, known in seen.items() if known[0] <= checkpoint or file in later}
        self.withdrawn += len(seen) - len(self._published)
        self._hidden = {file: rows for file, rows in self._hidden.items() if file in sealed or file in later}


class Collect(Function):
    """A sink that writes its rows to `Outside` for the checks."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._attempt = Attempt("", 0, 0)
        self._checkpoint = 0
        self._held: list[tuple[int, int, int]] = []
        self._sealed: dict[int, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Collect:
        return Collect(self._outside)

    def open(self, ctx: Context) -> None:
        self._attempt = ctx.attempt or self._attempt

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        (self._held if ctx.durable else self._outside.seen).extend(rows_of(batch))

    def seal(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        if self._held:
            self._sealed[checkpoint] = self._outside.hide(self._held, self._attempt)
        self._held = []

    def publish(self, checkpoint: int) -> None:
        for sealed in sorted(each for each in self._sealed if each <= checkpoint):
            self._outside.publish(sealed, self._sealed.pop(sealed))

    def remember(self) -> Any:
        return [self._checkpoint, list(self._sealed.items())]

    def recall(self, remembered: Any) -> None:
        self._checkpoint, sealed = remembered
        self._sealed = dict(sealed)
        self._outside.withdraw(self._checkpoint, self._sealed.values(), self._attempt)


class Scenario:
    """A random (seeded) deployment, and the rows that it produces."""

    rows_max = 2
    keys_last = 1_000_000

    def __init__(
        self, seed: int, functions_max: int, strategy: Callable[[], Strategy] | None = None, length: int = 1
    ) -> None:
        """`length` multiplies the number of batches of each source."""
        self._random = random.Random(seed)
        self._strategy = strategy
        self.outside = Outside()
        self._specs: dict[str, FunctionSpec] = {}
        self._unread: list[str] = []
        self._inputs: dict[str, list[str]] = {}
        count = self._random.randint(3, max(3, functions_max))
        sources = self._source_count(count)
        batches, every = length * self._random.randint(6, 18), self._random.randint(2, 5)
        for number in range(sources):
            parts = self._part_count()
            ticks = Ticks(seed * 10 + number, batches, every, parts, self.rows_max, self.keys_last)
            self._add(f"source{number}", ticks, [], parts)
        while len(self._specs) < count - 1:
            self._add_inner(len(self._specs))
        # A joint barrier needs a mark from every upstream actor, so its consumers have only upstreams that send marks.
        joint = [name for name in self._unread if self._is_joint(name)]
        if joint and len(joint) < len(self._unread):
            self._add("sums", MarkedSum(all(map(self._is_fixed, joint))), joint, 1)
        self._add("sink", Collect(self.outside), list(self._unread), 1)
        # A tight deadline makes the strategies that depend on deadlines act.
        self.deployment = Deployment("scenario", self._specs, self._random.choice((None, 20_000_000, 1_000_000)))

    def _source_count(self, functions: int) -> int:
        return 1 if functions < 5 else self._random.randint(1, 2)

    def _part_count(self) -> int:
        """Returns the number of parts of a source's input, and of its partitions."""
        return self._random.randint(1, 2)

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """The visible results."""
        return self.outside.rows

    def rescaled(self, chance: random.Random) -> Deployment:
        """Returns the same dataflow with other numbers of partitions, where the answer does not depend on them."""
        specs = {
            name: replace(spec, parallelism=self._other(name, chance), outputs={}, partitioned_by={})
            for name, spec in self._specs.items()
        }
        for name, spec in self._specs.items():
            for output, stage in spec.outputs.items():
                edges = [Edge(edge.target, edge.input, self._rerouted(specs, name, edge)) for edge in stage.edges]
                specs[name].outputs[output] = Stage(stage.name, stage.schema, edges=edges)
        return replace(self.deployment, functions=specs)

    def deal(self, deployment: Deployment, chance: random.Random) -> None:
        """Deals the keys of some functions of a rescaled deployment at random, where the answer does not depend on
        it."""
        for name, spec in deployment.functions.items():
            if spec.partitioned_by and spec.parallelism > 1 and self._may_change(name) and chance.random() < 0.5:
                shards = chance.choice((SHARDS, 2 * SHARDS, FINE_MAX))
                spec.dealt = ShardMap(1, bytes(chance.choices(range(spec.parallelism), k=shards)))

    def _other(self, name: str, chance: random.Random) -> int:
        """Returns another parallelism, or the same where an answer depends on it."""
        return chance.randint(1, 4) if self._may_change(name) else self._specs[name].parallelism

    def _may_change(self, name: str) -> bool:
        """Whether no answer depends on the partitions of a function."""
        below = (self._specs[each].function for each in (name, *self._below(name)))
        return self._divides(self._specs[name].function) and not any(map(self._needs_one_path, below))

    def _needs_one_path(self, function: Function) -> bool:
        """Whether its answer depends on how the rows above it are partitioned."""
        return type(function).on_critical is not Function.on_critical

    def _divides(self, function: Function) -> bool:
        return isinstance(function, Ticks | Windows | Relay)

    def _below(self, name: str) -> set[str]:
        direct = {edge.target for stage in self._specs[name].outputs.values() for edge in stage.edges}
        return direct.union(*map(self._below, direct))

    def _rerouted(self, specs: dict[str, FunctionSpec], source: str, edge: Edge) -> Routing:
        target = specs[edge.target]
        if isinstance(target.function, Windows) and target.parallelism > 1:
            target.partitioned_by["in"] = pa.schema([SCHEMA.field("k")])
            return ByKey(("k",))
        if isinstance(edge.routing, Forward) and specs[source].parallelism == target.parallelism:
            return edge.routing
        return Rebalance()

    def _add_inner(self, number: int) -> None:
        names = [*self._unread, *self._specs]
        inputs = {self._random.choice(names)}
        if self._random.random() < 0.3:
            inputs.add(self._random.choice(names))
        if len({self._is_joint(name) for name in inputs}) > 1:
            inputs = {name for name in inputs if self._is_joint(name)}
        function = self._random_function(number, sorted(inputs))
        divides = self._may_divide(function)
        self._add(f"f{number}", function, sorted(inputs), self._random.randint(1, 2) if divides else 1)

    def _may_divide(self, function: Function) -> bool:
        """Whether it may have several partitions. Round-robin routing depends on the schedule, so only keys may
        partition a state."""
        return isinstance(function, Relay | Windows)

    def _is_joint(self, name: str) -> bool:
        function = self._specs[name].function
        return isinstance(function, Marking) and function._every_upstream

    def _is_fixed(self, name: str) -> bool:
        """Whether the rows before each critical message are the same in every schedule: one source, one path."""
        spec = self._specs[name]
        inputs = self._inputs[name]
        return spec.parallelism == 1 and len(inputs) <= 1 and all(self._is_fixed(source) for source in inputs)

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        """Returns a random function that suits its inputs: the inputs decide whether sums at marks are fixed."""
        marks = [name for name in inputs if isinstance(self._specs[name].function, Marking)]
        fixed = all(self._is_fixed(name) for name in inputs)
        alone = fixed and len(inputs) == 1
        sums = len(marks) == len(inputs) and (alone or self._is_joint(inputs[0]))
        if sums and self._random.random() < 0.7:
            return Reader(fixed) if alone and self._random.random() < 0.3 else MarkedSum(fixed)
        if alone and self._random.random() < 0.2:
            return Reader(fixed)
        kinds: list[Callable[[], Function]] = [
            lambda: Relay(number),
            lambda: Relay(number),
            lambda: Marking(number, every_upstream=False),
            lambda: Marking(number, every_upstream=True),
            Windows,
            Windows,
            Medians,
        ]
        if any(spec.lessees_max for spec in self._specs.values()):
            kinds.append(SequentialWindows)  # Not as the only one: a scenario without lessees tests nothing.
        return self._random.choice(kinds)()

    def _add(self, name: str, function: Function, inputs: list[str], parallelism: int) -> None:
        outputs = {} if name == "sink" else {"out": Stage(name, SCHEMA)}
        spec = FunctionSpec(name, function, parallelism, outputs)
        if inputs and name != "sink" and function.sequential_because is None:
            spec.lessees_max = self._random.randint(1, 5)
            forwards, direct = self._random.choice((0.0, 0.3, 0.9)), self._random.choice((0.0, 0.5, 1.0))
            arbitrary = Arbitrary(self._random.randrange(2**32), forwards, direct)
            spec.strategy = arbitrary if self._strategy is None else self._strategy()
        self._specs[name] = spec
        self._inputs[name] = inputs
        for source in inputs:
            self._specs[source].outputs["out"].edges.append(Edge(name, "in", self._routing(source, spec)))
            if source in self._unread:
                self._unread.remove(source)
        self._unread.append(name)

    def _routing(self, source: str, target: FunctionSpec) -> Routing:
        if isinstance(target.function, Windows) and target.parallelism > 1:
            target.partitioned_by["in"] = pa.schema([SCHEMA.field("k")])
            return ByKey(("k",))
        choices: list[Routing] = [Rebalance()]
        if self._specs[source].parallelism == target.parallelism:
            choices.append(Forward())
        return self._random.choice(choices)


class Gathering(Scenario):
    """Windows over two sources with two partitions each: event time is that of the slowest of all four."""

    def _source_count(self, functions: int) -> int:
        return 2

    def _part_count(self) -> int:
        return 2

    def _add_inner(self, number: int) -> None:
        sources = [name for name in self._specs if not self._inputs[name]]
        if len(self._specs) == len(sources):
            self._add("windows", Windows(), sources, self._random.randint(1, 2))
        else:
            super()._add_inner(number)
