"""Questions from another process: the client's requests are answered by the page's application, without sockets."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.dashboard.made import ANSWER, HOST, TOKEN, Driven, PageWeb
from tests.unit.serving.asgi import Answer as Reply
from typer.testing import CliRunner

import stretto
from stretto import client
from stretto.cli.program import program
from stretto.errors import ClusterError, ProtocolError, TooLargeError, UserError
from stretto.queries.answers import Missing

URL = f"http://{HOST}"
SQL = "SELECT auction, price FROM bids"


class Line:
    """An HTTP connection to an application in this process."""

    def __init__(self, page: PageWeb, reply: Reply | None = None) -> None:
        self._page = page
        self._reply = reply
        self.status = 0

    def __call__(self, host: str, port: int | None, timeout: float) -> Line:
        self._host = f"{host}:{port}"
        self.timeout_s = timeout
        return self

    def request(self, verb: str, path: str, body: bytes | None, headers: dict[str, str]) -> None:
        given = {"host": self._host, **{name.lower(): value for name, value in headers.items()}}
        self._reply = self._reply or self._page.ask(verb, path, body or b"", given)

    def getresponse(self) -> Line:
        assert self._reply is not None
        self.status = self._reply.status
        return self

    def read(self, size: int) -> bytes:
        assert self._reply is not None
        reply, self._reply = self._reply, None
        return reply.body[:size]

    def close(self) -> None:
        """Nothing is open."""


Joined = Callable[..., PageWeb]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Joined:
    def join(cluster: Any = None, reply: Reply | None = None) -> PageWeb:
        page = PageWeb(cluster=cluster)
        monkeypatch.setattr(http.client, "HTTPConnection", Line(page, reply))
        return page

    return join


def test_an_answer_is_that_of_the_cluster(joined: Joined) -> None:
    page = joined()
    least = datetime(2026, 1, 1, tzinfo=UTC)
    for connection in (stretto.connect(URL, token=TOKEN), stretto.connect(f"{URL}/#token={TOKEN}")):
        assert connection.ask(SQL, timeout=2.0, at_least=least) == ANSWER
        assert page.cluster.done.pop() == ("ask", SQL, 2.0, least)
    assert connection.query(SQL).equals(ANSWER.table)
    assert connection.tables == ["bids"]
    assert connection.askable()["states"][0]["name"] == "state.Jumps"


def test_what_is_missing_is_named_and_query_raises_it(joined: Joined) -> None:
    cluster = Driven()
    cluster.answer = replace(ANSWER, missing=(Missing("partition 1", "it is being recovered"),))
    joined(cluster)
    connection = stretto.connect(URL, token=TOKEN)
    assert connection.ask(SQL) == cluster.answer
    with pytest.raises(ClusterError, match="partition 1: it is being recovered"):
        connection.query(SQL)


def test_refusals_are_errors_of_their_kind(joined: Joined) -> None:
    joined()
    with pytest.raises(UserError, match=r"needs its token(?s:.*)cluster\.page\.url"):
        stretto.connect(URL).query(SQL)
    joined(Driven(UserError("there is no table 'nothing'")))
    with pytest.raises(UserError, match="there is no table 'nothing'"):
        stretto.connect(URL, TOKEN).query(SQL)
    joined(Driven(TooLargeError("the answer is too large", "9 bytes, of at most 8", "Ask with LIMIT.")))
    with pytest.raises(TooLargeError, match="Ask with LIMIT"):
        stretto.connect(URL, TOKEN).query(SQL)
    joined(Driven(ClusterError("the cluster is closed")))
    with pytest.raises(ClusterError, match="the cluster is closed"):
        stretto.connect(URL, TOKEN).query(SQL)
    joined().web._asked = 1_000
    with pytest.raises(ClusterError, match="Ask again"):
        stretto.connect(URL, TOKEN).query(SQL)


@pytest.mark.parametrize(
    "reply", [Reply(404, {}, b"<html>"), Reply(302, {}, b""), Reply(200, {}, b"<html>"), Reply(200, {}, b"")]
)
def test_a_server_of_something_else_is_noticed(joined: Joined, reply: Reply) -> None:
    joined(reply=reply)
    with pytest.raises(ProtocolError):
        stretto.connect(URL, TOKEN).query(SQL)


def test_an_answer_that_never_ends_is_given_up(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REPLY_BYTES_MAX", 100)
    joined(reply=Reply(200, {}, b"x" * 1_000))
    with pytest.raises(ProtocolError, match="too long"):
        stretto.connect(URL, TOKEN).query(SQL)


def test_a_server_that_is_not_there_is_an_error_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nobody(Line):
        def request(self, *_: Any) -> None:
            raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(http.client, "HTTPConnection", Nobody(cast(PageWeb, None)))
    with pytest.raises(ClusterError, match="does not answer: connection refused"):
        stretto.connect(URL, TOKEN).query(SQL)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:4141", "ftp://a", "http://", "http://a:b", f"http://u:{TOKEN}@a", f"http://a/?token={TOKEN}"]
)
def test_an_address_that_cannot_be_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UserError, match="no address of a page") as raised:
        stretto.connect(url)
    assert TOKEN not in str(raised.value)


def test_no_text_has_the_token() -> None:
    connection = stretto.connect(f"{URL}/#token={TOKEN}")
    assert TOKEN not in repr(connection)
    assert TOKEN not in connection.url
    with pytest.raises(UserError) as raised:
        stretto.connect(URL, f"{TOKEN}\r\nX-More: 1")
    assert TOKEN not in str(raised.value)
    with pytest.raises(UserError, match="time zone"):
        connection.query(SQL, at_least=datetime(2026, 1, 1))


def test_the_command_asks_with_a_token_that_nobody_sees(
    joined: Joined, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page, runner = joined(), CliRunner()
    monkeypatch.setenv("STRETTO_TOKEN", TOKEN)
    found = runner.invoke(program, ["query", SQL, "--url", URL, "--json", "--at-least", "2026-01-01T00:00:00"])
    assert found.exit_code == 0, found.output
    assert '"price": "1.50"' in found.stdout
    assert page.cluster.done == [("ask", SQL, 30.0, datetime(2026, 1, 1, tzinfo=UTC))]
    monkeypatch.delenv("STRETTO_TOKEN")
    assert "needs its token" in runner.invoke(program, ["query", SQL, "--url", URL]).output
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    found = runner.invoke(program, ["query", SQL, "--url", URL, "--token-file", str(file)])
    assert (found.exit_code, "1.50" in found.output) == (0, True)
    for wrong in (
        ["--url", f"{URL}/#token={TOKEN}"],
        ["--url", URL, "--token-file", str(tmp_path / "nothing")],
        ["--url", URL, "--pid", "1"],
    ):
        found = runner.invoke(program, ["query", SQL, *wrong])
        assert found.exit_code == 2
        assert TOKEN not in found.output
