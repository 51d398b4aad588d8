"""Questions over HTTP: what is asked of the cluster, and what becomes of its answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.unit.serving.asgi import asked, stepped

from stretto.dashboard.questions import PART_BYTES, SentAnswer
from stretto.dashboard.web import DashboardWeb
from stretto.errors import ClusterError, ExpressionError, TooLargeError, UserError
from stretto.queries.answers import Missing
from stretto.queries.sent import ABOUT, ARROW
from stretto.serving.guard import Guard, Token

from .made import ANSWER, HOST, TOKEN, Driven, PageWeb

SQL = "SELECT auction, price FROM bids"


def test_a_question_is_asked_as_it_is_and_answered_as_json() -> None:
    page = PageWeb()
    answer = page.query({"sql": SQL, "timeout_s": 2.5, "at_least": "2026-01-01T01:00:00+01:00"})
    assert page.cluster.done == [("ask", SQL, 2.5, datetime(2026, 1, 1, tzinfo=UTC))]
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json == {
        "columns": [{"name": "auction", "type": "bigint"}, {"name": "price", "type": "decimal(10,2)"}],
        "rows": [[7, "1.50"], [str(2**60), None]],
        "fresh_until": "2026-01-01T00:00:00Z",
        "complete": True,
        "missing": [],
        "rows_read": 3,
        "workers": 2,
    }
    page.query({"sql": SQL, "at_least": None})
    assert page.cluster.done[1:] == [("ask", SQL, 10.0, None)]


def test_what_is_missing_is_named() -> None:
    page = PageWeb()
    page.cluster.answer = replace(ANSWER, as_of_us=None, missing=(Missing("partition 1", "it is being recovered"),))
    answer = page.query({"sql": SQL}).json
    assert (answer["fresh_until"], answer["complete"]) == (None, False)
    assert answer["missing"] == [{"what": "partition 1", "why": "it is being recovered"}]


@pytest.mark.parametrize("accept", [ARROW, f"application/json;q=0.5, {ARROW.upper()}; q=1"])
def test_whoever_accepts_arrow_gets_a_stream_with_freshness_beside_the_rows(accept: str) -> None:
    page = PageWeb()
    answer = page.query({"sql": SQL}, accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, ARROW)
    table = pa.ipc.open_stream(answer.body).read_all()
    assert table.equals(ANSWER.table)
    about = msgspec.json.decode(table.schema.metadata[ABOUT])
    assert about == {
        "fresh_until": "2026-01-01T00:00:00Z",
        "complete": True,
        "missing": [],
        "rows_read": 3,
        "workers": 2,
    }
    page.cluster.answer = replace(ANSWER, table=ANSWER.table.slice(0, 0))
    empty = pa.ipc.open_stream(page.query({"sql": SQL}, accept=accept).body).read_all()
    assert (empty.num_rows, empty.schema) == (0, ANSWER.table.schema)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ExpressionError("there is no column 'x'", "at position 8"), 422, "wrong_question"),
        (UserError("there is no table 'bids'", None, "Publish it."), 422, "wrong_question"),
        (TooLargeError("the answer is too large", "9 bytes of at most 8", "Ask for less."), 422, "answer_too_large"),
        (ClusterError("the cluster is closed"), 503, "no_answer"),
        (ClusterError("a question was not answered", "within 10 s"), 503, "no_answer"),
    ],
)
def test_a_refusal_has_the_reason_of_the_cluster(error: Exception, status: int, code: str) -> None:
    answer = PageWeb(cluster=Driven(error)).query({"sql": SQL})
    assert (answer.status, answer.code, answer.text) == (status, code, str(error))


def test_what_can_be_asked_is_listed_with_its_columns() -> None:
    answer = PageWeb().ask("GET", "/api/tables")
    assert answer.json == {
        "tables": [
            {
                "name": "bids",
                "job": "job-000",
                "time": "at",
                "segment_s": 3600.0,
                "columns": [{"name": "auction", "type": "bigint"}, {"name": "price", "type": "decimal(10,2)"}],
            }
        ],
        "states": [{"name": "state.Jumps", "job": "job-000", "function": "Jumps", "state": "counts"}],
    }


def test_a_page_without_its_cluster_refuses_questions_by_name() -> None:
    page = PageWeb()
    web = DashboardWeb(page.web._kept, "a run that is over", Guard(None), Guard(Token(TOKEN)))
    answer = asked(web, "GET", "/api/tables", headers={"host": HOST})
    assert (answer.status, answer.code) == (409, "no_cluster")
    headers = {"host": HOST, "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    answer = asked(web, "POST", "/api/query", b'{"sql": "SELECT 1 FROM a"}', headers)
    assert (answer.status, answer.code) == (409, "no_cluster")


def test_the_document_describes_questions_and_answers() -> None:
    document: dict[str, Any] = PageWeb().ask("GET", "/api/openapi.json").json
    query = document["paths"]["/api/query"]["post"]
    assert query["security"] == [{"token": []}]
    assert query["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Question"}
    assert set(query["responses"]["200"]["content"]) == {"application/json", ARROW}
    assert {"400", "401", "403", "408", "409", "413", "415", "421", "422", "429", "500", "503"} < set(
        query["responses"]
    )
    for code in ("wrong_arguments", "wrong_question", "answer_too_large"):
        assert f"`{code}`" in query["responses"]["422"]["description"]
    assert {"Question", "Answered", "Absent", "Tables", "Table", "State", "Column"} <= set(
        document["components"]["schemas"]
    )


@pytest.mark.parametrize("breaks_at", [None, 0, 2])
def test_a_long_answer_is_sent_in_parts_and_keeps_its_place_until_then(breaks_at: int | None) -> None:
    content, sent, ended = b"0123456789" * PART_BYTES, [], []

    async def send(message: Any) -> None:
        if len(sent) == breaks_at:
            raise OSError("the client is gone")
        assert not ended
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("an answer waits for nothing")

    try:
        stepped(SentAnswer(content, False, lambda: ended.append(True))({}, receive, send))
    except OSError:
        assert breaks_at is not None
    assert ended == [True]
    if breaks_at is None:
        assert b"".join(message["body"] for message in sent[1:]) == content
        assert [message["more_body"] for message in sent[1:]] == [True] * 9 + [False]
        assert int(dict(sent[0]["headers"])[b"content-length"]) == len(content)
