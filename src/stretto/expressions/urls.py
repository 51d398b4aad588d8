"""parse_url: a part of a URL, or the value of a key in its query."""

from __future__ import annotations

from collections.abc import Callable

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.java_regex import JavaPattern, joined
from stretto.expressions.java_uri import BadUri, Uri, read_uri
from stretto.expressions.nodes import Node, Site, known
from stretto.expressions.patterns import compiled
from stretto.expressions.registry import Build, Function
from stretto.expressions.rows import by_rows

_QUERY = "QUERY"
_PARTS: dict[str, Callable[[Uri], str | None]] = {
    "HOST": lambda uri: uri.host,
    "PATH": lambda uri: uri.path,
    _QUERY: lambda uri: uri.query,
    "REF": lambda uri: uri.fragment,
    "PROTOCOL": lambda uri: uri.scheme,
    "FILE": lambda uri: uri.file,
    "AUTHORITY": lambda uri: uri.authority,
    "USERINFO": lambda uri: uri.user,
}


def _pattern(key: str, site: Site) -> JavaPattern:
    """Returns what finds a key in a query; the key is a part of a regular expression, with all that this means."""
    return compiled(f"(&|^){key}=([^&]*)", site)


def _parse_url(strictly: bool) -> Build:
    """Returns the builder of parse_url, or of the form that is null for what is no URL."""

    def build(site: Site, url: Node, part: Node, key: Node | None = None) -> Node:
        def part_of(value: str, name: str) -> str | None:
            try:
                uri = read_uri(value)
            except BadUri:
                if strictly:
                    raise site.error(f"{value!r} is no URL", None, "use try_parse_url for NULL instead") from None
                return None
            return _PARTS[name](uri) if name in _PARTS else None

        def value_of(value: str, name: str, wanted: str) -> str | None:
            query = part_of(value, name) if name == _QUERY else None
            if query is None:
                return None
            found = _pattern(wanted, site).search(query)
            return None if found is None or found[2] is None else joined(found[2])

        given = [text(node, site) for node in (url, part, key) if node is not None]
        constant = known(given[-1]) if key is not None else None
        if constant is not None:
            _pattern(constant, site)  # What cannot be read is refused now.
        return by_rows(types.STRING, part_of if key is None else value_of, site, given, fallible=True)

    return build


FUNCTIONS = {
    "parse_url": Function(_parse_url(strictly=True), 2, 3),
    "try_parse_url": Function(_parse_url(strictly=False), 2, 3),
}
