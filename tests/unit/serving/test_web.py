"""Calls over HTTP: paths, verbs, arguments, results, aborts, and what is refused with which code."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from stretto import App, Entity, reads
from stretto.errors import BusyError, ClusterError, UserError
from stretto.protocol.transactions import EntityName, Reply
from stretto.transactions.invocation import failure_of
from stretto.transactions.kinds import ARGUMENTS_BYTES_MAX

from .asgi import JSON, LIMITS, Web


class NotEnough(Exception):
    pass


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    what: str
    amount: int = 1


class Account(Entity):
    balance: int = 0

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        if self.balance < amount:
            raise NotEnough(self.key, self.balance)
        self.balance -= amount
        Account(to).deposit(amount)
        return self.balance

    async def divide(self) -> float:
        return 1 / self.balance

    async def name(self) -> str:
        return self.key

    @reads
    async def look(self) -> int:
        return self.balance


class Echo(Entity):
    """What it is given comes back."""

    @reads
    async def scalars(self, n: int, text: str = "-", ratio: float = 0.5, flag: bool = False) -> list[Any]:
        return [n, text, ratio, flag]

    @reads
    async def times(self, at: datetime, uuid: UUID, exact: Decimal, colour: Colour, data: bytes) -> list[str]:
        return [at.isoformat(), str(uuid), str(exact), colour.name, data.hex()]

    @reads
    async def nested(self, lines: list[Line], counts: dict[int, int], maybe: int | None = None) -> list[Any]:
        return [[each.what for each in lines], sorted(counts.items()), maybe]

    async def anything(self, value: Any) -> Any:
        return value

    async def pairs(self) -> dict[Any, int]:
        return {(1, 2): 3}


app = App("bank", entities=[Account, Echo])


@pytest.fixture
def web() -> Web:
    return Web(app)


def test_a_call_is_a_post_and_its_result_is_json(web: Web) -> None:
    assert web.call("/Account/ann/deposit", {"amount": 100}).json == 100
    answer = web.call("/Account/ann/transfer", {"to": "bob", "amount": 30})
    assert (answer.status, answer.json) == (200, 70)
    assert answer.headers["content-type"] == "application/json"
    assert web.call("/Account/bob/look").json == 30
    assert web.ask("POST", "/Account/bob/look").json == 30, "no body is no arguments"
    assert web.ask("GET", "/Account/bob/look").json == 30


def test_a_body_may_come_in_parts(web: Web) -> None:
    assert web.ask("POST", "/Account/ann/deposit", [b'{"amo', b"", b'unt": 5}'], JSON).json == 5


def test_an_abort_has_the_type_and_the_text_of_its_exception(web: Web) -> None:
    web.call("/Account/ann/deposit", {"amount": 10})
    answer = web.call("/Account/ann/transfer", {"to": "bob", "amount": 30})
    assert answer.status == 409
    assert answer.json == {
        "error": {"code": "aborted", "text": "('ann', 10)", "type": "NotEnough", "entity": "Account/ann"}
    }
    assert web.call("/Account/ann/look").json == 10
    assert web.call("/Account/new/divide").json["error"]["type"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("a%2Fb", "a/b"),
        ("%2e%2E", ".."),
        ("..", ".."),
        ("%3Cscript%3E", "<script>"),
        ("caf%C3%A9", "café"),
        ("a%0Ab", "a\nb"),
        ("100%25", "100%"),
        ("a+b", "a+b"),
        ("a%00b", "a\0b"),
        ("openapi.json", "openapi.json"),
        ("%25%32%46", "%2F"),
    ],
)
def test_a_key_is_any_text_and_is_decoded_once(web: Web, written: str, key: str) -> None:
    answer = web.call(f"/Account/{written}/name")
    assert answer.json == key
    # Whatever it is, no browser takes it for a page.
    assert (answer.headers["content-type"], answer.headers["x-content-type-options"]) == ("application/json", "nosniff")


def test_an_encoded_slash_does_not_lead_to_another_method(web: Web) -> None:
    assert web.call("/Account/ann%2Fdeposit", {"amount": 1}).code == "nothing_here"
    assert web.call("/Account/ann%2Fdeposit/look").json == 0, "this is another key"


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/Account/a/b/look", 404, "nothing_here"),
        ("/Account/a/look/", 404, "nothing_here"),
        ("/Account", 404, "nothing_here"),
        ("//Account/a/look", 404, "nothing_here"),
        ("http://elsewhere/Account/a/look", 404, "nothing_here"),
        ("*", 404, "nothing_here"),
        ("/Account//look", 400, "malformed"),
        ("/Account/%/look", 400, "malformed"),
        ("/Account/%zz/look", 400, "malformed"),
        ("/Account/%ff/look", 400, "malformed"),
        ("/Account/%ed%a0%80/look", 400, "malformed"),
        ("/Stranger/a/look", 404, "unknown_entity"),
        ("/account/a/look", 404, "unknown_entity"),
        ("/%3Cscript%3E/a/look", 404, "unknown_entity"),
        ("/Account/a/withdraw", 404, "unknown_method"),
        ("/Account/a/_look", 404, "unknown_method"),
        ("/Account/a/__init__", 404, "unknown_method"),
        ("/Account/a/uuid", 404, "unknown_method"),
        ("/Account/a/look?x=1", 400, "malformed"),
    ],
)
def test_odd_paths_are_refused(web: Web, target: str, status: int, code: str) -> None:
    answer = web.call(target)
    assert (answer.status, answer.code) == (status, code)
    assert answer.headers["content-type"] == "application/json"


def test_what_is_unknown_says_what_there_is(web: Web) -> None:
    assert "The app has Account, Echo." in web.call("/Stranger/a/look").text
    assert "It has deposit, divide, look, name, transfer." in web.call("/Account/a/withdraw").text


@pytest.mark.parametrize(
    ("verb", "target", "allowed"),
    [
        ("GET", "/Account/a/deposit?amount=1", "POST"),
        ("PUT", "/Account/a/look", "GET, POST"),
        ("DELETE", "/Account/a/look", "GET, POST"),
        ("OPTIONS", "/Account/a/deposit", "POST"),
        ("HEAD", "/Account/a/look", "GET, POST"),
        ("POST", "/", "GET"),
        ("POST", "/openapi.json", "GET"),
    ],
)
def test_other_verbs_are_refused_and_change_nothing(web: Web, verb: str, target: str, allowed: str) -> None:
    answer = web.ask(verb, target, b'{"amount": 1}', JSON)
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "wrong_verb", allowed)
    assert web.call("/Account/a/look").json == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "wrong_arguments"),
        (b'{"amount": 1', 400, "malformed"),
        (b"amount=1", 400, "malformed"),
        (b'{"amount": 1} {}', 400, "malformed"),
        (b'\xff{"amount": 1}', 400, "malformed"),
        (b"[1]", 422, "wrong_arguments"),
        (b"[" * 9_000, 422, "wrong_arguments"),
        (b'{"amount": "much"}', 422, "wrong_arguments"),
        (b'{"amount": 1.5}', 422, "wrong_arguments"),
        (b'{"amount": true}', 422, "wrong_arguments"),
        (b'{"amount": null}', 422, "wrong_arguments"),
        (b'{"amount": 1, "more": 2}', 422, "wrong_arguments"),
        (b'{"amount": 1' + b"0" * 400 + b"}", 422, "wrong_arguments"),
        (b'{"amount": ' + b"1" * 5_000 + b"}", 422, "wrong_arguments"),
    ],
)
def test_wrong_bodies_are_refused_and_change_nothing(web: Web, body: bytes, status: int, code: str) -> None:
    answer = web.ask("POST", "/Account/ann/deposit", body, JSON)
    assert (answer.status, answer.code) == (status, code)
    if code == "wrong_arguments":
        assert "wrong arguments for Account.deposit" in answer.text
        assert "It takes (amount: " in answer.text
    assert web.call("/Account/ann/look").json == 0


@pytest.mark.parametrize("body", [b'{"value": ' + b"[" * 9_000, b'{"value": "\\ud800"}'])
def test_values_without_a_meaning_are_refused(web: Web, body: bytes) -> None:
    answer = web.ask("POST", "/Echo/a/anything", body, JSON)
    assert (answer.status, answer.code) == (400, "malformed")


def test_nested_values_of_any_depth_are_answered(web: Web) -> None:
    # Whether a value is too deep depends on where it is decoded: here, at the entity, and on its way back.
    statuses = set()
    for depth in range(100, 1_100, 10):
        body = b'{"value": ' + b"[" * depth + b"]" * depth + b"}"
        statuses.add(web.ask("POST", "/Echo/a/anything", body, JSON).status)
    assert {200, 400} <= statuses <= {200, 400, 409, 422, 500}
    assert web.call("/Echo/a/anything", {"value": [1, "é", None]}).json == [1, "é", None]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(web: Web) -> None:
    large = b'{"value": "' + b"x" * LIMITS.body_bytes + b'"}'

    def unread() -> Any:
        raise AssertionError("it was read")
        yield

    said = JSON | {"content-length": str(len(large))}
    answer = web.ask("POST", "/Echo/a/anything", unread(), said)
    assert (answer.status, answer.code) == (413, "too_large")


def test_a_body_that_says_no_length_is_read_to_the_limit(web: Web) -> None:
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            read += 1_000
            assert read <= LIMITS.body_bytes + 1_000
            yield b"x" * 1_000

    answer = web.ask("POST", "/Echo/a/anything", endless(), JSON)
    assert (answer.status, answer.code) == (413, "too_large")


def test_arguments_that_grow_beyond_their_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.serving.arguments.ARGUMENTS_BYTES_MAX", 100)
    answer = Web(app).call("/Echo/a/anything", {"value": "x" * 200})
    assert (answer.status, answer.code) == (413, "too_large")
    assert ARGUMENTS_BYTES_MAX < 2 << 20, "a body of the usual limit can have them all"


@pytest.mark.parametrize("declared", [{}, {"content-type": "text/plain"}, {"content-type": "text/json"}])
def test_a_body_must_be_declared_as_json(web: Web, declared: dict[str, str]) -> None:
    answer = web.ask("POST", "/Account/ann/deposit", b'{"amount": 1}', declared)
    assert (answer.status, answer.code) == (415, "not_json")
    assert web.call("/Account/ann/look").json == 0
    charset = {"content-type": "Application/JSON; charset=utf-8"}
    assert web.ask("POST", "/Account/ann/deposit", b'{"amount": 1}', charset).json == 1


def test_a_query_has_values_by_their_types(web: Web) -> None:
    assert web.ask("GET", "/Echo/a/scalars?n=7").json == [7, "-", 0.5, False]
    assert web.ask("GET", "/Echo/a/scalars?n=-7&text=12&ratio=2&flag=true").json == [-7, "12", 2.0, True]
    assert web.ask("GET", "/Echo/a/scalars?n=1&text=%22a+b%26%3D%22").json[1] == '"a b&="'
    uuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    query = f"at=2026-01-02T03:04:05Z&uuid={uuid}&exact=1.10&colour=red&data=AAE%3D"
    assert web.ask("GET", f"/Echo/a/times?{query}").json == ["2026-01-02T03:04:05+00:00", uuid, "1.10", "RED", "0001"]
    query = "lines=%5B%7B%22what%22%3A%22x%22%7D%5D&counts=%7B%221%22%3A2%7D"
    assert web.ask("GET", f"/Echo/a/nested?{query}").json == [["x"], [[1, 2]], None]
    assert web.ask("GET", f"/Echo/a/nested?{query}&maybe=3").json[2] == 3


def test_the_same_values_come_in_a_body(web: Web) -> None:
    uuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    given = {"at": "2026-01-02T03:04:05Z", "uuid": uuid, "exact": "1.10", "colour": "red", "data": "AAE="}
    assert web.call("/Echo/a/times", given).json == ["2026-01-02T03:04:05+00:00", uuid, "1.10", "RED", "0001"]
    given = {"lines": [{"what": "x", "amount": 2}], "counts": {"1": 2}}
    assert web.call("/Echo/a/nested", given).json == [["x"], [[1, 2]], None]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 422),
        ("n=much", 422),
        ("n=1&n=2", 422),
        ("n=1&more=2", 422),
        ("n=1&flag=maybe", 422),
        ("n", 400),
        ("n=%ff", 400),
    ],
)
def test_wrong_queries_are_refused(web: Web, query: str, status: int) -> None:
    assert web.ask("GET", f"/Echo/a/scalars?{query}").status == status


def test_a_result_that_json_has_not_says_that_the_call_took_place(web: Web) -> None:
    answer = web.call("/Echo/a/pairs")
    assert (answer.status, answer.code) == (500, "failed")
    assert "the call took place" in answer.text


class Failing:
    """Entities whose door raises."""

    def __init__(self, error: Exception) -> None:
        self.catalog = app.in_process().catalog
        self.error = error

    async def areply(self, made: Any, key: str | None = None) -> Reply:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ClusterError("job 'bank' has ended", "/secret/path"), 503, "unavailable"),
        (UserError("Account.look gave two results for the same call", "/secret/path"), 500, "failed"),
        (RuntimeError("/secret/path"), 500, "failed"),
    ],
)
def test_a_failure_of_the_system_shows_nothing_of_it(
    error: Exception, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Web(app, entities=Failing(error)).call("/Account/a/look")
    assert (answer.status, answer.code) == (status, code)
    assert b"secret" not in answer.body
    assert "secret" in caplog.text, "the log says why"


class Busy(Failing):
    """Entities of which one has too many calls under way."""

    async def areply(self, made: Any, key: str | None = None) -> Reply:
        return Reply("c", 1, None, failure_of(BusyError("Account/a is busy"), EntityName("Account", "a")))


def test_who_calls_a_busy_entity_may_try_again() -> None:
    answer = Web(app, entities=Busy(RuntimeError())).call("/Account/a/deposit", {"amount": 1})
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "busy", "1")
    assert answer.text == "Account/a is busy"


def test_a_call_that_takes_too_long_says_that_it_may_take_place() -> None:
    waited: list[float] = []

    @asynccontextmanager
    async def within(seconds: float) -> Any:
        waited.append(seconds)
        yield
        if seconds == LIMITS.call_s:
            raise TimeoutError

    answer = Web(app, within=within).call("/Account/a/look")
    assert (answer.status, answer.code) == (504, "unanswered")
    assert "may still take place" in answer.text
    assert waited == [LIMITS.request_s, LIMITS.call_s]


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    @asynccontextmanager
    async def within(seconds: float) -> Any:
        raise TimeoutError
        yield

    answer = Web(app, within=within).call("/Account/a/look")
    assert (answer.status, answer.code, answer.headers["connection"]) == (408, "too_slow", "close")


def test_of_calls_under_one_key_one_takes_place(web: Web) -> None:
    for key in ("order-7", '"order-7"', "order-7"):
        assert web.call("/Account/ann/deposit", {"amount": 5}, JSON | {"idempotency-key": key}).json == 5
    other = web.call("/Account/ann/deposit", {"amount": 6}, JSON | {"idempotency-key": "order-7"})
    assert (other.status, other.code) == (422, "refused")
    assert "another call has the idempotency key 'order-7'" in other.text
    # An abort is a reply too.
    transfer = {"to": "bob", "amount": 50}
    for _ in range(2):
        aborted = web.call("/Account/ann/transfer", transfer, JSON | {"idempotency-key": "order-8"})
        assert (aborted.status, aborted.json["error"]["type"]) == (409, "NotEnough")
        web.call("/Account/ann/deposit", {"amount": 100})
    assert web.call("/Account/ann/look").json == 205


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "a\tb"])
def test_a_key_that_is_none_is_refused(web: Web, key: str) -> None:
    answer = web.call("/Account/ann/deposit", {"amount": 5}, JSON | {"idempotency-key": key})
    assert (answer.status, answer.code) == (400, "malformed")
    assert "this is not an idempotency key" in answer.text
    assert web.call("/Account/ann/look").json == 0


def test_two_keys_and_keys_of_what_only_reads_are_refused(web: Web) -> None:
    two = [*JSON.items(), ("idempotency-key", "a"), ("idempotency-key", "b")]
    assert web.ask("POST", "/Account/ann/deposit", b'{"amount": 1}', two).code == "malformed"
    assert "takes no idempotency key" in web.call("/Account/ann/look", {}, JSON | {"idempotency-key": "a"}).text
    assert web.call("/Account/ann/look").json == 0
