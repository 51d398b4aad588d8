"""A bank of entities on simulated workers: what callers get, and what bad input does to them and to nobody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stretto.protocol.transactions import Call, EntityName, Origin, Reply, Request
from stretto.simulator.engine.entities import Climate, SimulatedEntities
from stretto.transactions import ingress
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity, reads


class NotEnough(Exception):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Account(Entity):
    balance: int = 10

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        if self.balance < amount:
            raise NotEnough(f"{self.key} has {self.balance}")
        self.balance -= amount
        Account(to).deposit(amount)
        return self.balance

    async def transfer_to_all(self, others: list[str], amount: int) -> list[int]:
        calls = [Account(other).deposit(amount) for other in others]
        self.balance -= amount * len(others)
        return [await call for call in calls]

    async def pay_and_fail(self, to: str) -> None:
        await Account(to).deposit(5)
        raise NotEnough("after all")

    async def make_fail(self, who: str) -> int:
        try:
            return await Account(who).transfer("nobody", 1_000)
        except NotEnough:
            return 0

    async def recurse(self, to: str, back: str) -> None:
        await Account(to).recurse(back, to)

    async def explode(self) -> None:
        raise Unprintable

    @reads
    async def look(self) -> int:
        return self.balance

    @reads
    async def cheat(self) -> int:
        self.balance += 1
        return self.balance


class Bank:
    """Entities on three workers, whose calls run one after another or together."""

    def __init__(self) -> None:
        self.answers: dict[int, Reply] = {}
        calm = Climate(slow=0.0, repeated=0.0)
        self.cluster = SimulatedEntities(3, 1, 1, Catalog([Account]), self._answered, calm)

    def _answered(self, client: str, reply: Reply) -> None:
        self.answers[reply.number] = reply

    def together(self, *calls: Any) -> list[Any]:
        numbers = [self.cluster.call("c1", call) for call in calls]
        assert self.cluster.run_until(100_000, lambda: all(number in self.answers for number in numbers))
        return [self._value(self.answers[number]) for number in numbers]

    def call(self, call: Any) -> Any:
        return self.together(call)[0]

    @staticmethod
    def _value(reply: Reply) -> Any:
        if reply.failure is not None:
            return reply.failure.kind, reply.failure.text
        assert reply.value is not None
        return msgspec.msgpack.decode(reply.value)


@pytest.fixture
def bank() -> Bank:
    return Bank()


PEOPLE = ["ann", "bob", "cy", "dee", "eve"]


def balances(bank: Bank) -> dict[str, int]:
    return dict(zip(PEOPLE, bank.together(*(Account(each).look() for each in PEOPLE)), strict=True))


def test_a_transfer_and_its_reply(bank: Bank) -> None:
    assert bank.call(Account("ann").transfer("bob", 4)) == 6
    assert balances(bank) == {"ann": 6, "bob": 14, "cy": 10, "dee": 10, "eve": 10}


def test_many_transfers_at_once_lose_no_money(bank: Bank) -> None:
    calls = [Account(one).transfer(other, 3) for one in PEOPLE for other in PEOPLE if one != other]
    replies = bank.together(*calls)
    refused = [reply for reply in replies if isinstance(reply, tuple)]
    assert refused
    assert all(kind == "NotEnough" for kind, _ in refused)
    assert sum(balances(bank).values()) == 50
    assert min(balances(bank).values()) >= 0


def test_calls_that_are_awaited_together(bank: Bank) -> None:
    assert bank.call(Account("ann").transfer_to_all(["bob", "cy", "bob"], 1)) == [11, 11, 12]
    assert balances(bank)["ann"] == 7


def test_an_entity_that_calls_itself_sees_what_it_did(bank: Bank) -> None:
    assert bank.call(Account("ann").transfer("ann", 4)) == 6
    assert balances(bank)["ann"] == 10


def test_an_exception_undoes_the_whole_transaction(bank: Bank) -> None:
    assert bank.call(Account("ann").pay_and_fail("bob")) == ("NotEnough", "after all")
    assert balances(bank)["bob"] == 10


def test_an_exception_of_a_callee_cannot_be_caught(bank: Bank) -> None:
    assert bank.call(Account("ann").make_fail("bob")) == ("NotEnough", "bob has 10")


def test_recursion_without_end_is_an_error_of_its_caller_alone(bank: Bank) -> None:
    endless, fine = bank.together(Account("ann").recurse("bob", "ann"), Account("cy").deposit(1))
    assert endless[0] == "UserError"
    assert "a chain of calls is too long" in endless[1]
    assert fine == 11


def test_an_exception_without_a_text_is_reported(bank: Bank) -> None:
    kind, _ = bank.call(Account("ann").explode())
    assert kind == "Unprintable"


def test_what_only_reads_cannot_write(bank: Bank) -> None:
    kind, text = bank.call(Account("ann").cheat())
    assert kind == "UserError"
    assert "it has changed a field" in text
    assert balances(bank)["ann"] == 10


def test_calls_that_wait_are_bounded_and_none_is_lost(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingress, "WAITING_MAX", 3)
    balances_seen = bank.together(*(Account("ann").deposit(1) for _ in range(20)))
    assert sorted(balances_seen) == list(range(11, 31))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request(EntityName("Loan", "x"), "look", b"\x80"), "there is no entity 'Loan'"),
        (Request(EntityName("Account", "x"), "steal", b"\x80"), "has no method 'steal'"),
        (Request(EntityName("Account", "x"), "deposit", b"\x80"), "missing required field `amount`"),
        (Request(EntityName("Account", "x"), "deposit", b"\xc1"), "wrong arguments for Account.deposit"),
    ],
)
def test_a_wrong_frame_is_answered_and_not_logged(bank: Bank, request_: Request, text: str) -> None:
    bank.call(Account("ann").deposit(1))
    logged = {name: host.log.end for name, host in bank.cluster.hosts.items()}
    for name in logged:
        bank.cluster._transmit("c1", name, Call(Origin("c1", 99, -1), request_))
    begun = len(bank.cluster.replies)
    assert bank.cluster.run_until(10_000, lambda: len(bank.cluster.replies) == begun + 3)
    assert all(text in reply.failure.text for reply in bank.cluster.replies[begun:] if reply.failure)
    assert {name: host.log.end for name, host in bank.cluster.hosts.items()} == logged
    assert bank.call(Account("ann").deposit(1)) == 12
