"""Functions that read and write shared objects, on whole simulated workers: lost homes, lost, slow and repeated
messages, restarts, handovers; in the workers' memory, and on a server that is lost for a while.

Every row has a number of its own, and appends it to lists. So a list shows which writes it has, in which order. What is
checked, by the history of what homes have made and what functions have seen:

- what a batch sees of a list is what its home held at some moment, and then writes of its own worker that are not in
  that; no write is in it twice;
- it is as fresh as the function chose: nothing is missing that the home had made before then;
- an instance sees what it has written before;
- in the end each write is made once, whatever failed, and each row comes out once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.api.sharing import share_objects
from stretto.coordinator.records import JobStatus
from stretto.errors import FunctionError, StrettoError
from stretto.operators.shared_store import SharedStore
from stretto.protocol.frames import Frame
from stretto.protocol.machines import FrameArrived
from stretto.protocol.sharing import ObjectsAsked, ObjectsSent
from stretto.scheduling.spreading import Arbitrary
from stretto.sharing.contents import Act, Write
from stretto.sharing.freshness import Freshness, Mode, freshness
from stretto.sharing.state import SharedState
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.row_calls import each_once
from stretto.simulator.checking.row_calls import numbers_of as rows_read
from stretto.simulator.checking.scenarios import SCHEMA, Collect, Outside, Ticks, rows_of
from stretto.simulator.checking.stream_troubles import cut_some
from stretto.simulator.engine.durable import DurableCluster, Parts
from stretto.simulator.engine.object_server import ObjectServer
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.worker import events as working

STEPS_MAX = 600_000
OBJECTS = 4
JOB = "flow"
SPACE = "objects"
SERVER = "redis://simulated"
FRESH = ("always", "always", "2 ms", "20 ms", "until written")
TROUBLE_NS = (20_000_000, 60_000_000)
"""When the last trouble begins."""
NEVER_NS = -1


class Seen(NamedTuple):
    """What a batch saw of a list."""

    attempt: Any
    member: str
    instance: int
    name: str
    taken_ns: int
    order: int
    numbers: tuple[int, ...]


class Wrote(NamedTuple):
    """A write of a function."""

    attempt: Any
    member: str
    instance: int
    name: str
    at_ns: int
    order: int
    number: int


class Recorder:
    """The history of one run. All instances have the same."""

    def __init__(self) -> None:
        self.now: Callable[[], int] = lambda: 0
        self.member_of: Callable[[Function], str] = lambda function: ""
        self.seen: list[Seen] = []
        self.wrote: list[Wrote] = []
        self.made: dict[tuple[Any, str], list[tuple[int, int]]] = {}
        """By attempt and object: when each number was appended; `NEVER_NS` for what was there before."""
        self.stores: dict[Any, list[SharedStore]] = {}
        self.counted: Counter[str] = Counter()
        self._order = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self

    def next(self) -> int:
        """Returns the place of what happens now among all that happens."""
        self._order += 1
        return self._order

    def before(self, attempt: Any, name: str, numbers: list[int]) -> None:
        """What a list held when it was first looked at in an attempt."""
        self.made.setdefault((attempt, name), [(NEVER_NS, number) for number in numbers])

    def appended(self, attempt: Any, name: str, number: int) -> None:
        self.made.setdefault((attempt, name), []).append((self.now(), number))

    def store(self, attempt: Any, store: SharedStore) -> None:
        stores = self.stores.setdefault(attempt, [])
        if not any(store is other for other in stores):
            stores.append(store)


class WatchedStore(SharedStore):
    """A home that records what it makes."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def open(self, ctx: Context) -> None:
        self._recorder.store(ctx.attempt, self)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self._recorder.store(ctx.attempt, self)
        for name, write in zip(batch.column("name").to_pylist(), batch.column("write").to_pylist(), strict=True):
            made = msgspec.msgpack.decode(write, type=Write)
            if made.act is Act.APPEND:
                self._recorder.before(ctx.attempt, name, numbers_of(self, name))
                self._recorder.appended(ctx.attempt, name, msgspec.msgpack.decode(made.data))
        super().process(batch, ctx)

    def on_end(self, ctx: Context) -> None:
        self._recorder.store(ctx.attempt, self)


