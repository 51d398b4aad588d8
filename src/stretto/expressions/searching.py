"""Where a text is in another, and how alike two texts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import string, text, whole
from stretto.expressions.comparisons import null_test
from stretto.expressions.joining import of_one_kind
from stretto.expressions.logic import case
from stretto.expressions.nodes import Node, Site, integer, kernel, known
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.rows import by_rows

#: The digit of each letter from A to Z; letters of digit 0 part equal digits, and those of digit 7 do not.
_SOUNDS = "01230127022455012623017202"


def _predicate(in_kernel: Callable[..., Any], of_row: Callable[[Any, Any], bool]) -> Function:
    """Returns startswith, endswith or contains."""

    def build(site: Site, node: Node, pattern: Node) -> Node:
        subject, wanted = of_one_kind((node, pattern), site)
        value = known(wanted)
        if value is None or wanted.type == types.BINARY:
            return by_rows(types.BOOLEAN, of_row, site, (subject, wanted))
        return kernel(types.BOOLEAN, lambda values: in_kernel(values, pattern=value), site, (subject,))

    return fixed(build, 2)


def instr(site: Site, node: Node, wanted: Node) -> Node:
    """Returns the position of a text in another, from 1, or 0."""
    subject, inner = text(node, site), text(wanted, site)
    return by_rows(types.INT, lambda value, part: value.find(part) + 1, site, (subject, inner))


def locate(site: Site, wanted: Node, node: Node, start: Node | None = None) -> Node:
    """Returns the position of a text in another, at or behind a start, or 0."""
    if start is None and not wanted.fallible:
        return instr(site, node, wanted)
    # The wanted text is evaluated before the other, and the start before both.
    place = integer(1, site) if start is None else whole(start, site)
    found = by_rows(types.INT, _located, site, (text(wanted, site), text(node, site), place), folds=False)
    return case([(null_test(place, site), integer(0, site))], found, site)


def _located(wanted: str, value: str, start: int) -> int:
    if start < 1:
        return 0
    return value.find(wanted, start - 1) + 1 if wanted else 1


def find_in_set(site: Site, node: Node, listed: Node) -> Node:
    """Returns the number of a text among those between commas, from 1, or 0."""

    def of_row(value: str, values: str) -> int:
        parts = values.split(",")
        return parts.index(value) + 1 if value in parts else 0

    return by_rows(types.INT, of_row, site, (text(node, site), text(listed, site)))


def levenshtein(site: Site, left: Node, right: Node, limit: Node | None = None) -> Node:
    """Returns how many characters must change, or -1 if these are more than the limit."""
    parts = (text(left, site), text(right, site))
    if limit is None:
        return by_rows(types.INT, _distance, site, parts)

    def limited(a: str, b: str, most: int) -> int:
        distance = _distance(a, b)
        return distance if distance <= most else -1

    return by_rows(types.INT, limited, site, (*parts, whole(limit, site)))


def _distance(left: str, right: str) -> int:
    previous = list(range(len(right) + 1))
    for row, one in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right):
            current.append(min(previous[column + 1] + 1, current[-1] + 1, previous[column] + (one != other)))
        previous = current
    return previous[-1]


def soundex(site: Site, node: Node) -> Node:
    """Returns a letter and three digits for how a name sounds; a text without a letter in front stays as it is."""
    return by_rows(types.STRING, _soundex, site, (string(node, site),))


def _soundex(value: str) -> str:
    if not value or not (value[0].isascii() and value[0].isalpha()):
        return value
    code, last = value[0].upper(), _sound(value[0])
    for char in value[1:]:
        if not (char.isascii() and char.isalpha()):
            last = "0"
            continue
        sound = _sound(char)
        if sound == "7":
            continue
        if sound not in ("0", last):
            code += sound
        last = sound
    return (code + "000")[:4]


def _sound(letter: str) -> str:
    return _SOUNDS[ord(letter.upper()) - ord("A")]


FUNCTIONS = with_aliases(
    {
        "startswith": _predicate(pc.starts_with, lambda value, part: value.startswith(part)),
        "endswith": _predicate(pc.ends_with, lambda value, part: value.endswith(part)),
        "contains": _predicate(pc.match_substring, lambda value, part: part in value),
        "instr": fixed(instr, 2),
        "locate": Function(locate, 2, 3),
        "find_in_set": fixed(find_in_set, 2),
        "levenshtein": Function(levenshtein, 2, 3),
        "soundex": fixed(soundex, 1),
    },
    position="locate",
)
