"""A question as it is asked, and an answer: its rows, how fresh they are, and what is missing with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.errors import ClusterError, TooLargeError
from stretto.protocol.jobs import Failure

GATHERED_BYTES_MAX = 256 << 20
"""The most bytes of all parts of one answer: they are in the driver's memory, and merged there."""
_ASK_FOR_LESS = "Ask for an aggregate, with LIMIT or with a condition; or read the table's files with Spark."


@dataclass(frozen=True, slots=True)
class TableName:
    """A published table: the job and the function that publish it."""

    table: str
    job: str
    segment_us: int
    time: str


@dataclass(frozen=True, slots=True)
class Question:
    """What the broker is asked. `ticket` is how the asker knows its answer."""

    ticket: Any
    table: TableName
    text: str
    zone: str
    schema: bytes
    small: bytes | None
    first_us: int
    last_us: int
    within_ns: int
    at_least_us: int | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A partition, or a piece of a table, that is not in an answer, and why."""

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the broker has gathered: parts that the asker merges, or why there is no answer."""

    ticket: Any
    parts: tuple[bytes, ...] = ()
    missing: tuple[Missing, ...] = ()
    as_of_us: int | None = None
    rows: int = 0
    workers: int = 0
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Everything with an event time before `as_of_us` is in it, unless it came late; None if no partition has a watermark
    yet. It also has all newer rows that had come when the workers were asked. `missing` names what could not answer;
    nothing is missing in an answer that is `complete`."""

    table: pa.Table
    as_of_us: int | None
    missing: tuple[Missing, ...] = ()
    rows_read: int = 0
    """How many rows were read for it."""
    workers: int = 0
    """How many workers were asked."""

    @property
    def complete(self) -> bool:
        return not self.missing


def completed(answer: Answer) -> pa.Table:
    """Returns the rows of an answer; raises a ClusterError that names what is missing."""
    if answer.missing:
        shown = "; ".join(map(str, answer.missing[:5]))
        more = f" and {len(answer.missing) - 5} more" if len(answer.missing) > 5 else ""
        raise ClusterError(
            "the answer is not complete",
            f"{shown}{more}",
            "Ask again, or use cluster.ask(), which returns what there is with what is missing.",
        )
    return answer.table


def too_large(size: int, most: int, what: str = "its parts have", fix: str = _ASK_FOR_LESS) -> Failure:
    """Returns why there is no answer: more bytes would be gathered than there is room for."""
    return Failure(
        TooLargeError.__name__, "the answer is too large", f"{what} {size:,} bytes, of at most {most:,}", fix
    )
