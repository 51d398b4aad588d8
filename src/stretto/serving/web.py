"""A request from its path to its answer: `POST /Account/ann/transfer` is a call of a method, awaited here.

    /                         the API as a page
    /openapi.json             the API as a document
    /ENTITY/KEY/METHOD        a call: POST, and GET for a method that only reads

A key may be any text; what has a meaning in a path is written with percent signs. So the path is taken apart before it
is decoded: `/Account/a%2Fb/look` is the key `a/b`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stretto.errors import BusyError, ClusterError, StorageError, StrettoError, UserError
from stretto.protocol.transactions import Reply
from stretto.serving.answering import JSON, Answering, Within, check_verb
from stretto.serving.arguments import ArgumentReader
from stretto.serving.guard import Guard
from stretto.serving.limits import Limits
from stretto.serving.openapi import document_of
from stretto.serving.page import STYLE_HASH, page_of
from stretto.serving.refusals import Refused, Why
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.kinds import Method

log = logging.getLogger("stretto.serving")

POLICY = f"default-src 'none'; style-src '{STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
"""Nothing that a browser shows of this server may run, or load anything."""
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PATHS = "Call POST /ENTITY/KEY/METHOD. In a key, a slash is %2F."


class Entities(Protocol):
    """What answers calls: the door of a job, or the entities of an app in this process."""

    catalog: Catalog

    async def areply(self, made: Any) -> Reply: ...


class EntityWeb(Answering):
    """The entities of an app as an ASGI application. `within` limits the time of a block."""

    def __init__(
        self,
        name: str,
        entities: Entities,
        guard: Guard,
        limits: Limits,
        within: Within = asyncio.timeout,
    ) -> None:
        super().__init__(POLICY, limits, within)
        self._entities = entities
        self._guard = guard
        document = document_of(name, entities.catalog, guard.needs_token)
        self._document = msgspec.json.encode(document)
        self._page = page_of(document)
        self._readers = {
            (kind.name, method.name): ArgumentReader(method)
            for kind in entities.catalog.kinds()
            for method in kind.methods.values()
        }

    async def _answer(self, request: Request) -> Response:
        self._guard.check(request.headers)
        path: bytes = request.scope["raw_path"]
        fixed = {b"/": (self._page, "text/html"), b"/openapi.json": (self._document, JSON)}
        if path in fixed:
            check_verb(request.method, ["GET"])
            content, kind = fixed[path]
            return Response(content, media_type=kind)
        return await self._call(request, path)

    async def _call(self, request: Request, path: bytes) -> Response:
        entity, key, name = _parts(path)
        method = self._method(entity, name)
        check_verb(request.method, ["GET", "POST"] if method.only_reads else ["POST"])
        idempotency_key = _idempotency_key_of(request)
        reader = self._readers[entity, name]
        if request.method == "GET":
            arguments = reader.of_query(request.scope["query_string"])
        elif request.scope["query_string"]:
            raise Refused(Why.MALFORMED, "a POST has its arguments in the body, and no query")
        else:
            arguments = reader.of_body(await self._body(request))
        made = MadeCall(entity, key, name, arguments).under(idempotency_key)
        try:
            self._entities.catalog.request(made)
        except UserError as error:
            raise Refused(Why.MALFORMED, str(error)) from error
        return _answer_of(await self._reply(made), method)

    def _method(self, entity: str, name: str) -> Method:
        """Returns a method that a path names."""
        catalog = self._entities.catalog
        try:
            kind = catalog.kind(entity)
        except UserError as error:
            raise Refused(Why.UNKNOWN_ENTITY, str(error)) from error
        try:
            return kind.method(name)
        except UserError as error:
            raise Refused(Why.UNKNOWN_METHOD, str(error)) from error

    async def _reply(self, made: MadeCall) -> Reply:
        text = f"the call was not answered within {self._limits.call_s:g} s, and may still take place"
        try:
            return await self._in_time(self._entities.areply(made), self._limits.call_s, Refused(Why.UNANSWERED, text))
        except (ClusterError, StorageError) as error:
            log.warning("a call was not answered: %s", error)
            raise Refused(Why.UNAVAILABLE, "the app has ended", {"Retry-After": "5"}) from error
        except StrettoError as error:
            log.warning("a call failed: %s", error)
            raise Refused(Why.FAILED, error.fact) from error


def _parts(path: bytes) -> tuple[str, str, str]:
    """Returns the entity, the key and the method that a path names."""
    parts = path.split(b"/")
    if len(parts) != 4 or parts[0]:
        raise Refused(Why.NOTHING_HERE, f"there is nothing at this path. {_PATHS}")
    if any(_BROKEN_ESCAPE.search(part) for part in parts):
        raise Refused(Why.MALFORMED, "the path has a percent sign that is not followed by two digits")
    try:
        entity, key, method = (unquote_to_bytes(part).decode() for part in parts[1:])
    except UnicodeDecodeError as error:
        raise Refused(Why.MALFORMED, "the path is not UTF-8") from error
    if not key:
        raise Refused(Why.MALFORMED, f"the path has no key. {_PATHS}")
    return entity, key, method


def _idempotency_key_of(request: Request) -> str | None:
    """Returns the key under which a call takes place once, as it is or in quotes."""
    given = request.headers.getlist("idempotency-key")
    if len(given) > 1:
        raise Refused(Why.MALFORMED, "there is more than one Idempotency-Key")
    if not given:
        return None
    quoted = re.fullmatch(r'"(.*)"', given[0])
    return given[0] if quoted is None else quoted[1]


def _answer_of(reply: Reply, method: Method) -> Response:
    failure = reply.failure
    if failure is not None and reply.place is None and not method.only_reads:
        # It has no place among the transactions: it did not run.
        if (failure.module, failure.kind) == (BusyError.__module__, BusyError.__name__):
            raise Refused(Why.BUSY, failure.text, {"Retry-After": "1"})
        raise Refused(Why.REFUSED, failure.text)
    if failure is not None:
        more: Mapping[str, str] = {"type": failure.kind, "entity": failure.entity}
        raise Refused(Why.ABORTED, failure.text, None, more)
    assert reply.value is not None
    try:
        content = msgspec.json.encode(method.decode_result(reply.value))
    except (UserError, TypeError, ValueError, RecursionError) as error:
        raise Refused(Why.FAILED, f"the call took place, and JSON cannot express its result: {error}") from error
    return Response(content, media_type=JSON)
