"""Failures of runs as plain data that crosses the wire, and back as the error that the user sees."""

from __future__ import annotations

import traceback
from types import TracebackType

import msgspec
import pyarrow as pa

from stretto import errors
from stretto.actors.channel import Message
from stretto.actors.instance import Instance
from stretto.actors.routing import StepFailed
from stretto.actors.work import Work
from stretto.errors import FunctionError, StorageError, StrettoError
from stretto.protocol.jobs import Failure

SAMPLE_ROWS = 3
SAMPLE_CHARS = 2_000


def failure_of(error: Exception, instance: Instance | None, work: Work | None) -> Failure:
    """Returns a description of an exception: the function, the user's part of the traceback, a sample of the batch."""
    described = msgspec.structs.asdict(_described(error, instance, work))
    # A lone surrogate, as in a file name that is not UTF-8, has no encoding; it must not hide the failure.
    texts = {name: text and text.encode(errors="backslashreplace").decode() for name, text in described.items()}
    return Failure(**texts)


def _described(error: Exception, instance: Instance | None, work: Work | None) -> Failure:
    function = instance.address.function if instance is not None else None
    batch: pa.RecordBatch | None = None
    if isinstance(work, Message) and isinstance(work.payload, pa.RecordBatch):
        batch = work.payload
    cause: BaseException = error
    if isinstance(error, StepFailed):
        function, batch = error.node, error.batch
        cause = error.__cause__ or error
    sample = _sample(batch)
    if isinstance(cause, StrettoError):
        reason = cause.__cause__ if isinstance(cause, StorageError) else None
        shown = _user_traceback(reason) if reason is not None and _user_frames(reason) is not None else None
        return Failure(type(cause).__name__, cause.fact, cause.detail, cause.fix, function, shown, sample)
    return Failure(
        FunctionError.__name__,
        f"function '{function}' raised {type(cause).__name__}" if function else f"{type(cause).__name__} was raised",
        str(cause),
        None,
        function,
        _user_traceback(cause),
        sample,
    )


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
    frames = _user_frames(cause) or cause.__traceback__
    return "".join(traceback.format_exception(type(cause), cause, frames))


def _user_frames(cause: BaseException) -> TracebackType | None:
    """Returns the traceback from the user's function on; None if it was not in one."""
    entry: TracebackType | None = cause.__traceback__
    while entry is not None and entry.tb_frame.f_globals.get("__name__", "").startswith("stretto."):
        entry = entry.tb_next
    return entry


def _sample(batch: pa.RecordBatch | None) -> str | None:
    if batch is None or not batch.num_rows:
        return None
    rows = [f"    {row}" for row in batch.slice(0, SAMPLE_ROWS).to_pylist()]
    more = f"\n    ... {batch.num_rows - SAMPLE_ROWS} more rows" if batch.num_rows > SAMPLE_ROWS else ""
    return "\n".join(rows)[:SAMPLE_CHARS] + more
