"""The control socket of a driver: other processes of the same user ask it what runs, and have it changed.

A Unix socket in a directory of mode 0700. Both sides check that the other is of the same user, by what the kernel says
of the peer. A connection carries one request and one reply, each a length and MessagePack of a declared type; nothing
is unpickled, and lengths, times and connections at once are bounded.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stretto.errors import ClusterError, ProtocolError, StrettoError
from stretto.protocol.control import About, AskAbout, Refused, Reply, Request
from stretto.rendering import error_text
from stretto.runtime.scratch import scratch_directory

log = logging.getLogger("stretto.control")

REQUEST_BYTES_MAX = 64 * 1024
REPLY_BYTES_MAX = 16 * 1024 * 1024
CONNECTIONS_MAX = 8
"""Requests that are carried out at once; further ones are refused."""
READ_TIMEOUT_S = 5.0
PATH_BYTES_MAX = 107
"""The longest path of a Unix socket on Linux."""
SOCKET = "socket"

_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")
_DIRECTORY = re.compile(r"stretto-control-(\d+)-\w+")
_encode = msgspec.msgpack.Encoder().encode
_decode_request: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_decode_reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)

Handlers = Mapping[type, Callable[[Any], Reply]]
"""What answers each type of request; it may raise a StrettoError."""


class ControlSocket:
    """Answers requests in threads of its own, from its making until `close`."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._directory = scratch_directory("control")
        self.path = self._directory / SOCKET
        if len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise ClusterError(
                "the path of the control socket is too long", str(self.path), "Set TMPDIR to a shorter directory."
            )
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(os.fspath(self.path))
        self._socket.listen(CONNECTIONS_MAX)
        self._thread = threading.Thread(target=self._accept, name="stretto-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answers no more requests, and removes the socket."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # It is closed.
            free = self._places.acquire(blocking=False)
            name = "stretto-control-request"
            threading.Thread(target=self._serve, args=(connection, free), name=name, daemon=True).start()

    def _serve(self, connection: socket.socket, free: bool) -> None:
        try:
            with connection:
                connection.settimeout(READ_TIMEOUT_S)
                check_same_user(connection)
                _send(connection, self._answer(connection, free), REPLY_BYTES_MAX)
        except (OSError, StrettoError) as error:
            log.warning("a request at the control socket failed: %s", error_text(error))
        finally:
            if free:
                self._places.release()

    def _answer(self, connection: socket.socket, free: bool) -> Reply:
        try:
            request = _request(_received(connection, REQUEST_BYTES_MAX))
            if not free:
                raise ClusterError(f"{CONNECTIONS_MAX} requests are being carried out", None, "Try again later.")
            handler = self._handlers.get(type(request))
            if handler is None:
                raise ProtocolError(f"this driver does not answer {type(request).__name__}")
            return handler(request)
        except StrettoError as error:
            return Refused(error.fact, error.detail, error.fix)
        except Exception as error:
            log.exception("a request at the control socket failed")
            return Refused("the request failed", error_text(error))


# The other side.


@dataclass(frozen=True, slots=True)
class Running:
    """A driver that answers at its control socket."""

    path: Path
    about: About


def running_drivers() -> list[Running]:
    """Returns this user's drivers that answer, by the ids of their processes."""
    found = []
    for directory in sorted(Path(tempfile.gettempdir()).glob("stretto-control-*")):
        if _DIRECTORY.fullmatch(directory.name) is None or not _is_own(directory):
            continue
        with suppress(StrettoError):  # Its process has died, or is about to.
            about = ask(directory / SOCKET, AskAbout(), READ_TIMEOUT_S)
            if isinstance(about, About):
                found.append(Running(directory / SOCKET, about))
    return sorted(found, key=lambda running: running.about.pid)


def the_driver(app: str | None = None, pid: int | None = None) -> Running:
    """Returns the one driver that runs, or that runs this app or has this process id; otherwise raises a
    ClusterError."""
    drivers = running_drivers()
    fits = [
        driver
        for driver in drivers
        if (app is None or app in driver.about.apps) and (pid is None or pid == driver.about.pid)
    ]
    if len(fits) == 1:
        return fits[0]
    shown = "; ".join(
        f"pid {each.about.pid} runs {', '.join(each.about.apps) or 'nothing'}" for each in fits or drivers
    )
    if not drivers:
        where = f"there is no control socket of this user that answers in {tempfile.gettempdir()}"
        raise ClusterError("no cluster is running", where, "Start one with `stretto run`, under the same TMPDIR.")
    if not fits:
        wish = " and ".join([*([f"app '{app}'"] if app else []), *([f"pid {pid}"] if pid else [])])
        raise ClusterError(f"no running cluster has {wish}", shown, "Choose one of these.")
    raise ClusterError(f"{len(fits)} clusters are running", shown, "Choose one with --app or --pid.")


def ask(path: Path, request: Request, timeout_s: float | None) -> Reply:
    """Returns the reply of the driver at a socket; one that refuses or does not answer raises a ClusterError."""
    try:
        reply = _asked(path, request, timeout_s)
    except OSError as error:
        raise ClusterError(f"the driver at {path} does not answer", error_text(error), "Is it still running?") from None
    if isinstance(reply, Refused):
        raise ClusterError(reply.fact, reply.detail, reply.fix)
    return reply


def _asked(path: Path, request: Request, timeout_s: float | None) -> Reply:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(READ_TIMEOUT_S)
        connection.connect(os.fspath(path))
        check_same_user(connection)
        _send(connection, request, REQUEST_BYTES_MAX)
        connection.settimeout(timeout_s)
        return _reply(_received(connection, REPLY_BYTES_MAX))


def _is_own(directory: Path) -> bool:
    """Whether a directory is this user's, and nobody else can have put a socket there."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


# Both sides.


def check_same_user(connection: socket.socket) -> None:
    """Raises a ProtocolError if the process at the other end is not of this user."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    if uid != os.getuid():
        raise ProtocolError("the process at the other end is of another user", f"pid {pid}, user {uid}")


def _send(connection: socket.socket, message: Request | Reply, bytes_max: int) -> None:
    content = _encode(message)
    if len(content) > bytes_max:
        raise ProtocolError(f"a {type(message).__name__} is too long", f"{len(content):,} of {bytes_max:,} bytes")
    connection.sendall(_LENGTH.pack(len(content)) + content)


def _received(connection: socket.socket, bytes_max: int) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > bytes_max:
        raise ProtocolError("a message is too long", f"{length:,} of {bytes_max:,} bytes")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 65_536))
        if not part:
            raise ProtocolError("the other end has closed the connection", f"{length:,} bytes are missing")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _request(content: bytes) -> Request:
    try:
        return _decode_request.decode(content)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            "the driver does not know this request", str(error), "Use the same version of stretto."
        ) from None


def _reply(content: bytes) -> Reply:
    try:
        return _decode_reply.decode(content)
    except msgspec.DecodeError as error:
        raise ProtocolError("the driver's reply is not known", str(error), "Use the same version of stretto.") from None
