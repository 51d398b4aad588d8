"""Sockets: an authenticated, encrypted mailbox per member, and connections to the others.

Every member binds a ROUTER socket on its own address and connects a DEALER to each peer that it sends to. Each message
is checked against the CURVE key that its connection authenticated with, so a member cannot send in another's name, and
frames of one that has left are refused. A member without an open port (`outward.py`) is reached over the connection
that it has made here.
"""

from __future__ import annotations

import threading
from typing import Any

import zmq
import zmq.auth.thread

from stretto.protocol.channels import Data
from stretto.protocol.frames import Frame
from stretto.protocol.membership import Heartbeat, Hello, Join, Leave, Member
from stretto.runtime.codec import FRAME_BYTES_MAX, encode
from stretto.runtime.connections import RECEIVE_AT_ONCE, Arrival, Connections, set_limits
from stretto.runtime.door import Door
from stretto.runtime.keys import AllowList, KeyPair

# Plain numbers: an enum costs as much as a small send or receive itself.
_RECEIVE_MORE, _NOBLOCK = int(zmq.RCVMORE), int(zmq.NOBLOCK)
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)

UNROUTED_MAX = 1_024
"""So many frames wait at most for the connection of a member without an open port."""


class Transport(Connections):
    """The sockets of a member with an open port."""

    def __init__(
        self, cluster: str, member: str, keys: KeyPair, address: str, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        super().__init__(cluster, member, keys, frame_bytes_max)
        self.allowed = AllowList(self.refusals.add)
        self._authenticator = zmq.auth.thread.ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self.allowed)
        self._admission = threading.Lock()
        self._expected: dict[str, str] = {}
        self._known_keys: dict[str, str] = {}
        self._former_keys: dict[str, str] = {}
        self._verified: dict[bytes, str] = {}
        self._routes: dict[str, bytes] = {}
        """The connections that members have made here, for those who are reached over them."""
        self._unrouted: dict[str, list[list[Any]]] = {}
        self._router = self._made_router()
        self._door = Door(self._router, address, self.refusals)
        self.endpoint = self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def _made_router(self) -> Any:
        router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_publickey = self._keys.public.encode()
        router.curve_secretkey = self._keys.secret.encode()
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        set_limits(router, self.frame_bytes_max)
        self._poller.register(router, zmq.POLLIN)
        return router

    # Who is admitted.

    def expect(self, member: str, public_key: str) -> None:
        """Admits a worker that is about to join. May be called from any thread.

        It must be called before the worker starts: a refused connection is not retried."""
        with self._admission:
            self._expected[member] = public_key
            self._admit()

    def dismiss(self, member: str) -> None:
        """Stops expecting a worker."""
        with self._admission:
            self._expected.pop(member, None)
            self._admit()

    def _admit(self) -> None:
        known = self._expected | {name: member.public_key for name, member in self._members.items()}
        self._former_keys |= {name: key for name, key in self._known_keys.items() if name not in known}
        self._known_keys, self._verified = known, {}
        self._door.members = len(known)
        self.allowed.replace(set(known.values()))

    def set_members(self, members: list[Member]) -> None:
        """Admits only these members and the expected ones, and cuts the connections to all others."""
        for name in self._members.keys() - {member.name for member in members}:
            self._routes.pop(name, None)
            self._unrouted.pop(name, None)
        super().set_members(members)
        with self._admission:
            for name in self._members:
                self._expected.pop(name, None)
            self._admit()

    # Sending.

    def send(self, to: str, frame: Frame) -> None:
        member = self._members.get(to)
        if member is None or member.endpoint:
            super().send(to, frame)
        elif to in self._routes:
            self._router.send_multipart([self._routes[to], *encode(frame)])
        else:
            waiting = self._unrouted.setdefault(to, [])
            if len(waiting) < UNROUTED_MAX:
                waiting.append(encode(frame))
            else:
                self._broken.append(to)

    def send_routed(self, to: str, frame: Frame) -> None:
        """Sends a frame from the coordinator, over the connection by which the member joined."""
        route = self._routes.get(to)
        if route is not None:
            self._router.send_multipart([route, *encode(frame)])

    def _greeted(self, sender: str, identity: bytes) -> None:
        """A member without an open port has connected: what waited for that is sent."""
        member = self._members.get(sender)
        if member is not None and not member.endpoint:
            self._routes[sender] = identity
            for parts in self._unrouted.pop(sender, []):
                self._router.send_multipart([identity, *parts])

    # Receiving.

    def _receive_from(self, socket: Any, arrivals: list[Arrival]) -> None:
        router = self._router
        for _ in range(RECEIVE_AT_ONCE):
            # A routing id ends in a secret of its connection, so its member is looked up only once.
            try:
                identity = router.recv(_NOBLOCK)
            except zmq.Again:
                return
            sender = self._verified.get(identity)
            # Copying costs less than a frame object, which is needed only for the key of a new connection.
            first = router.recv(_NOBLOCK, copy=sender is not None)
            parts = [first if sender is not None else first.buffer, *_rest(router)]
            if sender is None:
                sender = self._sender(identity, first)
                if sender is None:
                    continue
                self._verified[identity] = sender
            frame = self._decoded(sender, parts)
            if frame is not None:
                self._accept_routed(sender, frame, identity, arrivals)
            if not router.get(_EVENTS) & _READABLE:
                return

    def _accept_routed(self, sender: str, frame: Frame, identity: bytes, arrivals: list[Arrival]) -> None:
        if type(frame) is not Data:
            if isinstance(frame, Hello):
                self._greeted(sender, identity)
                return
            if isinstance(frame, Heartbeat) and self._coordinator is None:
                self._router.send_multipart([identity, *encode(Heartbeat())])
            if isinstance(frame, Join) and self._coordinator is None:
                if frame.member.name != sender:
                    self.refusals.add(f"{sender} asked to join as {frame.member.name[:80]!r}")
                    return
                self._routes.setdefault(sender, identity)
        self._accept(sender, frame, arrivals)

    def _sender(self, identity: bytes, first: Any) -> str | None:
        """Returns the member of a routing id, if the frame's connection authenticated with that member's key."""
        cluster, _, rest = identity.partition(b"/")
        member: str = rest.partition(b"/")[0].decode(errors="replace")
        if cluster != self.cluster.encode():
            self.refusals.add("a frame of another cluster")
            return None
        known = self._known_keys.get(member)
        if known is None:
            self.refusals.add(f"a frame of {member[:80]!r}, which is not a member")
            self._dismiss_former(member, identity, first)
            return None
        if first.get("User-Id") != known:
            self.refusals.add(f"a frame in the name of {member} with another key")
            return None
        return member

    def _dismiss_former(self, member: str, identity: bytes, first: Any) -> None:
        """Asks a worker that was lost and is back to leave; otherwise it would take the coordinator for paused."""
        if self._coordinator is None and first.get("User-Id") == self._former_keys.get(member):
            self._router.send_multipart([identity, *encode(Leave())])

    def close(self) -> None:
        self._door.close()
        self._router.close()
        self._authenticator.stop()
        super().close()


def _rest(socket: Any) -> list[Any]:
    """Returns the further parts of a message, without a copy: a body in a separate part is large."""
    parts: list[Any] = []
    while socket.get(_RECEIVE_MORE):
        parts.append(socket.recv(_NOBLOCK, copy=False).buffer)
    return parts