def numbers_of(store: SharedStore, name: str) -> list[int]:
    """Returns the numbers in a list."""
    content, _ = store.look(name)
    return [] if content is None else msgspec.msgpack.decode(content.data, type=list[int])


class Touch(Function):
    """Reads some objects for each batch, and appends the numbers of its rows to some."""

    def __init__(self, shared: SharedState, recorder: Recorder, further: bool, add: int) -> None:
        self.shared = shared
        self._recorder = recorder
        self._further = further
        self._add = add
        self._taken: dict[int, int] = {}
        self._shown: dict[int, int] = {}
        """The place in the history of what a batch has read while it asked."""
        self._further_of: dict[int, list[str]] = {}

    def shared_reads(self, batch: pa.RecordBatch, ctx: Context) -> Any:
        self._taken[id(batch)] = self._recorder.now()
        names = [self._named(n) for n, _, _ in rows_of(batch)]
        first = [self.shared.list(name, int) for name in dict.fromkeys(names)]
        return self._more(batch, first) if self._further else first

    def _more(self, batch: pa.RecordBatch, first: list[Any]) -> Iterator[Any]:
        yield first
        # What is read here stays as it is for the batch, and names what else it reads.
        self._further_of[id(batch)] = names = [f"o{len(each.get()) % OBJECTS}" for each in first]
        self._shown[id(batch)] = self._recorder.next()
        yield [self.shared.list(name, int) for name in names]

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        recorder = self._recorder
        taken_ns = self._taken.pop(id(batch))
        for name in dict.fromkeys(self._named(n) for n, _, _ in rows_of(batch)):
            numbers = tuple(self.shared.list(name, int).get())
            member = recorder.member_of(self)
            order = self._shown.get(id(batch)) or recorder.next()
            recorder.seen.append(Seen(self._key(ctx), member, id(self), name, taken_ns, order, numbers))
        if self._further:
            self._check_further(batch)
        for n, k, _ in rows_of(batch):
            once = None if self.shared.server is None else f"{self._add}:{n}"
            target = f"o{(n * 7 + k) % OBJECTS}"
            self.shared.list(target, int).append(n + self._add, once=once)
            self.shared.counter("rows").add(once=once)
            now_ns, order = recorder.now(), recorder.next()
            member = recorder.member_of(self)
            recorder.wrote.append(Wrote(self._key(ctx), member, id(self), target, now_ns, order, n + self._add))
        ctx.send(batch)

    def _check_further(self, batch: pa.RecordBatch) -> None:
        """What the first objects say which others to read must still be so."""
        names = dict.fromkeys(self._named(n) for n, _, _ in rows_of(batch))
        found = [f"o{len(self.shared.list(name, int).get()) % OBJECTS}" for name in names]
        expected = self._further_of.pop(id(batch))
        if found != expected:
            raise FunctionError("what a batch has read while it asked is another thing now", f"{found}, not {expected}")
        for name in found:
            self.shared.list(name, int).get()
        del self._shown[id(batch)]

    def _key(self, ctx: Context) -> Any:
        return ctx.attempt if self.shared.server is None else None

    def _named(self, n: int) -> str:
        return f"o{n % OBJECTS}"


