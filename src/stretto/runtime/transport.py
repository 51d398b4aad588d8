"""Sockets: an authenticated, encrypted mailbox per member, and connections to the others.

Every member binds a ROUTER socket on its own address and connects a DEALER to each peer that it sends to. A connection
is known by its routing id, `cluster/member/role/nonce`; each message is checked against the CURVE key that its
connection authenticated with, so a member cannot send in another's name, and frames of one that has left are refused.
The nonce is random and known only to the two ends: a socket gives a routing id to the latest connection that uses it,
so a member that could guess another's would take over its connection.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any, get_args

import zmq
import zmq.auth.thread
from zmq.utils.monitor import recv_monitor_message

from stretto.errors import ProtocolError
from stretto.protocol.channels import Data
from stretto.protocol.elastic import Given, GivenInMemory
from stretto.protocol.frames import Frame, Peer
from stretto.protocol.handover import Bequest, BequestInMemory
from stretto.protocol.membership import COORDINATOR, Heartbeat, Join, Leave, Member
from stretto.runtime.codec import FRAME_BYTES_MAX, Decoder, encode
from stretto.runtime.door import Door
from stretto.runtime.keys import AllowList, KeyPair
from stretto.runtime.refusals import Refusals
from stretto.runtime.shared_states import SharedStates

MAIN, PULSE = "main", "pulse"
RECEIVE_AT_ONCE = 256
"""The number of messages taken from a socket before the others are polled."""
LINGER_MS = 2_000

_NOT_RETRIED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_OUTGOING_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _NOT_RETRIED

_BETWEEN_WORKERS = get_args(Peer)

# Plain numbers: an enum costs as much as a small send or receive itself.
_SEND_MORE, _RECEIVE_MORE, _NOBLOCK = int(zmq.SNDMORE), int(zmq.RCVMORE), int(zmq.NOBLOCK)
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)

Arrival = tuple[str, Frame]


class Transport:
    """One member's sockets. Not thread-safe: the loop that drives the member's machine owns it."""

    def __init__(
        self, cluster: str, member: str, keys: KeyPair, address: str, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self.cluster = cluster
        self.member = member
        self.frame_bytes_max = frame_bytes_max
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
        self._admission = threading.Lock()
        self._expected: dict[str, str] = {}
        self._known_keys: dict[str, str] = {}
        self._former_keys: dict[str, str] = {}
        self._verified: dict[bytes, str] = {}
        self._peers: dict[str, Any] = {}
        self._routes: dict[str, bytes] = {}
        self._coordinator: Any = None
        self._links: dict[Any, Link] = {}
        """The outgoing connections by their monitors."""
        self._broken: list[str] = []
        self._wakers: dict[int, Callable[[], None]] = {}
        self._shared = SharedStates()
        self._router = self._made_router()
        self._door = Door(self._router, address, self.refusals)
        self.endpoint: str = self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def _made_router(self) -> Any:
        router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_publickey = self._keys.public.encode()
        router.curve_secretkey = self._keys.secret.encode()
        router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        _settings(router, self.frame_bytes_max)
        self._poller.register(router, zmq.POLLIN)
        return router

    def connect_coordinator(self, endpoint: str, public_key: str) -> None:
        self._coordinator = self._connect(COORDINATOR, endpoint, public_key)
        self._poller.register(self._coordinator, zmq.POLLIN)

    def _connect(self, to: str, endpoint: str, public_key: str) -> Any:
        identity = routing_id(self.cluster, self.member, MAIN)
        link = dealer(self._context, None, public_key, self._keys, identity)
        monitor = link.get_monitor_socket(_OUTGOING_EVENTS)
        self._links[monitor] = Link(to)
        self._poller.register(monitor, zmq.POLLIN)
        link.connect(endpoint)
        return link

    def _cut(self, name: str) -> None:
        """Ends the connection to a member."""
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        peer.disable_monitor()
        for monitor in [monitor for monitor, link in self._links.items() if link.to == name]:
            self._poller.unregister(monitor)
            del self._links[monitor]
            monitor.close()
        peer.close(linger=0)

    def taken_broken(self) -> list[str]:
        """Returns the peers whose connections have broken since the last call; frames in flight on them may be lost."""
        broken, self._broken = self._broken, []
        return broken

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
        current = {member.name: member for member in members}
        for name in self._members.keys() - current.keys():
            self._decoder.forget(name)
            self._routes.pop(name, None)
            self._cut(name)
        with self._admission:
            self._members = current
            for name in current:
                self._expected.pop(name, None)
            self._admit()

    def send(self, to: str, frame: Frame) -> None:
        """Sends a frame to the coordinator or to a member; never blocks."""
        if type(frame) in (Given, Bequest) and to in self._members:
            frame = self._shared.outgoing(frame, self._members[to])
        parts = encode(frame)
        if to == COORDINATOR:
            socket = self._coordinator
        else:
            socket = self._peers.get(to)
            if socket is None:
                member = self._members.get(to)
                if member is None:
                    return  # It has left; the frame is of no use.
                socket = self._peers[to] = self._connect(to, member.endpoint, member.public_key)
        _send_parts(socket, parts)

    def send_routed(self, to: str, frame: Frame) -> None:
        """Sends a frame from the coordinator, over the connection by which the member joined."""
        route = self._routes.get(to)
        if route is not None:
            self._router.send_multipart([route, *encode(frame)])

    def watch(self, fd: int, wake: Callable[[], None]) -> None:
        """Calls `wake` when a file descriptor becomes readable."""
        self._wakers[fd] = wake
        self._poller.register(fd, zmq.POLLIN)

    def poll(self, timeout_ms: float) -> list[Arrival]:
        """Returns what has arrived; waits up to the timeout if nothing has."""
        arrivals: list[Arrival] = []
        for socket, _ in self._poller.poll(int(timeout_ms)):
            if socket is self._router:
                self._receive_routed(arrivals)
            elif socket is self._coordinator:
                self._receive_coordinator(arrivals)
            elif socket in self._links:
                self._receive_monitor(socket, self._links[socket])
            else:
                self._wakers[socket]()
        return arrivals

    def _receive_routed(self, arrivals: list[Arrival]) -> None:
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
                self._accept(sender, frame, identity, arrivals)
            if not router.get(_EVENTS) & _READABLE:
                return

    def _accept(self, sender: str, frame: Frame, identity: bytes, arrivals: list[Arrival]) -> None:
        if type(frame) is not Data:
            if self._coordinator is not None and not isinstance(frame, _BETWEEN_WORKERS):
                # Only the coordinator decides on jobs and membership, and it has its own connection.
                self.refusals.add(f"a frame of type {type(frame).__name__} from {sender}, which is not the coordinator")
                return
            if isinstance(frame, Heartbeat):
                self._router.send_multipart([identity, *encode(Heartbeat())])
            if isinstance(frame, Join):
                if frame.member.name != sender:
                    self.refusals.add(f"{sender} asked to join as {frame.member.name[:80]!r}")
                    return
                self._routes.setdefault(sender, identity)
            if type(frame) in (GivenInMemory, BequestInMemory):
                self._accept_shared(sender, frame, arrivals)
                return
        arrivals.append((sender, frame))

    def _accept_shared(self, sender: str, frame: GivenInMemory | BequestInMemory, arrivals: list[Arrival]) -> None:
        try:
            arrivals.append((sender, self._shared.incoming(frame)))
        except ProtocolError as error:
            self.refusals.add(f"a frame of {sender}: {error}")
            self._broken.append(sender)  # The states are lost, as if its connection had broken.

    def _decoded(self, sender: str, parts: list[Any]) -> Frame | None:
        if max(map(len, parts), default=0) > self.frame_bytes_max:
            self.refusals.add(f"a frame of {sender} that is longer than {self.frame_bytes_max} bytes")
            return None
        try:
            return self._decoder.decode(sender, parts)
        except ProtocolError as error:
            self.refusals.add(f"a frame of {sender}: {error}")
            return None

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

    def _receive_coordinator(self, arrivals: list[Arrival]) -> None:
        for _ in range(RECEIVE_AT_ONCE):
            try:
                parts = self._coordinator.recv_multipart(_NOBLOCK)
            except zmq.Again:
                return
            frame = self._decoded(COORDINATOR, parts)
            if frame is not None:
                arrivals.append((COORDINATOR, frame))

    def _receive_monitor(self, monitor: Any, link: Link) -> None:
        while monitor.poll(0):
            if link.breaks(recv_monitor_message(monitor)["event"]):
                self._broken.append(link.to)

    def close(self) -> None:
        self._shared.close()
        self._door.close()
        self._router.close()
        for socket in (self._coordinator, *self._peers.values()):
            if socket is not None:
                socket.disable_monitor()
                socket.close()
        for monitor in self._links:
            monitor.close()
        self._authenticator.stop()
        self._context.term()


class Link:
    """An outgoing connection. Frames are lost when it breaks, unless it was still in its handshake: then they wait for
    the next connection, which the socket makes by itself."""

    def __init__(self, to: str) -> None:
        self.to = to
        self._established = False

    def breaks(self, event: int) -> bool:
        """Takes in an event of its monitor, and returns whether frames may be lost."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._established = True
            return False
        broken = self._established or bool(event & _NOT_RETRIED)
        self._established = False
        return broken


