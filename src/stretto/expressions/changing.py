"""A text with some of its characters changed: replace, translate, overlay, reverse, mask."""

from __future__ import annotations

import unicodedata
from typing import Any

import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import string, text, text_or_bytes, whole
from stretto.expressions.cutting import cut
from stretto.expressions.joining import of_one_kind
from stretto.expressions.nodes import Node, Site, constant_argument, integer, kernel, known, text_constant
from stretto.expressions.registry import Function, fixed
from stretto.expressions.rows import by_rows

_INT_MAX = 2**31 - 1


def replace(site: Site, node: Node, search: Node, replacement: Node | None = None) -> Node:
    """Returns the text with every occurrence of another replaced; an empty one occurs nowhere."""
    subject, wanted = text(node, site), text(search, site)
    new = text_constant("", site) if replacement is None else text(replacement, site)
    old, value = known(wanted), known(new)
    if old and value is not None:
        return kernel(types.STRING, lambda values: pc.replace_substring(values, old, value), site, (subject,))

    def of_row(inner: str, part: str, other: str) -> str:
        return inner.replace(part, other) if part else inner

    return by_rows(types.STRING, of_row, site, (subject, wanted, new))


def translate(site: Site, node: Node, old: Node, new: Node) -> Node:
    """Returns the text with each character of `old` as the one of `new` at its place, or without it."""

    def of_row(value: str, before: str, after: str) -> str:
        table: dict[int, str | None] = {}
        for place, char in enumerate(before):
            # Of a character that is listed twice the first counts.
            table.setdefault(ord(char), after[place] if place < len(after) else None)
        return value.translate(table)

    return by_rows(types.STRING, of_row, site, (text(node, site), text(old, site), text(new, site)))


def overlay(site: Site, node: Node, new: Node, start: Node, size: Node | None = None) -> Node:
    """Returns the text with another one over it from a position on; it covers its own length, or `size`."""
    if (node.type == types.BINARY) != (new.type == types.BINARY):
        raise site.mismatch(node.type, new.type)
    subject, part = of_one_kind((node, new), site)
    count = integer(-1, site) if size is None else whole(size, site)

    def of_row(value: Any, other: Any, place: int, covered: int) -> Any:
        covered = covered if covered >= 0 else len(other)
        # Of the lowest int Java takes one more away, and the rest is the whole text still.
        return cut(value, 1, place - 1) + other + cut(value, max(place + covered, -_INT_MAX), _INT_MAX)

    return by_rows(subject.type, of_row, site, (subject, part, whole(start, site), count))


def reverse(site: Site, node: Node) -> Node:
    subject = text_or_bytes(node, site)
    return kernel(
        subject.type, pc.binary_reverse if subject.type == types.BINARY else pc.utf8_reverse, site, (subject,)
    )


def mask(site: Site, node: Node, *signs: Node) -> Node:
    """Returns the text with capitals, small letters, digits and other characters each as one sign; null keeps them."""
    chosen: list[str | None] = ["X", "x", "n", None]
    for place, sign in enumerate(signs):
        chosen[place] = constant_argument(sign, types.STRING, "a sign of mask")
        if chosen[place] is not None and len(str(chosen[place])) != 1:
            raise site.error("a sign of mask that is not one character", f"got {chosen[place]!r}", "use one character")
    capital, small, digit, other = chosen

    by_category = {"Lu": capital, "Ll": small, "Nd": digit}

    def sign_of(char: str) -> str:
        return by_category.get(unicodedata.category(char), other) or char

    return by_rows(types.STRING, lambda value: "".join(map(sign_of, value)), site, (string(node, site),))


FUNCTIONS = {
    "replace": Function(replace, 2, 3),
    "translate": fixed(translate, 3),
    "overlay": Function(overlay, 3, 4),
    "reverse": fixed(reverse, 1),
    "mask": Function(mask, 1, 5),
}
