"""All errors that stretto raises, in three branches: a user's mistake, a peer's broken message, a broken invariant.

A message states the fact, then the detail, then what to do. Errors survive pickling, because Spark ships them
from a task to the driver.
"""

from __future__ import annotations

from typing import Any


class StrettoError(Exception):
    """The root of all errors raised on purpose by this package."""

    def __init__(self, fact: str, detail: str | None = None, fix: str | None = None) -> None:
        super().__init__(fact, detail, fix)
        self.fact = fact
        self.detail = detail
        self.fix = fix

    def __str__(self) -> str:
        text = self.fact
        if self.detail:
            text += f": {self.detail}"
        if self.fix:
            text += f"\n  {self.fix}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.fact, self.detail, self.fix))


class UserError(StrettoError):
    """Something the user wrote or passed cannot work; the message says how to fix it."""


class PlanError(UserError):
    """The dataflow itself is wrong: a cycle, a name used twice, a stream that reaches no sink."""


class SqlError(PlanError):
    """A SQL statement cannot be read, or is not supported; the message has the line and the column."""


class ExpressionError(UserError):
    """A SQL expression does not parse, names an unknown column, or has a type mismatch."""


class EngineError(UserError):
    """The chosen engine cannot express this plan."""


class SourceError(UserError):
    """A source is missing or corrupt; the message names the file and the row."""


class FunctionError(UserError):
    """A user's Python function raised or returned the wrong schema; carries its traceback and a sample."""


class AbortedError(UserError):
    """A transaction was aborted by an exception of a handler that the caller cannot be given itself."""


class BusyError(UserError):
    """An entity has as many calls under way as its class allows; this one was not made."""


class TooLargeError(UserError):
    """The answer to a question has more rows or bytes than are gathered in one place."""


class ClusterError(UserError):
    """The cluster cannot do what was asked: too few slots, already closed, a worker lost."""


class TakenOverError(ClusterError):
    """Another driver runs the app now, from the same checkpoint directory."""


class StorageError(UserError):
    """A checkpoint cannot be written or read: no room, no permission, no such directory."""


class DamagedError(StorageError):
    """A file of a checkpoint is not as it was written."""


class RemovedError(StorageError):
    """The checkpoint directory of a running job was removed or emptied."""


class ProtocolError(StrettoError):
    """A peer sent something that the protocol does not allow."""


class InvariantError(StrettoError):
    """A broken invariant: a defect in stretto itself, with the recent history in its detail."""
