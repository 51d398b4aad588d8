"""What a developer writes: fields, methods, references, and what is refused, with a text that helps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from stretto.errors import UserError
from stretto.protocol.transactions import EntityName, Invoke, Request
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity, reads
from stretto.transactions.invocation import Invocation, Step
from stretto.transactions.kinds import ARGUMENTS_BYTES_MAX, described
from stretto.transactions.shares import WHOLE


@dataclass
class Line:
    what: str
    amount: int = 0


class Account(Entity):
    balance: int = 0
    lines: list[Line] = []  # noqa: RUF012
    limits: dict[str, int] = {"day": 100}  # noqa: RUF012

    async def deposit(self, amount: int, why: str = "cash") -> int:
        self.balance += amount
        self.lines.append(Line(why, amount))
        return self.balance

    async def draw(self) -> list[Any]:
        return [self.random.random(), str(self.uuid()), self.now.isoformat()]

    async def ask(self, others: list[str]) -> int:
        calls = [Account(other).deposit(1) for other in others]
        return sum([await call for call in calls])

    async def sleep(self) -> None:
        await asyncio.sleep(0)

    async def wrong_result(self) -> int:
        return "much"  # type: ignore[return-value]

    async def new_field(self) -> None:
        self.colour = "red"

    async def ends_in_a_call(self) -> None:
        try:
            await Account("bob").deposit(1)
        finally:
            Account("bob").deposit(1)

    @reads
    async def look(self) -> int:
        return self.balance

    @reads
    async def look_around(self) -> int:
        Account("bob").deposit(1)
        return 1


def invoked(call: Any, state: bytes | None = None, seed: str = "1-0", at_us: int = 7) -> tuple[Invocation, Step]:
    """Returns the handler of a call on an entity with this state, after its first step."""
    assert isinstance(call, MadeCall)
    kind = described(Account)
    request = Request(EntityName(call.kind, call.key), call.method, call.arguments)
    invoke = Invoke(1, (), request, WHOLE, at_us, seed)
    invocation = Invocation(invoke, 1, kind.instance(call.key, state), kind, kind.method(call.method), Catalog([]))
    return invocation, invocation.start()


def result(call: Any, step: Step) -> Any:
    assert step.failure is None
    assert step.value is not None
    return described(Account).method(call.method).decode_result(step.value)


def test_fields_are_the_state_and_come_back() -> None:
    kind = described(Account)
    ann = kind.instance("ann", None)
    assert (ann.key, ann.balance, ann.lines, ann.limits) == ("ann", 0, [], {"day": 100})
    ann.balance = 5
    ann.lines.append(Line("gift", 5))
    ann.limits["day"] = 7
    state = kind.encode(ann, None)
    again = kind.instance("ann", state)
    assert (again.balance, again.lines, again.limits) == (5, [Line("gift", 5)], {"day": 7})
    assert kind.instance("bob", None).lines == []
    assert kind.instance("bob", None).limits == {"day": 100}


def test_an_entity_that_is_as_in_the_beginning_has_no_state() -> None:
    kind = described(Account)
    assert kind.encode(kind.instance("ann", None), None) is None


def test_a_handler_returns_and_changes_fields() -> None:
    call = Account("ann").deposit(3)
    invocation, step = invoked(call)
    assert result(call, step) == 3
    assert invocation.instance.lines == [Line("cash", 3)]


def test_calls_are_made_at_once_and_awaited_later() -> None:
    call = Account("ann").ask(["x", "y"])
    invocation, step = invoked(call)
    assert [(made.key, made.index) for made in step.calls] == [("x", 0), ("y", 1)]
    assert not step.ended
    assert invocation.resume(1, 20) is None  # It waits for the first one.
    done = invocation.resume(0, 10)
    assert done is not None
    assert result(call, done) == 30


def test_random_numbers_identifiers_and_the_time_are_those_of_the_call() -> None:
    call = Account("ann").draw()
    first = result(call, invoked(call)[1])
    assert first == result(call, invoked(call)[1])
    assert first[2] == "1970-01-01T00:00:00.000007+00:00"
    assert first[:2] != result(call, invoked(call, seed="1-1")[1])[:2]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Account("ann").deposit("much"), "Expected `int`, got `str`"),
        (lambda: Account("ann").deposit(), "missing a required argument: 'amount'"),
        (lambda: Account("ann").deposit(1, 2, 3), "too many positional arguments"),
        (lambda: Account("ann").deposit(1, why=object()), "unsupported"),
        (lambda: Account("ann").deposit(1, why="x" * ARGUMENTS_BYTES_MAX), "are too large"),
        (lambda: Account("ann").balance, "has no method 'balance'"),
        (lambda: Account("ann").steal(), "It has ask, deposit, draw"),
        (lambda: Account(7), "the key of Account is not a text"),
    ],
)
def test_a_wrong_call_is_refused_where_it_is_made(make: Any, text: str) -> None:
    with pytest.raises(UserError, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Account("ann").sleep(), "awaits something that is not a call"),
        (lambda: Account("ann").wrong_result(), "returned a wrong value"),
        (lambda: Account("ann").new_field(), "has no field 'colour'"),
        (lambda: Account("ann").look_around(), "it has called another entity"),
    ],
)
def test_a_wrong_handler_fails_alone(make: Any, text: str) -> None:
    _, step = invoked(make())
    assert step.failure is not None
    assert text in step.failure.text
    assert not step.calls


def test_a_field_of_a_wrong_type_is_found() -> None:
    kind = described(Account)
    ann = kind.instance("ann", None)
    ann.balance = "much"
    with pytest.raises(UserError, match=r"a field of Account/ann has a wrong value.*balance"):
        kind.encode(ann, None)


def test_a_handler_that_is_closed_calls_nobody() -> None:
    invocation, step = invoked(Account("ann").ends_in_a_call())
    assert len(step.calls) == 1
    invocation.close()
    assert invocation._take() == []


def test_time_and_random_numbers_need_a_handler() -> None:
    ann = described(Account).instance("ann", None)
    with pytest.raises(UserError, match=r"self\.random is only known while a handler runs"):
        _ = ann.random


def test_a_call_is_awaited_by_its_own_handler_only() -> None:
    call: Any = Account("ann").deposit(1)
    with pytest.raises(UserError, match="made outside of a handler"):
        call.__await__().send(None)


def test_classes_are_checked_when_they_are_first_used() -> None:
    class Loose(Entity):
        size: int

    class Variadic(Entity):
        async def add(self, *amounts: int) -> None: ...

    with pytest.raises(UserError, match="size has no default"):
        Catalog([Loose])
    with pytest.raises(UserError, match=r"takes \*args"):
        Catalog([Variadic])
    with pytest.raises(UserError, match="two entities are named Account"):
        Catalog([Account, Account])
    with pytest.raises(UserError, match="there is no entity 'Loan'"):
        Catalog([Account]).kind("Loan")
