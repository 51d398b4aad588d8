"""Questions from another process, to the page's server of a cluster.

    connection = stretto.connect("http://127.0.0.1:4141/", token=token)
    table = connection.query("SELECT auction, sum(bids) AS bids FROM bids_by_minute GROUP BY auction")

Each question is a request of its own, so a connection may be used by several threads, and holds nothing open.
"""

from __future__ import annotations

import datetime
import http.client
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa

from stretto.errors import ClusterError, ProtocolError, TooLargeError, UserError
from stretto.queries.answers import Answer, completed
from stretto.queries.moments import microseconds_of
from stretto.queries.sent import ARROW, answer_of

TIMEOUT_S = 10.0
LATE_S = 10.0
"""How much longer than a question's timeout its answer is waited for."""
REPLY_BYTES_MAX = 64 << 20
_TOKEN = re.compile(r"[!-~]+")
_FIXES = {
    "no_token": "Pass the token of cluster.page.url.",
    "busy": "Ask again a little later.",
}


class Connection:
    """A server that answers questions. Its token is in no text of it."""

    def __init__(self, url: str, token: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise _no_url() from error
        if parts.scheme not in ("http", "https") or not self._host or parts.query or parts.username is not None:
            raise _no_url()
        if token is None and parts.fragment.startswith("token="):
            token = parts.fragment.removeprefix("token=")
        if token is not None and not _TOKEN.fullmatch(token):
            raise UserError("this is no token", "a token has printable ASCII characters and no spaces")
        self._token = token
        self._path = parts.path.rstrip("/")
        self._is_safe = parts.scheme == "https"
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}/"
        """Without the token."""

    def __repr__(self) -> str:
        return f"<Connection to {self.url}>"

    def query(self, text: str, *, timeout: float = TIMEOUT_S, at_least: datetime.datetime | None = None) -> pa.Table:
        """Returns the answer to a SELECT, as `cluster.query` does."""
        return completed(self.ask(text, timeout=timeout, at_least=at_least))

    def ask(self, text: str, *, timeout: float = TIMEOUT_S, at_least: datetime.datetime | None = None) -> Answer:
        """Returns the answer to a SELECT with how fresh it is and what is missing in it, as `cluster.ask` does."""
        if at_least is not None:
            microseconds_of(at_least)  # It must have a zone.
        question = {"sql": text, "timeout_s": timeout, "at_least": at_least}
        return answer_of(self._asked("POST", "/api/query", timeout, question))

    def askable(self) -> dict[str, Any]:
        """Returns what can be asked: `tables` with their columns, and `states` of functions."""
        found: dict[str, Any] = msgspec.json.decode(self._asked("GET", "/api/tables", TIMEOUT_S))
        return found

    @property
    def tables(self) -> list[str]:
        """The names of the tables that can be asked for."""
        return [each["name"] for each in self.askable()["tables"]]

    def _asked(self, verb: str, path: str, timeout_s: float, question: Any = None) -> bytes:
        headers = {"Accept": ARROW if question is not None else "application/json"}
        if question is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        body = None if question is None else msgspec.json.encode(question)
        kind = http.client.HTTPSConnection if self._is_safe else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=max(0.0, timeout_s) + LATE_S)
        try:
            connection.request(verb, self._path + path, body, headers)
            reply = connection.getresponse()
            content = reply.read(REPLY_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"{self.url} does not answer", str(error), "Is the cluster still running?") from error
        finally:
            connection.close()
        if len(content) > REPLY_BYTES_MAX:
            raise ProtocolError("an answer is too long", f"it has more than {REPLY_BYTES_MAX:,} bytes")
        if reply.status != http.client.OK:
            raise _refusal(reply.status, content)
        return content


def connect(url: str, token: str | None = None) -> Connection:
    """Returns a connection to the page of a cluster in another process (`Cluster.on_spark(page=True)`, `stretto run
    --page`), to ask it questions. The token is that of `cluster.page.url`; it may also be in the URL's fragment."""
    return Connection(url, token)


def _no_url() -> UserError:
    # What was passed may have a token in it, so it is not shown.
    return UserError("this is no address of a page", None, 'Pass an address such as "http://127.0.0.1:4141/".')


def _refusal(status: int, content: bytes) -> Exception:
    """Returns the error that an answer of the server is."""
    try:
        error = msgspec.json.decode(content)["error"]
        code, text = str(error["code"]), str(error["text"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return ProtocolError("the server refuses without a reason", f"its status is {status}", "Is it one of stretto?")
    if status >= http.client.INTERNAL_SERVER_ERROR or code == "busy":
        return ClusterError(text, None, _FIXES.get(code))
    return (TooLargeError if code == "answer_too_large" else UserError)(text, None, _FIXES.get(code))
