"""Questions about published tables and about state: what workers have, who is asked for what, and what they answer.

Workers say what they have to the driver's own worker, where the broker is. Parts of answers are bytes here: only those
who compiled the question can read them (`stretto.queries`).
"""

from __future__ import annotations

import msgspec

from stretto.protocol.jobs import Failure

# What workers have.


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one segment that a partition has published with one checkpoint: they never change. `files` are their
    Parquet files, below the directory of the table."""

    name: str
    start_us: int
    end_us: int
    size: int
    files: list[str]


class TableOpened(msgspec.Struct, frozen=True, tag="tableopened"):
    """A partition of a table is on the sender. Its rows are those of these pieces, and those that only the sender
    has."""

    table: str
    job: str
    partition: int
    partitions: int
    version: int
    directory: str | None
    pieces: list[Piece]


class PiecesCut(msgspec.Struct, frozen=True, tag="piecescut"):
    """A partition has published pieces, and has forgotten others, which are older than what is kept. The sender has the
    rows of the new ones in memory."""

    table: str
    job: str
    partition: int
    version: int
    pieces: list[Piece]
    gone: list[str]


class TellTables(msgspec.Struct, frozen=True, tag="telltables"):
    """The broker has not heard of all partitions: say again what is there."""


class TableClosed(msgspec.Struct, frozen=True, tag="tableclosed"):
    """A partition of a table is not on the sender any more."""

    table: str
    job: str
    partition: int


# Questions.


class LivePart(msgspec.Struct, frozen=True, array_like=True):
    """The rows of a partition that came after the pieces of a version."""

    partition: int
    job: str
    after: int


class Ask(msgspec.Struct, frozen=True, tag="askrows"):
    """The broker asks a worker for its part of an answer: of partitions that are there, and of pieces. `number` is that
    of this frame. Times of rows outside of the span need not be looked at."""

    number: int
    table: str
    text: str
    zone: str
    time: str | None
    schema: bytes
    small: bytes | None
    first_us: int
    last_us: int
    segment_us: int
    directory: str | None
    live: list[LivePart]
    pieces: list[Piece]
    within_ns: int
    """How long the answer may take, from when the frame arrives."""
    at_least_us: int | None = None
    """The event time up to which partitions must have everything; they wait until they do."""


class LiveAnswer(msgspec.Struct, frozen=True, array_like=True):
    """How far a partition was: everything before this event time is in its answer."""

    partition: int
    watermark_us: int


class Part(msgspec.Struct, frozen=True, tag="answerpart"):
    """A worker's part of an answer: partial results, or why there are none. `stale` if it does not have what it was
    asked for, so that the broker must look again."""

    number: int
    part: bytes | None
    live: list[LiveAnswer]
    rows: int = 0
    failure: Failure | None = None
    stale: str | None = None


class Waits(msgspec.Struct, frozen=True, tag="questionwaits"):
    """A question waits at the sender for these partitions, each with its reason. It is said when it begins to wait, and
    again while it does; without partitions, when it waits no more."""

    number: int
    partitions: list[tuple[int, str]]


# Copies.


class Hold(msgspec.Struct, frozen=True, tag="holdpieces"):
    """Load these pieces of a table from its directory, and drop those."""

    table: str
    directory: str
    load: list[Piece]
    drop: list[str]


class Held(msgspec.Struct, frozen=True, tag="piecesheld"):
    """The sender has these pieces in memory now, those not any more, and could not load others, for this reason."""

    table: str
    loaded: list[str]
    dropped: list[str]
    failed: list[str] = []
    reason: str | None = None


# State.


class AskState(msgspec.Struct, frozen=True, tag="askstate"):
    """The broker asks for the rows of a state of a function."""

    number: int
    function: str
    state: str | None


class StatePart(msgspec.Struct, frozen=True, tag="statepart"):
    """The state of the partitions of a function that are on the sender: packed tables, by partition and by the name of
    the state, or why a partition cannot answer."""

    number: int
    tables: list[tuple[int, str, bytes]]
    partitions: int
    answered: list[int]
    missing: list[tuple[int, str]]
    failure: Failure | None = None
