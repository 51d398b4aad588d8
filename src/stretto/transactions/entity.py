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
from stretto.operators.windows import Duration, positive_duration_us
from stretto.transactions.activation import current
from stretto.transactions.kinds import OWN, described

F = TypeVar("F", bound=Callable[..., Any])


def reads(method: F) -> F:
    """Marks a method that changes nothing. Called by a client, it sees a committed state and never conflicts."""
    method.__stretto_reads__ = True  # type: ignore[attr-defined]
    return method


class Entity:
    """An object with a key, whose fields are kept and whose methods are transactions.

    Fields have types and defaults; they hold plain data (numbers, texts, lists, dicts, dataclasses, Structs). Reads and
    writes are tracked per entity. A handler must not read a clock, draw random numbers or use a socket of its own: it
    may run more than once. `now`, `random` and `uuid()` give the same each time that the transaction runs.

    With `class Session(Entity, expires="30 days")`, an entity that no transaction has changed for that long is as if
    it had never been created. With `class Api(Entity, in_flight_max=4)`, a call of a client is a BusyError if four are
    under way for the same entity."""

    key: str
    __stretto_fields__: ClassVar[frozenset[str]] = frozenset()
    """By this, rooms that do not know this one know a class of entities."""

    __stretto_expires_us__: ClassVar[int] = 0
    __stretto_in_flight_max__: ClassVar[int] = 0

    def __init_subclass__(
        cls, *, expires: Duration | None = None, in_flight_max: int | None = None, **kwargs: Any
    ) -> None:
        """`expires` is how long an entity lasts that nobody writes; `in_flight_max` is how many calls of clients may be
        under way for each entity."""
        super().__init_subclass__(**kwargs)
        for name in sorted(OWN & vars(cls).keys()):
            raise UserError(f"{cls.__name__}.{name} cannot be defined", "every entity has it already", "Rename it.")
        if in_flight_max is not None:
            if not isinstance(in_flight_max, int) or in_flight_max < 1:
                raise UserError(
                    f"in_flight_max of {cls.__name__} is wrong", repr(in_flight_max), "Pass how many calls, 1 or more."
                )
            cls.__stretto_in_flight_max__ = in_flight_max
        if expires is not None:
            cls.__stretto_expires_us__ = positive_duration_us(expires, f"the time after which {cls.__name__} expires")

    def __new__(cls, key: str) -> Self:
        if not isinstance(key, str):
            raise UserError(f"the key of {cls.__name__} is not a text", repr(key), "Pass a str.")
        if not key.isascii() and not _has_encoding(key):
            raise UserError(
                f"the key of {cls.__name__} has no UTF-8", repr(key), "Pass a text without lone surrogates."
            )
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

    @property
    def exists(self) -> bool:
        """Whether the entity would be there if the transaction ended now: it has other fields than in the beginning, or
        was created, and was not deleted."""
        return described(type(self)).exists(self)

    def create(self) -> None:
        """Makes the entity exist, also if its fields are as in the beginning."""
        current("self.create").check_writes("it has created itself")
        described(type(self)).create(self)

    def emit(self, stream: str, row: Any) -> None:
        """Emits a row into a stream of the app (see `App.emitted`) if the transaction commits. The row is a dict, or a
        dataclass or Struct, of the columns; what it leaves out is null."""
        current("self.emit").emit(stream, row)

    def delete(self) -> None:
        """Removes the entity if the transaction commits: its fields are as in the beginning, and it does not exist."""
        current("self.delete").check_writes("it has deleted itself")
        described(type(self)).delete(self)


def _has_encoding(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
