"""Sockets: an authenticated, encrypted mailbox per member, and connections to the others.

Every member binds a ROUTER socket on its own address and connects a DEALER to each peer that it sends to. A connection
is known by its routing id, `cluster/member/role`; each message is checked against the CURVE key that the connection
authenticated with, so a member cannot speak in another's name, and one that left the membership is not heard any more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import zmq
import zmq.auth.thread
from zmq.utils.monitor import recv_monitor_message

from stretto.errors import ProtocolError
from stretto.protocol import COORDINATOR, Frame, Heartbeat, Join, Member
from stretto.runtime.codec import FRAME_BYTES_MAX, Decoder, encode
from stretto.runtime.keys import AllowList, KeyPair

log = logging.getLogger("stretto.transport")

MAIN, PULSE = "main", "pulse"
COPY_BELOW_BYTES = 65_536
"""Shorter parts are cheaper to copy than to hand over to the socket's thread."""
RECEIVE_AT_ONCE = 256
"""Messages taken from a socket before others get their turn."""
LINGER_MS = 2_000

_FAILED_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)

Arrival = tuple[str, Frame]


class Refusals:
    """Counts what was refused, by reason, and logs the first of each kind loudly. Used from several threads."""

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


class Transport:
    """One member's sockets. Not thread-safe: the loop that drives the member's machine owns it."""

    def __init__(self, cluster: str, member: str, keys: KeyPair, address: str) -> None:
        self.cluster = cluster
        self.member = member
        self.refusals = Refusals(member)
        self.allowed = AllowList(self.refusals.add)
        self._keys = keys
        self._context = zmq.Context()
        self._authenticator = zmq.auth.thread.ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self.allowed)
        self._poller = zmq.Poller()
        self._decoder = Decoder()
        self._members: dict[str, Member] = {}
        self._known_keys: dict[str, str] = {}
        self._peers: dict[str, Any] = {}
        self._coordinator: Any = None
        self._wakers: dict[int, Callable[[], None]] = {}
        self._router = self._bind(address)
        self.endpoint: str = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._monitor = self._router.get_monitor_socket(_FAILED_HANDSHAKES)
        self._poller.register(self._monitor, zmq.POLLIN)

    def _bind(self, address: str) -> Any:
        router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_publickey = self._keys.public.encode()
        router.curve_secretkey = self._keys.secret.encode()
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._settings(router)
        router.bind(f"tcp://{address}:*")
        self._poller.register(router, zmq.POLLIN)
        return router

    @staticmethod
    def _settings(socket: Any) -> None:
        # Credits bound what is under way, so the sockets themselves must never drop or block.
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX)

    def connect_coordinator(self, endpoint: str, public_key: str) -> None:
        self._coordinator = self._connect(endpoint, public_key)
        self._poller.register(self._coordinator, zmq.POLLIN)

    def _connect(self, endpoint: str, public_key: str) -> Any:
        return dealer(self._context, endpoint, public_key, self._keys, routing_id(self.cluster, self.member, MAIN))

    def expect(self, member: str, public_key: str) -> None:
        """Admit a worker that is about to join."""
        self._known_keys[member] = public_key
        self.allowed.add(public_key)

    def set_members(self, members: list[Member], expected: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        """Admit these members (and the expected ones) and no others; cut the connections to those that are gone."""
        current = {member.name: member for member in members}
        for name in self._members.keys() - current.keys():
            self._decoder.forget(name)
            peer = self._peers.pop(name, None)
            if peer is not None:
                peer.close(linger=0)
        self._members = current
        self._known_keys = {name: key for name, key in self._known_keys.items() if name in expected}
        self._known_keys.update({name: member.public_key for name, member in current.items()})
        self.allowed.replace(set(self._known_keys.values()))

    def send(self, to: str, frame: Frame) -> None:
        """Send a frame to the coordinator or to a member; never blocks."""
        parts = encode(frame)
        if to == COORDINATOR:
            socket = self._coordinator
        else:
            socket = self._peers.get(to)
            if socket is None:
                member = self._members.get(to)
                if member is None:
                    return  # It left; whatever this was about ends with it.
                socket = self._peers[to] = self._connect(member.endpoint, member.public_key)
        large = len(parts) == 3 and parts[2].size >= COPY_BELOW_BYTES
        socket.send_multipart(parts, copy=not large)

    def send_routed(self, to: str, frame: Frame) -> None:
        """From the coordinator: send over the connection that the member made."""
        self._router.send_multipart([routing_id(self.cluster, to, MAIN), *encode(frame)])

    def watch(self, fd: int, wake: Callable[[], None]) -> None:
        """Call `wake` when a file descriptor becomes readable."""
        self._wakers[fd] = wake
        self._poller.register(fd, zmq.POLLIN)

    def poll(self, timeout_ms: float) -> list[Arrival]:
        """What has arrived; waits up to the timeout when nothing has."""
        arrivals: list[Arrival] = []
        for socket, _ in self._poller.poll(timeout_ms):
            if socket is self._router:
                self._receive_routed(arrivals)
            elif socket is self._coordinator:
                self._receive_coordinator(arrivals)
            elif socket is self._monitor:
                self._receive_monitor()
            else:
                self._wakers[socket]()
        return arrivals

    def _receive_routed(self, arrivals: list[Arrival]) -> None:
        for _ in range(RECEIVE_AT_ONCE):
            try:
                parts = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            sender = self._sender(parts[0])
            if sender is None:
                continue
            try:
                frame = self._decoder.decode(sender, [part.buffer for part in parts[1:]])
            except ProtocolError as error:
                self.refusals.add(f"a frame of {sender}: {error}")
                continue
            if isinstance(frame, Heartbeat):
                self._router.send_multipart([parts[0].bytes, *encode(Heartbeat())])
            if isinstance(frame, Join) and frame.member.name != sender:
                self.refusals.add(f"{sender} asked to join as {frame.member.name}")
                continue
            arrivals.append((sender, frame))

    def _sender(self, identity: Any) -> str | None:
        """The member behind a routing id, if the connection's key is that member's."""
        text = identity.bytes
        cluster, _, rest = text.partition(b"/")
        member = rest.partition(b"/")[0].decode(errors="replace")
        if cluster != self.cluster.encode():
            self.refusals.add("a frame of another cluster")
            return None
        known = self._known_keys.get(member)
        if known is None:
            self.refusals.add(f"a frame of {member[:80]}, which is not a member")
            return None
        if identity.get("User-Id") != known:
            self.refusals.add(f"a frame in the name of {member[:80]} with another key")
            return None
        return member

    def _receive_coordinator(self, arrivals: list[Arrival]) -> None:
        for _ in range(RECEIVE_AT_ONCE):
            try:
                parts = self._coordinator.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            arrivals.append((COORDINATOR, self._decoder.decode(COORDINATOR, [part.buffer for part in parts])))

    def _receive_monitor(self) -> None:
        while self._monitor.poll(0):
            recv_monitor_message(self._monitor)
            self.refusals.add("a connection that failed the handshake")

    def close(self) -> None:
        self._router.disable_monitor()
        for socket in (self._monitor, self._router, self._coordinator, *self._peers.values()):
            if socket is not None:
                socket.close()
        self._authenticator.stop()
        self._context.term()


def routing_id(cluster: str, member: str, role: str) -> bytes:
    return f"{cluster}/{member}/{role}".encode()


def dealer(context: Any, endpoint: str, server_key: str, keys: KeyPair, identity: bytes) -> Any:
    """A connection to a member's mailbox."""
    socket = context.socket(zmq.DEALER)
    socket.curve_serverkey = server_key.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
    socket.setsockopt(zmq.ROUTING_ID, identity)
    Transport._settings(socket)
    socket.connect(endpoint)
    return socket
