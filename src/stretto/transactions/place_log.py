"""The ingress log and the snapshots of one place of a job with entities, as files that are given here.

    entities/2/claims/9437184               the attempt that may write, which is the greatest
    entities/2/log/4096-8388609             what attempt 8388609 appended, from position 4096 of the log on
    entities/2/pieces/8388609-17            a piece of a snapshot: attempt, epoch

An attempt claims the place, then reads what is there, and then writes files of its own: so no writer changes a file of
another. What a later attempt wrote counts from where it begins; what an earlier one has behind that was torn by a
crash, or came too late. A writer says that its entries are durable only if no later attempt has claimed the place after
they were: then whoever claims it later reads them. So a worker that was replaced, but has not noticed, tells nobody of
anything that its successor does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol
from zlib import crc32

from stretto.errors import DamagedError, TakenOverError
from stretto.protocol.transactions import Piece
from stretto.transactions.events import (
    AdoptLog,
    DropPieces,
    Keeping,
    OpenState,
    PieceStored,
    StateOpened,
    StorePiece,
    TrimLog,
)

SEGMENT_BYTES = 16 << 20
"""A file of the log is not continued when it has this size, so that what was trimmed can be removed."""
_NUMBERED = re.compile(r"(\d{1,19})-(\d{1,19})")
_CHECKSUM_BYTES = 4


class PlaceFiles(Protocol):
    """Storage, by paths below one directory, where processes see each other's writes at once. All methods raise a
    StorageError when they fail."""

    def write(self, path: str, parts: Sequence[Any]) -> None:
        """Write a file, which appears when it is complete, and is durable when this returns."""

    def create(self, path: str, parts: Sequence[Any]) -> bool:
        """Likewise, if there is no such file."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...

    def names(self, directory: str) -> list[str]: ...

    def delete(self, paths: Iterable[str]) -> None: ...

    def append(self, path: str, data: bytes) -> None:
        """Append to a file, which is made if it is not there. It is not durable before `sync`."""

    def sync(self, path: str) -> None:
        """Make durable what was appended to a file, whoever has done it."""

    def close(self, path: str) -> None:
        """Nothing is appended to a file any more."""


class PlaceLog:
    """The place with this number, as one process uses it."""

    def __init__(self, files: PlaceFiles, number: int) -> None:
        self._files = files
        self._number = number
        self._attempt = 0
        self._segment: str | None = None
        self._segment_begin = 0

    def _path(self, kind: str, name: str = "") -> str:
        return f"entities/{self._number}/{kind}" + (f"/{name}" if name else "")

    def carry_out(self, what: Keeping) -> StateOpened | PieceStored | None:
        """Does what a machine wants done, other than to append; returns what it is told then, if anything."""
        match what:
            case OpenState(attempt=attempt, pieces=pieces):
                data, position = self.open(attempt)
                return StateOpened(attempt, [self.fetch(piece) for piece in pieces], data, position)
            case AdoptLog(attempt=attempt):
                self.adopt(attempt)
            case TrimLog(position=position):
                self.trim(position)
            case StorePiece(piece=piece, data=data):
                self.store(piece, data)
                return PieceStored(piece)
            case DropPieces(before=before):
                self.drop(before)
        # A tail that was cut needs nothing: what is appended next is in a file that begins where the cut is.
        return None

    # Claiming.

    def open(self, attempt: int) -> tuple[bytes, int]:
        """Claims the place for an attempt; returns the log, and the position where it begins."""
        self.close()
        self._files.create(self._path("claims", str(attempt)), [])
        self._attempt = attempt
        self._check_claim()
        self._files.delete([self._path("claims", str(each)) for each in self._claims() if each < attempt])
        return self._read()

    def adopt(self, attempt: int) -> None:
        """Continues the log of an attempt that has claimed the place already, in another process."""
        self.close()
        self._attempt = attempt
        self._check_claim()

    def _claims(self) -> list[int]:
        return [int(name) for name in self._files.names(self._path("claims")) if name.isdigit()]

    def _check_claim(self) -> None:
        if max(self._claims(), default=0) != self._attempt:
            raise TakenOverError(
                "another attempt has taken over the entities",
                f"the claim of place {self._number} is not that of attempt {self._attempt}",
                "Run the app from one driver at a time.",
            )

    # The log.

    def _read(self) -> tuple[bytes, int]:
        """Returns what has been written to the log, durable from now on, and where it begins."""
        data, begin = bytearray(), None
        for position, name in self._ordered():
            if begin is None:
                begin = position
            held = begin + len(data)
            if position < begin or position > held:
                detail = f"place {self._number} has it from {begin} to {held}, and then from {position} on"
                raise DamagedError("a part of the ingress log is missing", detail)
            del data[position - begin :]
            path = self._path("log", name)
            self._files.sync(path)
            data += self._files.read(path)
        return bytes(data), begin or 0

    def _ordered(self) -> list[tuple[int, str]]:
        """Returns the positions and names of the files of the log: what a later attempt wrote comes later."""
        found = [(_NUMBERED.fullmatch(name), name) for name in self._files.names(self._path("log"))]
        segments = [(int(match[2]), int(match[1]), name) for match, name in found if match is not None]
        return [(position, name) for _, position, name in sorted(segments)]

    def append(self, attempt: int, data: bytes, end: int) -> None:
        """Appends to the log, whose end is then there. It is not durable yet."""
        if attempt != self._attempt:
            return  # It was opened again since, and read all that counts.
        if self._segment is None or end - self._segment_begin > SEGMENT_BYTES:
            self._end_segment()  # Durable before the next one is, so that the log has no gap.
            self._segment_begin = end - len(data)
            self._segment = self._path("log", f"{self._segment_begin}-{attempt}")
        self._files.append(self._segment, data)

    def sync(self) -> None:
        """Makes the log durable. Raises a TakenOverError if another attempt may not know of what was appended."""
        if self._segment is not None:
            self._files.sync(self._segment)
        self._check_claim()

    def _end_segment(self) -> None:
        if self._segment is not None:
            self._files.sync(self._segment)
            self.close()

    def trim(self, position: int) -> None:
        """Removes files of the log that have nothing from this position on."""
        segments = self._ordered()
        ends = [following for following, _ in segments[1:]]
        gone = [name for (_, name), end in zip(segments, ends, strict=False) if end <= position]
        self._files.delete([self._path("log", name) for name in gone])

    def close(self) -> None:
        """Nothing more is appended. What is not durable yet was not acknowledged."""
        if self._segment is not None:
            self._files.close(self._segment)
            self._segment = None

    # Snapshots.

    def store(self, piece: Piece, data: bytes) -> None:
        self._files.write(self._piece_path(piece), [_checksum(data), data])

    def fetch(self, piece: Piece) -> bytes:
        path = self._piece_path(piece)
        content = self._files.read(path)
        checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if _checksum(data) != checksum:
            raise DamagedError(f"the snapshot {path} is damaged", "its checksum does not match")
        return data

    def drop(self, before: Piece) -> None:
        """Removes the pieces before this one."""
        found = [(_NUMBERED.fullmatch(name), name) for name in self._files.names(self._path("pieces"))]
        pieces = [(Piece(int(match[1]), int(match[2])), name) for match, name in found if match is not None]
        self._files.delete([self._path("pieces", name) for piece, name in pieces if piece < before])

    def _piece_path(self, piece: Piece) -> str:
        return self._path("pieces", f"{piece.attempt}-{piece.epoch}")


def _checksum(data: bytes) -> bytes:
    return crc32(data).to_bytes(_CHECKSUM_BYTES, "little")
