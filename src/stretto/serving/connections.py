"""Connections that keep to the limits: not too many, and none that holds its place without any progress.

uvicorn closes a connection that is idle after an answer; it would wait for ever for the end of a request's head, and
for a client that does not read. Here each connection is looked at from time to time: one that waits for its client, and
has not advanced since the last look, is ended.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from stretto.serving.limits import Limits

_RESET = struct.pack("ii", 1, 0)
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """Returns the protocol of connections with these limits."""

    class BoundedProtocol(H11Protocol):
        _next_look: asyncio.TimerHandle | None = None
        _seen: tuple[Any, ...] = ()

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_FULL)
                transport.close()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._next_look is not None:
                self._next_look.cancel()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Ends the connection if it waits for its client, as it did at the last look."""
            unsent = self.transport.get_write_buffer_size()
            runs = self.cycle is not None and not self.cycle.response_complete
            seen = self.cycle, runs
            is_stalled = seen == self._seen[:2] and not 0 < unsent < self._seen[2]
            if is_stalled and (not runs or self.flow.write_paused):
                if unsent:  # The kernel would keep what it has for a client that does not read.
                    self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self.transport.abort()
                return
            self._seen = *seen, unsent
            self._next_look = self.loop.call_later(limits.request_s, self._look)

    return BoundedProtocol