class SharingCluster(DurableCluster):
    """A cluster in which questions to homes and their answers are lost, repeated and late, as they never are on one
    connection, and with a server of objects."""

    disturbed = 0.0
    """The share of such messages that something happens to."""
    server: ObjectServer

    def _transmit(self, sender: str, to: str, frame: Frame) -> None:
        if isinstance(frame, ObjectsAsked | ObjectsSent) and self._random.random() < self.disturbed:
            kind = self._random.randrange(3)
            if kind and to in self.workers:
                late_ns = self._random.randint(0, 30_000_000)
                self._later(late_ns, partial(self._arrive, to, FrameArrived(sender, frame)))
            if kind < 2:
                return  # Lost, or late only.
        super()._transmit(sender, to, frame)

    def carry_out_for_worker(self, name: str, effect: working.Effect) -> None:
        if isinstance(effect, working.ReadServer | working.WriteServer):
            # One connection per worker: what was ordered first is done first, and answered first.
            there_ns, back_ns = (self._random.randint(*self._timing.delay_ns) for _ in range(2))
            there_ns = self._after(name, "there", there_ns)
            self._later(there_ns, partial(self._serve, name, self.workers[name], effect, back_ns))
        else:
            super().carry_out_for_worker(name, effect)

    def _serve(self, name: str, worker: Any, order: working.ReadServer | working.WriteServer, back_ns: int) -> None:
        event = self.server.carry_out(order)
        self._later(self._after(name, "back", back_ns), partial(self._answer, name, worker, event))

    def _answer(self, name: str, worker: Any, event: working.Event) -> None:
        if self.workers.get(name) is worker:
            self._work(name, event)

    def _after(self, name: str, way: str, delay_ns: int) -> int:
        """Returns the delay of a message that stays behind those before it."""
        key = (name, f"server {way}")
        due_ns = self._latest_ns[key] = max(self.now_ns + delay_ns, self._latest_ns.get(key, 0) + 1)
        return due_ns - self.now_ns


@dataclass
class Trial:
    """The run of one seed: what happened, and what was wrong."""

    seed: int
    rows: int = 0
    reads: int = 0
    checked: int = 0
    hits: int = 0
    crashes: int = 0
    restarts: int = 0
    recoveries: int = 0
    handovers: int = 0
    server: bool = False
    server_failures: int = 0
    durable: bool = True
    violations: list[Violation] = field(default_factory=list)


class Flow:
    """A random dataflow whose functions share objects."""

    def __init__(self, chance: random.Random, seed: int, server: bool) -> None:
        self._chance = chance
        self.recorder = Recorder()
        self.outside = Outside()
        self.specs: dict[str, FunctionSpec] = {}
        parts, batches = chance.randint(1, 3), chance.randint(10, 40)
        self.fresh = freshness(fresh := chance.choice(FRESH))
        shared = SharedState(
            SERVER if server else None,
            space=SPACE,
            fresh=fresh,
            cached=chance.choice((0, 1, 3, 100)),
            patience="1 hour",
        )
        self.rows = list(rows_read(Ticks(seed, batches, 3, parts)))
        last = self._add("source", Ticks(seed, batches, 3, parts), None, parts)
        for number in range(chance.choice((1, 1, 2))):
            touch = Touch(shared, self.recorder, chance.random() < 0.4, number * 10**9)
            last = self._add(f"touch{number}", touch, last, chance.randint(1, 3))
        self.touches = len(self.specs) - 1
        self._add("sink", Collect(self.outside), last, 1)
        share_objects(self.specs, chance.randint(1, 3))
        if not server:
            self.specs[SPACE].function = WatchedStore(self.recorder)
        self.deployment = Deployment(JOB, self.specs)

    def _add(self, name: str, function: Function, source: str | None, parallelism: int) -> str:
        outputs = {} if name == "sink" else {"out": Stage(name, SCHEMA)}
        spec = self.specs[name] = FunctionSpec(name, function, parallelism, outputs)
        if source is None:
            spec.sequential_because = "it is a source"
        elif isinstance(function, Touch) and self._chance.random() < 0.5:
            spec.lessees_max, spec.strategy = 2, Arbitrary(self._chance.randrange(2**32), 0.3, 0.5)
        if source is not None:
            routing = ByKey(("k",)) if self._chance.random() < 0.3 else Rebalance()
            self.specs[source].outputs["out"].edges.append(Edge(name, "in", routing))
        return name

    def rescaled(self, parallelism: int) -> Deployment:
        """Returns the same with another number of partitions of what shares objects, and of their homes."""
        specs = {
            name: replace(spec, parallelism=spec.parallelism if name in ("source", "sink") else parallelism)
            for name, spec in self.specs.items()
        }
        return Deployment(JOB, specs)


