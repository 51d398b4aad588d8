"""Failures of runs as plain data that crosses the wire, and back as the error that the user sees."""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa

from stretto import errors
from stretto.actors.channel import Message
from stretto.actors.instance import Instance
from stretto.actors.routing import StepFailed
from stretto.actors.work import Work
from stretto.errors import FunctionError, StorageError, StrettoError
from stretto.protocol.jobs import Failure
from stretto.rendering import message_of, rows_shown, sendable, shown, traceback_of


def failure_of(error: BaseException, instance: Instance | None, work: Work | None) -> Failure:
    """Returns a description of an exception: the function, the user's part of the traceback, a sample of the batch."""
    try:
        return _described(error, instance, work)
    except BaseException as raised:  # A user's exception may do anything when it is looked at.
        fact = f"{type(error).__name__} was raised, and describing it raised {type(raised).__name__}"
        function = instance.address.function if instance is not None else None
        return Failure(FunctionError.__name__, sendable(fact), function=function)


def _described(error: BaseException, instance: Instance | None, work: Work | None) -> Failure:
    function = instance.address.function if instance is not None else None
    batch: pa.RecordBatch | None = None
    if isinstance(work, Message) and isinstance(work.payload, pa.RecordBatch):
        batch = work.payload
    cause: BaseException = error
    if isinstance(error, StepFailed):
        function, batch = error.node, error.batch
        cause = error.__cause__ or error
    sample = rows_shown(batch, "    ") if batch is not None and batch.num_rows else None
    if isinstance(cause, StrettoError):
        reason = cause.__cause__ if isinstance(cause, StorageError) else None
        trace = _user_traceback(reason) if reason is not None and _user_frames(reason) is not None else None
        fact = _text(cause.fact) or type(cause).__name__
        return Failure(type(cause).__name__, fact, _text(cause.detail), _text(cause.fix), function, trace, sample)
    return Failure(
        FunctionError.__name__,
        f"function '{function}' raised {type(cause).__name__}" if function else f"{type(cause).__name__} was raised",
        message_of(cause),
        None,
        function,
        _user_traceback(cause),
        sample,
    )


def _text(part: object) -> str | None:
    """Returns a part of an error as text that can cross the wire. A user may make an error of anything."""
    return None if part is None else sendable(part) if isinstance(part, str) else shown(part)


def error_of(failure: Failure) -> StrettoError:
    """Returns the error to raise in the driver for a job's failure."""
    kind = getattr(errors, failure.error, StrettoError)
    if not (isinstance(kind, type) and issubclass(kind, StrettoError)):
        kind = StrettoError
    detail = failure.detail or ""
    if failure.traceback:
        detail += f"\n{failure.traceback.rstrip()}"
    if failure.sample:
        detail += f"\n  the batch began with:\n{failure.sample}"
    return kind(failure.fact, detail or None, failure.fix)


def _user_traceback(cause: BaseException) -> str:
    """Returns the traceback without stretto's own frames at its top, so that it begins in the user's function."""
    return traceback_of(cause, _user_frames(cause))


def _user_frames(cause: BaseException) -> TracebackType | None:
    """Returns the traceback from the user's function on; None if it was not in one."""
    entry: TracebackType | None = cause.__traceback__
    while entry is not None and entry.tb_frame.f_globals.get("__name__", "").startswith("stretto."):
        entry = entry.tb_next
    return entry
