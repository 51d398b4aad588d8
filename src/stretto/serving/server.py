"""The life of a server: its socket, its thread, and its end, at which calls in flight are answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from stretto.errors import UserError
from stretto.runtime.entities.in_process import InProcess
from stretto.runtime.job import Job
from stretto.serving.connections import bounded
from stretto.serving.guard import Guard, Token, is_loopback_name
from stretto.serving.limits import Limits
from stretto.serving.web import EntityWeb

log = logging.getLogger("stretto.serving")

LOOPBACK = "127.0.0.1"
END_S = 5.0
"""How much longer than for a call the end waits for connections that are open."""


class Server:
    """Answers requests in a thread of its own, from `start` until `end`."""

    def __init__(self, listener: socket.socket, web: ASGIApp, limits: Limits, name: str = "serving") -> None:
        self._listener = listener
        address = listener.getsockname()
        host = f"[{address[0]}]" if listener.family == socket.AF_INET6 else address[0]
        self.url = f"http://{host}:{address[1]}/"
        config = uvicorn.Config(
            web,
            http=bounded(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=round(limits.call_s + END_S),
        )
        # In a thread, it leaves signals to the program.
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=f"stretto-{name}", daemon=True)

    @property
    def answered(self) -> int:
        """How many requests were answered."""
        return self._uvicorn.server_state.total_requests

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._listener.listen()  # Whoever connects from now on is answered when the loop runs.
        self._thread.start()

    def end(self) -> None:
        """Accepts no connections any more, answers what is in flight, and returns. When it is interrupted, such as by
        Ctrl-C, what is in flight is given up."""
        self._uvicorn.should_exit = True
        try:
            self._thread.join()
        except BaseException:
            self._uvicorn.force_exit = True
            self._thread.join()
            raise

    def _run(self) -> None:
        try:
            asyncio.run(self._uvicorn.serve([self._listener]))
        except Exception:
            log.exception("the server failed")
        finally:
            self._listener.close()


@contextmanager
def served(
    entities: Job | InProcess,
    *,
    host: str = LOOPBACK,
    port: int = 8080,
    token: str | None = None,
    limits: Limits | None = None,
) -> Iterator[Server]:
    """Answers HTTP requests to the entities of a job, or of `app.in_process()`, for the time of a `with` block.

    With a token, callers must send it. Without one, only callers of this machine are answered, and `host` must be a
    loopback address. With port 0 the system chooses one (see `Server.url`)."""
    with bound(host, port) as listener, serving(entities, listener, token, limits or Limits()) as server:
        yield server


@contextmanager
def serving(entities: Job | InProcess, listener: socket.socket, token: str | None, limits: Limits) -> Iterator[Server]:
    """Likewise, on a socket that is bound."""
    if token is None and not is_loopback(listener):
        raise UserError(
            "a server that is open to other machines needs a token",
            f"it listens on {listener.getsockname()[0]}",
            "Pass token=secrets.token_urlsafe(32), or listen on 127.0.0.1.",
        )
    guard = Guard(None if token is None else Token(token))
    door = entities.entity_client if isinstance(entities, Job) else entities
    server = Server(listener, EntityWeb(entities.name, door, guard, limits), limits)
    server.start()
    try:
        yield server
    finally:
        server.end()


def bound(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address, and does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise _cannot_listen(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        listener.close()
        raise _cannot_listen(host, port, error) from error
    return listener


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return is_loopback_name(listener.getsockname()[0])


def _cannot_listen(host: str, port: int, error: Exception) -> UserError:
    return UserError(f"nothing can listen on {host}, port {port}", str(error), "Choose another port or host.")
