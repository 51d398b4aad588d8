"""Entities in this process, for tests: no Spark, no files, and every transaction runs twice.

Two machines get the same calls at the same time and have the same state, so whatever differs in the end is the doing of
a handler: it has read a clock, drawn random numbers, or looked at something outside of its entities. On a cluster that
would show after a failure only, when a replay gives another result than the one that a client has.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar, cast

import pyarrow as pa

from stretto.actors.deadlines import NEVER_NS
from stretto.errors import InvariantError, UserError
from stretto.operators.windows import Duration, positive_duration_us
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Look, Origin, Proceed, Reply, Request, Resume, Row
from stretto.rendering import shown
from stretto.runtime.entities.aborts import exception_of
from stretto.runtime.entities.client import with_keys
from stretto.runtime.entities.code import EntityCode
from stretto.transactions.activation import MadeCall
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.events import AppendLog, LogWritten, OpenState, StateOpened, WorkerEvent
from stretto.transactions.idempotency import KEPT_US
from stretto.transactions.machine import COORDINATOR, TransactionWorker

T = TypeVar("T")

FIX = "Use self.now, self.random and self.uuid(), and look at nothing but entities and arguments."
STEPS_MAX = 1_000
"""More than a call needs."""


class InProcess:
    """The entities of an app in this process. `call` and `map` are those of a job."""

    def __init__(
        self,
        name: str,
        entities: Iterable[type[Entity]],
        keys_kept_us: int = KEPT_US,
        streams: Mapping[str, pa.Schema] | None = None,
    ) -> None:
        self.name = name
        code = EntityCode.of("in this process", entities, streams or {})
        self._modules = code.modules()
        self.catalog = code.own_catalog()
        self._machines = [_Machine(self.catalog, keys_kept_us) for _ in range(2)]
        self._compared: dict[str, int] = {}
        """How many rows of each stream were the same in both runs."""
        self._number = 0
        self._passed_ns = 0
        """By how much the time of the entities is ahead."""

    def call(self, made: Awaitable[T], *, idempotency_key: str | None = None) -> T:
        """Runs a transaction, twice, and returns its result. Raises what a handler raises, and a UserError if the two
        runs differ."""
        reply = self._reply(made, idempotency_key)
        if reply.failure is not None:
            raise exception_of(reply.failure, self._modules)
        assert isinstance(made, MadeCall)
        assert reply.value is not None
        if made.after_us:
            return cast(T, None)
        return cast(T, self.catalog.kind(made.kind).method(made.method).decode_result(reply.value))

    async def areply(self, made: Any, key: str | None = None) -> Reply:
        """Returns the reply to a call, also that of a transaction which was aborted. Nothing else runs meanwhile."""
        return self._reply(made, key)

    def _reply(self, made: Any, key: str | None) -> Reply:
        if not isinstance(made, MadeCall):
            raise UserError("this is not a call of an entity", shown(made), "Pass a call that was not awaited.")
        request = self.catalog.request(made.under(key))
        method = self.catalog.kind(made.kind).method(made.method)
        origin = Origin("test", self._number, self._number - 1)
        self._number += 1
        now_ns = self._now_ns()
        frame = Look(origin, request, 0) if method.only_reads else Call(origin, request)
        one, other = (machine.answered(frame, now_ns) for machine in self._machines)
        self._compare(request, one, other)
        return one

    def map(self, calls: Iterable[Awaitable[T]], *, idempotency_keys: Iterable[str] | None = None) -> list[T]:
        """Runs transactions one after another."""
        return [self.call(made, idempotency_key=key) for made, key in with_keys(calls, idempotency_keys)]

    def emitted(self, stream: str) -> list[dict[str, Any]]:
        """Returns the rows that were emitted into a stream so far."""
        rows = [row.data for row in self._machines[0].emitted(stream)]
        found: list[dict[str, Any]] = self.catalog.stream(stream).batch(rows).to_pylist()
        return found

    def advance(self, by: Duration) -> None:
        """Lets time pass, as `self.now` shows it: delayed calls that are due meanwhile are made, one after another."""
        until_ns = self._now_ns() + positive_duration_us(by, "the time that passes") * 1_000
        while True:
            due_ns = self._machines[0].next_deadline()
            if due_ns is None or due_ns > until_ns:
                break
            self._passed_ns += max(0, due_ns - self._now_ns())
            for machine in self._machines:
                machine.tick(due_ns)
            self._compare_states("a delayed call")
        self._passed_ns += max(0, until_ns - self._now_ns())

    def _now_ns(self) -> int:
        return time.time_ns() + self._passed_ns

    def _compare(self, request: Request, one: Reply, other: Reply) -> None:
        what = f"{request.entity.kind}.{request.method}"
        if one.value != other.value or _kind(one) != _kind(other):
            raise UserError(f"{what} gave two results for the same call", f"{_text(one)}, and {_text(other)}", FIX)
        self._compare_states(what)

    def _compare_states(self, what: str) -> None:
        states = [machine.state for machine in self._machines]
        differ = [name for name in sorted({*states[0], *states[1]}) if states[0].get(name) != states[1].get(name)]
        if differ:
            raise UserError(f"{what} left two states for the same call", f"of {', '.join(map(str, differ))}", FIX)
        for stream in self.catalog.streams():
            since = self._compared.get(stream, 0)
            one, other = ([row.data for row in machine.emitted(stream, since)] for machine in self._machines)
            self._compared[stream] = since + len(one)
            if one != other:
                raise UserError(f"{what} emitted other rows in two runs of the same call", f"into '{stream}'", FIX)


class _Machine:
    """The machine of one worker, which has all entities, and a log that nobody reads."""

    def __init__(self, catalog: Catalog, keys_kept_us: int) -> None:
        settings = Settings(epoch_ns=0, snapshot_ns=NEVER_NS, keys_kept_us=keys_kept_us)
        self._machine = TransactionWorker(1, catalog, settings)
        self._tell(FrameArrived(COORDINATOR, Resume(1, ["w"], [])), 0)
        self._tell(FrameArrived(COORDINATOR, Proceed(1, 0)), 0)

    @property
    def state(self) -> dict[Any, bytes]:
        return self._machine.state

    def emitted(self, stream: str, since: int = 0) -> list[Row]:
        return self._machine.emitted(stream, since)

    def next_deadline(self) -> int | None:
        return self._machine.next_deadline()

    def tick(self, now_ns: int) -> None:
        self._tell(Ticked(), now_ns)

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
