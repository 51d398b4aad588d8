"""Numbers in other bases: bin, hex, unhex, conv."""

from __future__ import annotations

import string

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast, written
from stretto.expressions.nodes import Folds, Node, Site, combine, constant_argument, kernel, null
from stretto.expressions.registry import fixed
from stretto.expressions.rounding import number
from stretto.expressions.rows import by_value
from stretto.expressions.vectors import Value, arrow_operand, from_arrow

_DIGITS = string.digits + string.ascii_uppercase
_BASE_MIN, _BASE_MAX = 2, len(_DIGITS)
_WORDS = 2**64


def _bigint(node: Node, site: Site) -> Node:
    return cast(number(node, site, types.BIGINT), types.BIGINT, site)


def binary_text(site: Site, node: Node) -> Node:
    """Returns the bits of a bigint, of a negative one all 64."""
    return written(_bigint(node, site), lambda value: format(int(value) % _WORDS, "b"), site)


def hex_text(site: Site, node: Node) -> Node:
    """Returns an integer, or the bytes of a text, in hexadecimal digits."""
    if node.type == types.STRING:
        node = cast(node, types.BINARY, site)
    if node.type != types.BINARY:
        return written(_bigint(node, site), lambda value: format(int(value) % _WORDS, "X"), site)
    return kernel(
        types.STRING, lambda values: by_value(values, lambda value: value.hex().upper(), types.STRING), site, (node,)
    )


def unhex(site: Site, node: Node) -> Node:
    """Returns the bytes of hexadecimal digits, and null if there is any other character."""
    if node.type == types.NULL:
        return null(types.BINARY, site)
    text = node if node.type == types.STRING else cast(number(node, site), types.STRING, site)
    return kernel(types.BINARY, lambda values: by_value(values, unhexed, types.BINARY), site, (text,))


def unhexed(text: str) -> bytes | None:
    if set(text) - set(string.hexdigits):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)


def conv(site: Site, node: Node, from_base: Node, to_base: Node) -> Node:
    """Returns the text of a number of 64 bits in another base; a negative base keeps the sign."""
    if node.type == types.NULL:
        return null(types.STRING, site)
    text = node if node.type == types.STRING else cast(number(node, site), types.STRING, site)
    base = constant_argument(from_base, types.INT, "a base of conv", Folds.NEVER)
    target = constant_argument(to_base, types.INT, "a base of conv", Folds.NEVER)
    if base is None or target is None:
        return null(types.STRING, site)
    if not (_BASE_MIN <= base <= _BASE_MAX and _BASE_MIN <= abs(target) <= _BASE_MAX):
        return null(types.STRING, site)
    inner = text.run

    def run(batch: pa.RecordBatch) -> Value:
        values = arrow_operand(inner(batch), types.STRING)
        return from_arrow(
            by_value(values, lambda value: _converted(value, base, target, site), types.STRING), types.STRING
        )

    return combine(types.STRING, run, site, (text,), fallible=True)


def _converted(text: str, base: int, target: int, site: Site) -> str | None:
    text = text.strip(" ")
    if not text:
        return None
    negative = text.startswith("-")
    value = 0
    for char in text[negative:]:
        # Only letters of ASCII: 'ﬁ' would become FI.
        digit = _DIGITS.find(char.upper()) if char.isascii() else -1
        if not 0 <= digit < base:
            break
        value = value * base + digit
        if value >= _WORDS:
            raise site.error("conv overflow", f"{text!r} has more than 64 bits", "use fewer digits")
    value = value - _WORDS if value >= _WORDS // 2 else value
    if negative and target > 0:
        value = -1 if value < 0 else -value
    if target < 0 and value < 0:
        value, negative = -value, True
    return ("-" if negative and target < 0 else "") + _in_base(value % _WORDS, abs(target))


def _in_base(value: int, base: int) -> str:
    digits = ""
    while value or not digits:
        value, digit = divmod(value, base)
        digits = _DIGITS[digit] + digits
    return digits


FUNCTIONS = {
    "bin": fixed(binary_text, 1),
    "hex": fixed(hex_text, 1),
    "unhex": fixed(unhex, 1),
    "conv": fixed(conv, 3),
}
