"""`stretto simulate emitted-rows`: entities that emit rows into a stream, under crashes, hangs, restarts, handovers,
in every other seed places of entities that move, and in every third one handlers that run out of time.

A transaction appends a number to the lists of one or two entities, and emits a row for each: the number, the entity,
and the length of its list. Some are aborted after that. So the lists show which rows are to come out. What is checked:

- each row that the lists show comes out once, and no other;
- the rows of an entity come out in the order of its list, unless a function on their way has changed that;
- no row comes out behind a watermark that it was before, and the watermark goes on when nobody calls;
- in the end no row is kept.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, Forward, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.errors import FunctionError, StrettoError
from stretto.operators.emitted import EmittedFunction, EmittedReader, EmittedSource
from stretto.operators.row_codec import RowCodec
from stretto.operators.windows import EventTime
from stretto.protocol.entities import Pace
from stretto.scheduling.spreading import Arbitrary
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.fuses import Fuse
from stretto.simulator.checking.moving_places import Movers
from stretto.simulator.checking.row_calls import DAY_US, EVERY_ABORTS, Pass, Refused, each_once
from stretto.simulator.checking.scenarios import Collect, Outside
from stretto.simulator.checking.stream_troubles import TroubledTrial, plan_trouble
from stretto.simulator.engine.both_parts import STREAMS, BothParts
from stretto.simulator.engine.durable import Parts
from stretto.transactions.attempt import Settings
from stretto.transactions.attempt import WorkerParts as TransactionParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.machine import TransactionWorker

STEPS_MAX = 400_000
LOOKED_EVERY = 100
"""Whether all is done is looked at every so many steps."""
LONGER_NS = 100_000_000
"""So much longer a run goes on when all is done, so that what comes twice is seen."""
CALLS = (20, 80)
STOPPED_SHARE = 0.02
"""In every third seed, so many of the handlers run out of time."""
CALLED_NS = 200_000_000
KEYS = 5
STEP_US = 1_000
STREAM = "notes"
COLUMNS = pa.schema([("number", pa.int64()), ("key", pa.int64()), ("place", pa.int64())])


class Noted(Entity):
    """Numbers, in the order in which their transactions took place."""

    numbers: list[int] = []  # noqa: RUF012  (a field of an entity: every entity has its own)

    async def note(self, number: int, also: int) -> None:
        """Notes a number here, and elsewhere if `also` is the key of another entity."""
        self.add(number)
        if str(also) != self.key:
            await Noted(str(also)).count(number)
        if number % EVERY_ABORTS == 0:
            raise Refused(f"{number} is refused")

    async def count(self, number: int) -> None:
        self.add(number)

    def add(self, number: int) -> None:
        self.numbers.append(number)
        self.emit(STREAM, {"number": number, "key": int(self.key), "place": len(self.numbers)})


class NoneLate(Function):
    """Fails at a row that is older than the watermark, and shows how far that has come. All rows are sent on."""

    def __init__(self, reached: list[int]) -> None:
        self._reached = reached

    def __deepcopy__(self, memo: dict[int, Any]) -> NoneLate:
        return NoneLate(self._reached)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        times = batch.column("at").cast(pa.int64()).to_pylist()
        if min(times) < ctx.watermark_us:
            raise FunctionError("rows come after the watermark", f"{min(times)} at {ctx.watermark_us}")
        ctx.send(batch)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self._reached.append(watermark_us)


@dataclass(frozen=True)
class EmittedParts:
    """The parts that emitted rows go through. A mutation replaces one."""

    function: type[EmittedFunction] = EmittedFunction
    reader: type[EmittedReader] = EmittedReader
    machine: type[TransactionWorker] = TransactionWorker
    within: TransactionParts = field(default_factory=TransactionParts)
    cluster: Parts = field(default_factory=Parts)


@dataclass
class Trial(TroubledTrial):
    """The run of one seed; `stopped` is how many handlers ran out of time."""

    stopped: int = 0


class Flow:
    """A dataflow that reads what is emitted."""

    scaled = "source"

    def __init__(self, chance: random.Random, places: int, parts: EmittedParts) -> None:
        self.outside = Outside()
        self.reached: list[int] = []
        self.counts = tuple(range(1, min(places, 3) + 1))
        self._spreads = chance.random() < 0.4
        self._chance = chance
        self._parts = parts
        self.deployment = self.rescaled(chance.choice(self.counts))

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of an entity stay in their order."""
        return not self._spreads

    def rescaled(self, parallelism: int) -> Deployment:
        """Returns the dataflow with this number of partitions of its source."""
        source = EmittedSource(STREAM, COLUMNS, "at", by_stamp=True)
        time = EventTime("at")
        read = _function(self._parts)(source, time, 0, None, STEP_US, 100, 0, source.schema)
        specs = [FunctionSpec("source", read, parallelism), FunctionSpec("late", NoneLate(self.reached), parallelism)]
        if self._spreads:
            specs.append(FunctionSpec("pass", Pass(), 2))
            specs[-1].lessees_max, specs[-1].strategy = 2, Arbitrary(self._chance.randrange(2**32), 0.3, 0.5)
        specs.append(FunctionSpec("sink", Collect(self.outside), 1))
        specs[0].sequential_because = "it is a source"
        for feeding, fed in pairwise(specs):
            routing = Forward() if fed.name == "late" else Rebalance()
            feeding.outputs["out"] = Stage(feeding.name, source.schema, edges=[Edge(fed.name, "in", routing)])
            fed.sequential_because = fed.function.sequential_because
        return Deployment(STREAMS, {spec.name: spec for spec in specs})


