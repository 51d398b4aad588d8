"""Carries out orders to Redis or Valkey beside the loop of a worker: one thread and one connection per server, so what
was ordered first is done first.

A list is a list, a map a hash and a counter a string of digits, as others read and write them; all other values are
msgpack. The writes of one batch are one transaction of the server.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any

import msgspec

from stretto.rendering import error_text
from stretto.runtime.event_pipe import EventPipe
from stretto.sharing.contents import Act, Kind, ObjectContent, Write
from stretto.sharing.state import Server
from stretto.worker.events import Event, ReadServer, ServerAnswered, ServerFailed, ServerWritten, WriteServer

log = logging.getLogger("stretto.worker")

TIMEOUT_S = 5.0
ONCE_MS = 24 * 3_600_000
"""How long a server knows which writes it has made once."""

_ONCE = """
if not redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[1]) then return 0 end
redis.call(ARGV[2], KEYS[1], unpack(ARGV, 4))
if ARGV[3] ~= '' then redis.call('LTRIM', KEYS[1], ARGV[3], -1) end
return 1
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_Order = ReadServer | WriteServer


class ObjectServers:
    """`fd` is readable when there are `events`. A server's thread is started with the first order to it."""

    def __init__(self) -> None:
        self._pipe: EventPipe[Event] = EventPipe()
        self.fd = self._pipe.fd
        self.events = self._pipe.events
        self._queues: dict[Server, queue.SimpleQueue[_Order | None]] = {}
        self._threads: list[threading.Thread] = []

    def begin(self, order: _Order) -> None:
        """Starts what a machine wants done; its outcome will be in `events`."""
        orders = self._queues.get(order.server)
        if orders is None:
            orders = self._queues[order.server] = queue.SimpleQueue()
            thread = threading.Thread(
                target=self._serve, args=(order.server, orders), name="stretto-objects", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        orders.put(order)

    def close(self) -> None:
        """Ends the threads. What was not confirmed will be ordered again by whoever comes next."""
        for orders in self._queues.values():
            orders.put(None)
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)
        self._pipe.close()

    def _serve(self, server: Server, orders: queue.SimpleQueue[_Order | None]) -> None:
        connection = Connection(server)
        while (order := orders.get()) is not None:
            self._pipe.put(connection.carried_out(order))
        connection.close()


class Connection:
    """A connection to one server, which is made when it is first used, and again after it broke."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client: Any = None
        self._once: Any = None

    def carried_out(self, order: _Order) -> Event:
        """Does what was ordered, and returns what became of it."""
        try:
            import redis  # An optional dependency, which only those need who use a server.
        except ImportError:
            return ServerFailed(order.job, order.number, "the package redis is missing: pip install redis", True)
        try:
            self._connect(redis)
            return self._read(order) if isinstance(order, ReadServer) else self._write(order)
        except Exception as error:
            known = redis.exceptions
            lost = isinstance(error, known.ConnectionError | known.TimeoutError | known.ReadOnlyError | OSError)
            lasting = not lost or isinstance(error, known.AuthenticationError | known.AuthorizationError)
            return ServerFailed(order.job, order.number, self._said(error), lasting)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _connect(self, redis: Any) -> None:
        if self._client is None:
            never = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # The machine tries again, and gives up.
            self._client = redis.Redis.from_url(
                self._server.reveal(), socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=never
            )
            self._once = self._client.register_script(_ONCE)

    def _said(self, error: Exception) -> str:
        """Returns what an error says, without the credentials."""
        text = error_text(error)
        settings = {} if self._client is None else self._client.connection_pool.connection_kwargs
        for name in ("password", "username"):
            if settings.get(name):
                text = text.replace(str(settings[name]), "***")
        return text.replace(self._server.reveal(), repr(self._server))

    # Reading.

    def _read(self, order: ReadServer) -> ServerAnswered:
        pipe = self._client.pipeline(transaction=False)
        for kind, name in order.wanted:
            key = _key(order.space, name)
            match kind:
                case Kind.LIST:
                    pipe.lrange(key, 0, -1)
                case Kind.MAP:
                    pipe.hgetall(key)
                case _:
                    pipe.get(key)
        found = pipe.execute()
        contents = (_content(kind, each) for (kind, _), each in zip(order.wanted, found, strict=True))
        return ServerAnswered(order.job, order.number, tuple(contents))

    # Writing.

    def _write(self, order: WriteServer) -> ServerWritten:
        pipe = self._client.pipeline(transaction=True)
        once: dict[int, int] = {}
        commands = 0
        for place, (name, write) in enumerate(order.writes):
            if write.once is not None:
                once[commands] = place
            commands += self._add(pipe, _key(order.space, name), write)
        done = pipe.execute()
        again = tuple(place for command, place in once.items() if not done[command])
        return ServerWritten(order.job, order.number, again)

    def _add(self, pipe: Any, key: str, write: Write) -> int:
        """Adds a write to a transaction; returns how many commands it is."""
        name, *arguments = _command(write)
        if write.once is not None:
            keep = "" if write.keep is None else -write.keep
            self._once(keys=[key, f"{key}:once:{write.once}"], args=[ONCE_MS, name, keep, *arguments], client=pipe)
            return 1
        pipe.execute_command(name, key, *arguments)
        if write.keep is None:
            return 1
        pipe.ltrim(key, -write.keep, -1)
        return 2


def _key(space: str, name: str) -> str:
    return f"{space}:{name}"


def _command(write: Write) -> tuple[Any, ...]:
    match write.act:
        case Act.SET:
            return "SET", write.data
        case Act.APPEND:
            return "RPUSH", write.data
        case Act.PUT:
            return "HSET", write.key, write.data
        case Act.REMOVE:
            return "HDEL", write.key
        case Act.ADD:
            return "INCRBY", _decode(write.data)
        case Act.DELETE:
            return ("DEL",)


def _content(kind: Kind, found: Any) -> ObjectContent | None:
    """Returns what an object holds, from what the server has said."""
    if not found and found != b"":
        return None
    match kind:
        case Kind.LIST:
            data = _encode([msgspec.Raw(each) for each in found])
        case Kind.MAP:
            data = _encode({_decode(key): msgspec.Raw(value) for key, value in found.items()})
        case Kind.COUNTER:
            data = _encode(int(found))
        case Kind.VALUE:
            data = found
    return ObjectContent(kind.value, data)
