"""The connections of a transient worker. Like a serverless function, it has no open port: it connects to ordinary
workers, and what they send to it comes back over the same connections. Two transient workers cannot reach each other.

A worker that has not heard of this one yet refuses its connection; it is tried again.
"""

from __future__ import annotations

import time
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from stretto.errors import InvariantError
from stretto.protocol.frames import Frame
from stretto.protocol.membership import COORDINATOR, Hello, Member, MemberRole
from stretto.runtime.connections import Arrival, Connections, Link

RETRY_S = (0.02, 1.0)
"""When a refused connection is tried again: at first, and at most, doubling in between."""


class OutwardTransport(Connections):
    """The connections of a member without an open port."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._senders: dict[Any, str] = {}
        """The ordinary workers by the connections to them."""
        self._refused: dict[str, tuple[float, float]] = {}
        """When to try again to connect to a worker, and how long it was waited for."""

    def set_members(self, members: list[Member]) -> None:
        super().set_members(members)
        self._refused = {name: due for name, due in self._refused.items() if name in self._members}
        for name, member in self._members.items():
            if member.role in (MemberRole.WORKER, MemberRole.DRIVER) and name not in {*self._peers, *self._refused}:
                self._greet(name)

    def _greet(self, name: str) -> None:
        """Connects to an ordinary worker, so that it can send here."""
        member = self._members[name]
        socket = self._peers[name] = self._connect(name, member.endpoint, member.public_key)
        self._senders[socket] = name
        self._poller.register(socket, zmq.POLLIN)
        super().send(name, Hello())

    def _cut(self, name: str) -> None:
        socket = self._peers.get(name)
        if socket is not None:
            self._poller.unregister(socket)
            del self._senders[socket]
        super()._cut(name)

    def send(self, to: str, frame: Frame) -> None:
        member = self._members.get(to)
        if to != COORDINATOR and member is not None and not member.endpoint:
            raise InvariantError("two transient workers talk to each other", f"{self.member} to {to}: {frame!r:.200}")
        super().send(to, frame)

    def poll(self, timeout_ms: float) -> list[Arrival]:
        now_s = time.monotonic()
        for name in [name for name, (due_s, _) in self._refused.items() if due_s <= now_s]:
            self._refused[name] = (float("inf"), self._refused[name][1])
            self._cut(name)
            self._greet(name)
        due_s = min((due_s for due_s, _ in self._refused.values()), default=float("inf"))
        return super().poll(min(timeout_ms, max(0.0, (due_s - now_s) * 1_000)))

    def _receive_from(self, socket: Any, arrivals: list[Arrival]) -> None:
        sender = self._senders.get(socket)
        if sender is not None:
            self._receive(sender, socket, arrivals)

    def _receive_monitor(self, monitor: Any, link: Link) -> None:
        while monitor.poll(0):
            event = recv_monitor_message(monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._refused.pop(link.to, None)
            refused = event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and link.to != COORDINATOR
            if refused and not link.established:
                waited_s = min(RETRY_S[1], 2 * self._refused.get(link.to, (0.0, RETRY_S[0] / 2))[1])
                self._refused[link.to] = (time.monotonic() + waited_s, waited_s)
            elif link.breaks(event):
                self._broken.append(link.to)
