"""One handler that runs: a coroutine that the machine steps, without an event loop. It waits for calls, nothing else.

A step begins with the call itself, or with the result that the handler awaits, and ends when the handler awaits a
result that is not there yet, or returns, or raises.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any

import msgspec

from stretto.errors import UserError
from stretto.protocol.transactions import EntityName, Failure, Invoke, Path
from stretto.rendering import message_of, sendable, shown
from stretto.transactions.activation import MadeCall, OutOfTime, activate
from stretto.transactions.catalog import Catalog
from stretto.transactions.emitted import Emission
from stretto.transactions.kinds import Kind, Method

CALLS_MAX = 10_000
"""The most calls that one handler may make."""
ROWS_MAX = 10_000
"""The most rows that one handler may emit."""
DEPTH_MAX = 100
"""The longest chain of calls."""
ARGUMENTS_BYTES_MAX = 10_000
"""The most that an exception may have been made of, if the caller is to get one like it."""
_ENCODER = msgspec.msgpack.Encoder()
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Step(msgspec.Struct):
    """What a step of a handler has done."""

    calls: Sequence[MadeCall] = ()
    ended: bool = False
    value: bytes | None = None
    failure: Failure | None = None
    rows: Sequence[Emission] = ()


class Invocation:
    """A handler of an entity in a transaction. All handlers of the transaction on the entity share its `instance`."""

    def __init__(
        self, invoke: Invoke, caller: int, instance: Any, kind: Kind, method: Method, catalog: Catalog
    ) -> None:
        self.invoke = invoke
        self._catalog = catalog
        self.caller = caller
        """The worker that the call has come from."""
        self.entity = invoke.request.entity
        self.path: Path = invoke.path
        self.instance = instance
        self.kind = kind
        self.method = method
        self.steps = 0
        self.must_stay = b""
        """The fields before a handler that only reads."""
        self._made: list[MadeCall] = []
        """Calls of the step that runs."""
        self._all: list[MadeCall] = []
        self._rows: list[Emission] = []
        """Rows of the step that runs."""
        self._emitted = 0
        self._results: dict[int, Any] | None = None
        self._awaited: int | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._closed = False

    # What the handler sees (see activation.Activation).

    @cached_property
    def random(self) -> Random:
        return Random(f"{self.invoke.seed}/{'.'.join(map(str, self.path))}")

    @property
    def now(self) -> datetime:
        return _BEGINNING + timedelta(microseconds=self.invoke.at_us)

    def call(self, made: MadeCall) -> None:
        if self._closed:
            raise UserError("a handler that has ended cannot call")
        self.check_writes("it has called another entity")
        if len(self._all) >= CALLS_MAX:
            raise UserError("a handler has made too many calls", f"the limit is {CALLS_MAX:,}")
        if len(self.path) >= DEPTH_MAX:
            raise UserError("a chain of calls is too long", f"the limit is {DEPTH_MAX}")
        made.index = len(self._all)
        self._all.append(made)
        self._made.append(made)

    def emit(self, stream: str, row: Any) -> None:
        if self._closed:
            raise UserError("a handler that has ended cannot emit rows")
        self.check_writes("it has emitted a row")
        if self._emitted >= ROWS_MAX:
            raise UserError("a handler has emitted too many rows", f"the limit is {ROWS_MAX:,}")
        self._rows.append(Emission(stream, self._catalog.stream(stream).encode(row)))
        self._emitted += 1

    def check_writes(self, what: str) -> None:
        if self.method.only_reads:
            raise UserError(f"{self.entity.kind}.{self.method.name} only reads", what)

    # Steps.

    def start(self) -> Step:
        """Run the first step."""
        return self._run(None)

    def resume(self, index: int, value: Any) -> Step | None:
        """The result of a call is there. Returns None if the handler does not wait for it now."""
        if self._results is None:
            self._results = {}
        self._results[index] = value
        return self._run(value) if self._awaited == index else None

    def _run(self, value: Any) -> Step:
        """Run a step, in which calls are those of this handler. It ends the handler if it raises."""
        activate(self)
        try:
            if self._coroutine is None:
                arguments = self.method.decode(self.invoke.request.arguments)
                self._coroutine = self.method.function(self.instance, **arguments)
            return self._step(value)
        except OutOfTime as error:
            error.seed = self.invoke.seed
            raise
        except BaseException as error:  # Also sys.exit() in a handler: it aborts the transaction, not the worker.
            return self._failed(error)
        finally:
            activate(None)

    def made(self, index: int) -> MadeCall:
        return self._all[index]

    def close(self) -> None:
        """End the handler without a result: its transaction is aborted."""
        self._closed = True
        if self._coroutine is not None:
            activate(self)
            with suppress(BaseException):
                self._coroutine.close()
            activate(None)

    def _step(self, value: Any) -> Step:
        assert self._coroutine is not None
        self._awaited = None
        self.steps += 1
        try:
            while True:
                index = self._call_of(self._coroutine.send(value))
                if self._results is None or index not in self._results:
                    self._awaited = index
                    return Step(self._take(), rows=self._take_rows())
                value = self._results[index]
        except StopIteration as stopped:
            self._closed = True
            self.kind.check_fields(self.instance)
            return Step(self._take(), True, self.method.encode_result(stopped.value), rows=self._take_rows())

    def _call_of(self, wanted: Any) -> int:
        """Returns the number of the call that the handler awaits."""
        if not isinstance(wanted, MadeCall) or wanted not in self._all[wanted.index : wanted.index + 1]:
            raise UserError(
                f"{self.entity.kind}.{self.method.name} awaits something that is not a call",
                shown(wanted),
                "A handler can await calls of entities only.",
            )
        return wanted.index

    def _failed(self, error: BaseException) -> Step:
        self.close()
        self._made, self._rows = [], []
        return Step((), True, None, failure_of(error, self.entity))

    def _take(self) -> list[MadeCall]:
        made, self._made = self._made, []
        return made

    def _take_rows(self) -> list[Emission]:
        rows, self._rows = self._rows, []
        return rows


def failure_of(error: BaseException, entity: EntityName) -> Failure:
    """Returns the error as it is sent to the client: by names and plain data, since nothing that arrives is
    unpickled."""
    kind = type(error)
    name = kind.__name__ if "<" in kind.__qualname__ else kind.__qualname__
    return Failure(name, sendable(message_of(error)), str(entity), kind.__module__, _arguments(error))


def _arguments(error: BaseException) -> bytes | None:
    """Returns what an exception was made of, if that can be sent."""
    try:
        encoded = _ENCODER.encode(list(error.args))
    except Exception:  # A user's class may do anything.
        return None
    return encoded if len(encoded) <= ARGUMENTS_BYTES_MAX else None
