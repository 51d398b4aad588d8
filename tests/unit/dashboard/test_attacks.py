"""Attacks on the page. Beside each stands the weakness, planted, that lets it through."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from starlette.datastructures import Headers

from stretto.api.slo import SLO
from stretto.dashboard import report, web
from stretto.dashboard.history import History
from stretto.dashboard.live import Page
from stretto.dashboard.questions import ANSWER_BYTES_MAX, ANSWER_ROWS_MAX, QUESTIONS_MAX, SQL_LENGTH_MAX
from stretto.dashboard.report import report_text
from stretto.errors import ClusterError
from stretto.serving.guard import Guard

from .made import ANSWER, HOST, HOSTILE, OURS, TOKEN, Driven, PageWeb, history_of, renamed

COUNT = {"sql": "SELECT count(*) FROM bids"}
STOP = b'{"action": "stop", "job": "job-000"}'
SECRETS = (
    "/api/overview",
    "/api/jobs/job-000",
    "/api/jobs/job-000/rows",
    "/api/decisions",
    "/api/events",
    "/metrics",
    "/api/tables",
)


def _harmless(self: Guard, headers: Headers) -> None:
    """The weakness: it lets everything pass."""


# Reading.


@pytest.mark.parametrize("path", SECRETS)
def test_other_machines_need_the_token_for_all_that_is_shown(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PageWeb(open_to_all=True)
    for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": TOKEN}):
        answer = page.ask("GET", path, headers={"host": "stretto.example", **given})
        assert (answer.status, answer.code) == (401, "no_token")
    assert page.ask("GET", f"{path}?token={TOKEN}", headers={"host": "stretto.example"}).status == 401
    if path != "/api/events":
        assert page.ask("GET", path, headers={"authorization": f"Bearer {TOKEN}"}).status == 200
        monkeypatch.setattr(Guard, "check", _harmless)
        assert page.ask("GET", path, headers={"host": "stretto.example"}).status == 200


def test_a_name_that_others_point_to_loopback_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PageWeb()
    for path in ("/", "/assets/app.js", *SECRETS):
        assert page.ask("GET", path, headers={"host": "rebound.example:4141"}).code == "other_host"
    monkeypatch.setattr(Guard, "check_page", _harmless)
    assert page.ask("GET", "/api/overview", headers={"host": "rebound.example:4141"}).status == 200


def test_pages_of_other_sites_read_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PageWeb()
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://["):
        answer = page.ask("GET", "/api/overview", headers={"host": HOST, "origin": origin})
        assert (answer.status, answer.code) == (403, "other_site")
    monkeypatch.setattr(Guard, "check_same_origin", _harmless)
    assert page.ask("GET", "/api/overview", headers={"host": HOST, "origin": "null"}).status == 200


# Changing.


@pytest.mark.parametrize("token", [None, "wrong", "", TOKEN[:-1], TOKEN + "x"])
def test_nothing_is_changed_without_the_token_on_loopback_neither(
    token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PageWeb()
    assert page.control(STOP, token).code == "no_token"
    assert page.cluster.done == []
    monkeypatch.setattr(Guard, "_check_token", lambda self, token, given: None)
    assert page.control(STOP, token).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:9999"])
def test_nothing_is_changed_for_a_page_of_another_site_even_with_the_token(
    origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PageWeb()
    assert page.control(STOP, origin=origin).code == "other_site"
    assert page.cluster.done == []
    monkeypatch.setattr(Guard, "check_same_origin", _harmless)
    assert page.control(STOP, origin=origin).status == 200


def test_a_request_without_an_origin_changes_nothing() -> None:
    page = PageWeb()
    headers = {"host": HOST, "content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    assert page.ask("POST", "/api/control", STOP, headers).code == "other_site"
    assert page.cluster.done == []


def test_a_form_of_another_site_cannot_send_json() -> None:
    page = PageWeb()
    assert page.control(STOP, **{"content-type": "text/plain"}).code == "not_json"
    assert page.query(COUNT, **{"content-type": "text/plain"}).code == "not_json"
    assert page.cluster.done == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"[]", "wrong_arguments"),
        (b'{"action": "explode"}', "wrong_arguments"),
        (b'{"action": "stop"}', "wrong_arguments"),
        (b'{"action": "stop", "job": "a", "more": 1}', "wrong_arguments"),
        (b'{"action": "add_workers", "count": 0}', "wrong_arguments"),
        (b'{"action": "add_workers", "count": 100000}', "wrong_arguments"),
        (b'{"action": "rescale", "job": "a", "function": "f", "parallelism": 1e9}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "latency_ms": 0}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "latency_ms": 1e300}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "percentile": 101}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "throughput": 1.5}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "priority": -1}', "wrong_arguments"),
        (b'{"action": "objective", "job": "a", "share": 9}', "wrong_arguments"),
        (b'{"action": "stop", "job": "' + b"x" * 300 + b'"}', "wrong_arguments"),
        (b'{"action": "stop", "job": "' + b"x" * 20_000 + b'"}', "too_large"),
        (b"[" * 15_000, "wrong_arguments"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_what_is_no_action_changes_nothing(body: bytes, code: str) -> None:
    page = PageWeb()
    assert page.control(body).code == code
    assert page.cluster.done == []


@pytest.mark.parametrize(
    ("action", "done"),
    [
        ({"action": "stop", "job": "a"}, [("job", "a"), ("stop", False, None)]),
        ({"action": "stop", "job": "a", "drain": True}, [("job", "a"), ("stop", True, None)]),
        ({"action": "savepoint", "job": "a", "name": "s"}, [("job", "a"), ("stop", False, "s")]),
        ({"action": "checkpoint", "job": "a"}, [("job", "a"), ("checkpoint",)]),
        ({"action": "add_workers", "count": 2}, [("scale_out", 2)]),
        ({"action": "remove_workers", "count": 1}, [("scale_in", 1)]),
        ({"action": "remove_workers", "worker": "w1~1"}, [("drain", "w1~1")]),
        (
            {"action": "rescale", "job": "a", "function": "f", "parallelism": 4},
            [("job", "a"), ("rescale", {"f": 4})],
        ),
        (
            {"action": "objective", "job": "a", "latency_ms": 200, "percentile": 95, "priority": 2},
            [("job", "a"), ("objective", SLO(200.0, 95.0, None, 2.0, share=3.0))],
        ),
        ({"action": "objective", "job": "a"}, [("job", "a"), ("objective", SLO(share=3.0))]),
    ],
)
def test_with_the_token_from_this_page_an_action_is_carried_out(action: dict[str, Any], done: list[Any]) -> None:
    page = PageWeb()
    answer = page.control(json.dumps(action).encode())
    assert (answer.status, list(answer.json)) == (200, ["done"])
    assert page.cluster.done == done


def test_what_cannot_be_done_says_why() -> None:
    page = PageWeb(cluster=Driven(ClusterError("it cannot be", "for a reason")))
    answer = page.control(STOP)
    assert (answer.status, answer.code, answer.text) == (409, "not_done", "it cannot be: for a reason")


# Asking: an answer is users' data.


@pytest.mark.parametrize("token", [None, "wrong", "", TOKEN[:-1], TOKEN + "x"])
def test_nothing_is_asked_without_the_token_on_loopback_neither(
    token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PageWeb()
    assert page.query(COUNT, token).code == "no_token"
    assert page.cluster.done == []
    monkeypatch.setattr(Guard, "_check_token", lambda self, token, given: None)
    assert page.query(COUNT, token).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_nothing_is_asked_for_a_page_of_another_site_even_with_the_token(
    origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PageWeb()
    assert page.query(COUNT, origin=origin).code == "other_site"
    assert page.query(COUNT, host="rebound.example:4141").code == "other_host"
    assert page.cluster.done == []
    monkeypatch.setattr(Guard, "check_same_origin", _harmless)
    assert page.query(COUNT, origin=origin).status == 200


def test_a_token_in_the_address_or_in_a_cookie_asks_nothing() -> None:
    page = PageWeb()
    assert page.post(f"/api/query?token={TOKEN}", b'{"sql": "SELECT 1 FROM a"}', None).code == "no_token"
    assert page.query(COUNT, None, cookie=f"token={TOKEN}").code == "no_token"
    assert page.ask("GET", "/api/query?sql=SELECT", headers={"host": HOST}).code == "wrong_verb"
    assert page.cluster.done == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"[]", "wrong_arguments"),
        (b'{"sql": 7}', "wrong_arguments"),
        (b'{"sql": ""}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "more": 1}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "timeout_s": 0}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "timeout_s": 1e6}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "timeout_s": 1e999}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "timeout_s": NaN}', "malformed"),
        (b'{"sql": "SELECT 1 FROM a", "at_least": "2026-01-01T00:00:00"}', "wrong_arguments"),
        (b'{"sql": "SELECT 1 FROM a", "at_least": 7}', "wrong_arguments"),
        (b'{"sql": "' + b"x" * (SQL_LENGTH_MAX + 1) + b'"}', "wrong_arguments"),
        (b'{"sql": "' + b"x" * 20_000 + b'"}', "too_large"),
        (b'{"sql": "\\ud800"}', "malformed"),
        (b"[" * 15_000, "wrong_arguments"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_what_is_no_question_is_not_asked(body: bytes, code: str) -> None:
    page = PageWeb()
    assert page.query(body).code == code
    assert page.cluster.done == []


# Texts of users.


def hostile_history() -> History:
    before, history = history_of(seconds=4), History()
    history.observe(renamed(before.observation, "job-000", HOSTILE))
    return history


def test_a_job_is_found_by_whatever_name() -> None:
    page = PageWeb(hostile_history())
    for path in (f"/api/jobs/{quote(HOSTILE, safe='')}", f"/api/jobs/{quote(HOSTILE, safe='')}/rows"):
        assert page.ask("GET", path).status == 200
    assert page.ask("GET", f"/api/jobs/{quote(HOSTILE)}").status == 404, "its slash is a part of its name"
    assert page.ask("GET", "/api/jobs/%ff").code == "malformed"


def test_a_report_has_no_script_but_its_own_however_a_job_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    text = report_text(hostile_history(), HOSTILE)
    assert "window.attacked" in text
    blocks = re.findall(r"<script[^>]*>(.*?)</script>", text, flags=re.DOTALL)
    assert not any(block.startswith("window.attacked") for block in blocks)
    (data,) = re.findall(r'<script type="application/json" id="recorded">(.*?)</script>', text, flags=re.DOTALL)
    assert json.loads(data)["title"] == HOSTILE
    assert "<" not in data

    class Careless(str):
        __slots__ = ()

        def replace(self, *_: Any) -> Careless:  # type: ignore[override]
            return self

    class Encoded(bytes):
        def decode(self, *_: Any) -> Careless:  # type: ignore[override]
            return Careless(super().decode())

    monkeypatch.setattr(report.msgspec.json, "encode", lambda value: Encoded(json.dumps(value).encode()))
    weak = report_text(hostile_history(), "a title")
    assert any(
        block.startswith("window.attacked")
        for block in re.findall(r"<script[^>]*>(.*?)</script>", weak, flags=re.DOTALL)
    )


def test_the_policy_of_a_report_allows_nothing_but_what_is_in_it() -> None:
    text = report_text(history_of(), "a title")
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert re.findall(r'(?:src|href)="(?!data:)', text.split("<script>")[0]) == []


def test_no_answer_may_run_or_load_anything_but_files_of_the_server() -> None:
    page = PageWeb()
    for path in ("/", "/assets/app.js", "/api/overview", "/nothing", "/metrics"):
        headers = page.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "frame-ancestors 'none'" in policy
    html = page.ask("GET", "/").body.decode()
    assert re.findall(r"<script(?![^>]*src=)", html) == []
    assert re.findall(r"\son\w+=|style=", html) == []


# Secrets.


def test_no_answer_has_the_token_nor_the_key_of_a_worker() -> None:
    page = PageWeb(open_to_all=True)
    headers = {"authorization": f"Bearer {TOKEN}"}
    for path in (*SECRETS[:4], "/metrics", "/", "/api/openapi.json"):
        body = page.ask("GET", path, headers=headers).body.decode()
        assert TOKEN not in body
        assert "public_key" not in body
    assert TOKEN not in repr(vars(page.web))


def test_a_page_shows_its_token_in_its_url_only() -> None:
    page = object.__new__(Page)
    page.address, page.url = "http://127.0.0.1:4141/", f"http://127.0.0.1:4141/#token={TOKEN}"
    assert TOKEN not in repr(page)


# Limits.


def test_pages_that_are_open_are_counted() -> None:
    page = PageWeb()
    page.web._streams = web.STREAMS_MAX
    answer = page.ask("GET", "/api/events", headers=OURS)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "busy", "5")


def test_questions_that_are_answered_are_counted_until_their_answers_are_sent() -> None:
    page = PageWeb()
    page.web._asked = QUESTIONS_MAX
    answer = page.query(COUNT)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "busy", "1")
    page.web._asked = QUESTIONS_MAX - 1
    assert page.query(COUNT).status == 200
    assert page.query({"sql": "SELECT 1 FROM a", "timeout_s": 0}).status == 422
    page.cluster.fails = ValueError("a defect")
    assert page.query(COUNT).code == "failed"
    assert page.web._asked == QUESTIONS_MAX - 1, "whatever happens, a place is given back"


def test_an_answer_that_is_too_large_is_not_sent() -> None:
    page = PageWeb()
    for rows in (
        pa.table({"n": pa.nulls(ANSWER_ROWS_MAX + 1)}),
        pa.table({"n": ["x" * (ANSWER_BYTES_MAX + 1)]}),
        pa.table({"n": ["\x01" * (ANSWER_BYTES_MAX // 2)]}),  # It is too large as JSON only.
    ):
        page.cluster.answer = replace(ANSWER, table=rows)
        answer = page.query({**COUNT, "sql": "SELECT n FROM bids"})
        assert (answer.status, answer.code) == (422, "answer_too_large")
        assert "LIMIT" in answer.text


def test_actions_that_are_carried_out_are_counted() -> None:
    page = PageWeb()
    page.web._controls = web.CONTROLS_MAX
    assert page.control(STOP).code == "busy"
