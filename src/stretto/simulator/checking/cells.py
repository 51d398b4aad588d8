"""The workload of `stretto simulate transactions`: entities that append to lists, read them, spend, call each other.

A transaction is a tree of steps, random by seed. Its reply is a trace of what its handlers saw and did. The model below
runs the same trees without the machine: no shares, no workers, no epochs, just one transaction after another.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from stretto.transactions.entity import Entity, reads

KEYS_MAX = 6
MONEY = 20


class Do(StrEnum):
    """What a step does."""

    READ = "read"
    APPEND = "append"
    SPEND = "spend"
    EARN = "earn"
    DRAW = "draw"
    CALL = "call"
    """Calls another cell, and waits."""
    LATER = "later"
    """Calls another cell, and waits at the end."""
    FORGET = "forget"
    """Calls another cell, and does not wait."""
    FOLLOW = "follow"
    """Calls a cell that the list says, and waits."""


class Step(msgspec.Struct, frozen=True):
    do: Do
    value: int = 0
    key: str = ""
    plan: list[Step] = []


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """What a step saw: the list that it read; what it appended, and where; the number that it drew."""

    do: Do
    key: str
    items: list[int] = []
    value: int = 0


class NotEnough(Exception):
    """A cell has less money than is wanted."""


class Cell(Entity):
    items: list[int] = []  # noqa: RUF012  (a field of an entity: every entity has its own)
    money: int = MONEY
    drawn: int = 0

    async def act(self, plan: list[Step]) -> list[Seen]:
        """Run the steps. Returns what was seen, also by the cells that it waited for."""
        seen: list[Seen] = []
        later = []
        for step in plan:
            match step.do:
                case Do.READ:
                    seen.append(Seen(Do.READ, self.key, list(self.items)))
                case Do.APPEND:
                    seen.append(Seen(Do.APPEND, self.key, [step.value], len(self.items)))
                    self.items.append(step.value)
                case Do.SPEND:
                    if self.money < step.value:
                        raise NotEnough(f"{self.key} has {self.money} and needs {step.value}")
                    self.money -= step.value
                case Do.EARN:
                    self.money += step.value
                case Do.DRAW:
                    number = self.random.randrange(1_000) + self.uuid().int % 1_000 + self.now.microsecond % 1_000
                    self.drawn += number
                    seen.append(Seen(Do.DRAW, self.key, [], number))
                case Do.CALL:
                    seen += await Cell(step.key).act(step.plan)
                case Do.FOLLOW:
                    seen += await Cell(followed(self.items)).act(step.plan)
                case Do.LATER:
                    later.append(Cell(step.key).act(step.plan))
                case Do.FORGET:
                    _ = Cell(step.key).act(step.plan)
        for call in later:
            seen += await call
        return seen

    @reads
    async def look(self) -> list[Seen]:
        """Returns the list."""
        return [Seen(Do.READ, self.key, list(self.items))]


def followed(items: list[int]) -> str:
    """Returns the cell that a list leads to."""
    return f"k{sum(items) % KEYS_MAX}"


# Random transactions.


@dataclass
class Plans:
    """Makes random trees of steps over few cells, so that transactions meet."""

    chance: random.Random
    keys: int
    appended: Iterator[int]
    """Values that were not appended before."""
    follows: int = 1
    """How often a cell is called that a list leads to, so that the fallback needs other cells than the dry run, and how
    often one is only read, so that it writes what others read."""

    def plan(self, depth: int = 0, awaited: bool = True) -> list[Step]:
        return [self._step(depth, awaited) for _ in range(self.chance.randint(1, 3))]

    def key(self) -> str:
        return f"k{min(self.chance.randrange(self.keys), self.chance.randrange(self.keys))}"

    def _step(self, depth: int, awaited: bool) -> Step:
        # What nobody waits for does not follow: nobody would know where it appended.
        calls = (4, 3, 2, self.follows * awaited) if depth < 3 else (0, 0, 0, 0)
        # Only a root draws: its reply then has the numbers in the order in which they were drawn.
        weights = (3 + self.follows, 5, 2, 1, int(depth == 0), *calls)
        do = self.chance.choices(list(Do), weights)[0]
        match do:
            case Do.APPEND:
                return Step(do, next(self.appended))
            case Do.SPEND | Do.EARN:
                return Step(do, self.chance.randint(1, 12))
            case Do.CALL | Do.LATER | Do.FORGET:
                return Step(do, 0, self.key(), self.plan(depth + 1, awaited and do is not Do.FORGET))
            case Do.FOLLOW:
                return Step(do, 0, "", self.plan(depth + 1))
        return Step(do)


def appends_of(key: str | None, plan: list[Step]) -> Iterator[tuple[str, int]]:
    """Returns the cells and values that a tree appends if it is not aborted, but for those where the cell is not known
    beforehand."""
    for step in plan:
        if step.do is Do.APPEND and key is not None:
            yield key, step.value
        elif step.do in (Do.CALL, Do.LATER, Do.FORGET, Do.FOLLOW):
            yield from appends_of(step.key or None, step.plan)


# The model.


@dataclass
class ModelCell:
    items: list[int] = field(default_factory=list)
    money: int = MONEY
    drawn: int = 0


@dataclass
class _Handler:
    """A handler that runs: a generator that yields calls, and what it awaits."""

    steps: Generator[int | tuple[str, list[Step]], list[Seen] | None, list[Seen]]
    calls: int = 0
    results: dict[int, list[Seen]] = field(default_factory=dict)
    awaited: int | None = None


class Model:
    """The cells, as they are after one transaction after another. Numbers that are drawn are taken from the reply."""

    def __init__(self) -> None:
        self.cells: dict[str, ModelCell] = {}

    def run(self, key: str, plan: list[Step], drawn: Iterator[int]) -> list[Seen] | str:
        """Run one transaction. Returns what its reply has, or the text of the exception that aborts it."""
        before = deepcopy(self.cells)
        run = _Run(self.cells, drawn)
        value = run.transaction(key, plan)
        if run.failures:
            self.cells = before
            return run.failures[min(run.failures)]
        assert value is not None
        return value


Arrived = tuple[tuple[int, ...], tuple[str, list[Step]] | list[Seen] | None]
"""The path of a handler in the tree, and the call that begins it, or what it returned (None: it failed)."""


class _Run:
    """One transaction: what is called and returned in one wave is there in the next, in the order of the tree."""

    def __init__(self, cells: dict[str, ModelCell], drawn: Iterator[int]) -> None:
        self._cells = cells
        self._drawn = drawn
        self._handlers: dict[tuple[int, ...], _Handler] = {}
        self._next: list[Arrived] = []
        self.failures: dict[tuple[int, ...], str] = {}

    def transaction(self, key: str, plan: list[Step]) -> list[Seen] | None:
        self._next = [((), (key, plan))]
        value: list[Seen] | None = None
        while self._next:
            wave, self._next = sorted(self._next, key=lambda each: each[0]), []
            for path, what in wave:
                if isinstance(what, tuple):
                    self._handlers[path] = _Handler(self._steps(*what))
                    self._step(path, None)
                elif path == ():
                    value = what
                else:
                    self._returned(path, what)
        return value

    def _returned(self, path: tuple[int, ...], value: list[Seen] | None) -> None:
        caller = self._handlers.get(path[:-1])
        if caller is None:
            return
        if value is None:
            del self._handlers[path[:-1]]
            self._next.append((path[:-1], None))
            return
        caller.results[path[-1]] = value
        if caller.awaited == path[-1]:
            self._step(path[:-1], value)

    def _step(self, path: tuple[int, ...], value: list[Seen] | None) -> None:
        handler = self._handlers[path]
        handler.awaited = None
        made: list[Arrived] = []
        try:
            while True:
                wanted = handler.steps.send(value)
                value = None
                if isinstance(wanted, tuple):
                    made.append(((*path, handler.calls), wanted))
                    handler.calls += 1
                elif wanted in handler.results:
                    value = handler.results[wanted]
                else:
                    handler.awaited = wanted
                    break
        except StopIteration as stopped:
            del self._handlers[path]
            made.append((path, stopped.value))
        except NotEnough as error:
            del self._handlers[path]
            self.failures[path] = str(error)
            made = [(path, None)]
        self._next += made

    def _steps(
        self, key: str, plan: list[Step]
    ) -> Generator[int | tuple[str, list[Step]], list[Seen] | None, list[Seen]]:
        cell = self._cells.setdefault(key, ModelCell())
        seen: list[Seen] = []
        later = []
        calls = 0
        for step in plan:
            match step.do:
                case Do.READ:
                    seen.append(Seen(Do.READ, key, list(cell.items)))
                case Do.APPEND:
                    seen.append(Seen(Do.APPEND, key, [step.value], len(cell.items)))
                    cell.items.append(step.value)
                case Do.SPEND:
                    if cell.money < step.value:
                        raise NotEnough(f"{key} has {cell.money} and needs {step.value}")
                    cell.money -= step.value
                case Do.EARN:
                    cell.money += step.value
                case Do.DRAW:
                    number = next(self._drawn, 0)
                    cell.drawn += number
                    seen.append(Seen(Do.DRAW, key, [], number))
                case Do.CALL | Do.FOLLOW | Do.LATER | Do.FORGET:
                    yield (followed(cell.items) if step.do is Do.FOLLOW else step.key), step.plan
                    if step.do is Do.LATER:
                        later.append(calls)
                    elif step.do is not Do.FORGET:
                        seen += (yield calls) or []
                    calls += 1
        for call in later:
            seen += (yield call) or []
        return seen
