"""Streams that call entities, on whole simulated workers: random dataflows, crashes, hangs, cuts, restarts, handovers,
and in every other seed places of entities that move.

Every row has a number of its own. Its call appends the number to the list of an entity, and to that of another one in
the same transaction, or is aborted by what the row says. So the lists show which calls took place, in which order. What
is checked:

- each row comes out once, with the reply that the list says: it was at that place, or was aborted;
- each number is in one list, once, if its call was not aborted, and in none otherwise;
- no row comes out behind a watermark that it was before;
- when nothing went wrong, no reply is kept for the streams in the end.

Between the source and the calls, functions change which rows come together, in which order, and in some seeds what is
in them: `Stamp` chooses the entity by how many rows have come before, which another run does otherwise.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, Forward, FunctionSpec, Rebalance, Routing, Stage
from stretto.actors.function import Function
from stretto.errors import FunctionError, StrettoError
from stretto.operators.calling import Called, EntityCalls
from stretto.operators.replying import Replies
from stretto.protocol.entities import Pace
from stretto.scheduling.spreading import Arbitrary
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.moving_places import Movers
from stretto.simulator.checking.scenarios import SCHEMA, Collect, Outside, Ticks, batch_of, rows_of
from stretto.simulator.checking.stream_troubles import TroubledTrial, plan_trouble
from stretto.simulator.engine.both_parts import STREAMS, BothParts
from stretto.simulator.engine.durable import Parts
from stretto.state import ValueState
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.machine import TransactionWorker

STEPS_MAX = 400_000
EVERY_ABORTS = 7
DAY_US = 86_400_000_000
REPLIED = pa.schema([*SCHEMA, ("reply", pa.int64()), ("error", pa.string()), ("error_text", pa.string())])


class Refused(Exception):
    """What a transaction is aborted with."""


class Tally(Entity):
    """The numbers of rows, in the order in which their transactions took place."""

    numbers: list[int] = []  # noqa: RUF012  (a field of an entity: every entity has its own)

    async def note(self, number: int, also: int) -> int:
        """Returns how many numbers are here with this one, which is also noted elsewhere."""
        self.numbers.append(number)
        await Tally(f"all{also % 2}").count(number)
        if number % EVERY_ABORTS == 0:
            raise Refused(f"{number} is refused")
        return len(self.numbers)

    async def count(self, number: int) -> None:
        self.numbers.append(number)


class Pass(Function):
    """Sends its rows on; several instances of it change their order."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Stamp(Function):
    """Gives each row a key by how many have come before. So its rows are others when they are read again."""

    def __init__(self) -> None:
        self.seen: Any = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        rows = rows_of(batch)
        seen = self.seen.get()
        self.seen.set(seen + len(rows))
        ctx.send(batch_of([(n, (seen + i) % 5, t) for i, (n, _, t) in enumerate(rows)]))


