"""A request to the page from its path to its answer.

    /                          the page
    /assets/NAME               its scripts and styles
    /api/overview              jobs and workers
    /api/jobs/JOB              one job, and /api/jobs/JOB/rows?since=T its figures over time
    /api/decisions             records of decisions, by job=, controller=, outcome=
    /api/events?job=JOB        all of these as they change (server-sent events)
    /api/openapi.json          the API as a document
    /api/tables                what can be asked
    /api/query                 POST: ask a question
    /api/control               POST: have something changed
    /metrics                   for Prometheus

The page itself holds nothing that is secret, so a browser gets it without a token; it sends the token with what it asks
for. A question needs the token always, on loopback too, since its answer is users' data. So does what changes
something, which must also come from this very page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from stretto.dashboard.assets import asset, page_text
from stretto.dashboard.controls import Controlled, action_of, carried_out, decoded
from stretto.dashboard.kept import Kept
from stretto.dashboard.openapi import document_of
from stretto.dashboard.prometheus import CONTENT_TYPE, exposition
from stretto.dashboard.questions import QUESTIONS_MAX, Asked, Question, SentAnswer, answered, tables_of, wants_arrow
from stretto.dashboard.views import decision_lines, decisions_view, job_rows, job_view, overview
from stretto.errors import StrettoError
from stretto.serving.answering import JSON, Answering, Within, answer_of, check_verb
from stretto.serving.guard import Guard
from stretto.serving.limits import Limits
from stretto.serving.refusals import Refused, Why

log = logging.getLogger("stretto.dashboard")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles are files of this server; none is in the page, and nothing comes from elsewhere."""
STREAMS_MAX = 16
"""Pages that are open at once; further ones are told to ask again."""
CONTROLS_MAX = 4
LOOK_EVERY_S = 0.25
ALIVE_EVERY_S = 10.0
PAGE_LIMITS = Limits(body_bytes=16 << 10, connections=64)
_QUERY_NAMES = {"since", "job", "controller", "outcome"}

T = TypeVar("T")
InThread = Callable[..., Coroutine[Any, Any, Any]]
"""Runs a function where it may wait, and returns what it returns."""
_questions: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)


class OfCluster(Controlled, Asked, Protocol):
    """What a page needs of its cluster."""


