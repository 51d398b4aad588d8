"""What runs right now: who a call that a handler makes belongs to. The machine sets it around each step of a handler.

A call that is made while nothing runs belongs to nobody: a client passes it to its app.
"""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar
from datetime import datetime
from random import Random
from typing import Any, Protocol

from stretto.errors import UserError


class OutOfTime(BaseException):
    """A handler has run for longer than it may. Whoever drives the machine raises it while the handler runs; it is no
    `Exception`, so that a handler does not catch it by mistake."""

    seed = ""
    """Which transaction it was."""


class Activation(Protocol):
    """An invocation while one of its steps runs."""

    steps: int
    """How many of its steps have begun."""

    @property
    def random(self) -> Random: ...

    @property
    def now(self) -> datetime: ...

    def call(self, made: MadeCall) -> None:
        """A handler has called another entity."""
        ...

    def emit(self, stream: str, row: Any) -> None:
        """A handler emits a row into a stream of the app."""
        ...

    def check_writes(self, what: str) -> None:
        """Raises a UserError if the handler only reads, and so may not do this."""
        ...


_CURRENT: ContextVar[Activation | None] = ContextVar("stretto_activation", default=None)


class MadeCall:
    """A call of an entity's method: of a client, which passes it to its app, or of a handler, for which it is under way
    and may be awaited."""

    __slots__ = ("after_us", "arguments", "idempotency_key", "index", "key", "kind", "method")

    def __init__(self, kind: str, key: str, method: str, arguments: bytes, after_us: int = 0) -> None:
        self.kind, self.key, self.method, self.arguments = kind, key, method, arguments
        self.after_us = after_us
        self.idempotency_key: str | None = None
        self.index = -1
        """Its number among the calls of the handler."""
        active = _CURRENT.get()
        if active is not None:
            active.call(self)

    def under(self, idempotency_key: str | None) -> MadeCall:
        """Returns the same call of a client, under an idempotency key."""
        if idempotency_key is None:
            return self
        same = MadeCall(self.kind, self.key, self.method, self.arguments, self.after_us)
        same.idempotency_key = idempotency_key
        return same

    def __await__(self) -> Generator[MadeCall, Any, Any]:
        if self.index < 0:
            raise UserError(
                "a call cannot be awaited here",
                f"{self.kind}/{self.key}.{self.method} was made outside of a handler",
                "Pass it to the app: app.call(...).",
            )
        return (yield self)


def activate(activation: Activation | None) -> None:
    """Calls that are made from now on belong to the activation; to nobody, if it is None."""
    _CURRENT.set(activation)


def running_now() -> Activation | None:
    """Returns what runs right now, if anything."""
    return _CURRENT.get()


def current(what: str) -> Activation:
    """Returns what runs right now; `what` needs it."""
    found = _CURRENT.get()
    if found is None:
        raise UserError(f"{what} is only known while a handler runs", None, "Use it in a method of an entity.")
    return found
