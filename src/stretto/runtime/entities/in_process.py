"""Entities in this process, for tests: no Spark, no files, and every transaction runs twice.

Two machines get the same calls at the same time and have the same state, so whatever differs in the end is the doing of
a handler: it has read a clock, drawn random numbers, or looked at something outside of its entities. On a cluster that
would show after a failure only, when a replay gives another result than the one that a client has.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar, cast

from stretto.errors import InvariantError, UserError
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Look, Origin, Proceed, Reply, Request, Resume
from stretto.rendering import shown
from stretto.runtime.entities.aborts import exception_of
from stretto.runtime.entities.code import EntityCode
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.events import AppendLog, LogWritten, OpenState, StateOpened, WorkerEvent
from stretto.transactions.machine import COORDINATOR, Settings, TransactionWorker

T = TypeVar("T")

NEVER_NS = 1 << 62
STEPS_MAX = 1_000
"""More than a call needs."""


class InProcess:
    """The entities of an app in this process. `call` and `map` are those of a job."""

    def __init__(self, entities: Iterable[type[Entity]]) -> None:
        code = EntityCode.of("in this process", entities)
        self._modules = code.modules()
        self._catalog = Catalog(code.entities)
        self._machines = [_Machine(self._catalog) for _ in range(2)]
        self._number = 0

    def call(self, made: Awaitable[T]) -> T:
        """Runs a transaction, twice, and returns its result. Raises what a handler raises, and a UserError if the two
        runs differ."""
        if not isinstance(made, MadeCall):
            raise UserError("this is not a call of an entity", shown(made), "Pass a call that was not awaited.")
        request = self._catalog.request(made)
        method = self._catalog.kind(made.kind).method(made.method)
        origin = Origin("test", self._number, self._number - 1)
        self._number += 1
        now_ns = time.time_ns()
        frame = Look(origin, request, 0) if method.only_reads else Call(origin, request)
        one, other = (machine.answered(frame, now_ns) for machine in self._machines)
        self._compare(request, one, other)
        if one.failure is not None:
            raise exception_of(one.failure, self._modules)
        assert one.value is not None
        return cast(T, method.decode_result(one.value))

    def map(self, calls: Iterable[Awaitable[T]]) -> list[T]:
        """Runs transactions one after another."""
        return [self.call(made) for made in calls]

    def _compare(self, request: Request, one: Reply, other: Reply) -> None:
        what = f"{request.entity.kind}.{request.method}"
        fix = "Use self.now, self.random and self.uuid(), and look at nothing but entities and arguments."
        if one.value != other.value or _kind(one) != _kind(other):
            raise UserError(f"{what} gave two results for the same call", f"{_text(one)}, and {_text(other)}", fix)
        states = [machine.state for machine in self._machines]
        differ = [name for name in sorted({*states[0], *states[1]}) if states[0].get(name) != states[1].get(name)]
        if differ:
            raise UserError(f"{what} left two states for the same call", f"of {', '.join(map(str, differ))}", fix)


class _Machine:
    """The machine of one worker, which has all entities, and a log that nobody reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._machine = TransactionWorker(1, catalog, Settings(epoch_ns=0, snapshot_ns=NEVER_NS))
        self._tell(FrameArrived(COORDINATOR, Resume(1, ["w"], [])), 0)
        self._tell(FrameArrived(COORDINATOR, Proceed(1, 0)), 0)

    @property
    def state(self) -> dict[Any, bytes]:
        return self._machine.state

    def answered(self, frame: Call | Look, now_ns: int) -> Reply:
        replies = self._tell(FrameArrived("test", frame), now_ns)
        for _ in range(STEPS_MAX):
            if replies:
                return replies[0]
            replies = self._tell(Ticked(), now_ns)
        raise InvariantError("a call in this process was not answered", str(frame.request))

    def _tell(self, event: WorkerEvent, now_ns: int) -> list[Reply]:
        replies: list[Reply] = []
        events = [event]
        while events:
            for effect in self._machine.handle(events.pop(0), now_ns):
                match effect:
                    case OpenState(attempt=attempt):
                        events.append(StateOpened(attempt, [], b"", 0))
                    case AppendLog(attempt=attempt, end=end):
                        events.append(LogWritten(attempt, end))
                    case Send(frame=Reply() as reply):
                        replies.append(reply)
        return replies


def _kind(reply: Reply) -> str | None:
    return None if reply.failure is None else reply.failure.kind


def _text(reply: Reply) -> str:
    return f"it raised {reply.failure.text}" if reply.failure is not None else f"it returned {reply.value!r}"