def _settings(socket: Any, frame_bytes_max: int) -> None:
    # Credits bound the messages in flight, so the sockets themselves must never drop or block.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    # Beyond this the socket cuts the connection before it allocates memory, without an event; shorter ones we count.
    socket.setsockopt(zmq.MAXMSGSIZE, 2 * frame_bytes_max)


def _rest(socket: Any) -> list[Any]:
    """Returns the further parts of a message, without a copy: a body in a separate part is large."""
    parts: list[Any] = []
    while socket.get(_RECEIVE_MORE):
        parts.append(socket.recv(_NOBLOCK, copy=False).buffer)
    return parts


def _send_parts(socket: Any, parts: list[Any]) -> None:
    """Sends a message of one part, of two, or of three with a SYNC program before a batch."""
    if len(parts) != 2:
        socket.send_multipart(parts) if len(parts) > 1 else socket.send(parts[0])
        return
    header, body = parts  # The body is a separate part because it is too large to be copied.
    socket.send(header, _SEND_MORE)
    socket.send(body, 0, copy=False)


def routing_id(cluster: str, member: str, role: str) -> bytes:
    return f"{cluster}/{member}/{role}/{secrets.token_hex(16)}".encode()


def dealer(context: Any, endpoint: str | None, server_key: str, keys: KeyPair, identity: bytes) -> Any:
    """Returns a connection to a member's mailbox; without an endpoint, it is not connected yet."""
    socket = context.socket(zmq.DEALER)
    socket.curve_serverkey = server_key.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
    socket.setsockopt(zmq.ROUTING_ID, identity)
    _settings(socket, FRAME_BYTES_MAX)
    if endpoint is not None:
        socket.connect(endpoint)
    return socket
