"""Questions are answered here: this worker's partitions of published tables, its copies of pieces, and state.

Each worker has one seat for all questions. Its work is one step of the most urgent question, so that questions run in
pieces between messages of streams, by their deadlines, like everything else. The rest is in `queries/shelf.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from stretto.actors.address import Address, job_of
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance, register
from stretto.actors.seat import NextRead, Phase, Seat
from stretto.actors.work import Errand, Open, Outcome, Publishing, Work
from stretto.operators.described import rows_of
from stretto.operators.ends import SinkFunction
from stretto.operators.publishing import Cut, PublishCheckpointed, PublishedRows, PublishSink, PublishWriter
from stretto.protocol.membership import MemberRole
from stretto.protocol.queries import (
    Ask,
    AskState,
    Hold,
    Piece,
    PiecesCut,
    StatePart,
    TableClosed,
    TableOpened,
    TellTables,
)
from stretto.queries.shelf import LOOK_AGAIN_NS, PiecesLoaded, Shelf, Task, failure_of
from stretto.state.packing import packed
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Handlers, Host, Part

ANSWERS = Address("(questions)", "answers", 0)
"""The address of the seat; no job can have it."""


class AnswerStep(Errand):
    """One step of a question."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task


def run_step(instance: Instance, errand: AnswerStep, now_ns: int) -> Outcome:
    """Reads some rows for a question."""
    before = errand.task.rows
    errand.task.step()
    outcome = Outcome(now_ns)
    outcome.rows_in = errand.task.rows - before
    return outcome


register(AnswerStep, run_step)


class Members(Protocol):
    """Whoever knows the other members."""

    members: dict[str, Any]


