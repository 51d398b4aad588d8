"""Entities in this process: what a test of an app sees, and which handlers are found out."""

from __future__ import annotations

import itertools
import random
import time
import uuid
from typing import Any
from uuid import UUID

import pytest

from stretto import App, Entity, UserError, reads
from stretto.errors import PlanError

COUNT = itertools.count()


class NotEnough(Exception):
    pass


class Account(Entity):
    balance: int = 10
    at: float = 0.0

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        if self.balance < amount:
            raise NotEnough(self.key, self.balance)
        self.balance -= amount
        await Account(to).deposit(amount)
        return self.balance

    @reads
    async def look(self) -> int:
        return self.balance

    async def careful(self) -> UUID:
        self.at = self.now.timestamp() + self.random.random()
        return self.uuid()

    async def clock(self) -> float:
        return time.time()

    async def dice(self) -> None:
        self.at = random.random()

    async def other_state(self, to: str) -> None:
        await Account(to).deposit(next(COUNT))

    async def sometimes(self) -> None:
        if next(COUNT) % 2:
            raise NotEnough

    async def other_call(self) -> None:
        Account(str(uuid.uuid4())).deposit(1)


def test_calls_give_what_they_give_on_a_cluster() -> None:
    bank = App("bank", entities=[Account]).in_process()
    assert bank.call(Account("ann").transfer("bob", 4)) == 6
    with pytest.raises(NotEnough) as aborted:
        bank.call(Account("ann").transfer("bob", 7))
    assert aborted.value.args == ("ann", 6)
    assert bank.map([Account(name).look() for name in ("ann", "bob", "eve")]) == [6, 14, 10]
    assert isinstance(bank.call(Account("ann").careful()), UUID)
    with pytest.raises(UserError, match="this is not a call"):
        bank.call(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["clock", "sometimes"])
def test_two_results_are_found(method: str) -> None:
    bank = App("bank", entities=[Account]).in_process()
    with pytest.raises(UserError, match=f"Account.{method} gave two results for the same call"):
        bank.call(getattr(Account("ann"), method)())


def test_two_states_are_found() -> None:
    bank = App("bank", entities=[Account]).in_process()
    with pytest.raises(UserError, match=r"Account\.dice left two states for the same call: of Account/ann"):
        bank.call(Account("ann").dice())
    with pytest.raises(UserError, match=r"left two states for the same call: of .*Account/bob"):
        bank.call(Account("ann").other_state("bob"))
    with pytest.raises(UserError, match="left two states"):
        bank.call(Account("eve").other_call())


def test_an_app_without_entities_has_none_here() -> None:
    with pytest.raises(PlanError, match="app 'empty' has no entities"):
        App("empty").in_process()


class Plan(Entity):
    """Pays once a day, until nothing is left."""

    left: int = 3
    paid_at: list[float] = []  # noqa: RUF012

    async def pay(self, unreliable: bool = False) -> float:
        self.left -= 1
        self.paid_at.append(self.now.timestamp() + (time.time() if unreliable else 0))
        if self.left:
            plan: Any = Plan(self.key)
            assert await plan.pay(unreliable, after="1 day") is None
        return self.now.timestamp()

    async def pay_and_fail(self) -> None:
        plan: Any = Plan(self.key)
        await plan.pay(after="1 day")
        raise NotEnough

    @reads
    async def look(self) -> list[float]:
        return self.paid_at


def test_delayed_calls_are_made_when_time_passes() -> None:
    plans = App("plans", entities=[Plan]).in_process()
    plan: Any = Plan("a")
    began_s = time.time()
    assert plans.call(plan.pay(after="1 hour")) is None
    plans.advance("59 minutes")
    assert plans.call(plan.look()) == []
    plans.advance("1 day")
    assert len(plans.call(plan.look())) == 1
    plans.advance("10 days")
    first, second, third = plans.call(plan.look())
    assert began_s + 3_600 <= first <= time.time() + 3_600
    for one, other in ((first, second), (second, third)):
        assert 86_400 <= other - one < 86_400.001
    with pytest.raises(NotEnough):
        plans.call(Plan("b").pay_and_fail())
    plans.advance("10 days")
    assert plans.call(Plan("b").look()) == []
    unreliable: Any = Plan("c")
    plans.call(unreliable.pay(True, after="1 hour"))
    with pytest.raises(UserError, match="a delayed call left two states for the same call: of Plan/c"):
        plans.advance("2 hours")


class Session(Entity, expires="30 minutes"):
    user: str = ""

    async def log_in(self, user: str) -> None:
        self.user = user

    @reads
    async def who(self) -> str:
        return self.user


def test_entities_expire_when_time_passes() -> None:
    sessions = App("sessions", entities=[Session]).in_process()
    sessions.call(Session("a").log_in("ann"))
    sessions.advance("29 minutes")
    assert sessions.call(Session("a").who()) == "ann"
    sessions.advance("2 minutes")
    assert sessions.call(Session("a").who()) == ""


def test_of_calls_under_one_key_the_first_runs() -> None:
    bank = App("bank", entities=[Account]).in_process()
    for _ in range(2):
        assert bank.call(Account("a").deposit(5), idempotency_key="order-7") == 15
    assert bank.map([Account("a").deposit(5), Account("a").deposit(1)], idempotency_keys=["order-7", "8"]) == [15, 16]
    for _ in range(2):
        with pytest.raises(NotEnough):
            bank.call(Account("a").transfer("b", 100), idempotency_key="9")
        bank.call(Account("a").deposit(1_000))
    with pytest.raises(UserError, match=r"another call has the idempotency key '9': it was Account/a\.transfer"):
        bank.call(Account("a").transfer("b", 101), idempotency_key="9")
    with pytest.raises(UserError, match="there are 1 calls and 2 keys"):
        bank.map([Account("a").deposit(5)], idempotency_keys=["1", "2"])
    with pytest.raises(PlanError, match="keeps idempotency keys for too long"):
        App("bank", entities=[Account], keep_keys="31 days")