class DashboardWeb(Answering):
    """The page of a cluster as an ASGI application. `reading` guards what is shown, `changing` what is changed and
    asked; without a cluster neither can be."""

    def __init__(
        self,
        kept: Kept,
        title: str,
        reading: Guard,
        changing: Guard,
        cluster: OfCluster | None = None,
        limits: Limits = PAGE_LIMITS,
        within: Within = asyncio.timeout,
        streams_max: int = STREAMS_MAX,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        super().__init__(POLICY, limits, within)
        self._kept = kept
        self._title = title
        self._reading = reading
        self._changing = changing
        self._cluster = cluster
        self._streams_max = streams_max
        self._in_thread = in_thread
        self._streams = 0
        self._controls = 0
        self._asked = 0
        self._closing = False
        self._overviews: dict[tuple[int, bool], bytes] = {}
        self._document = document_of(reading.needs_token)

    def close(self) -> None:
        """Ends the streams: pages that are open hear no more."""
        self._closing = True

    async def _answer(self, request: Request) -> Response:
        path: str = request.scope["path"]
        if path == "/" or path.startswith("/assets/"):
            self._reading.check_page(request.headers)
            check_verb(request.method, ["GET"])
            return _static(path)
        if path == "/api/control":
            return await self._control(request)
        if path == "/api/query":
            return await self._query(request)
        self._reading.check(request.headers)
        check_verb(request.method, ["GET"])
        return self._read(_parts(request), _parameters(request))

    def _read(self, parts: list[str], query: dict[str, str]) -> Response:
        match parts:
            case ["metrics"]:
                return Response(self._kept.read(exposition), media_type=CONTENT_TYPE)
            case ["api", "openapi.json"]:
                return answer_of(self._document)
            case ["api", "overview"]:
                return Response(self._overview(recent=True), media_type=JSON)
            case ["api", "jobs", name]:
                return answer_of(self._of_job(name, lambda history: job_view(history, name, self._kept.is_quiet)))
            case ["api", "jobs", name, "rows"]:
                since_s = _number(query.get("since", "-inf"))
                return answer_of(self._of_job(name, lambda history: job_rows(history.jobs[name], since_s)))
            case ["api", "decisions"]:
                names = ("job", "controller", "outcome")
                wanted = [query.get(each) for each in names]
                return answer_of(self._kept.read(lambda history: decisions_view(history, *wanted)))
            case ["api", "tables"]:
                return answer_of(tables_of(self._with_cluster().askable()))
            case ["api", "events"]:
                return self._events(query.get("job"))
        raise Refused(Why.NOTHING_HERE, "there is nothing at this path; /api/openapi.json has those that there are")

    def _of_job(self, name: str, view: Callable[[Any], T]) -> T:
        def found(history: Any) -> T:
            if name not in history.jobs:
                raise Refused(Why.NOTHING_HERE, f"there is no job '{name}'; /api/overview has those that there are")
            return view(history)

        return self._kept.read(found)

    def _overview(self, recent: bool) -> bytes:
        """Returns the overview, encoded once for all pages that are open."""
        quiet = self._kept.is_quiet

        def encoded(history: Any) -> bytes:
            key = (history.version, quiet)
            if recent:
                return msgspec.json.encode({**overview(history, quiet, True), "title": self._title})
            if key not in self._overviews:
                self._overviews = {key: msgspec.json.encode({**overview(history, quiet), "title": self._title})}
            return self._overviews[key]

        return self._kept.read(encoded)

    # As it changes.

    def _events(self, job: str | None) -> Response:
        if self._streams >= self._streams_max:
            text = f"{self._streams_max} pages are open already"
            raise Refused(Why.BUSY, text, {"Retry-After": "5"})
        return StreamingResponse(self._stream(job), media_type="text/event-stream")

    async def _stream(self, job: str | None) -> AsyncIterator[bytes]:
        """Yields an event for each change: the overview, the job that is open with its new rows, decisions."""
        self._streams += 1
        try:
            seen, decided, since_s, silent_s = (-1, False), 0, float("-inf"), 0.0
            while not self._closing:
                quiet = self._kept.is_quiet
                now = (self._kept.read(lambda history: history.version), quiet)
                if now != seen:
                    yield _event("overview", self._overview(recent=seen[0] < 0))
                    found = self._job_since(job, since_s, quiet) if job is not None else None
                    if found is not None:
                        since_s = max([since_s, *found["rows"]["job"]["t"]])
                        yield _event("job", msgspec.json.encode(found))
                    seen, silent_s = now, 0.0
                changed, decided = self._decided_since(decided)
                if changed:
                    yield _event("decisions", msgspec.json.encode(changed))
                elif silent_s >= ALIVE_EVERY_S:
                    yield b": alive\n\n"
                    silent_s = 0.0
                await asyncio.sleep(LOOK_EVERY_S)
                silent_s += LOOK_EVERY_S
            yield _event("end", b"{}")
        finally:
            self._streams -= 1

    def _job_since(self, name: str, since_s: float, quiet: bool) -> dict[str, Any] | None:
        def found(history: Any) -> dict[str, Any] | None:
            if name not in history.jobs:
                return None
            return {"view": job_view(history, name, quiet), "rows": job_rows(history.jobs[name], since_s)}

        return self._kept.read(found)

    def _decided_since(self, decided: int) -> tuple[list[dict[str, Any]], int]:
        def found(history: Any) -> tuple[list[dict[str, Any]], int]:
            return decision_lines(history, history.decided_since(decided)), history.decided

        return self._kept.read(found)

    # Asking.

    def _with_cluster(self) -> OfCluster:
        if self._cluster is None:
            raise Refused(Why.NO_CLUSTER, "this page shows a run without its cluster, so nothing can be asked here")
        return self._cluster

    async def _query(self, request: Request) -> Response:
        check_verb(request.method, ["POST"])
        self._reading.check_page(request.headers)
        self._changing.check(request.headers)
        cluster = self._with_cluster()
        question = decoded(_questions, await self._body(request))
        as_arrow = wants_arrow(request.headers.get("accept", ""))
        if self._asked >= QUESTIONS_MAX:
            raise Refused(Why.BUSY, f"{QUESTIONS_MAX} questions are being answered", {"Retry-After": "1"})
        self._asked += 1
        try:
            content: bytes = await self._in_thread(answered, cluster, question, as_arrow)
        except BaseException:
            self._end_question()
            raise
        return SentAnswer(content, as_arrow, self._end_question)

    def _end_question(self) -> None:
        self._asked -= 1

    # Changing.

    async def _control(self, request: Request) -> Response:
        check_verb(request.method, ["POST"])
        self._reading.check_page(request.headers)
        self._changing.check(request.headers)
        self._changing.check_same_origin(request.headers)
        if self._cluster is None:
            raise Refused(Why.NOTHING_HERE, "there is nothing here that can be changed")
        action = action_of(await self._body(request))
        if self._controls >= CONTROLS_MAX:
            raise Refused(Why.BUSY, f"{CONTROLS_MAX} requests are being carried out", {"Retry-After": "5"})
        self._controls += 1
        log.info("the page asks for %s", action)
        try:
            done = await self._in_thread(carried_out, self._cluster, action)
        except (StrettoError, TimeoutError) as error:
            raise Refused(Why.NOT_DONE, str(error)) from error
        finally:
            self._controls -= 1
        return answer_of({"done": done})


def _static(path: str) -> Response:
    if path == "/":
        return Response(page_text(), media_type="text/html")
    content, kind = asset(unquote(path.removeprefix("/assets/")))
    return Response(content, media_type=kind)


def _parts(request: Request) -> list[str]:
    """Returns the parts of a path. It is taken apart before it is decoded: a job may have a slash in its name."""
    raw: bytes = request.scope["raw_path"]
    try:
        return [unquote(part, errors="strict") for part in raw.decode("ascii").strip("/").split("/")]
    except UnicodeDecodeError as error:
        raise Refused(Why.MALFORMED, "the path is not UTF-8") from error


def _parameters(request: Request) -> dict[str, str]:
    """Returns the parameters of a request, each of which is known and given once."""
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise Refused(Why.MALFORMED, f"the query cannot be read: {error}") from error
    found = dict(pairs)
    if len(found) < len(pairs) or found.keys() - _QUERY_NAMES:
        raise Refused(Why.MALFORMED, f"the query may have each of {', '.join(sorted(_QUERY_NAMES))} once")
    return {name: value for name, value in found.items() if value}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Refused(Why.MALFORMED, "'since' is a time in seconds") from error


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
