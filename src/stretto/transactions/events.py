"""What happens to the machines of transactions, and what they want done, besides frames (see protocol/machines.py)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.transactions import Piece, Reply

# A worker's log and snapshots.


@dataclass(frozen=True, slots=True)
class OpenState:
    """Effect: read these pieces of a snapshot, and the log; then say `StateOpened`. What of the log is read must be
    durable, also if the one who wrote it had not waited for that."""

    attempt: int
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class StateOpened:
    attempt: int
    pieces: list[bytes]
    log: bytes
    position: int
    """Where the log begins, which is more than 0 after it was trimmed."""


@dataclass(frozen=True, slots=True)
class CutLog:
    """Effect: remove what is in the log from this position on. It is a tail that a crash has torn."""

    end: int


@dataclass(frozen=True, slots=True)
class AdoptLog:
    """Effect: continue the log, which another process has written in the same attempt, and writes no more."""

    attempt: int


class AppendLog(msgspec.Struct, frozen=True, gc=False):
    """Effect: append to the log; say `LogWritten` when it is durable up to `end`. Several may be made durable at
    once."""

    attempt: int
    data: bytes
    end: int


class LogWritten(msgspec.Struct, frozen=True, gc=False):
    attempt: int
    end: int


@dataclass(frozen=True, slots=True)
class TrimLog:
    """Effect: what is before this position is not needed any more."""

    position: int


@dataclass(frozen=True, slots=True)
class StorePiece:
    """Effect: store a piece of a snapshot, then say `PieceStored`. The transactions that follow do not wait for it."""

    piece: Piece
    data: bytes


@dataclass(frozen=True, slots=True)
class PieceStored:
    piece: Piece


@dataclass(frozen=True, slots=True)
class DropPieces:
    """Effect: pieces that are older than this one are not needed any more."""

    before: Piece


# The coordinator's.


@dataclass(frozen=True, slots=True)
class WorkerUp:
    """A process is there for this worker, a new one or one that has met this coordinator for the first time."""

    worker: str


@dataclass(frozen=True, slots=True)
class WorkerDown:
    worker: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot that is complete: the pieces of each worker, by its number less one."""

    epoch: int
    pieces: list[list[Piece]]


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Effect: make it durable, then say `ManifestWritten`."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ManifestWritten:
    manifest: Manifest


# A client's.


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Effect: the reply of a call is there. Said once for each call."""

    reply: Reply


Keeping = OpenState | CutLog | AdoptLog | AppendLog | TrimLog | StorePiece | DropPieces
"""Effects on the log and the snapshots of a worker."""
WorkerEvent = FrameArrived | Ticked | StateOpened | LogWritten | PieceStored
WorkerEffect = Send | Refuse | Keeping
CoordinatorEvent = FrameArrived | WorkerUp | WorkerDown | ManifestWritten
CoordinatorEffect = Send | Refuse | WriteManifest
