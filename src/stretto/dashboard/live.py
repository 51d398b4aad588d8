"""The page of a cluster that runs: it shows a recording to browsers, until it is closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from stretto.dashboard.questions import QUESTIONS_MAX
from stretto.dashboard.recording import Recording
from stretto.dashboard.web import CONTROLS_MAX, PAGE_LIMITS, DashboardWeb, OfCluster
from stretto.errors import UserError
from stretto.serving.guard import Guard, Token, new_secret
from stretto.serving.server import LOOPBACK, Server, bound, is_loopback

PORT = 4141

T = TypeVar("T")


class Page:
    """The page of a cluster. `url` has the token in its fragment, which a browser does not send."""

    def __init__(self, recording: Recording, cluster: OfCluster, at: str | bool = True) -> None:
        listener = _listener(at)
        secret = new_secret()
        reading = Guard(None if is_loopback(listener) else Token(secret))
        # Of its own, so that neither actions nor questions wait for each other's threads.
        self._threads = ThreadPoolExecutor(CONTROLS_MAX + QUESTIONS_MAX, "stretto-page")
        changing = Guard(Token(secret))
        self._web = DashboardWeb(recording.kept, recording.title, reading, changing, cluster, in_thread=self._in_thread)
        self._server = Server(listener, self._web, PAGE_LIMITS, "page")
        self.address = self._server.url
        """Without the token."""
        self.url = f"{self.address}#token={secret}"
        self._server.start()

    def __repr__(self) -> str:
        return f"<Page at {self.address}>"

    def close(self) -> None:
        """Ends the pages that are open, and the server."""
        if self._server.runs:
            self._web.close()
            self._server.end()
        self._threads.shutdown()

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))


def _listener(at: str | bool) -> socket.socket:
    """Returns a socket at an address, or at any free port where none was named and the usual one is taken."""
    if not isinstance(at, bool):
        return bound(*_address(at))
    try:
        return bound(LOOPBACK, PORT)
    except UserError:
        return bound(LOOPBACK, 0)


def _address(at: str) -> tuple[str, int]:
    host, _, port = at.rpartition(":")
    with suppress(ValueError):
        if host and 0 <= int(port) < 65_536:
            return host.strip("[]"), int(port)
    raise UserError("this is no address for the page", repr(at), 'Use page=True, or page="127.0.0.1:4141".')