class NoneLate(Function):
    """Fails at a row that is older than the watermark. All rows are sent on."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        late = [n for n, _, t, *_ in rows_of(batch) if t < ctx.watermark_us]
        if late:
            raise FunctionError("rows come after the watermark", f"{late} at {ctx.watermark_us}")
        ctx.send(batch)


@dataclass(frozen=True)
class RowCallParts:
    """The parts that calls of rows go through. A mutation replaces one."""

    calls: type[EntityCalls] = EntityCalls
    cluster: Parts = field(default_factory=Parts)


@dataclass
class Trial(TroubledTrial):
    """The run of one seed; `aborted` is how many calls their own logic aborted."""

    aborted: int = 0


class Flow:
    """A random dataflow with calls."""

    scaled, counts = "calls", (1, 2, 3)

    def __init__(self, chance: random.Random, seed: int, calls: type[EntityCalls]) -> None:
        self._chance = chance
        self.outside = Outside()
        self._specs: dict[str, FunctionSpec] = {}
        self.expected: list[int] = []
        last = [self._source(seed * 10 + number, number) for number in range(chance.choice((1, 1, 2)))]
        for number in range(chance.choice((0, 0, 1, 2))):
            last = [self._add(f"pass{number}", Pass(), last, chance.randint(1, 2))]
        self.stamps = chance.random() < 0.4
        if self.stamps:
            last = [self._add("stamp", Stamp(), last, 1)]
        called = Called("Tally", "note", 1, (("number", 0), ("also", 1)))
        function = calls(called, SCHEMA, Replies(REPLIED, pa.int64()))
        last = [self._add("calls", function, last, chance.randint(1, 3), REPLIED)]
        last = [self._add("late", NoneLate(), last, self._specs["calls"].parallelism, REPLIED)]
        self._add("sink", Collect(self.outside), last, 1)
        self.deployment = Deployment(STREAMS, self._specs)

    def _source(self, seed: int, number: int) -> str:
        chance = self._chance
        parts, batches = chance.randint(1, 2), chance.randint(10, 40)
        self.expected += numbers_of(Ticks(seed, batches, 3, parts))
        return self._add(f"source{number}", Ticks(seed, batches, 3, parts), [], parts)

    def _add(
        self, name: str, function: Function, inputs: list[str], parallelism: int, schema: pa.Schema = SCHEMA
    ) -> str:
        outputs = {} if name == "sink" else {"out": Stage(name, schema)}
        spec = self._specs[name] = FunctionSpec(name, function, parallelism, outputs)
        spec.sequential_because = function.sequential_because if inputs else "it is a source"
        if isinstance(function, Pass) and self._chance.random() < 0.5:
            spec.lessees_max, spec.strategy = 2, Arbitrary(self._chance.randrange(2**32), 0.3, 0.5)
        for source in inputs:
            edge = Edge(name, "in", self._routing(self._specs[source], spec))
            self._specs[source].outputs["out"].edges.append(edge)
        return name

    def _routing(self, source: FunctionSpec, target: FunctionSpec) -> Routing:
        if target.name == "late":
            return Forward()
        if target.name == "calls" and self._chance.random() < 0.3:
            return ByKey(("k",))
        if source.parallelism == target.parallelism and self._chance.random() < 0.5:
            return Forward()
        return Rebalance()

    def rescaled(self, parallelism: int) -> Deployment:
        """Returns the same dataflow with another number of partitions of the calls, and of what follows them."""
        specs = {
            name: replace(spec, parallelism=parallelism if name in ("calls", "late") else spec.parallelism, outputs={})
            for name, spec in self._specs.items()
        }
        for name, spec in self._specs.items():
            for output, stage in spec.outputs.items():
                edges = [replace(edge, routing=self._rerouted(specs, name, edge)) for edge in stage.edges]
                specs[name].outputs[output] = Stage(stage.name, stage.schema, edges=edges)
        return Deployment(STREAMS, specs)

    def _rerouted(self, specs: dict[str, FunctionSpec], source: str, edge: Edge) -> Routing:
        is_equal = specs[source].parallelism == specs[edge.target].parallelism
        return edge.routing if is_equal or not isinstance(edge.routing, Forward) else Rebalance()


def numbers_of(source: Ticks) -> Iterator[int]:
    """Yields the numbers of all rows of a source."""
    source.open(Context("", "", 0, 1, {}))
    now_ns = 0
    while not (reading := source.read(now_ns)).done:
        now_ns += 10_000_000
        if reading.batch is not None:
            yield from reading.batch.column(0).to_pylist()


def try_seed(seed: int, workers_max: int, parts: RowCallParts | None = None) -> Trial:
    """Run one random app with faults, and check it."""
    parts = parts or RowCallParts()
    chance = random.Random(seed * 13 + 5)
    trial = Trial(seed)
    flow = Flow(chance, seed, parts.calls)
    places = chance.randint(1, 2)
    workers = places + chance.randint(0, workers_max - 1)
    movers = Movers(random.Random(seed * 19 + 3), places, seed)
    machine = movers.machine(TransactionWorker)
    cluster = BothParts(workers, seed, Catalog([Tally]), lambda client, reply: None, parts.cluster, machine=machine)
    cluster.interval_ns = chance.choice((2_000_000, 5_000_000, 20_000_000))
    cluster.write_ns = chance.choice(((20_000, 500_000), (100_000, 8_000_000)))
    epoch_ns, calls_max = chance.choice((200_000, 1_000_000)), chance.choice((3, 100))
    pace = Pace(epoch_ns, calls_max, chance.choice((3_000_000, 40_000_000)), DAY_US)
    trial.durable = chance.random() < 0.85
    troubled = plan_trouble(cluster, flow, chance, trial)
    try:
        movers.begin(cluster)
        cluster.submit_app(flow.deployment, pace, movers.places, trial.durable)
        ended = cluster.run_streams(STEPS_MAX) and cluster.settle(STEPS_MAX)
    except (StrettoError, AssertionError, KeyError, IndexError, ValueError) as error:
        trial.violations.append(Violation("invariant", f"{type(error).__name__}: {error}"))
        return trial
    trial.count(cluster)
    failures = [job.failure for job in cluster.jobs.values() if job.failure is not None]
    if not ended:
        trial.violations.append(Violation("liveness", "the streams do not end"))
    elif failures or not cluster.has_finished_streams:
        trial.violations.append(Violation("failed", "; ".join(f"{each.fact}: {each.detail}" for each in failures)))
    else:
        trial.violations += _judged(cluster, flow, trial, troubled)
    cluster.close()
    return trial


# The check.


def _judged(cluster: BothParts, flow: Flow, trial: Trial, troubled: bool) -> Iterator[Violation]:
    rows = [tuple(row) for row in flow.outside.rows]
    trial.rows, trial.aborted = len(rows), sum(1 for row in rows if row[4] is not None)
    yield from each_once("rows out", [row[0] for row in rows], flow.expected)
    lists = {name.key: msgspec.msgpack.decode(state)["numbers"] for name, state in cluster.state().items()}
    expected = [number for number in flow.expected if number % EVERY_ABORTS]
    yield from each_once("transactions", [n for key, each in lists.items() if key[:3] != "all" for n in each], expected)
    yield from each_once("inner calls", [n for key, each in lists.items() if key[:3] == "all" for n in each], expected)
    for row in rows:
        yield from _reply_is_right(row, lists)
    if not troubled and cluster.kept_for_streams():
        yield Violation("kept", f"{cluster.kept_for_streams()} replies are kept that nobody will ask for")


def each_once(what: str, found: list[int], expected: list[int]) -> Iterator[Violation]:
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or surplus:
        yield Violation("once", f"{what}: missing {sorted(missing)[:9]}, too many {sorted(surplus.elements())[:9]}")


def _reply_is_right(row: tuple[Any, ...], lists: dict[str, list[int]]) -> Iterator[Violation]:
    number, key, _, reply, error, text = row
    if number % EVERY_ABORTS == 0:
        if (reply, error, text) != (None, "Refused", f"{number} is refused"):
            yield Violation("reply", f"{row} was to be aborted")
        return
    numbers = lists.get(str(key), [])
    if error is not None or reply is None or not 0 < reply <= len(numbers) or numbers[reply - 1] != number:
        yield Violation("reply", f"{row} has another reply than its entity shows: {numbers}")
