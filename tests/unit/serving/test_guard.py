"""Who may ask: with a token, without one, and pages of other sites."""

from __future__ import annotations

import base64
import hmac

import pytest

from stretto import App, Entity, UserError, reads
from stretto.serving.guard import Guard, Token, is_loopback_name, new_secret

from .asgi import JSON, Web

SECRET = "correct-horse-battery"


class Account(Entity):
    balance: int = 0

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    @reads
    async def look(self) -> int:
        return self.balance


app = App("bank", entities=[Account])
PATHS = ["/", "/openapi.json", "/Account/a/look", "/nothing", "/Stranger/a/b"]


def basic(secret: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{secret}".encode()).decode()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        SECRET,
        "Bearer",
        "Bearer ",
        f"Bearer {SECRET[:-1]}",
        f"Bearer {SECRET}x",
        f"Bearer {SECRET.upper()}",
        f"Token {SECRET}",
        "Basic",
        "Basic !!",
        "Basic é",
        basic(SECRET[:-1]),
    ],
)
def test_without_the_token_nothing_is_answered(path: str, given: str | None) -> None:
    answer = Web(app, SECRET).ask("GET", path, headers={} if given is None else {"authorization": given})
    assert (answer.status, answer.code) == (401, "no_token")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert SECRET.encode() not in answer.body


@pytest.mark.parametrize("given", [f"Bearer {SECRET}", f"bearer  {SECRET}", basic(SECRET)])
def test_the_token_lets_in(given: str) -> None:
    web = Web(app, SECRET)
    for path in PATHS:
        assert web.ask("GET", path, headers={"authorization": given}).status in (200, 404)
    # Where a token is needed, the server may have any name.
    named = {"authorization": given, "host": "bank.example"}
    assert web.ask("GET", "/Account/a/look", headers=named).json == 0


def test_two_tokens_are_none() -> None:
    twice = [("authorization", f"Bearer {SECRET}"), ("authorization", "Bearer other")]
    assert Web(app, SECRET).ask("GET", "/", headers=twice).status == 401


def test_a_token_is_compared_in_constant_time_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Token(SECRET)
    compared = []
    original = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return original(one, other)

    monkeypatch.setattr("hmac.compare_digest", noted)
    assert token.fits(SECRET.encode())
    assert not token.fits(b"c")
    assert len(compared) == 2
    assert {len(each) for pair in compared for each in pair} == {32}, "nothing depends on the length either"
    assert SECRET not in repr(token) + repr(Guard(token)) + repr(vars(Guard(token)))


def test_tokens_are_long_and_differ() -> None:
    assert len({new_secret() for _ in range(20)}) == 20
    assert len(new_secret()) >= 40
    for wrong in ("", "short", "x" * 15, "é" * 20, "line\nline-line-line"):
        with pytest.raises(UserError, match="this is no token"):
            Token(wrong)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.1.2.3"]
)
def test_without_a_token_loopback_hosts_are_answered(host: str) -> None:
    assert Web(app).ask("GET", "/Account/a/look", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["bank.example", "127.0.0.1.bank.example", "localhost.bank.example", "10.0.0.1", "0.0.0.0", "[", "", "a@b:x"],
)
def test_a_name_that_was_pointed_to_loopback_is_refused(host: str) -> None:
    answer = Web(app).ask("GET", "/Account/a/look", headers={"host": host})
    assert (answer.status, answer.code) == (421, "other_host")


@pytest.mark.parametrize(
    "origin", ["http://bank.example", "null", "http://127.0.0.1:9090", "http://localhost:8080", "x"]
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    web = Web(app)
    answer = web.ask("POST", "/Account/a/deposit", b'{"amount": 1}', JSON | {"origin": origin})
    assert (answer.status, answer.code) == (403, "other_site")
    secret = {"authorization": basic(SECRET), "origin": origin}
    assert Web(app, SECRET).ask("POST", "/Account/a/look", headers=secret).status == 403
    assert web.call("/Account/a/look").json == 0
    own = JSON | {"origin": "http://127.0.0.1:8080"}
    assert web.ask("POST", "/Account/a/deposit", b'{"amount": 1}', own).json == 1


@pytest.mark.parametrize(
    ("name", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.1", False),
    ],
)
def test_loopback_is_told_by_the_address(name: str, is_loopback: bool) -> None:
    assert is_loopback_name(name) is is_loopback
