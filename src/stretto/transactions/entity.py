"""What a developer writes: a class with typed fields, which are its state, and `async` methods, which are transactions.

    class Account(Entity):
        balance: int = 0

        async def transfer(self, to: str, amount: int) -> int:
            self.balance -= amount
            Account(to).deposit(amount)
            return self.balance

`Account("ann")` is a reference to the entity; calling a method of it makes a call. Only the machine makes instances.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, ClassVar, Self, TypeVar
from uuid import UUID

from stretto.errors import UserError
from stretto.transactions.activation import current
from stretto.transactions.kinds import described

F = TypeVar("F", bound=Callable[..., Any])


def reads(method: F) -> F:
    """Marks a method that changes nothing. Called by a client, it sees a committed state and never conflicts."""
    method.__stretto_reads__ = True  # type: ignore[attr-defined]
    return method


class Entity:
    """An object with a key, whose fields are kept and whose methods are transactions.

    Fields have types and defaults; they hold plain data (numbers, texts, lists, dicts, dataclasses, Structs). Reads and
    writes are tracked per entity. A handler must not read a clock, draw random numbers or use a socket of its own: it
    may run more than once. `now`, `random` and `uuid()` give the same each time that the transaction runs."""

    key: str
    __stretto_fields__: ClassVar[frozenset[str]] = frozenset()
    """By this, rooms that do not know this one know a class of entities."""

    def __new__(cls, key: str) -> Self:
        if not isinstance(key, str):
            raise UserError(f"the key of {cls.__name__} is not a text", repr(key), "Pass a str.")
        return described(cls).reference(key)  # type: ignore[no-any-return]

    @property
    def now(self) -> datetime:
        """When the call of the transaction arrived."""
        return current("self.now").now

    @property
    def random(self) -> Random:
        """Random numbers that are the same each time that the transaction runs."""
        return current("self.random").random

    def uuid(self) -> UUID:
        """Returns an identifier that is the same each time that the transaction runs."""
        return UUID(int=current("self.uuid").random.getrandbits(128), version=4)
