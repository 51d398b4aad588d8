"""The workload of `stretto simulate transactions --kept`: books whose lines show which calls took place. And its model.

A line has a value that no other call writes. So a call that ran twice, or not at all, shows in the books.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from stretto.transactions.entity import Entity

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AGAIN_US = 2_000
"""What rings rings again after this time."""


SLIPS_US, CARDS_US = 20_000, 120_000
"""How long slips and cards last that nobody marks."""


GATE_MAX = 2
"""How many calls of a gate may be under way."""


class Torn(Exception):
    """A value that books do not take."""


class Book(Entity):
    lines: list[int] = []  # noqa: RUF012  (a field of an entity: every entity has its own)
    rung: list[list[int]] = []  # noqa: RUF012

    async def write(self, value: int, others: list[str]) -> int:
        """Write a line here and in other books. Returns how many lines are here then."""
        self.lines.append(value)
        for other in others:
            _ = Book(other).copy(value)
        if is_torn(value):
            raise Torn(value)
        return len(self.lines)

    async def copy(self, value: int) -> None:
        self.lines.append(value)

    async def announce(self, value: int, others: list[str], delay_us: int) -> int:
        """Write a line here, and ring it later in other books. Returns how many lines are here then."""
        self.lines.append(value)
        for other in others:
            call: Any = Book(other).ring
            _ = call(value, 1, after=timedelta(microseconds=delay_us))
        if is_torn(value):
            await Book(self.key).copy(value)  # By now the delayed calls are where they wait.
            raise Torn(value)
        return len(self.lines)

    async def ring(self, value: int, times: int) -> None:
        """A delayed call, which makes another one."""
        at_us = (self.now - EPOCH) // timedelta(microseconds=1)
        self.rung.append([value, times, at_us])
        if times:
            call: Any = Book(self.key).ring
            _ = call(value, times - 1, after=timedelta(microseconds=AGAIN_US))
        if is_unheard(value):
            raise Torn(value)


class Slip(Entity, expires=timedelta(microseconds=SLIPS_US)):
    """Counts its marks, as long as it is marked again and again."""

    marks: int = 0

    async def mark(self) -> int:
        self.marks += 1
        return self.marks

    async def count(self) -> int:
        return self.marks


class Card(Slip, expires=timedelta(microseconds=CARDS_US)):
    """A slip that lasts longer."""


class Box(Entity):
    """Is created, filled and deleted."""

    count: int = 0

    async def use(self, how: str) -> tuple[bool, int]:
        """Returns whether the box was there before, and what it had."""
        before = self.exists, self.count
        match how:
            case "create":
                self.create()
            case "delete":
                self.delete()
            case "fill":
                self.count += 1
            case "empty":
                self.delete()
                self.create()
        return before


class Gate(Entity, in_flight_max=GATE_MAX):
    """Is passed by few at a time."""

    passed: int = 0

    async def pass_(self) -> int:
        self.passed += 1
        return self.passed


def slip_of(book: str) -> type[Slip]:
    """Returns what is marked under the name of a book."""
    return Card if book in ("b0", "b1") else Slip


def is_torn(value: int) -> bool:
    return value % 7 == 0


def is_unheard(value: int) -> bool:
    """Whether what rings this is aborted."""
    return value % 5 == 0


class Do(Enum):
    """What a client calls."""

    WRITE = "write"
    ANNOUNCE = "announce"
    RING = "ring"
    """Delayed by the client itself."""
    MARK = "mark"
    """A slip, not a book."""
    COUNT = "count"
    USE = "use"
    """A box."""
    PASS = "pass"
    """A gate."""


@dataclass(frozen=True)
class Wish:
    """A call of a client: the book, the value, the other books; and the idempotency key."""

    book: str
    value: int
    others: tuple[str, ...]
    key: str | None = None
    do: Do = Do.WRITE
    delay_us: int = 0
    how: str = ""


@dataclass
class BookModel:
    """The books after one call after another."""

    lines: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    rings: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """What is to ring in each book, and after which delay."""

    def run(self, wish: Wish) -> int | None:
        """Returns what the call is answered with; None if it is aborted, or only delayed."""
        if wish.do is Do.RING:
            self.rings[wish.book][wish.value] = wish.delay_us
            return None
        if is_torn(wish.value):
            return None
        self.lines[wish.book].append(wish.value)
        count = len(self.lines[wish.book])
        for other in wish.others:
            if wish.do is Do.WRITE:
                self.lines[other].append(wish.value)
            else:
                self.rings[other][wish.value] = wish.delay_us
        return count
