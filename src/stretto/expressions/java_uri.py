"""URIs as Java's `java.net.URI` reads them, which is what parse_url of Spark does: RFC 2396 with Java's deviations.

Characters beyond ASCII are allowed, unless they are spaces or control characters. An authority that names no host is
one of a registry, and is allowed as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPE = "%[0-9a-fA-F]{2}"
_BEYOND_ASCII = "[^\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_PLAIN = r"A-Za-z0-9\-_.!~*'()"


def _of(characters: str) -> re.Pattern[str]:
    """Returns a pattern of any number of some characters, of escapes, and of what is beyond ASCII."""
    return re.compile(f"(?:[{_PLAIN}{characters}]|{_ESCAPE}|{_BEYOND_ASCII})*")


_ANY = _of(r";/?:@&=+$,\[\]")
_PATH = _of(";/:@&=+$,")
_REGISTRY = _of("$,;:@&=+")
_SERVER = _of(r";:&=+$,@\[\]%")
_USER = _of(";:&=+$,")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_SCOPE = re.compile("[A-Za-z0-9_.]+")
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:(?:{_LABEL}\.)+(?=[A-Za-z]))?{_LABEL}\.?")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_IPV6 = re.compile(r"\[(?P<address>[^\]%]+)(?:%(?P<scope>[^\]]*))?\](?P<rest>.*)", re.DOTALL)
_HEXADECIMAL = re.compile("[0-9a-fA-F]{1,4}")
_BYTE_MAX, _PORT_MAX = 255, 2**31 - 1
_IPV6_PARTS = 8


class BadUri(Exception):
    """A text is no URI."""


@dataclass(frozen=True, slots=True)
class Uri:
    """The parts of a URI as they are written, None for those that it does not have."""

    scheme: str | None = None
    authority: str | None = None
    user: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None

    @property
    def file(self) -> str | None:
        """The path with the query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"


def read_uri(text: str) -> Uri:
    """Returns the parts of a URI; raises `BadUri`."""
    scheme, rest = _scheme(text)
    rest, has_fragment, fragment = rest.partition("#")
    found = {"scheme": scheme, "fragment": _checked(_ANY, fragment) if has_fragment else None}
    if scheme is not None and not rest.startswith("/"):
        if not rest:
            raise BadUri
        _checked(_ANY, rest)
        return Uri(**found)
    rest, has_query, query = rest.partition("?")
    user = host = authority = None
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        if authority:
            user, host = _authority(authority)
        elif not rest and not has_query and not has_fragment:
            raise BadUri
    return Uri(
        **found,
        authority=authority or None,
        user=user,
        host=host,
        path=_checked(_PATH, rest),
        query=_checked(_ANY, query) if has_query else None,
    )


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise BadUri
    return text


def _scheme(text: str) -> tuple[str | None, str]:
    """Returns the scheme of a URI, if it has one, and what follows."""
    colon = re.match("[^:/?#]*:", text)
    if colon is None:
        return None, text
    return _checked(_SCHEME, text[: colon.end() - 1]), text[colon.end() :]


def _authority(text: str) -> tuple[str | None, str | None]:
    """Returns the user and the host of an authority; it has neither if it is one of a registry."""
    registry = _REGISTRY.match(text)
    assert registry is not None
    if text[registry.end() : registry.end() + 1] == "%":  # A bad escape.
        raise BadUri
    try:
        return _server(_checked(_SERVER, text))
    except BadUri:
        if registry.end() < len(text):
            raise
    return None, None


def _server(text: str) -> tuple[str | None, str]:
    """Returns the user and the host of `user@host:port`."""
    user, at, rest = text.partition("@")
    if not at:
        rest = text
    else:
        _checked(_USER, user)
    bracketed = _IPV6.fullmatch(rest)
    if bracketed is None:
        host, _, port = rest.partition(":")
        if not _is_ipv4(host):
            _checked(_HOST, host)
    else:
        host, port = rest[: bracketed.start("rest")], bracketed["rest"].removeprefix(":")
        if not _is_ipv6(bracketed["address"]) or not (bracketed["rest"] == "" or bracketed["rest"][0] == ":"):
            raise BadUri
        if bracketed["scope"] is not None:
            _checked(_SCOPE, bracketed["scope"])
    if port and not (port.isascii() and port.isdecimal() and int(port) <= _PORT_MAX):
        raise BadUri
    return user if at else None, host


def _is_ipv4(text: str) -> bool:
    return _IPV4.fullmatch(text) is not None and all(int(byte) <= _BYTE_MAX for byte in text.split("."))


def _is_ipv6(text: str) -> bool:
    before, shortened, after = text.partition("::")
    parts = (before.split(":") if before else []) + (after.split(":") if after else [])
    count = len(parts)
    if parts and (after or not shortened) and _is_ipv4(parts[-1]):
        parts.pop()
        count += 1
    if not all(map(_HEXADECIMAL.fullmatch, parts)):
        return False
    return count < _IPV6_PARTS if shortened else count == _IPV6_PARTS
