"""The ingress log and the snapshots of one place of a job with entities, as files.

    entities/2/claims/9437184               the attempt that may write, which is the greatest
    entities/2/log/4096-8388609             what attempt 8388609 appended, from position 4096 of the log on
    entities/2/pieces/8388609-17            a piece of a snapshot: attempt, epoch

An attempt claims the place, then reads what is there, and then writes files of its own: so no writer changes a file of
another. What a later attempt wrote counts from where it begins; what an earlier one has behind that was torn by a
crash, or came too late. A writer says that its entries are durable only if no later attempt has claimed the place after
they were: then whoever claims it later reads them. So a worker that was replaced, but has not noticed, tells nobody of
anything that its successor does not know.

The place must be on a file system where processes see each other's writes at once.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from stretto.errors import DamagedError, StorageError, TakenOverError
from stretto.protocol.transactions import Piece
from stretto.runtime.storage import LocalFiles, sync_directory, unreadable, unwritable

SEGMENT_BYTES = 16 << 20
"""A file of the log is not continued when it has this size, so that what was trimmed can be removed."""
_SEGMENT = re.compile(r"(\d{1,19})-(\d{1,19})")
_PIECE = _SEGMENT
_CHECKSUM_BYTES = 4


class PlaceFiles:
    """The files of the place with this number. Not thread-safe."""

    def __init__(self, directory: str, number: int) -> None:
        self._files = LocalFiles(directory)
        self._directory = directory
        self._number = number
        self._attempt = 0
        self._segment: BinaryIO | None = None
        self._segment_begin = 0
        self._claims_at = ""

    def _path(self, kind: str, name: str = "") -> str:
        return f"entities/{self._number}/{kind}" + (f"/{name}" if name else "")

    # Claiming.

    def open(self, attempt: int) -> tuple[bytes, int]:
        """Claims the place for an attempt; returns the log, and the position where it begins."""
        self.close()
        self._files.create(self._path("claims", str(attempt)), [])
        self._attempt = attempt
        self._claims_at = str(self._files.place_of(self._path("claims", "0")).parent)
        self._check_claim()
        self._files.delete([self._path("claims", str(each)) for each in self._claims() if each < attempt])
        return self._read()

    def _claims(self) -> list[int]:
        """Returns all attempts that have claimed the place. Asked after each commit, so it only lists a directory."""
        try:
            return [int(name) for name in os.listdir(self._claims_at) if name.isdigit()]
        except OSError as error:
            raise unreadable(self._claims_at, error) from error

    def _check_claim(self) -> None:
        if max(self._claims(), default=0) != self._attempt:
            raise TakenOverError(
                "another attempt has taken over the entities",
                f"the claim of {self._directory} for place {self._number} is not that of attempt {self._attempt}",
                "Run the app from one driver at a time.",
            )

    # The log.

    def _read(self) -> tuple[bytes, int]:
        """Returns what has been written to the log, durable from now on, and where it begins."""
        data, begin = bytearray(), None
        for _, position, name in sorted(self._segments()):
            if begin is None:
                begin = position
            held = begin + len(data)
            if position < begin or position > held:
                raise DamagedError(
                    f"a part of the log of {self._directory} is missing",
                    f"place {self._number} has it from {begin} to {held}, and then from {position} on",
                )
            del data[position - begin :]
            data += self._synced(name)
        return bytes(data), begin or 0

    def _segments(self) -> list[tuple[int, int, str]]:
        """Returns attempt, position and name of each file of the log."""
        found = [(_SEGMENT.fullmatch(name), name) for name in self._files.names(self._path("log"))]
        return [(int(match[2]), int(match[1]), name) for match, name in found if match is not None]

    def _synced(self, name: str) -> bytes:
        """Returns a file of the log; its writer may not have waited until it was durable."""
        path = self._path("log", name)
        target = self._files.place_of(path)
        try:
            with open(target, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise unreadable(str(target), error) from error
        return self._files.read(path)

    def append(self, attempt: int, data: bytes, end: int) -> None:
        """Appends to the log, whose end is then there. It is not durable yet."""
        if attempt != self._attempt:
            return  # It was opened again since, and read all that counts.
        try:
            segment = self._segment
            if segment is None or end - self._segment_begin > SEGMENT_BYTES:
                segment = self._new_segment(end - len(data))
            segment.write(data)
        except OSError as error:
            raise unwritable(self._path("log"), error) from error

    def _new_segment(self, begin: int) -> BinaryIO:
        self._close_segment()  # Durable before the next one is, so that the log has no gap.
        target = self._files.place_of(self._path("log", f"{begin}-{self._attempt}"))
        self._files.make(target.parent)
        self._segment = segment = open(target, "xb", opener=_private)  # noqa: SIM115
        self._segment_begin = begin
        sync_directory(target.parent)
        return segment

    def sync(self) -> None:
        """Makes the log durable. Raises a TakenOverError if another attempt may not know of what was appended."""
        try:
            if self._segment is not None:
                self._segment.flush()
                os.fdatasync(self._segment.fileno())
        except OSError as error:
            raise unwritable(self._path("log"), error) from error
        self._check_claim()

    def trim(self, position: int) -> None:
        """Removes files of the log that have nothing from this position on."""
        segments = sorted(self._segments())
        ends = [following[1] for following in segments[1:]]
        gone = [name for (_, _, name), end in zip(segments, ends, strict=False) if end <= position]
        self._files.delete([self._path("log", name) for name in gone])

    def _close_segment(self) -> None:
        if self._segment is not None:
            segment, self._segment = self._segment, None
            try:
                segment.flush()
                os.fdatasync(segment.fileno())
            finally:
                with suppress(OSError):
                    segment.close()

    def close(self) -> None:
        with suppress(OSError):  # Nobody waits for what was not durable before.
            self._close_segment()

    # Snapshots.

    def store(self, piece: Piece, data: bytes) -> None:
        checksum = crc32(data).to_bytes(_CHECKSUM_BYTES, "little")
        self._files.write(self._piece_path(piece), [checksum, data])

    def fetch(self, piece: Piece) -> bytes:
        path = self._piece_path(piece)
        content = self._files.read(path)
        checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if crc32(data).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
            raise DamagedError(f"the snapshot {path} is damaged", "its checksum does not match")
        return data

    def drop(self, before: Piece) -> None:
        """Removes the pieces before this one."""
        found = [(_PIECE.fullmatch(name), name) for name in self._files.names(self._path("pieces"))]
        pieces = [(Piece(int(match[1]), int(match[2])), name) for match, name in found if match is not None]
        self._files.delete([self._path("pieces", name) for piece, name in pieces if piece < before])

    def _piece_path(self, piece: Piece) -> str:
        return self._path("pieces", f"{piece.attempt}-{piece.epoch}")


def check_directory(uri: str) -> None:
    """Raises a StorageError if entities cannot be kept at a location."""
    if "://" in uri and not uri.startswith("file://"):
        raise StorageError(
            f"entities cannot be kept in {uri}",
            "their log is appended to, which object stores and HDFS do not offer here",
            "Use a directory of a file system that all workers see.",
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def local_directory(uri: str) -> str:
    return str(Path(uri.removeprefix("file://")).absolute())
