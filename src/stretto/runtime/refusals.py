"""What a member refuses: counted by reason, and logged without flooding."""

from __future__ import annotations

import logging
import threading

import zmq

log = logging.getLogger("stretto.transport")

REFUSED_HANDSHAKES = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
SETTLED_HANDSHAKES = REFUSED_HANDSHAKES | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED


class Refusals:
    """Counts what was refused, by reason, and logs the first of each kind as a warning. Thread-safe."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._lock = threading.Lock()
        self.count = 0
        self.reasons: dict[str, int] = {}

    def add(self, reason: str) -> None:
        with self._lock:
            self.count += 1
            first = reason not in self.reasons
            if first and len(self.reasons) >= 1000:
                reason = "others"
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        (log.warning if first else log.debug)("%s refused %s", self._member, reason)


class Handshakes:
    """Counts the connections that ended before they were authenticated, from the events of the socket's monitor.

    A connection whose bytes are not a greeting is cut without an event, so only its end is visible. The events do not
    name the connection of a handshake: an end counts only if no handshake was settled since the connection began. A
    wrong key is not counted here, because the allow-list counts it.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._settled = 0
        self._settled_before: dict[int, int] = {}

    def observe(self, event: int, fd: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._settled_before[fd] = self._settled
        elif event & SETTLED_HANDSHAKES:
            self._settled += 1
        if event & REFUSED_HANDSHAKES or (
            event == zmq.EVENT_DISCONNECTED and self._settled_before.pop(fd, None) == self._settled
        ):
            self._refusals.add("a connection that failed the handshake")