def _function(parts: EmittedParts) -> type[EmittedFunction]:
    """Returns a class of functions with these readers."""

    class Reading(parts.function):  # type: ignore[misc, name-defined]
        def _reader(self) -> EmittedReader:
            return parts.reader(self.source)

    return Reading


class _Watch:
    """When all calls were made, nothing is under way, and all has come out."""

    def __init__(self, cluster: BothParts, flow: Flow) -> None:
        self._cluster = cluster
        self._flow = flow
        self._steps = 0
        self.until_ns = 0
        self.since_us = 0
        """What the watermark must pass."""
        self.is_over = False

    def is_done(self) -> bool:
        self._steps += 1
        if self.is_over or self._steps % LOOKED_EVERY or self._cluster.now_ns < self.until_ns:
            return self.is_over
        self.is_over = self._cluster.has_failed or (self._cluster.are_calm and self._has_all())
        return self.is_over

    def _has_all(self) -> bool:
        rows, time_us = self._flow.outside.rows, max(self._flow.reached, default=0)
        has_rows = len(rows) >= len(expected_rows(self._cluster)) and not self._cluster.rows_kept(STREAM)
        return has_rows and time_us > self.since_us


def expected_rows(cluster: BothParts) -> list[tuple[int, int, int]]:
    """Returns the rows that the lists of all entities show."""
    lists = {name.key: msgspec.msgpack.decode(state)["numbers"] for name, state in cluster.state().items()}
    return [(number, int(key), place) for key, each in lists.items() for place, number in enumerate(each, 1)]


