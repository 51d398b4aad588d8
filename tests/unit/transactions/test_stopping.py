"""Handlers that run out of time: what the log says of them, and what becomes of their transactions."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Look, Origin, Proceed, Reply, Resume
from stretto.transactions import log
from stretto.transactions.activation import OutOfTime
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity, reads
from stretto.transactions.events import AppendLog, LogWritten, OpenState, StateOpened
from stretto.transactions.machine import COORDINATOR, TransactionWorker

RUNS: list[str] = []


class Slow(Entity):
    count: int = 0

    async def add(self) -> int:
        self.count += 1
        return self.count

    async def hang(self) -> None:
        RUNS.append("hang")
        self.count = -1
        raise OutOfTime

    @reads
    async def stare(self) -> None:
        RUNS.append("stare")
        raise OutOfTime


class Worker:
    """One worker, its log, and what it has replied."""

    def __init__(self) -> None:
        self.catalog = Catalog([Slow])
        self.log = b""
        self.replies: list[Reply] = []
        self.attempt = 0
        self.begin()

    def begin(self) -> None:
        """Another attempt begins, in a new process."""
        RUNS.clear()
        self.attempt += 1
        self.machine = TransactionWorker(1, self.catalog, Settings(epoch_ns=0))
        self.tell(FrameArrived(COORDINATOR, Resume(self.attempt, ["w"], [])))
        decided = max(log.read(self.log, 0).cuts, default=0)
        self.tell(FrameArrived(COORDINATOR, Proceed(self.attempt, decided)))
        self.tell(Ticked())

    def call(self, number: int, made: Any) -> None:
        origin, request = Origin("c", number, -1), self.catalog.request(made)
        is_look = made.method == "stare"
        self.tell(FrameArrived("c", Look(origin, request, 0) if is_look else Call(origin, request)))
        self.tell(Ticked())

    def tell(self, event: Any) -> None:
        self.carry_out(self.machine.handle(event, 1))

    def carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case OpenState(attempt=attempt):
                    self.tell(StateOpened(attempt, [], self.log, 0))
                case AppendLog(attempt=attempt, data=data, end=end):
                    self.log += data
                    assert len(self.log) == end
                    self.tell(LogWritten(attempt, end))
                case Send(frame=Reply() as reply):
                    self.replies.append(reply)


def test_a_transaction_that_ran_out_of_time_is_aborted_in_the_next_attempt() -> None:
    worker = Worker()
    worker.call(0, Slow("a").add())
    with pytest.raises(OutOfTime) as stopped:
        worker.call(1, Slow("a").hang())
    assert [reply.number for reply in worker.replies] == [0]
    worker.carry_out(worker.machine.stop(stopped.value.seed))
    assert log.read(worker.log, 0).stopped == {log.Stopped("1-1", False, 2)}
    worker.begin()
    assert not RUNS
    first, again, aborted = worker.replies
    assert first == again, "what was answered is answered alike"
    assert (aborted.number, aborted.value) == (1, None)
    assert aborted.failure is not None
    assert aborted.failure.text.startswith("a transaction ran out of time")
    worker.call(2, Slow("a").add())
    assert worker.replies[-1].value == b"\x02"


def test_nothing_is_heard_between_the_stop_and_the_next_attempt() -> None:
    worker = Worker()
    with pytest.raises(OutOfTime) as stopped:
        worker.call(0, Slow("a").hang())
    worker.carry_out(worker.machine.stop(stopped.value.seed))
    worker.call(1, Slow("b").add())
    assert not worker.replies
    assert worker.machine.next_deadline() is None


def test_a_look_that_ran_out_of_time_does_not_run_again() -> None:
    worker = Worker()
    for _ in range(3):
        worker.call(0, Slow("a").stare())
    assert RUNS == ["stare"]
    assert len(worker.replies) == 3
    assert all(reply == worker.replies[0] for reply in worker.replies)
    worker.call(1, Slow("a").add())
    assert worker.replies[-1].value == b"\x01"