def try_seed(seed: int, workers_max: int, parts: Parts | None = None) -> Trial:
    """Run one random app with faults, and check its history."""
    chance = random.Random(seed * 11 + 7)
    trial = Trial(seed, server=chance.random() < 0.3, durable=chance.random() < 0.8)
    flow = Flow(chance, seed, trial.server)
    cluster = SharingCluster(chance.randint(1, workers_max), seed, SimulatedFiles(), parts=parts, steps_max=STEPS_MAX)
    recorder = flow.recorder
    recorder.now = lambda: cluster.now_ns
    recorder.member_of = partial(_member_of, cluster, {})
    cluster.server = ObjectServer(seed, partial(_noticed, recorder))
    cluster.disturbed = chance.choice((0.0, 0.1, 0.4))
    cluster.interval_ns = chance.choice((2_000_000, 5_000_000, 20_000_000))
    cluster.write_ns = chance.choice(((20_000, 500_000), (100_000, 8_000_000)))
    _plan_trouble(cluster, flow, chance, trial)
    try:
        if trial.durable:
            cluster.submit_durable(flow.deployment)
        else:
            cluster.submit_plain(flow.deployment)
        cluster.run()
    except (StrettoError, AssertionError, KeyError, IndexError, ValueError) as error:
        trial.violations.append(Violation("invariant", f"{type(error).__name__}: {error}"))
        return trial
    trial.crashes, trial.recoveries = cluster.deaths, cluster.recoveries
    trial.handovers, trial.server_failures = len(cluster.handed_over), cluster.server.failures
    job = cluster.jobs[JOB]
    if job.status is not JobStatus.FINISHED:
        failure = job.failure
        text = "it does not end" if failure is None else f"{failure.fact}: {failure.detail} {failure.traceback}"
        trial.violations.append(Violation("failed", text))
    else:
        trial.violations += _judged(cluster, flow, trial)
    cluster.close()
    return trial


def _member_of(cluster: SharingCluster, known: dict[int, tuple[Function, str]], function: Function) -> str:
    """Returns the worker that an instance of a function is on."""
    if id(function) not in known:
        for name, worker in cluster.workers.items():
            for job in worker.jobs.values():
                for seat in job.all_seats():
                    known[id(seat.instance.function)] = (seat.instance.function, name)
    return known[id(function)][1]


def _noticed(recorder: Recorder, name: str, write: Write) -> None:
    """A server has made a write."""
    if write.act is Act.APPEND:
        recorder.appended(None, name, msgspec.msgpack.decode(write.data))
    else:
        recorder.counted[name] += msgspec.msgpack.decode(write.data)


def _plan_trouble(cluster: SharingCluster, flow: Flow, chance: random.Random, trial: Trial) -> None:
    last_ns = chance.choice(TROUBLE_NS)
    if trial.server:
        for _ in range(chance.choice((0, 1, 3))):
            at_ns = chance.randint(0, last_ns)
            cluster.plan(at_ns, partial(setattr, cluster.server, "lost", True))
            cluster.plan(at_ns + chance.randint(1, 200) * 1_000_000, partial(setattr, cluster.server, "lost", False))
    if not trial.durable:
        for _ in range(chance.randint(1, 3)):
            cluster.plan(chance.randint(0, last_ns), partial(_reshape, cluster, flow, chance))
        return
    for _ in range(chance.choice((0, 1, 2, 3))):
        cluster.plan(chance.randint(0, last_ns), cluster.crash_some)
    for _ in range(chance.choice((0, 1, 2))):
        kinds: list[Callable[[], None]] = [
            partial(cut_some, cluster, chance),
            partial(_restart, cluster, flow, chance, trial),
            partial(_reshape, cluster, flow, chance),
        ]
        cluster.plan(chance.randint(0, last_ns), chance.choice(kinds))


def _restart(cluster: SharingCluster, flow: Flow, chance: random.Random, trial: Trial) -> None:
    if not cluster.has_ended:
        trial.restarts += 1
        cluster.restart(flow.rescaled(chance.randint(1, 3)) if chance.random() < 0.5 else None)


