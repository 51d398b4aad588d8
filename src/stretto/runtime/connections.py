"""The connections that a member makes to others, which is all that a member without an open port has.

A connection is known by its routing id, `cluster/member/role/nonce`. The nonce is random and known only to the two
ends: a socket gives a routing id to the latest connection that uses it, so a member that could guess another's would
take over its connection. Who answers at the other end is known by its CURVE key.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, get_args

import zmq
from zmq.utils.monitor import recv_monitor_message

from stretto.errors import ProtocolError
from stretto.protocol.channels import Data
from stretto.protocol.elastic import Given, GivenInMemory
from stretto.protocol.frames import Frame, Peer
from stretto.protocol.handover import Bequest, BequestInMemory
from stretto.protocol.membership import COORDINATOR, Member
from stretto.runtime.codec import FRAME_BYTES_MAX, Decoder, encode
from stretto.runtime.keys import KeyPair
from stretto.runtime.refusals import Refusals
from stretto.runtime.shared_states import SharedStates

MAIN, PULSE = "main", "pulse"
RECEIVE_AT_ONCE = 256
"""The number of messages taken from a socket before the others are polled."""
LINGER_MS = 2_000

_NOT_RETRIED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_OUTGOING_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | _NOT_RETRIED

BETWEEN_WORKERS = get_args(Peer)

# Plain numbers: an enum costs as much as a small send or receive itself.
_SEND_MORE, _NOBLOCK = int(zmq.SNDMORE), int(zmq.NOBLOCK)

Arrival = tuple[str, Frame]


class Connections:
    """The outgoing connections of one member. Not thread-safe: the loop that drives the member's machine owns it."""

    endpoint = ""
    """Where others can connect to it; a member without an open port has none."""

    def __init__(self, cluster: str, member: str, keys: KeyPair, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.cluster = cluster
        self.member = member
        self.frame_bytes_max = frame_bytes_max
        self.refusals = Refusals(member)
        self._keys = keys
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._decoder = Decoder()
        self._members: dict[str, Member] = {}
        self._peers: dict[str, Any] = {}
        self._coordinator: Any = None
        self._links: dict[Any, Link] = {}
        """The outgoing connections by their monitors."""
        self._broken: list[str] = []
        self._wakers: dict[int, Callable[[], None]] = {}
        self._shared = SharedStates()

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

    def set_members(self, members: list[Member]) -> None:
        """Knows only these members from now on, and cuts the connections to all others."""
        current = {member.name: member for member in members}
        for name in self._members.keys() - current.keys():
            self._decoder.forget(name)
            self._cut(name)
        self._members = current

    def send(self, to: str, frame: Frame) -> None:
        """Sends a frame to the coordinator or to a member; never blocks."""
        if type(frame) in (Given, Bequest) and to in self._members:
            frame = self._shared.outgoing(frame, self._members[to])
        parts = encode(frame)
        socket = self._coordinator if to == COORDINATOR else self._peers.get(to)
        if socket is None:
            member = self._members.get(to)
            if member is None:
                return  # It has left; the frame is of no use.
            socket = self._peers[to] = self._connect(to, member.endpoint, member.public_key)
        send_parts(socket, parts)

    def watch(self, fd: int, wake: Callable[[], None]) -> None:
        """Calls `wake` when a file descriptor becomes readable."""
        self._wakers[fd] = wake
        self._poller.register(fd, zmq.POLLIN)

    def poll(self, timeout_ms: float) -> list[Arrival]:
        """Returns what has arrived; waits up to the timeout if nothing has."""
        arrivals: list[Arrival] = []
        for socket, _ in self._poller.poll(int(timeout_ms)):
            if socket is self._coordinator:
                self._receive(COORDINATOR, socket, arrivals)
            elif socket in self._links:
                self._receive_monitor(socket, self._links[socket])
            elif socket in self._wakers:
                self._wakers[socket]()
            else:
                self._receive_from(socket, arrivals)
        return arrivals

    def _receive_from(self, socket: Any, arrivals: list[Arrival]) -> None:
        """Takes what has arrived from members."""
        raise NotImplementedError

    def _receive(self, sender: str, socket: Any, arrivals: list[Arrival]) -> None:
        """Takes what has arrived on a connection that this member made to `sender`."""
        for _ in range(RECEIVE_AT_ONCE):
            try:
                parts = socket.recv_multipart(_NOBLOCK)
            except zmq.Again:
                return
            frame = self._decoded(sender, parts)
            if frame is not None:
                self._accept(sender, frame, arrivals)

    def _accept(self, sender: str, frame: Frame, arrivals: list[Arrival]) -> None:
        """Takes a frame, unless only the coordinator may send such: it alone decides on jobs and membership, and it has
        its own connection."""
        if type(frame) is Data:
            arrivals.append((sender, frame))
        elif sender != COORDINATOR and self._coordinator is not None and not isinstance(frame, BETWEEN_WORKERS):
            self.refusals.add(f"a frame of type {type(frame).__name__} from {sender}, which is not the coordinator")
        elif type(frame) in (GivenInMemory, BequestInMemory):
            self._accept_shared(sender, frame, arrivals)
        else:
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

    def _receive_monitor(self, monitor: Any, link: Link) -> None:
        while monitor.poll(0):
            if link.breaks(recv_monitor_message(monitor)["event"]):
                self._broken.append(link.to)

    def close(self) -> None:
        self._shared.close()
        for socket in (self._coordinator, *self._peers.values()):
            if socket is not None:
                socket.disable_monitor()
                socket.close()
        for monitor in self._links:
            monitor.close()
        self._context.term()


class Link:
    """An outgoing connection. Frames are lost when it breaks, unless it was still in its handshake: then they wait for
    the next connection, which the socket makes by itself."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.established = False

    def breaks(self, event: int) -> bool:
        """Takes in an event of its monitor, and returns whether frames may be lost."""
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.established = True
            return False
        broken = self.established or bool(event & _NOT_RETRIED)
        self.established = False
        return broken


def set_limits(socket: Any, frame_bytes_max: int) -> None:
    # Credits bound the messages in flight, so the sockets themselves must never drop or block.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    # Beyond this the socket cuts the connection before it allocates memory, without an event; shorter ones we count.
    socket.setsockopt(zmq.MAXMSGSIZE, 2 * frame_bytes_max)


def send_parts(socket: Any, parts: list[Any]) -> None:
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
    set_limits(socket, FRAME_BYTES_MAX)
    if endpoint is not None:
        socket.connect(endpoint)
    return socket
