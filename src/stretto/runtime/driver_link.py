"""A worker's heartbeat connection to its driver, and what it tells: the driver answers, is paused, or is gone.

A driver that is paused (stopped, in a debugger, on a machine that is far too busy) answers nothing, but its machine
still holds its connections. A driver that died has lost them: the machine closes them, and where the machine itself is
gone, TCP gives up the connection when nothing is acknowledged for as long as the driver may be silent. So a driver that
is silent is gone if it is not connected either, or if it has dismissed this worker, which it took for lost.
"""

from __future__ import annotations

import logging
import math
import time
from enum import Enum
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from stretto.protocol.frames import Control
from stretto.protocol.membership import Heartbeat, Leave
from stretto.runtime.codec import encode
from stretto.runtime.connections import dealer
from stretto.runtime.keys import KeyPair

log = logging.getLogger("stretto.worker")

DRIVER_SILENCE_S = 10.0


class DriverState(Enum):
    """What a worker knows of its driver."""

    HEARD = "it has answered lately"
    PAUSED = "it is silent, and its connection stands"
    GONE = "it is silent, and its connection is lost, or it has dismissed this worker"


class DriverWatch:
    """Judges the driver by its answers and its connection. `silence_s` is how long it may be silent."""

    def __init__(self, silence_s: float, now_s: float) -> None:
        self._silence_s = silence_s
        self._heard_s = now_s
        self._connected = False
        self._dismissed = False
        self._awaiting = False

    def beat_is_due(self) -> bool:
        """Whether to send a heartbeat: one that is not answered is enough, since a connection that stands loses
        nothing, and what a paused driver does not read must not fill its machine's buffers."""
        due, self._awaiting = not self._awaiting, True
        return due

    def heard(self, now_s: float) -> None:
        self._heard_s = now_s
        self._awaiting = False

    def connected(self) -> None:
        self._connected = True
        self._awaiting = False  # What was sent on an earlier connection may be lost.

    def disconnected(self) -> None:
        self._connected = False

    def dismissed(self) -> None:
        """The worker's loop leaves by itself, unless a function keeps it busy for too long."""
        self._dismissed = True

    def silent_s(self, now_s: float) -> float:
        return now_s - self._heard_s

    def state(self, now_s: float) -> DriverState:
        if self.silent_s(now_s) <= self._silence_s:
            return DriverState.HEARD
        return DriverState.PAUSED if self._connected and not self._dismissed else DriverState.GONE


class DriverLink:
    """The heartbeat connection of one worker. Not thread-safe."""

    def __init__(
        self, member: str, endpoint: str, server_key: str, keys: KeyPair, identity: bytes, silence_s: float
    ) -> None:
        self._member = member
        self._beat, self._leave = encode(Heartbeat()), encode(Leave())
        self._context = zmq.Context()
        self._socket = dealer(self._context, None, server_key, keys, identity)
        _give_up_after(self._socket, silence_s)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)
        self._watch = DriverWatch(silence_s, time.monotonic())
        self._state = DriverState.HEARD

    def beat(self) -> None:
        """Sends a heartbeat, unless one is unanswered."""
        if self._watch.beat_is_due():
            self._socket.send_multipart(self._beat)

    def send(self, frame: Control) -> None:
        """Sends something else than a heartbeat."""
        self._socket.send_multipart(encode(frame))

    def answered(self, timeout_s: float) -> bool:
        """Waits for an answer, and returns whether one came."""
        found = False
        for socket, _ in self._poller.poll(int(timeout_s * 1000)):
            if socket is self._monitor:
                self._observe()
                continue
            while self._socket.poll(0):
                if self._socket.recv_multipart() == self._leave:
                    self._watch.dismissed()
                else:
                    self._watch.heard(time.monotonic())
                    found = True
        return found

    def _observe(self) -> None:
        while self._monitor.poll(0):
            if recv_monitor_message(self._monitor)["event"] == zmq.EVENT_DISCONNECTED:
                self._watch.disconnected()
            else:
                self._watch.connected()

    def is_gone(self) -> bool:
        """Whether the driver is gone. Logs when it is paused, and when it is back."""
        before, self._state = self._state, self._watch.state(time.monotonic())
        if self._state is DriverState.PAUSED and before is DriverState.HEARD:
            log.warning("%s waits: the driver is paused; its connection stands", self._member)
        elif self._state is DriverState.HEARD and before is DriverState.PAUSED:
            log.warning("%s continues: the driver is back", self._member)
        return self._state is DriverState.GONE

    @property
    def silent_s(self) -> float:
        """For how long the driver has not answered."""
        return self._watch.silent_s(time.monotonic())

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close(linger=0)
        self._context.term()


def _give_up_after(socket: Any, silence_s: float) -> None:
    """Lets TCP end a connection to a machine that acknowledges nothing for this long. The machine of a paused process
    does acknowledge."""
    probe_s = max(1, math.ceil(silence_s / 4))
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, probe_s)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, probe_s)
    socket.setsockopt(zmq.TCP_MAXRT, math.ceil(silence_s * 1000))
