"""States of shards between workers on one machine: in files in shared memory, instead of through an encrypted socket.

A file has mode 0600 and an unguessable name, and lives until its receiver has read it. A frame carries its name and its
length. A receiver takes names only, in the one directory, of regular files of its own user with exactly that length.
Where shared memory is missing or full, or the peer has another view of the file system, states go through the socket.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import psutil
from msgspec.structs import replace

from stretto.errors import ProtocolError
from stretto.protocol.elastic import Given, GivenInMemory
from stretto.protocol.handover import Bequest, BequestInMemory
from stretto.protocol.membership import Member

DIRECTORY = Path("/dev/shm")
SHARED_FROM_BYTES = 65_536
"""Shorter states are cheaper to send."""
UNREAD_MAX = 256
"""So many names are remembered before those that have been read are forgotten."""
_NAME = re.compile(r"stretto-states-(\d+)-[0-9a-f]{32}")


class SharedStates:
    """The files that this process has written, and the way to read those of others."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory
        self._unread: set[str] = set()
        self._together: dict[str, bool] = {}
        self._sweep()

    def outgoing(self, frame: Given | Bequest, receiver: Member) -> Given | GivenInMemory | Bequest | BequestInMemory:
        """Returns the frame to send: with its states in shared memory if they are large and the receiver is here."""
        if len(frame.states) < SHARED_FROM_BYTES or not self._is_here(receiver):
            return frame
        name = f"stretto-states-{os.getpid()}-{secrets.token_hex(16)}"
        try:
            self._write(name, frame.states)
        except OSError:
            return frame  # There is no shared memory, or it is full.
        length = len(frame.states)
        if isinstance(frame, Bequest):
            return BequestInMemory(replace(frame, states=b""), name, length)
        return GivenInMemory(frame.actor, frame.move, frame.piece, frame.pieces, name, length, frame.following)

    def incoming(self, frame: GivenInMemory | BequestInMemory) -> Given | Bequest:
        """Returns the frame with its states, and removes the file; a ProtocolError says what is wrong with it."""
        if not _NAME.fullmatch(frame.name):
            raise ProtocolError("states in shared memory have a name that no worker gives", repr(frame.name[:80]))
        try:
            states = self._read(frame.name, frame.length)
        except OSError as error:
            raise ProtocolError("states in shared memory cannot be read", f"{frame.name}: {error.strerror}") from error
        if isinstance(frame, BequestInMemory):
            return replace(frame.bequest, states=states)
        return Given(frame.actor, frame.move, frame.piece, frame.pieces, states, frame.following)

    def close(self) -> None:
        """Removes what nobody has read."""
        for name in self._unread:
            self._remove(name)
        self._unread.clear()

    def _is_here(self, receiver: Member) -> bool:
        """Whether the receiver sees the same files: its process is here, and has the same mounts."""
        known = self._together.get(receiver.name)
        if known is None:
            mine = _mounts(os.getpid())
            known = self._together[receiver.name] = mine is not None and _mounts(receiver.pid) == mine
        return known

    def _write(self, name: str, states: bytes) -> None:
        path = self._directory / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._unread.add(name)
        try:
            left = memoryview(states)
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            self._remove(name)
            self._unread.discard(name)
            raise
        finally:
            os.close(descriptor)
        if len(self._unread) > UNREAD_MAX:
            self._unread = {each for each in self._unread if (self._directory / each).exists()}

    def _read(self, name: str, length: int) -> bytes:
        descriptor = os.open(self._directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size != length:
                raise ProtocolError(
                    "states in shared memory are not what was announced",
                    f"{name} has {found.st_size} bytes of {length}, or belongs to another user",
                )
            with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
                return file.read(length)
        finally:
            os.close(descriptor)
            self._remove(name)

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # It was read, or is another user's.
            os.unlink(self._directory / name)

    def _sweep(self) -> None:
        """Removes what processes have left that were killed."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return
        for name in names:
            written = _NAME.fullmatch(name)
            if written is not None and not psutil.pid_exists(int(written.group(1))):
                self._remove(name)


def _mounts(pid: int) -> str | None:
    """Returns what identifies the view that a process has of the file system, None if it cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None