def _reshape(cluster: SharingCluster, flow: Flow, chance: random.Random) -> None:
    """Hand the job over to another number of partitions."""
    job = cluster.coordinator.jobs.get(JOB)
    if job is not None and not cluster.has_ended:
        now = job.shapes["touch0"].parallelism
        cluster.reshape(flow.rescaled(chance.choice([count for count in (1, 2, 3) if count != now])))


# The check.


def _judged(cluster: SharingCluster, flow: Flow, trial: Trial) -> Iterator[Violation]:
    recorder = flow.recorder
    trial.rows, trial.reads = len(flow.outside.rows), len(recorder.seen)
    yield from each_once("rows out", [row[0] for row in flow.outside.rows], flow.rows)
    expected = [number * 10**9 + n for number in range(flow.touches) for n in flow.rows]
    counter, numbers = _final(cluster, recorder, trial)
    yield from each_once("numbers in the lists", numbers, expected)
    if counter != len(expected):
        yield Violation("once", f"the counter is {counter}, and should be {len(expected)}")
    own: dict[tuple[Any, str, str], list[Wrote]] = {}
    for wrote in recorder.wrote:
        own.setdefault((wrote.attempt, wrote.member, wrote.name), []).append(wrote)
    for seen in recorder.seen:
        made = recorder.made.get((seen.attempt, seen.name))
        if made is None and seen.numbers:
            continue  # Nothing was written in this attempt, and so nothing was recorded.
        trial.checked += 1
        mine = own.get((seen.attempt, seen.member, seen.name), [])
        yield from _is_right(seen, made or [], mine, flow.fresh)


def _final(cluster: SharingCluster, recorder: Recorder, trial: Trial) -> tuple[int, list[int]]:
    """Returns the counter and the numbers in all lists, in the end."""
    if trial.server:
        lists = [content for (_, name), content in cluster.server.objects.items() if name != "rows"]
        held = [number for each in lists if each is not None for number in msgspec.msgpack.decode(each.data)]
        return recorder.counted["rows"], held
    last = max(recorder.stores) if trial.durable else None
    stores = recorder.stores[last] if trial.durable else recorder.stores[None]
    counter = 0
    numbers: dict[str, list[int]] = {}
    for store in stores:
        content, version = store.look("rows")
        if content is not None and version:
            counter = max(counter, msgspec.msgpack.decode(content.data))
        for name in store.objects:
            if name != "rows" and len(found := numbers_of(store, name)) >= len(numbers.get(name, [])):
                numbers[name] = found
    return counter, [number for each in numbers.values() for number in each]


def _is_right(seen: Seen, made: list[tuple[int, int]], mine: list[Wrote], promised: Freshness) -> Iterator[Violation]:
    """Compares what a batch saw with what its home had made."""
    numbers, order = seen.numbers, [number for _, number in made]
    if len(set(numbers)) < len(numbers):
        yield Violation("twice", f"{seen} has a write twice")
    same = next((at for at, pair in enumerate(zip(numbers, order, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(numbers), len(order)) if same is None else same
    own = {wrote.number for wrote in mine if wrote.order < seen.order}
    strange = [number for number in numbers[same:] if number not in own]
    if strange:
        yield Violation("strange", f"{seen} has {strange}, which its home had not there: {order}")
    unseen = {w.number for w in mine if w.instance == seen.instance and w.order < seen.order} - set(numbers)
    if unseen:
        yield Violation("own", f"{seen} has not what the instance wrote before: {sorted(unseen)}")
    bound_ns = _bound_ns(seen, mine, promised)
    stale = [number for at_ns, number in made if at_ns <= bound_ns and number not in numbers]
    if stale:
        yield Violation("stale", f"{seen} has not {stale}, made before {bound_ns}, under {promised}")


def _bound_ns(seen: Seen, mine: list[Wrote], promised: Freshness) -> int:
    """Returns up to when a batch must have seen all that its home had made."""
    if promised.mode is not Mode.UNTIL_WRITTEN:
        return seen.taken_ns - promised.age_ns - 1
    before = [w.at_ns for w in mine if w.instance == seen.instance and w.at_ns < seen.taken_ns]
    return max(before, default=NEVER_NS)
