"""Transactions of entities: calls and their replies, the rounds of an epoch, attempts and snapshots (styx.txt 5-8).

Workers are named by their number, from 1. Everything that a worker says to another one in an epoch is a `Round`: a
round is over when it has come from every worker, so its number and its sender identify it, and a repeated one is
recognised.

Structs of which there are many have `gc=False`: they hold plain data, so they are in no cycle, and the garbage
collector, which would otherwise take a quarter of a worker's time, need not look at them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stretto.actors.metrics import SketchBins

Path = tuple[int, ...]
"""The place of an invocation in the tree of its transaction: the root is (), its second call (1,)."""


class EntityName(NamedTuple):
    """An entity: its class and its key."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"


class Failure(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Why a transaction was aborted: the class of the exception, its text, and the entity that raised it; then the
    module of the class, and what the exception was made of, as msgpack, if that is plain data."""

    kind: str
    text: str
    entity: str = ""
    module: str = ""
    arguments: bytes | None = None


# From clients, and to them.


class Origin(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Whose call it is: the client, and its number for the call. All replies up to `settled` have arrived there."""

    client: str
    number: int
    settled: int


class Request(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is called: the arguments are msgpack, and were checked."""

    entity: EntityName
    method: str
    arguments: bytes
    key: str | None = None
    """The idempotency key of a client: of all calls under it only the first one runs."""
    after_us: int = 0
    """More than 0: the call is made so long after the one that its transaction began with, if that commits."""


class Call(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="call"):
    """From a client: one transaction. It is sent again until the reply is there."""

    origin: Origin
    request: Request


class Look(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="look"):
    """From a client: a call of a method that only reads. It sees at least the epoch `since`, and is not logged."""

    origin: Origin
    request: Request
    since: int


class Settle(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="settle"):
    """From a client that may make no more calls: all replies up to a number are not needed any more."""

    client: str
    number: int


class Fetch(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="fetch"):
    """From the source of a stream: send rows that are emitted at this place, from number `since` on (None: from the
    first that is kept), as soon as there are any; also without rows when the time of the place has come to `at_us`. A
    complete checkpoint has the rows before `settled`. `reader` says for whom it is."""

    stream: str
    reader: str
    since: int | None
    settled: int
    at_us: int | None = None


class Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A row that a transaction has emitted, and the time of its epoch at its place."""

    at_us: int
    data: bytes


class Emitted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="emitted"):
    """To the source of a stream: rows that follow each other, by the number of the first. No row that follows has an
    earlier time than `reached_us`. Or the place has not what is wanted: `missing` says so."""

    stream: str
    reader: str
    first: int
    rows: list[Row]
    reached_us: int
    missing: str | None = None


class Place(NamedTuple):
    """The place of a transaction in the serial order: they are ordered by it."""

    epoch: int
    phase: int
    """0: aborted by its own logic on the state before the epoch; 1: committed first, on the same state; 2: committed
    by the dry run; 3: by the fallback, or aborted in it."""
    rank: int
    """In the fallback, the order in which transactions ended; before, that of their TIDs."""


class Reply(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="reply-of-call"):
    """To a client: the value that the transaction returned, as msgpack, or why it was aborted."""

    client: str
    number: int
    value: bytes | None
    failure: Failure | None
    place: Place | None = None
    """None: it was a look, or was refused before it ran."""
    epoch: int = 0
    """A look with this `since` sees what the transaction did."""


# Between workers, in an epoch.


class Invoke(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A call from one entity to another. `share` n is the part 2^-n of the transaction's acknowledgement, which the
    worker that is called must give back (styx.txt 6.2, transactions/shares.py)."""

    tid: int
    path: Path
    request: Request
    share: int
    at_us: int
    seed: str
    is_awaited: bool = True
    """Whether the caller still runs, and so may wait for the result."""


class Returned(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an invocation returned, for its caller. The failure is known at the root by other means."""

    tid: int
    path: Path
    value: bytes | None
    failed: bool


class Acknowledged(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """For the root: the shares of a worker on which nothing of the transaction runs any more, and what has failed
    there, by its place in the tree."""

    tid: int
    shares: list[int]
    failures: list[tuple[Path, Failure]] = []
    is_new: bool = False
    """In the fallback: it needs an entity that was not in its sets, so the transaction runs again in the next epoch."""


class Verdict(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """From the root, in the fallback: the transaction is over, and its writes count or do not."""

    tid: int
    commit: bool


class Wave(msgspec.Struct, frozen=True, array_like=True, tag="wave"):
    """What one worker has for another one after it ran what it could. `busy` is the same for all receivers: whether it
    sent anything to anybody, or has work left for the next wave."""

    busy: bool
    counter: int
    """How many TIDs the sender has assigned (styx.txt 5)."""
    snapshot: bool = False
    """Whether the sender wants a snapshot at the end of the epoch."""
    storing: bool = False
    """Whether the sender still writes a snapshot: there is none at the end of the epoch."""
    calls: list[Invoke] = []
    returns: list[Returned] = []
    shares: list[Acknowledged] = []
    aborted: list[int] = []
    """Transactions of the sender that were aborted by their own logic."""
    granted: list[int] = []
    """Fallback: transactions of the receiver that have all their locks at the sender."""
    verdicts: list[Verdict] = []


class Conflicts(msgspec.Struct, frozen=True, array_like=True, tag="conflicts"):
    """Conflicts on the sender's entities: transactions that write what a lower TID writes, that read what a lower one
    writes, that write what a lower one reads. The cut of the epoch is durable at the sender."""

    writes_written: list[int]
    reads_written: list[int]
    writes_read: list[int]


class Round(msgspec.Struct, frozen=True, array_like=True, tag="round"):
    """Round `number` of an epoch, from one worker to another."""

    attempt: int
    epoch: int
    number: int
    body: Wave | Conflicts


# Between the coordinator and workers.


class Piece(NamedTuple):
    """A part of a snapshot: what had changed when the attempt took it at the end of the epoch."""

    attempt: int
    epoch: int


class Resume(msgspec.Struct, frozen=True, array_like=True, tag="resume"):
    """To a worker: the attempt begins. Load these pieces and the log after them, and report what the log has."""

    attempt: int
    members: list[str]
    pieces: list[Piece]


class Resumed(msgspec.Struct, frozen=True, array_like=True, tag="resumed"):
    """From a worker: the pieces are loaded, and the log has the cuts of all epochs up to this one."""

    attempt: int
    epoch: int


class Proceed(msgspec.Struct, frozen=True, array_like=True, tag="proceed"):
    """To a worker: all workers are in the attempt. Epochs up to `decided` have a cut in every log: only of these can a
    client have a reply."""

    attempt: int
    decided: int


class SnapshotTaken(msgspec.Struct, frozen=True, array_like=True, tag="snapshot-taken"):
    """From a worker: the pieces of its snapshot at the end of the epoch are all durable."""

    attempt: int
    epoch: int
    pieces: list[Piece]


class SnapshotKept(msgspec.Struct, frozen=True, array_like=True, tag="snapshot-kept"):
    """To a worker: the snapshot of the epoch is complete everywhere, so the log before it is not needed any more."""

    attempt: int
    epoch: int


class TransactionTotals(msgspec.Struct, frozen=True, array_like=True):
    """What a place has counted of the transactions whose root it is, since the job began; what waits is of now."""

    committed: int = 0
    aborted: dict[str, int] = {}
    """By the class of the exception."""
    conflicts: int = 0
    """Transactions that lost to another one of their epoch, and ran again: under locks, ..."""
    again: int = 0
    """... and those that had to run in the next epoch after that."""
    epochs: int = 0
    looks: int = 0
    """Calls that only read."""
    refused: int = 0
    """Calls of entities that had too many under way."""
    entities: int = 0
    waiting: int = 0
    """Calls that no epoch has taken."""
    delayed: int = 0
    """Calls that are not due yet."""
    latency: SketchBins | None = None
    """From the arrival of a call to its reply."""


# A place moves to another process within an attempt (transactions/moving.py).


class CopyOut(msgspec.Struct, frozen=True, array_like=True, tag="copy-out"):
    """To a worker: the process beside it is to take its place; copy the entities to it, while transactions run."""

    attempt: int


class Copied(msgspec.Struct, frozen=True, array_like=True, tag="copied"):
    """To the coordinator: the copy is complete, but for what has changed in the last moments."""

    attempt: int


class Switch(msgspec.Struct, frozen=True, array_like=True, tag="switch"):
    """To a worker whose copy is complete: hand the place over at the end of an epoch."""

    attempt: int


class Stay(msgspec.Struct, frozen=True, array_like=True, tag="stay"):
    """To a worker that was to copy its entities: it stays in its place."""

    attempt: int


class Copy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """To the process that takes the place: a part of the copy, by its number from 0."""

    attempt: int
    number: int
    data: bytes


class CopyTaken(msgspec.Struct, frozen=True, array_like=True, tag="copy-taken"):
    """From the process that takes the place: it has this part, and takes more."""

    attempt: int
    number: int


class Takeover(msgspec.Struct, frozen=True, array_like=True, tag="takeover"):
    """To the process that takes the place: all that the copy lacks. The place is its own from now on. Calls for it have
    waited since then."""

    attempt: int
    data: bytes
    since_ns: int
    totals: TransactionTotals = TransactionTotals()


class TakenOver(msgspec.Struct, frozen=True, array_like=True, tag="taken-over"):
    """To the coordinator, from the process that has taken a place. Calls have waited so long for it."""

    attempt: int
    waited_ns: int


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved"):
    """To a worker: another process is the worker with this number now. What was sent to the one before it may be
    lost."""

    worker: int


BetweenProcesses = Copy | CopyTaken | Takeover
"""From one process of a place to the other one, while it moves."""
ToWorker = Resume | Proceed | SnapshotKept | CopyOut | Switch | Stay
"""From the coordinator."""
FromWorker = Resumed | SnapshotTaken | Copied | TakenOver
"""To the coordinator."""
TransactionFrame = (
    Call | Look | Settle | Fetch | Reply | Emitted | Round | BetweenProcesses | Moved | ToWorker | FromWorker
)
"""All frames of this conversation, told apart by their tags."""