def try_seed(seed: int, workers_max: int, parts: EmittedParts | None = None) -> Trial:
    """Run one random app with faults, and check it."""
    parts = parts or EmittedParts()
    chance = random.Random(seed * 17 + 7)
    trial = Trial(seed)
    movers = Movers(random.Random(seed * 23 + 1), chance.randint(1, 3), seed)
    flow = Flow(chance, movers.places, parts)
    machine = movers.machine(_sweeping(parts.machine))
    catalog = Catalog([Noted], {STREAM: RowCodec(STREAM, COLUMNS)})
    workers = chance.randint(1, workers_max + 1)
    fuse = Fuse(random.Random(seed * 29 + 5), STOPPED_SHARE if seed % 3 == 0 else 0.0)
    within = replace(parts.within, in_epoch=replace(parts.within.in_epoch, execution=fuse.execution()))
    cluster = BothParts(
        workers,
        seed,
        catalog,
        lambda client, reply: None,
        parts.cluster,
        machine=machine,
        machine_parts=within,
        around=fuse.around,
    )
    cluster.interval_ns = chance.choice((2_000_000, 5_000_000, 20_000_000))
    cluster.write_ns = chance.choice(((20_000, 500_000), (100_000, 8_000_000)))
    epoch_ns, calls_max = chance.choice((200_000, 1_000_000)), chance.choice((3, 100))
    snapshot_ns = chance.choice((3_000_000, 40_000_000))
    pace = Pace(epoch_ns, calls_max, snapshot_ns, DAY_US)
    trial.durable = chance.random() < 0.85
    if not trial.durable:
        fuse.share = 0.0
    plan_trouble(cluster, flow, chance, trial)
    _plan_calls(cluster, chance)
    try:
        movers.begin(cluster)
        cluster.submit_app(flow.deployment, pace, movers.places, trial.durable)
        done = _run(cluster, flow, fuse)
    except (StrettoError, AssertionError, KeyError, IndexError, ValueError) as error:
        trial.violations.append(Violation("invariant", f"{type(error).__name__}: {error}"))
        return trial
    trial.count(cluster)
    trial.stopped = fuse.blown
    trial.rows = len(flow.outside.rows)
    trial.violations += _judged(cluster, flow, done)
    cluster.close()
    return trial


def _sweeping(machine: type[TransactionWorker]) -> type[TransactionWorker]:
    """Returns a class of machines that begin epochs for the time alone more often."""

    class Sweeping(machine):  # type: ignore[misc, valid-type]
        def __init__(self, worker: int, catalog: Catalog, settings: Settings, parts: Any = None) -> None:
            super().__init__(worker, catalog, replace(settings, sweep_ns=5_000_000), parts)

    return Sweeping


def _plan_calls(cluster: BothParts, chance: random.Random) -> None:
    for number in range(1, chance.randint(*CALLS) + 1):
        one, other = chance.randint(1, KEYS), chance.randint(1, KEYS)
        call: Any = partial(_call, cluster, one, number, other)
        cluster.plan(chance.randint(0, CALLED_NS), call)


def _call(cluster: BothParts, key: int, number: int, also: int) -> None:
    if not cluster.has_failed:
        cluster.call("c1", Noted(str(key)).note(number, also))  # type: ignore[arg-type]


def _run(cluster: BothParts, flow: Flow, fuse: Fuse) -> bool:
    """Run until all is done, and then some more. Returns whether it was."""
    watch, called_ns = _Watch(cluster, flow), cluster.now_ns + CALLED_NS
    cluster.run_until(STEPS_MAX, lambda: cluster.now_ns > called_ns)
    fuse.share = 0.0
    if not (cluster.settle(STEPS_MAX) and cluster.run_until(STEPS_MAX, watch.is_done)):
        return False
    watch.until_ns, watch.since_us, watch.is_over = cluster.now_ns + LONGER_NS, max(flow.reached), False
    return cluster.run_until(STEPS_MAX, watch.is_done)


def _judged(cluster: BothParts, flow: Flow, done: bool) -> Iterator[Violation]:
    failures = [job.failure for job in cluster.jobs.values() if job.failure is not None]
    if failures or cluster.has_failed:
        yield Violation("failed", "; ".join(f"{each.fact}: {each.detail}" for each in failures))
        return
    rows = [(row[0], row[1], row[2]) for row in flow.outside.rows]
    yield from each_once("rows out", _numbered(rows), _numbered(expected_rows(cluster)))
    if flow.is_ordered:
        yield from _in_order(rows)
    if not done:
        kept = cluster.rows_kept(STREAM)
        yield Violation("liveness", f"it comes to no end: {kept} rows are kept, time is {flow.reached[-1:]}")


def _numbered(rows: list[tuple[int, int, int]]) -> list[int]:
    """Returns a number for each row that shows all of it."""
    return [number * 1_000_000 + key * 1_000 + place for number, key, place in rows]


def _in_order(rows: list[tuple[int, int, int]]) -> Iterator[Violation]:
    places: dict[int, list[int]] = defaultdict(list)
    for _, key, place in rows:
        places[key].append(place)
    for key, found in sorted(places.items()):
        if found != sorted(found):
            yield Violation("order", f"the rows of {key} come out as {found}")
