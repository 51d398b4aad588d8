"""Entities in this process: what a test of an app sees, and which handlers are found out."""

from __future__ import annotations

import itertools
import random
import time
import uuid
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
