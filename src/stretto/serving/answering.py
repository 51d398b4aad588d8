"""What every application of this project over HTTP does alike: refusals are JSON with a code, failures are logged and
say nothing of the inside, bodies have limits in size and in time.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stretto.serving.limits import Limits
from stretto.serving.refusals import Refused, Why

log = logging.getLogger("stretto.serving")

T = TypeVar("T")
Within = Callable[[float], AbstractAsyncContextManager[Any, None]]

JSON = "application/json"
ON_ALL = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of all answers, beside the policy for contents."""


class Answering(ABC):
    """An ASGI application. `policy` is the Content-Security-Policy of all answers; `within` limits the time of a
    block."""

    def __init__(self, policy: str, limits: Limits, within: Within = asyncio.timeout) -> None:
        self._headers = {**ON_ALL, "Content-Security-Policy": policy}
        self._limits = limits
        self._within = within

    @abstractmethod
    async def _answer(self, request: Request) -> Response:
        """Returns the answer to a request, or raises a Refused."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Refused as refused:
            content = msgspec.json.encode(refused.content())
            response = Response(content, refused.why.status, refused.headers, JSON)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("a request failed: %s", request.method)
            content = msgspec.json.encode(Refused(Why.FAILED, "the server failed; its log says why").content())
            response = Response(content, Why.FAILED.status, None, JSON)
        response.headers.update(self._headers)
        await response(scope, receive, send)

    async def _body(self, request: Request) -> bytes:
        """Returns the body of a request, which is declared as JSON if there is one."""
        limit = self._limits.body_bytes
        too_large = Refused(Why.TOO_LARGE, f"the body has more than {limit:,} bytes")
        # The HTTP library has checked that it is a number.
        if int(request.headers.get("content-length", "0")) > limit:
            raise too_large

        async def read() -> bytes:
            body = bytearray()
            async for part in request.stream():
                body.extend(part)
                if len(body) > limit:
                    raise too_large
            return bytes(body)

        # Nobody waits for the rest of a body that is late.
        text = f"the body was not there after {self._limits.request_s:g} s"
        late = Refused(Why.TOO_SLOW, text, {"Connection": "close"})
        body = await self._in_time(read(), self._limits.request_s, late)
        declared = request.headers.get("content-type", "")
        if (body or declared) and declared.partition(";")[0].strip().lower() != JSON:
            raise Refused(Why.NOT_JSON, f"the body must be declared: Content-Type: {JSON}")
        return body

    async def _in_time(self, work: Coroutine[Any, Any, T], seconds: float, late: Refused) -> T:
        """Returns what the work returns; ends it, and raises, when it takes longer."""
        try:
            async with self._within(seconds):
                return await work
        except TimeoutError as error:
            raise late from error
        finally:
            work.close()  # It may not have begun.


def check_verb(verb: str, allowed: list[str]) -> None:
    """Raises a Refused if a path does not take a verb."""
    if verb not in allowed:
        raise Refused(Why.WRONG_VERB, f"this path takes {' and '.join(allowed)}", {"Allow": ", ".join(allowed)})


def answer_of(
    found: Any, encode: Callable[[Any], bytes] = msgspec.json.encode, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns plain data as an answer."""
    return Response(encode(found), headers=headers, media_type=JSON)
