"""Requests to an app of entities without sockets and without an event loop: the application is stepped by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp

from stretto import App
from stretto.serving.guard import Guard, Token
from stretto.serving.limits import Limits
from stretto.serving.web import Entities, EntityWeb

HOST = "127.0.0.1:8080"
JSON = {"content-type": "application/json"}
LIMITS = Limits(body_bytes=10_000)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        return cast(str, self.json["error"]["code"])

    @property
    def text(self) -> str:
        return cast(str, self.json["error"]["text"])


Within = Callable[[float], AbstractAsyncContextManager[Any]]


class Web:
    """The entities of an app, in this process, to be asked."""

    def __init__(
        self,
        app: App,
        token: str | None = None,
        entities: Entities | None = None,
        within: Within = lambda seconds: nullcontext(),
    ) -> None:
        guard = Guard(None if token is None else Token(token))
        self.entities: Any = entities or app.in_process()
        self._web = EntityWeb(app.name, self.entities, guard, LIMITS, within)

    def ask(
        self,
        verb: str,
        target: str,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """Returns the answer to a request, whose body comes in one part or in several."""
        return asked(self._web, verb, target, body, headers)

    def call(self, target: str, arguments: Any = None, headers: Mapping[str, str] = JSON) -> Answer:
        """Returns the answer to a POST."""
        return self.ask("POST", target, msgspec.json.encode({} if arguments is None else arguments), headers)


def asked(
    application: ASGIApp,
    verb: str,
    target: str,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
) -> Answer:
    """Returns the answer of an application to a request."""
    raw, _, query = target.encode().partition(b"?")
    given = headers.items() if isinstance(headers, Mapping) else headers
    names = {name for name, _ in given}
    both = [*given, *([] if "host" in names else [("host", HOST)])]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": verb,
        "path": unquote(raw.decode()),
        "raw_path": raw,
        "root_path": "",
        "query_string": query,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in both],
    }
    parts = iter([body] if isinstance(body, bytes) else body)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        part = next(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        sent.append(message)

    stepped(application(scope, receive, send))
    start, end = sent
    headers_out = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], headers_out, end["body"])


def stepped(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Returns what a coroutine returns that waits for nothing."""
    try:
        waits_for = coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError(f"it waits for {waits_for}")