class Answering(Part):
    """What is asked of this worker."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.shelf = self.made_shelf()
        self._seat = _made_seat()
        self._seat.keeper = self
        self._here: dict[Address, _Partition] = {}
        self._ended: dict[Address, _Partition] = {}
        """Partitions of jobs that have come to their end: they can still be asked."""

    def made_shelf(self) -> Shelf:
        return Shelf()

    def connect(self, members: Members) -> None:
        self._members = members

    def events(self) -> Handlers:
        return {PiecesLoaded: self._on_loaded}

    def frames(self) -> FrameHandlers:
        return {Ask: self._on_ask, Hold: self._on_hold, AskState: self._on_ask_state, TellTables: self._on_tell}

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {
            Open: AfterRun(completes=self._opened),
            Publishing: AfterRun(completes=self._published),
            AnswerStep: AfterRun(completes=self._stepped),
        }

    # Partitions.

    def _opened(self, seat: Seat, errand: Open, outcome: Outcome) -> None:
        rows = _published(seat)
        if rows is None:
            return
        self._forget_ended(rows.sink.table)
        partition = self._here[seat.address] = _Partition(seat, rows)
        self.shelf.partitions[_key(partition)] = partition
        rows.news()  # All of them are told of now.
        self._announce(partition)

    def _announce(self, partition: _Partition) -> None:
        """Says what a partition has."""
        rows = partition.rows
        table, job, number = _key(partition)
        directory = None if rows.sink.files is None else str(rows.sink.files.directory)
        known = [_piece(cut, rows.sink) for cut in rows.pieces.values()]
        opened = TableOpened(table, job, number, partition.seat.spec.parallelism, rows.version, directory, known)
        self._tell(opened)
        held = [_piece(cut, rows.sink) for cut in rows.pieces.values() if rows.rows_of(cut.name) is not None]
        if held:
            self._tell(PiecesCut(table, job, number, rows.version, held, []))

    def _published(self, seat: Seat, errand: Publishing, outcome: Outcome) -> None:
        partition = self._here.get(seat.address)
        if partition is None:
            return
        new, gone = partition.rows.news()
        if new or gone:
            table, job, number = _key(partition)
            pieces = [_piece(cut, partition.rows.sink) for cut in new]
            self._tell(PiecesCut(table, job, number, partition.rows.version, pieces, gone))
        if self.shelf.waits:
            self.shelf.look(self._host.now_ns)
            self._carry_out()

    def dropped(self, job: LocalJob) -> None:
        """A job has gone. What it has published stays if it had come to its end, until somebody publishes it again."""
        for address in [address for address in self._here if address.job == job.job]:
            partition = self._here.pop(address)
            if partition.seat.phase is Phase.FINISHED and not self._continues(job):
                partition.end()
                self._ended[address] = partition
            else:
                self._close(partition)

    def _continues(self, job: LocalJob) -> bool:
        """Whether another attempt of a job is here, which has what this one had."""
        return any(job_of(other) == job_of(job.job) for other in self._host.jobs)

    def _forget_ended(self, table: str) -> None:
        for address in [each for each, partition in self._ended.items() if partition.rows.sink.table == table]:
            self._close(self._ended.pop(address))

    def _close(self, partition: _Partition) -> None:
        key = _key(partition)
        if self.shelf.partitions.get(key) is partition:
            del self.shelf.partitions[key]
        self._tell(TableClosed(*key))

    def _on_tell(self, sender: str, frame: TellTables) -> None:
        for partition in self.shelf.partitions.values():
            assert isinstance(partition, _Partition)
            self._announce(partition)

    def _tell(self, frame: Any) -> None:
        for name, member in self._members.members.items():
            if member.role is MemberRole.DRIVER:
                self._host.send(name, frame)

    # Questions.

    def _on_ask(self, sender: str, frame: Ask) -> None:
        self.shelf.ask(sender, frame, self._host.now_ns)
        self._carry_out()

    def _on_hold(self, sender: str, frame: Hold) -> None:
        self.shelf.hold(sender, frame)
        self._carry_out()

    def _on_loaded(self, event: PiecesLoaded) -> None:
        self.shelf.loaded(event)
        self._carry_out()

    def wake(self) -> None:
        self.shelf.look(self._host.now_ns)
        self._carry_out()

    def _stepped(self, seat: Seat, errand: AnswerStep, outcome: Outcome) -> None:
        self.shelf.ran(errand.task)
        self._carry_out()

    def _carry_out(self) -> None:
        sends, self.shelf.sends = self.shelf.sends, []
        for member, frame in sends:
            self._host.send(member, frame)
        loads, self.shelf.loads = self.shelf.loads, []
        self._host.effects += loads
        self.due_ns = self._host.now_ns + LOOK_AGAIN_NS if self.shelf.waits else NEVER_NS
        if self.shelf.has_work:
            self._host.offer(self._seat)
            self._host.ready.hurry(self._seat)

    # What the seat runs: this part is its keeper.

    def has_work(self, seat: Seat) -> bool:
        return self.shelf.has_work

    def next_work(self, seat: Seat) -> Work | None:
        task = self.shelf.next_task(self._host.now_ns)
        if task is None:
            self._carry_out()
            return None
        return AnswerStep(task)

    def urgent(self, seat: Seat) -> list[Any] | None:
        return [NextRead(self.shelf.urgency_ns)] if self.shelf.has_work else []

    # State.

    def _on_ask_state(self, sender: str, frame: AskState) -> None:
        tables: list[tuple[int, str, bytes]] = []
        missing: list[tuple[int, str]] = []
        answered: list[int] = []
        partitions = 0
        failure = None
        for job in self._host.jobs.values():
            for seat in job.seats.values():
                if seat.address.function != frame.function or seat.phase is Phase.OPENING or seat.paused is not None:
                    continue
                partitions = seat.spec.parallelism
                number = seat.address.partition
                elsewhere = _elsewhere(seat)
                if elsewhere is not None:
                    missing.append((number, elsewhere))
                    continue
                answered.append(number)
                try:
                    tables += _tables(seat, frame.state)
                except Exception as error:
                    failure = failure_of(error)
        self._host.send(sender, StatePart(frame.number, tables, partitions, answered, missing, failure))


class _Partition:
    """A partition of a table here."""

    def __init__(self, seat: Seat, rows: PublishedRows) -> None:
        self.seat = seat
        self.rows = rows
        self._ended_us: int | None = None

    @property
    def watermark_us(self) -> int:
        found: int = self.seat.instance.watermark_us if self._ended_us is None else self._ended_us
        return found

    def end(self) -> None:
        """Its job has ended; the instance is let go."""
        self._ended_us = self.seat.instance.watermark_us


def _made_seat() -> Seat:
    seat = Seat(Instance(ANSWERS, FunctionSpec(ANSWERS.function, Function(), 1), False, False))
    seat.phase = Phase.OPEN
    seat.unreported = True  # It belongs to no job, so nothing of it is reported.
    return seat


def _published(seat: Seat) -> PublishedRows | None:
    """Returns the rows of an instance that publishes a table."""
    function = seat.instance.function
    if isinstance(function, SinkFunction) and isinstance(function.sink, PublishSink):
        writer = function.writer
        if isinstance(writer, PublishWriter | PublishCheckpointed):
            return writer.rows
    return None


def _key(partition: _Partition) -> tuple[str, str, int]:
    address = partition.seat.address
    return partition.rows.sink.table, address.job, address.partition


def _piece(cut: Cut, sink: PublishSink) -> Piece:
    return Piece(cut.name, cut.start_us, cut.start_us + sink.segment_us, cut.size, list(cut.files))


def _elsewhere(seat: Seat) -> str | None:
    """Returns why the whole state of an actor is not here, or None if it is."""
    gate = seat.gate
    if seat.away is not None:
        return "a burst is redirected: a part of its state is on transient workers"
    if gate is not None and getattr(gate, "members", None):
        return "a part of its state is on other workers"
    return None


def _tables(seat: Seat, wanted: str | None) -> list[tuple[int, str, bytes]]:
    """Returns the rows of the states of an instance. They are made of a copy, so that checkpoints notice nothing."""
    found = []
    for name, state in seat.instance.function.states().items():
        if wanted is None or name == wanted:
            copy = state.fresh()
            copy.restore(state.export())
            table: pa.Table = rows_of(copy.describe(), copy.fragments())
            found.append((seat.address.partition, name, packed(table)))
    return found
