"""The door of a member: its listening socket, which is shut while too many strangers stand in it.

ZeroMQ accepts every connection and gives it a descriptor before it has authenticated, so anyone on the network could
use up the descriptors that files and members need. Here the listening socket is our own, and a thread counts the
connections from the events of the socket's monitor. While there are more than members need and STRANGERS_MAX besides,
a filter at the listening socket drops requests to connect. Connections that exist are not affected, a request that was
dropped is repeated by the other side's kernel, and a stranger loses its place after HANDSHAKE_MS.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import struct
import sys
import threading
from typing import Any

import zmq

from stretto.runtime.refusals import SETTLED_HANDSHAKES, Handshakes, Refusals

log = logging.getLogger("stretto.transport")

STRANGERS_MAX = 128
"""Connections that may stand in the door besides those of members: an eighth of the usual limit of descriptors."""
CONNECTIONS_PER_MEMBER = 2
"""A worker has two connections to the coordinator: one for its frames, one for its heartbeats."""
HANDSHAKE_MS = 2_000
"""A connection that has not authenticated after this time is cut. A member's own is made again, and loses nothing."""
RECOUNT_MS = 1_000
"""How often connections are counted again while the door is shut."""
BACKLOG = 1_024

_MONITORED = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED | SETTLED_HANDSHAKES
_EVENT = struct.Struct("=hi")
"""An event of a monitor: its kind and its value, which is the descriptor where there is one."""

# Of Linux; Python's socket module does not have them.
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A program of one instruction for the kernel's packet filter: keep nothing of the packet."""


class ListeningSocket:
    """A listening TCP socket at a free port. `shut` makes the kernel drop requests to connect, `open` ends that."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_server((address, 0), backlog=BACKLOG)
        self._socket.setblocking(False)
        self.endpoint = f"tcp://{address}:{self._socket.getsockname()[1]}"
        self.is_shut = False
        self.can_shut = sys.platform == "linux"

    def duplicate(self) -> int:
        """Returns a descriptor of the same socket for ZeroMQ, which will close it."""
        return os.dup(self._socket.fileno())

    def shut(self) -> None:
        program = ctypes.create_string_buffer(_DROP_ALL)
        try:
            filter_ = struct.pack("HL", 1, ctypes.addressof(program))
            self._socket.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, filter_)
            self.is_shut = True
        except OSError as error:
            self.can_shut = False
            log.warning("the kernel refuses a filter for connections, so strangers are only timed out: %s", error)

    def open(self) -> None:
        if self.is_shut:
            self._socket.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            self.is_shut = False

    def close(self) -> None:
        self._socket.close()


class Crowd:
    """The connections that stand in the door, by descriptor. Each has the number of its socket's inode, which tells it
    from a later user of the same descriptor."""

    def __init__(self) -> None:
        self._inodes: dict[int, int | None] = {}

    def __len__(self) -> int:
        return len(self._inodes)

    def observe(self, event: int, fd: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._inodes[fd] = _inode(fd)
        elif event == zmq.EVENT_DISCONNECTED:
            self._inodes.pop(fd, None)

    def recount(self) -> None:
        """Forgets connections that have ended without an event, such as one that a member has replaced."""
        self._inodes = {fd: inode for fd, inode in self._inodes.items() if inode and _inode(fd) == inode}


class Door:
    """Binds a ROUTER socket, and lets in as many connections as members need, and some strangers."""

    def __init__(self, router: Any, address: str, refusals: Refusals) -> None:
        self._router = router
        self._refusals = refusals
        self._handshakes = Handshakes(refusals)
        self._crowd = Crowd()
        self._listening = ListeningSocket(address)
        self.members = 0
        """How many members may connect; set by the transport from any thread."""
        # Before the socket is bound, so that no connection is missed.
        self._monitor = router.get_monitor_socket(_MONITORED)
        router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        router.setsockopt(zmq.USE_FD, self._listening.duplicate())
        router.bind(self._listening.endpoint)
        self._thread = threading.Thread(target=self._keep, name="stretto-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; the router itself is closed by its owner."""
        self._router.disable_monitor()
        self._thread.join()
        self._listening.close()

    def _keep(self) -> None:
        """The thread: a run of a user's function must not delay it, so it is not the loop of the worker."""
        while self._receive():
            crowded = self._is_crowded()
            if self._listening.is_shut and not crowded:
                self._listening.open()
            elif crowded and self._listening.can_shut and not self._listening.is_shut:
                self._shut_if_crowded()
        self._monitor.close()

    def _receive(self) -> bool:
        """Takes in one event, and returns whether the monitor is still there. A door that is shut does not wait for
        an event alone."""
        if not self._monitor.poll(RECOUNT_MS if self._listening.is_shut else None):
            self._crowd.recount()
            return True
        event, value = _EVENT.unpack(self._monitor.recv_multipart()[0])
        self._handshakes.observe(event, value)
        self._crowd.observe(event, value)
        return bool(event != zmq.EVENT_MONITOR_STOPPED)

    def _is_crowded(self) -> bool:
        return len(self._crowd) >= self.members * CONNECTIONS_PER_MEMBER + STRANGERS_MAX

    def _shut_if_crowded(self) -> None:
        self._crowd.recount()
        if self._is_crowded():
            self._refusals.add("requests to connect, because too many connections have not authenticated")
            self._listening.shut()


def _inode(fd: int) -> int | None:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return None
