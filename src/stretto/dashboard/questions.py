"""Questions over HTTP: `POST /api/query` asks what `cluster.ask` does, and `GET /api/tables` says what can be asked.

A question is JSON of a declared type. Its answer is JSON, or an Arrow stream for those who accept it, whose schema's
metadata has what JSON has beside the rows. Text, time and answer have limits.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import msgspec
import pyarrow as pa
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stretto.errors import ClusterError, TooLargeError, UserError
from stretto.queries.answers import Answer
from stretto.queries.askable import Askable
from stretto.queries.plain import plain_columns, plain_rows
from stretto.queries.sent import ARROW, Absent, about, arrow_of
from stretto.serving.answering import JSON
from stretto.serving.refusals import Refused, Why

SQL_LENGTH_MAX = 8_192
TIMEOUT_S = 10.0
TIMEOUT_S_MAX = 60.0
QUESTIONS_MAX = 4
"""Questions whose answers are made or sent at once; further ones are told to ask again."""
ANSWER_BYTES_MAX = 16 << 20
ANSWER_ROWS_MAX = 100_000
PART_BYTES = 64 << 10


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A SELECT over published tables or over the state of functions. With `at_least`, a time with its zone, it waits
    until everything with an earlier event time has come."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=SQL_LENGTH_MAX)]
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = TIMEOUT_S
    at_least: Annotated[datetime.datetime, msgspec.Meta(tz=True)] | None = None


class Column(msgspec.Struct, frozen=True):
    """A column, with its type in Spark's words."""

    name: str
    type: str


class Answered(msgspec.Struct, frozen=True):
    """An answer. Everything with an event time before `fresh_until` is in it, and nothing is missing if it is
    `complete`. Decimals, times, bytes (base64), integers beyond 2^53 and numbers that are not finite are text; a map is
    a list of pairs; an interval is a number of microseconds or of months. So many rows were read for it, on so many
    workers."""

    columns: list[Column]
    rows: list[list[Any]]
    fresh_until: str | None
    complete: bool
    missing: list[Absent]
    rows_read: int
    workers: int


class Table(msgspec.Struct, frozen=True):
    """A published table: the job that publishes it, its columns, which of them is its time."""

    name: str
    job: str
    time: str
    segment_s: float
    columns: list[Column]


class State(msgspec.Struct, frozen=True):
    """A state of a function of a running job; `name` is how it is written after FROM."""

    name: str
    job: str
    function: str
    state: str


class Tables(msgspec.Struct, frozen=True):
    """What can be asked now."""

    tables: list[Table]
    states: list[State]


class Asked(Protocol):
    """What a cluster offers."""

    def ask(self, text: str, *, timeout: float, at_least: datetime.datetime | None) -> Answer: ...

    def askable(self) -> Askable: ...


def answered(cluster: Asked, question: Question, as_arrow: bool) -> bytes:
    """Asks, and returns the answer as it is sent; raises a Refused. It may take as long as the question's timeout."""
    try:
        answer = cluster.ask(question.sql, timeout=question.timeout_s, at_least=question.at_least)
    except ClusterError as error:
        raise Refused(Why.NO_ANSWER, str(error)) from error
    except TooLargeError as error:
        raise Refused(Why.ANSWER_TOO_LARGE, str(error)) from error
    except UserError as error:
        raise Refused(Why.WRONG_QUESTION, str(error)) from error
    rows, size = answer.table.num_rows, answer.table.nbytes
    if rows > ANSWER_ROWS_MAX:
        raise _too_large(f"it has {rows:,} rows of at most {ANSWER_ROWS_MAX:,}")
    if size > ANSWER_BYTES_MAX:
        raise _too_large(f"it has {size:,} bytes of at most {ANSWER_BYTES_MAX:,}")
    content = arrow_of(answer) if as_arrow else msgspec.json.encode(_json_of(answer))
    if len(content) > ANSWER_BYTES_MAX:
        raise _too_large(f"it has {len(content):,} bytes of at most {ANSWER_BYTES_MAX:,}")
    return content


def tables_of(askable: Askable) -> Tables:
    """Returns what can be asked, as it is sent."""
    return Tables(
        [
            Table(each.name, each.job, each.time, each.segment_us / 1e6, _columns(each.schema))
            for each in sorted(askable.tables, key=lambda each: each.name.lower())
        ],
        [State(each.name, each.job, each.function, each.state) for each in askable.states],
    )


def wants_arrow(accept: str) -> bool:
    """Whether an Accept header names Arrow streams."""
    return ARROW in [each.partition(";")[0].strip().lower() for each in accept.split(",")]


class SentAnswer(Response):
    """An answer that is sent in parts, so that it waits for a slow client, and keeps its place until it is sent."""

    def __init__(self, content: bytes, as_arrow: bool, sent: Callable[[], None]) -> None:
        super().__init__(content, media_type=ARROW if as_arrow else JSON)
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for begin in range(0, max(1, len(self.body)), PART_BYTES):
                part, more = self.body[begin : begin + PART_BYTES], begin + PART_BYTES < len(self.body)
                await send({"type": "http.response.body", "body": bytes(part), "more_body": more})
        finally:
            self._sent()


def _json_of(answer: Answer) -> Answered:
    return Answered(_columns(answer.table.schema), plain_rows(answer.table), **about(answer))


def _columns(schema: pa.Schema) -> list[Column]:
    return [Column(**each) for each in plain_columns(schema)]


def _too_large(detail: str) -> Refused:
    return Refused(Why.ANSWER_TOO_LARGE, f"the answer is too large: {detail}. Ask for less, for example with LIMIT.")
