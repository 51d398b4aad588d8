"""Who may ask: whoever has the token; without one, only programs of this machine, and pages of this server alone.

A browser sends requests of any page that it shows, also to loopback. Two headers tell: `Origin`, which a page cannot
set, and `Host`. A foreign page that has its own name point to 127.0.0.1 is of the same origin to the browser, but its
requests carry that name.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from stretto.errors import UserError
from stretto.serving.refusals import Refused, Why

TOKEN_BYTES = 32
TOKEN_LENGTH_MIN = 16
_CHALLENGES = 'Bearer realm="stretto", Basic realm="stretto"'


class Token:
    """A secret that callers must send. Only its digest is kept, so that it is in no dump and no representation."""

    __slots__ = ("_digest",)

    def __init__(self, secret: str) -> None:
        if len(secret) < TOKEN_LENGTH_MIN or not secret.isascii() or not secret.isprintable():
            raise UserError(
                "this is no token",
                f"a token has {TOKEN_LENGTH_MIN} printable ASCII characters or more",
                f"Make one with secrets.token_urlsafe({TOKEN_BYTES}).",
            )
        self._digest = sha256(secret.encode()).digest()

    def fits(self, given: bytes) -> bool:
        """Whether it is this token, in a time that does not depend on how much of it is right."""
        return hmac.compare_digest(sha256(given).digest(), self._digest)


def new_secret() -> str:
    """Returns the text of a new token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class Guard:
    """Lets requests pass, or raises. Without a token, requests must be for a loopback host."""

    def __init__(self, token: Token | None) -> None:
        self._token = token

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def check(self, headers: Headers) -> None:
        """Raises a Refused if the sender of these headers may not ask."""
        if self._token is not None:
            self._check_token(self._token, headers.getlist("authorization"))
        self.check_page(headers)

    def check_page(self, headers: Headers) -> None:
        """Likewise, for what holds nothing secret: anybody who can reach this server may have it, and no page of
        another site."""
        if self._token is None and not is_loopback_name(_name_of(headers.get("host", ""))):
            raise Refused(Why.OTHER_HOST, "this server answers requests for localhost and loopback addresses only")
        if headers.get("origin") is not None:
            self.check_same_origin(headers)

    def check_same_origin(self, headers: Headers) -> None:
        """Raises a Refused unless the request says that it comes from a page of this server."""
        origin = _place_of(headers.get("origin", ""))
        if not origin or origin != headers.get("host", "").lower():
            raise Refused(Why.OTHER_SITE, "a page of another site may not call this server")

    def _check_token(self, token: Token, given: list[str]) -> None:
        found = _secret_of(given[0]) if len(given) == 1 else None
        if found is None or not token.fits(found):
            raise Refused(
                Why.NO_TOKEN,
                "this server needs its token: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": _CHALLENGES},
            )


def is_loopback_name(name: str) -> bool:
    """Whether a host is this machine by its very name: an address, or localhost."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Returns the name in a Host header, without its port; an empty text if it cannot be read."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place_of(origin: str) -> str:
    """Returns the host and the port of an Origin header; an empty text if it cannot be read."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _secret_of(authorization: str) -> bytes | None:
    """Returns the token that a header has: as it is, or as the password of a browser's form."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip().encode()
        case "basic":
            try:
                return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return None
    return None
