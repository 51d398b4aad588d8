"""Delayed calls: what may be delayed, when they are made, and that each is made once, also in a replay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stretto.errors import PlanError, UserError
from stretto.protocol.transactions import EntityName, Invoke, Request
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.delayed import Delayed, DelayedCalls, delayed_by
from stretto.transactions.entity import Entity, reads
from stretto.transactions.shares import WHOLE


class Account(Entity):
    balance: int = 0

    async def interest(self, percent: int = 1) -> None:
        self.balance += self.balance * percent // 100

    @reads
    async def look(self) -> int:
        return self.balance


REQUEST = Request(EntityName("Account", "ann"), "interest", b"\x80")


def delayed(name: str, due_us: int) -> Delayed:
    return Delayed(name, due_us, REQUEST)


def made_by(calls: DelayedCalls, now_us: int) -> list[str]:
    """Returns what is made at a time: all that is due is logged."""
    found = []
    while (due := calls.next_due(now_us)) is not None:
        calls.logged(due.name)
        found.append(due.name)
    return found


@pytest.mark.parametrize(
    ("after", "right_us"), [("1 day", 86_400_000_000), (timedelta(milliseconds=5), 5_000), (1.5, 1_500_000)]
)
def test_any_method_that_writes_can_be_delayed(after: Any, right_us: int) -> None:
    account: Any = Account("ann")
    made = account.interest(2, after=after)
    assert isinstance(made, MadeCall)
    assert made.after_us == right_us
    assert Catalog([Account]).request(made).after_us == right_us
    assert Catalog([Account]).request(made.under("key")).after_us == right_us


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda account: account.interest(after="soon"), "cannot be read"),
        (lambda account: account.interest(after=0), "must be longer than zero"),
        (lambda account: account.interest(after="4000 days"), "is delayed by too much"),
        (lambda account: account.look(after="1 day"), "it only reads"),
    ],
)
def test_a_wrong_delay_is_refused_where_the_call_is_made(make: Any, text: str) -> None:
    with pytest.raises((UserError, PlanError), match=text):
        make(Account("ann"))


def test_a_parameter_cannot_have_the_name_of_the_delay() -> None:
    class Alarm(Entity):
        async def ring(self, after: int) -> None: ...

    with pytest.raises(UserError, match=r"Alarm\.ring has a parameter 'after'"):
        Catalog([Alarm])


def test_a_delay_begins_when_the_call_of_its_transaction_arrived() -> None:
    request = Request(REQUEST.entity, "interest", b"\x80", "key", 30)
    assert delayed_by(Invoke(5, (0, 2), request, WHOLE, 100, "1-7")) == Delayed("1-7/0.2", 130, REQUEST)


def test_calls_are_made_once_in_the_order_in_which_they_are_due() -> None:
    calls = DelayedCalls()
    calls.schedule([delayed("c", 30), delayed("a", 10), delayed("b", 10)])
    assert calls.next_due_us() == 10
    assert made_by(calls, 9) == []
    assert made_by(calls, 29) == ["a", "b"]
    assert made_by(calls, 29) == []
    assert calls.next_due_us() == 30
    for name in ("a", "b"):
        calls.taken(name)
    assert len(calls) == 1


def test_a_replay_does_not_make_what_the_log_has() -> None:
    calls = DelayedCalls()
    calls.logged("a")
    calls.schedule([delayed("a", 10), delayed("b", 10)])
    assert made_by(calls, 20) == ["b"]
    calls.taken("a")
    assert len(calls) == 1


def test_what_was_scheduled_comes_back_from_any_chain_of_pieces() -> None:
    calls = DelayedCalls()
    pieces: dict[str, Delayed | None] = {}
    calls.schedule([delayed("a", 10), delayed("b", 20)])
    pieces.update(calls.kept(False))
    assert made_by(calls, 10) == ["a"]
    assert calls.kept(False) == [], "it is only in the log"
    calls.taken("a")
    calls.schedule([delayed("c", 30)])
    pieces.update(calls.kept(False))
    assert [name for name, each in pieces.items() if each is not None] == ["b", "c"]
    assert [name for name, _ in calls.kept(True)] == ["b", "c"]
    again = DelayedCalls([each for each in pieces.values() if each is not None])
    assert made_by(again, 30) == ["b", "c"]
