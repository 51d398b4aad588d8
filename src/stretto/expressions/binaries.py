"""to_binary and try_to_binary: the bytes of a text in hexadecimal digits, base64 or UTF-8."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.attempts import attempted, attempted_whole
from stretto.expressions.nodes import Node, Site, constant_argument, null
from stretto.expressions.radix import unhexed
from stretto.expressions.registry import Function
from stretto.expressions.rows import by_rows

_SPACES = "\t\n\x0b\x0c\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000"
"""What is white space for Java."""
_BASE64 = re.compile(f"([A-Za-z0-9+/{_SPACES}]*)(={{0,2}})")
_NO_DIGIT = re.compile(f"[{_SPACES}]")


def _of_base64(value: str) -> bytes | None:
    """Returns the bytes of base64; unlike unbase64, only white space does not count, and the padding is whole."""
    found = _BASE64.fullmatch(value)
    if found is None:
        return None
    digits, padding = _NO_DIGIT.sub("", found[1]), len(found[2])
    if len(digits) % 4 == 1 or (padding and (len(digits) + padding) % 4):
        return None
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


_FORMATS: dict[str, Callable[[str], bytes | None]] = {
    "hex": unhexed,
    "base64": _of_base64,
    "utf-8": str.encode,
    "utf8": str.encode,
}


def to_binary(site: Site, node: Node, form: Node | None = None) -> Node:
    """Returns the bytes of a text by a format, which is hex if none is given."""
    return _bytes(site, text(node, site), _name(site, form))


def _name(site: Site, form: Node | None) -> str | None:
    name = "hex" if form is None else constant_argument(text(form, site), types.STRING, "the format")
    return None if name is None else str(name).lower()


def _bytes(site: Site, subject: Node, name: str | None) -> Node:
    if name is None:
        return null(types.BINARY, site)
    if name not in _FORMATS:
        raise site.error(f"the format {name!r} of binary", None, f"use one of {', '.join(_FORMATS)}")
    read = _FORMATS[name]

    def of_row(value: str) -> bytes:
        found = read(value)
        if found is None:
            raise site.error(f"{value!r} is not {name}", None, "use try_to_binary for NULL instead")
        return found

    return by_rows(types.BINARY, of_row, site, (subject,), fallible=read is not str.encode)


def try_to_binary(site: Site, node: Node, form: Node | None = None) -> Node:
    """Returns the bytes of a text by a format; null where there are none, and of an unknown format."""
    name = _name(site, form)
    known = name if name in _FORMATS else None
    # The text is made outside of the attempt: bytes that are none fail.
    subject = text(attempted_whole(node, site), site)
    return attempted(lambda inner, place: _bytes(place, inner, known), (subject,), site)


FUNCTIONS = {"to_binary": Function(to_binary, 1, 2), "try_to_binary": Function(try_to_binary, 1, 2)}
