"""A cluster of workers that publish a table and answer questions, in virtual time.

The broker, the shelves, the rows of partitions and the decisions about copies are the production code; what is around
them (who is a member, checkpoints, recovery, storage) is a model. Messages on one link keep their order.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.operators.publishing import PublishCheckpointed, PublishedRows, PublishSink, with_segment
from stretto.protocol.queries import Ask, Held, Hold, Piece, PiecesCut, TableOpened, TellTables, Waits
from stretto.protocol.queries import Part as AnswerPart
from stretto.queries.answers import Gathered, Question
from stretto.queries.broker import Broker
from stretto.queries.copying import Copying
from stretto.queries.select import Compiled
from stretto.queries.shelf import LOOK_AGAIN_NS, LoadPieces, PiecesLoaded, Shelf
from stretto.simulator.engine.published import SimulatedTable

MS = 1_000_000
TABLE, SEGMENT_US, STEP_US = "results", 20_000_000, 1_000_000
SCHEMA = pa.schema([("p", pa.int32()), ("n", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
NOTICED_NS = 40 * MS
"""How long it takes until a lost worker is known to be lost, and until its job runs again, at most."""
RECOVERED_NS = 400 * MS


_COMPILED: OrderedDict[tuple[Any, ...], Compiled] = OrderedDict()
"""Questions, compiled once for all workers of all runs: an evaluation keeps nothing."""


@dataclass(frozen=True)
class AskingParts:
    """Which classes a run is made of. Faults are planted by replacing one."""

    broker: type[Broker] = Broker
    shelf: type[Shelf] = Shelf
    rows: type[PublishedRows] = PublishedRows
    writer: type[PublishCheckpointed] = PublishCheckpointed
    copying: type[Copying] = Copying


@dataclass(eq=False)
class Partition:
    """A partition of the table on a worker, in one run of the job."""

    number: int
    job: str
    writer: PublishCheckpointed
    written: int
    """How many rows of its log it has."""
    sealed: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """By checkpoint: how many rows it has, and the part that is to be published."""

    @property
    def rows(self) -> PublishedRows:
        return self.writer.rows

    @property
    def watermark_us(self) -> int:
        return self.written * STEP_US


@dataclass(eq=False)
class Worker:
    """A worker: what it has, and whether it runs something."""

    name: str
    shelf: Shelf
    alive: bool = True
    busy: bool = False
    looks: bool = False
    """Whether it will look soon if what questions wait for has come."""
    slow_until_ns: int = 0


class AskedCluster:
    """The whole of a run. `gathered` is called with each answer."""

    def __init__(
        self, seed: int, workers: int, partitions: int, keep_us: int | None, parts: AskingParts, memory_bytes: int
    ) -> None:
        self.chance = Random(seed)
        self.now_ns = 0
        self.table = SimulatedTable()
        self.sink = PublishSink(TABLE, "at", SEGMENT_US, keep_us)
        self.sink.files = self.table
        self.broker = parts.broker()
        self.copying = parts.copying(memory_bytes=memory_bytes)
        self.gathered: Callable[[Gathered], None] = lambda found: None
        self.log: list[list[int]] = [[] for _ in range(partitions)]
        """The rows of each partition, in order: their values. A row has the time of its place."""
        self.committed = [0] * partitions
        self.here: dict[int, tuple[Worker, Partition]] = {}
        self.crashes = self.recoveries = self.loads = self.changes = 0
        self._parts = parts
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._made = 0
        self._links: dict[tuple[str, str], int] = {}
        self._run = 0
        self._checkpoint = 0
        self._complete: dict[int, tuple[int, Any]] = {}
        """What the last complete checkpoint has of each partition: how many rows, and what is to be published."""
        self._complete_number = 0
        self.workers = {f"w{number}": Worker(f"w{number}", parts.shelf(_COMPILED)) for number in range(workers)}
        self._tell_members()
        self._recover(0)
        self.later(50 * MS, self._checkpoint_due)
        self.later(200 * MS, self._round)

    # Time.

    def later(self, delay_ns: int, act: Callable[[], None]) -> None:
        self._made += 1
        heapq.heappush(self._events, (self.now_ns + max(0, delay_ns), self._made, act))

    def run_until(self, end_ns: int, done: Callable[[], bool]) -> None:
        """Runs until nothing is left to do, or the end has come."""
        while self._events and not done():
            at_ns = self._events[0][0]
            due_ns = self.broker.due_ns
            if due_ns < at_ns:
                self.now_ns = max(self.now_ns, due_ns)
                self.broker.tick(self.now_ns)
                self._carry_out()
                continue
            if at_ns > end_ns:
                return
            self.now_ns, _, act = heapq.heappop(self._events)
            act()
            self._carry_out()

    # Messages.

    def _send(self, sender: str, to: str, frame: Any) -> None:
        delay_ns = self.chance.randint(1, 3 * MS) if self.chance.random() < 0.9 else self.chance.randint(1, 40 * MS)
        arrives_ns = max(self.now_ns + delay_ns, self._links.get((sender, to), 0) + 1)
        self._links[sender, to] = arrives_ns
        self.later(arrives_ns - self.now_ns, partial(self._arrived, sender, to, frame))

    def _arrived(self, sender: str, to: str, frame: Any) -> None:
        if to == "driver":
            if self.workers[sender].alive or sender in self.broker.workers:
                self._on_driver(sender, frame)
            return
        worker = self.workers[to]
        if not worker.alive:
            return
        match frame:
            case Ask():
                worker.shelf.ask("driver", frame, self.now_ns)
            case Hold():
                worker.shelf.hold("driver", frame)
            case TellTables():
                for home, each in list(self.here.values()):
                    if home is worker:
                        self._announce(worker, each)
        self._work(worker)

    def _on_driver(self, sender: str, frame: Any) -> None:
        match frame:
            case TableOpened():
                self.broker.opened(sender, frame)
            case PiecesCut():
                self.broker.cut(sender, frame)
            case Held():
                self.broker.held(sender, frame)
                self.copying.reported(sender, frame.table)
            case AnswerPart():
                self.broker.answered(sender, frame, self.now_ns)
            case Waits():
                self.broker.waits(sender, frame)

    def _carry_out(self) -> None:
        sends, self.broker.sends = self.broker.sends, []
        for member, frame in sends:
            self._send("driver", member, frame)
        gathered, self.broker.gathered = self.broker.gathered, []
        for found in gathered:
            self.gathered(found)

    def ask(self, question: Question) -> None:
        self.broker.ask(question, self.now_ns)
        self._carry_out()

    # Workers.

    def _work(self, worker: Worker) -> None:
        """Lets a worker do what it has to: send, load, and run one step at a time."""
        sends, worker.shelf.sends = worker.shelf.sends, []
        for to, frame in sends:
            self._send(worker.name, to, frame)
        loads, worker.shelf.loads = worker.shelf.loads, []
        for load in loads:
            self.later(self.chance.randint(1, 30 * MS), partial(self._load, worker, load))
        if worker.shelf.waits and not worker.looks:
            worker.looks = True
            self.later(LOOK_AGAIN_NS, partial(self._look_again, worker))
        if worker.busy or not worker.shelf.has_work:
            return
        task = worker.shelf.next_task(self.now_ns)
        if task is None:
            return
        worker.busy = True
        cost_ns = max(self.chance.randint(1, MS), worker.slow_until_ns - self.now_ns)

        def ran() -> None:
            worker.busy = False
            if worker.alive:
                task.step()
                worker.shelf.ran(task)
                self._work(worker)

        self.later(cost_ns, ran)

    def _look_again(self, worker: Worker) -> None:
        worker.looks = False
        self._look(worker)

    def _look(self, worker: Worker) -> None:
        if worker.alive and worker.shelf.waits:
            worker.shelf.look(self.now_ns)
            self._work(worker)

    def _load(self, worker: Worker, load: LoadPieces) -> None:
        if not worker.alive:
            return
        self.loads += len(load.pieces)
        rows = {piece.name: self._read(piece) for piece in load.pieces}
        found = {name: each for name, each in rows.items() if each is not None}
        failed = tuple(name for name, each in rows.items() if each is None)
        reason = f"{failed[0]} is not there" if failed else None
        worker.shelf.loaded(PiecesLoaded(load.table, found, failed, reason))
        self._work(worker)

    def _read(self, piece: Piece) -> list[pa.RecordBatch] | None:
        if not all(file in self.table.visible for file in piece.files):
            return None
        return [batch for file in piece.files for batch in self.table.visible[file]]

    # The job: rows, checkpoints, recovery.

    def publish_rows(self, partition: int) -> None:
        """Some rows come to a partition; those that came before a failure come again."""
        if partition not in self.here:
            return
        worker, part = self.here[partition]
        count = self.chance.randint(1, 6)
        log = self.log[partition]
        while len(log) < part.written + count:
            log.append(self.chance.randint(-100, 100))
        numbers = range(part.written, part.written + count)
        rows = [{"p": partition, "n": n, "v": log[n], "at": n * STEP_US} for n in numbers]
        part.writer.write(pa.RecordBatch.from_pylist(rows, SCHEMA))
        part.written += count
        self._work(worker)

    def _checkpoint_due(self) -> None:
        self.later(self.chance.randint(60 * MS, 300 * MS), self._checkpoint_due)
        if len(self.here) < len(self.log):
            return
        self._checkpoint += 1
        number, run, waits = self._checkpoint, self._run, set(self.here)
        for partition in sorted(self.here):
            self.later(self.chance.randint(0, 20 * MS), partial(self._seal, run, number, partition, waits))

    def _seal(self, run: int, number: int, partition: int, waits: set[int]) -> None:
        if run != self._run or partition not in self.here:
            return
        _, part = self.here[partition]
        part.sealed[number] = (part.written, part.writer.seal(number))
        waits.discard(partition)
        if not waits:
            self.later(self.chance.randint(0, 60 * MS), partial(self._completed, run, number))

    def _completed(self, run: int, number: int) -> None:
        if run != self._run or len(self.here) < len(self.log):
            return
        self._complete_number = number
        for partition, (_, part) in self.here.items():
            due = [(each, *part.sealed[each]) for each in sorted(part.sealed) if each <= number]
            self._complete[partition] = (part.sealed[number][0], [(each, sealed) for each, _, sealed in due if sealed])
            self.committed[partition] = part.sealed[number][0]
        for partition in sorted(self.here):
            self.later(self.chance.randint(0, 60 * MS), partial(self._publish, run, number, partition))

    def _publish(self, run: int, number: int, partition: int) -> None:
        if run != self._run or partition not in self.here:
            return
        worker, part = self.here[partition]
        for each in [each for each in sorted(part.sealed) if each <= number]:
            _, sealed = part.sealed.pop(each)
            if sealed is not None:
                part.writer.publish(each, sealed)
        new, gone = part.rows.news()
        if new or gone:
            pieces = [self._piece(cut) for cut in new]
            cut = PiecesCut(TABLE, part.job, partition, part.rows.version, pieces, gone)
            self._send(worker.name, "driver", cut)
        self._look(worker)

    def _piece(self, cut: Any) -> Piece:
        return Piece(cut.name, cut.start_us, cut.start_us + SEGMENT_US, cut.size, list(cut.files))

    def crash(self) -> None:
        """A worker dies; the job resumes from its last complete checkpoint a little later."""
        alive = [worker for worker in self.workers.values() if worker.alive]
        if not alive:
            return
        worker = self.chance.choice(alive)
        worker.alive = False
        self.crashes += 1
        self.later(self.chance.randint(0, NOTICED_NS), self._tell_members)
        if any(home is worker for home, _ in self.here.values()):
            self._run += 1
            for home, part in self.here.values():
                home.shelf.partitions.pop((TABLE, part.job, part.number), None)
            self.here = {}
            self.later(self.chance.randint(NOTICED_NS, RECOVERED_NS), partial(self._recover, self._run))
        self.later(self.chance.randint(NOTICED_NS, 3 * RECOVERED_NS), self._replace)

    def pause(self) -> None:
        """A worker is slow for a while."""
        worker = self.chance.choice(list(self.workers.values()))
        worker.slow_until_ns = self.now_ns + self.chance.randint(0, 3_000 * MS)

    def _replace(self) -> None:
        name = f"w{len(self.workers)}"
        self.workers[name] = Worker(name, self._parts.shelf(_COMPILED))
        self.later(self.chance.randint(0, NOTICED_NS), self._tell_members)

    def _tell_members(self) -> None:
        there = [worker.name for worker in self.workers.values() if worker.alive]
        self.broker.members(there, self.now_ns)
        self._carry_out()

    def _recover(self, run: int) -> None:
        alive = [worker for worker in self.workers.values() if worker.alive]
        if run != self._run:
            return
        if not alive:
            self.later(NOTICED_NS, partial(self._recover, run))
            return
        self.recoveries += run > 0
        attempt = Attempt("1c291ca3", 1, run + 1)
        for partition in range(len(self.log)):
            files = self.table.checkpointed_writer(with_segment(SCHEMA), partition, len(self.log), attempt)
            rows = self._parts.rows(self.sink, SCHEMA)
            writer = self._parts.writer(rows, files, self.table, partition, len(self.log))
            written, pending = self._complete.get(partition, (0, []))
            for _, sealed in pending:
                writer.check_part(sealed)
            writer.withdraw(self._complete_number)
            part = Partition(partition, f"app~{run + 1}" if run else "app", writer, written)
            part.sealed = {number: (written, sealed) for number, sealed in pending}
            worker = self.chance.choice(alive)
            self.here[partition] = (worker, part)
            worker.shelf.partitions[TABLE, part.job, partition] = part
            rows.news()
            self._announce(worker, part)
            if pending:
                self.later(
                    self.chance.randint(0, 100 * MS), partial(self._publish, run, self._complete_number, partition)
                )

    def _announce(self, worker: Worker, part: Partition) -> None:
        rows = part.rows
        pieces = [self._piece(cut) for cut in rows.pieces.values()]
        opened = TableOpened(TABLE, part.job, part.number, len(self.log), rows.version, self.table.directory, pieces)
        self._send(worker.name, "driver", opened)

    # Copies.

    def _round(self) -> None:
        self.later(200 * MS, self._round)
        self.changes += self.copying.round_over(self.broker) is not None
        self._carry_out()
