"""Texts as bytes and as texts that only plain characters have: base64, charsets, URLs, code points."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from typing import Any

from stretto.expressions import conditionals, types
from stretto.expressions.arguments import data, text
from stretto.expressions.attempts import attempted
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site
from stretto.expressions.registry import MANY, Function, fixed, with_aliases
from stretto.expressions.rows import by_rows

#: Java's lines of base64.
_LINE = 76
_ALPHABET = frozenset(string.ascii_letters + string.digits + "+/")
#: The charsets that Spark has, as Python calls them. Without a mark of the order of bytes the high one is first.
_CHARSETS = {
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-8": "utf-8",
    "utf-16": "utf-16-be",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "utf-32": "utf-32-be",
}
_MARKS = {
    "utf-16": ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le")),
    "utf-32": ((b"\0\0\xfe\xff", "utf-32-be"), (b"\xff\xfe\0\0", "utf-32-le")),
}
#: The bytes that stay in a URL.
_PLAIN = frozenset((string.ascii_letters + string.digits + ".-*_").encode())
_PERCENT = re.compile(b"%([0-9a-fA-F]{2})")
_BAD_PERCENT = re.compile("%(?![0-9a-fA-F]{2})")


def _of_text(kind: Any, apply: Callable[[str], Any]) -> Function:
    return fixed(lambda site, node: by_rows(kind, apply, site, (text(node, site),)), 1)


def to_base64(site: Site, node: Node) -> Node:
    """Returns bytes in base64, in lines of 76 characters."""

    def of_row(value: bytes) -> str:
        written = base64.b64encode(value).decode()
        return "\r\n".join(written[place : place + _LINE] for place in range(0, len(written), _LINE))

    return by_rows(types.STRING, of_row, site, (data(node, site),))


def from_base64(site: Site, node: Node) -> Node:
    """Returns the bytes of base64; as in MIME, other characters do not count."""

    def of_row(value: str) -> bytes:
        digits, padding, rest = value.partition("=")
        known = "".join(char for char in digits if char in _ALPHABET)
        left = len(known) % 4
        wrong = padding and (left == 0 or (left == 2 and not rest.startswith("=")))
        if wrong or left == 1 or (padding and any(char in _ALPHABET for char in rest)):
            raise site.error(f"{value!r} is not base64", "its end is not whole", "pad it with =, or leave the = out")
        return base64.b64decode(known + "=" * (-len(known) % 4))

    return by_rows(types.BINARY, of_row, site, (text(node, site),), fallible=True)


def _charset(name: str, site: Site) -> str:
    found = _CHARSETS.get(name.lower())
    if found is None:
        raise site.error(f"the charset {name!r}", "Spark does not have it", f"use one of {', '.join(_CHARSETS)}")
    return found


def encode(site: Site, node: Node, charset: Node) -> Node:
    """Returns the bytes of a text in a charset."""

    def of_row(value: str, name: str) -> bytes:
        codec = _charset(name, site)
        mark = b"\xfe\xff" if name.lower() == "utf-16" and value else b""
        try:
            return mark + value.encode(codec)
        except UnicodeEncodeError:
            raise site.error(f"{value!r} has no bytes in {name}", None, "use UTF-8") from None

    return by_rows(types.BINARY, of_row, site, (text(node, site), text(charset, site)), fallible=True)


def decode(site: Site, node: Node, *others: Node) -> Node:
    """Returns the text of bytes in a charset; with more arguments, the value behind the first one that is equal."""
    if len(others) > 1:
        return conditionals.decode(site, node, *others)

    def of_row(value: bytes, name: str) -> str:
        codec = _charset(name, site)
        for mark, marked in _MARKS.get(name.lower(), ()):
            if value.startswith(mark):
                value, codec = value[len(mark) :], marked
        try:
            return value.decode(codec)
        except UnicodeDecodeError:
            raise site.error(
                f"bytes that are not {name}", f"{value[:20]!r}", "use the charset they were made in"
            ) from None

    return by_rows(types.STRING, of_row, site, (data(node, site), text(others[0], site)), fallible=True)


def url_decode(site: Site, node: Node) -> Node:
    def of_row(value: str) -> str:
        if _BAD_PERCENT.search(value):
            raise site.error(f"{value!r} is not an encoded URL", "a % without two digits", "use try_url_decode")
        encoded = value.replace("+", " ").encode()
        return _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), encoded).decode(errors="replace")

    return by_rows(types.STRING, of_row, site, (text(node, site),), fallible=True)


def _url_encoded(value: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else "+" if byte == 32 else f"%{byte:02X}" for byte in value.encode())


def char_of(site: Site, node: Node) -> Node:
    """Returns the character of a number's lowest byte, nothing of a negative number."""
    if node.type not in (types.NULL, types.STRING) and not types.is_numeric(node.type):
        raise site.wrong_type("bigint", node.type)
    number = cast(node, types.BIGINT, site)
    return by_rows(types.STRING, lambda value: chr(value & 0xFF) if value >= 0 else "", site, (number,))


def _luhn(value: str) -> bool:
    if not (value.isascii() and value.isdigit()):
        return False
    digits = [int(digit) for digit in reversed(value)]
    doubled = [2 * digit - (9 if digit > 4 else 0) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


FUNCTIONS = with_aliases(
    {
        "base64": fixed(to_base64, 1),
        "unbase64": fixed(from_base64, 1),
        "encode": fixed(encode, 2),
        "decode": Function(decode, 2, MANY),
        "url_encode": _of_text(types.STRING, _url_encoded),
        "url_decode": fixed(url_decode, 1),
        "try_url_decode": fixed(
            # The text is made before the attempt: bytes that are none fail.
            lambda site, node: attempted(lambda inner, place: url_decode(place, inner), (text(node, site),), site),
            1,
        ),
        "ascii": _of_text(types.INT, lambda value: ord(value[0]) if value else 0),
        "chr": fixed(char_of, 1),
        "luhn_check": _of_text(types.BOOLEAN, _luhn),
        "quote": _of_text(types.STRING, lambda value: "'" + value.replace("'", "\\'") + "'"),
        # A text of this room always is valid: CAST refuses other bytes.
        "is_valid_utf8": _of_text(types.BOOLEAN, lambda value: True),
        "validate_utf8": _of_text(types.STRING, str),
    },
    char="chr",
    make_valid_utf8="validate_utf8",
    try_validate_utf8="validate_utf8",
)
