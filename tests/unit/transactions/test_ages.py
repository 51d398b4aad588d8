"""Entities that expire: when, what counts as a write, and that nothing is left of them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from stretto.errors import PlanError
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, EntityName, Origin, Piece, Proceed, Reply, Resume
from stretto.transactions.ages import Ages
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.events import AppendLog, LogWritten, OpenState, StateOpened, StorePiece
from stretto.transactions.machine import COORDINATOR, TransactionWorker

SECOND_NS = 1_000_000_000


class Session(Entity, expires="10 s"):
    user: str = ""

    async def log_in(self, user: str) -> str:
        before, self.user = self.user, user
        return before

    async def who(self) -> str:
        return self.user


class Short(Session, expires=1):
    pass


class Account(Entity):
    balance: int = 0


CATALOG = Catalog([Session, Short, Account])


def test_an_entity_expires_when_nobody_wrote_it_for_its_time() -> None:
    """Random writes, deletions and looks, against a dict that is looked through."""
    chance = random.Random(1)
    names = [EntityName(kind, str(number)) for kind in ("Session", "Short", "Account") for number in range(4)]
    lasts = {"Session": 10_000_000, "Short": 1_000_000}
    expired = 0
    for _ in range(100):
        ages = Ages(CATALOG, [], {}, 0)
        written: dict[EntityName, int] = {}
        now_us = 0
        for _ in range(60):
            now_us += chance.choice((1, 200_000, 3_000_000))
            name = chance.choice(names)
            match chance.randrange(4):
                case 0 | 1:
                    ages.wrote(name, now_us)
                    if name.kind in lasts:
                        written[name] = now_us
                case 2:
                    ages.forget(name)
                    written.pop(name, None)
                case 3:
                    due = {each for each, at_us in written.items() if at_us + lasts[each.kind] <= now_us}
                    found = ages.expired(now_us)
                    assert len(found) == len(due)
                    assert set(found) == due
                    written = {each: at_us for each, at_us in written.items() if each not in due}
                    expired += len(due)
            ends = [at_us + lasts[each.kind] for each, at_us in written.items()]
            assert ages.next_us() == min(ends, default=None)
            assert {each: ages.written_us(each) for each in written} == written
        ages.expired(1 << 60)
        assert not ages._due, "nothing is left of what is gone"
        assert not ages._written
        assert not ages._in_heap
    assert expired > 100


def test_what_did_not_expire_before_begins_to_age_now() -> None:
    names = [EntityName("Session", "a"), EntityName("Session", "b"), EntityName("Account", "c")]
    ages = Ages(CATALOG, names, {names[0]: 5}, 70)
    assert [ages.written_us(name) for name in names] == [5, 70, None]
    assert ages.unknown == names[1:2]


@pytest.mark.parametrize("wrong", ["soon", 0, -1])
def test_a_wrong_time_is_refused_where_the_class_is_written(wrong: Any) -> None:
    with pytest.raises(PlanError, match="the time after which Wrong expires"):

        class Wrong(Entity, expires=wrong):
            pass


class Worker:
    """One worker; what it has stored, and what it has replied."""

    def __init__(self) -> None:
        self.now_ns = 100 * SECOND_NS
        self.log = b""
        self.pieces: dict[Piece, bytes] = {}
        self.values: list[str] = []
        self.cuts = 0
        self.number = 0
        self.begin(1, [])

    def begin(self, attempt: int, pieces: list[Piece]) -> None:
        self.machine = TransactionWorker(1, CATALOG, Settings(epoch_ns=0, snapshot_ns=0))
        self.tell(FrameArrived(COORDINATOR, Resume(attempt, ["w"], pieces)))
        self.tell(FrameArrived(COORDINATOR, Proceed(attempt, 0)))

    def tell(self, event: Any) -> None:
        for effect in self.machine.handle(event, self.now_ns):
            match effect:
                case OpenState(attempt=attempt, pieces=pieces):
                    self.tell(StateOpened(attempt, [self.pieces[each] for each in pieces], self.log, 0))
                case AppendLog(attempt=attempt, data=data, end=end):
                    self.log += data
                    self.tell(LogWritten(attempt, end))
                case StorePiece(piece=piece, data=data):
                    self.pieces[piece] = data
                case Send(frame=Reply(value=bytes() as value)):
                    self.values.append(msgspec.msgpack.decode(value))

    def call(self, made: Any) -> str:
        self.tell(FrameArrived("c", Call(Origin("c", self.number, self.number - 1), CATALOG.request(made))))
        self.number += 1
        self.tell(Ticked())
        return self.values[-1]

    def pass_(self, seconds: float) -> None:
        """Time passes; the machine is told when it wants to be."""
        until_ns = self.now_ns + round(seconds * SECOND_NS)
        while (due_ns := self.machine.next_deadline()) is not None and due_ns <= until_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.tell(Ticked())
        self.now_ns = until_ns


def test_only_what_changes_an_entity_keeps_it() -> None:
    worker = Worker()
    worker.call(Session("a").log_in("ann"))
    worker.pass_(6)
    assert worker.call(Session("a").log_in("ann")) == "ann", "that has changed nothing"
    worker.pass_(3.9)
    assert worker.call(Session("a").who()) == "ann"
    worker.pass_(0.2)
    assert worker.call(Session("a").who()) == ""
    worker.call(Session("a").log_in("bob"))
    worker.pass_(6)
    worker.call(Session("a").log_in("cy"))
    worker.pass_(6)
    assert worker.call(Session("a").log_in("dee")) == "cy"


def test_what_expires_is_removed_although_nobody_calls() -> None:
    worker = Worker()
    for number in range(20):
        worker.call(Session(str(number)).log_in("ann"))
    worker.pass_(9)
    assert len(worker.machine.state) == 20
    worker.pass_(3)
    assert worker.machine.state == {}
    assert worker.machine.next_deadline() is None


def test_a_snapshot_has_the_times_and_what_is_gone() -> None:
    worker = Worker()
    worker.call(Session("a").log_in("ann"))
    worker.call(Short("b").log_in("bob"))
    worker.pass_(4)
    worker.call(Session("c").log_in("cy"))
    last = max(worker.pieces)
    worker.begin(2, [piece for piece in sorted(worker.pieces) if piece <= last])
    assert {name.key for name in worker.machine.state} == {"a", "c"}
    worker.pass_(5.9)
    assert {name.key for name in worker.machine.state} == {"a", "c"}
    worker.pass_(1.2)
    assert {name.key for name in worker.machine.state} == {"c"}
    assert worker.call(Session("a").who()) == ""
