"""The formats of to_number and to_char, such as 'S$9,999.99', read into tokens.

    [MI | S] [$] [0 | 9 | G | ,]... [. | D] [0 | 9]... [PR | MI | S]

`number_forms.py` reads texts by them, and writes numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum

_TOKENS = re.compile(r"[09,G]+|[.D]|\$|S|MI|PR|.", re.DOTALL)
_COMMA = re.compile("[,G]")
_IN_ORDER = re.compile(r"<?[MS]?\$?9?\.?9?[MS>]?")


class BadFormat(Exception):
    """A text is no format of numbers; the message says why."""


@dataclass(frozen=True, slots=True)
class Digits:
    """A place for digits: exactly so many of them, or at most."""

    count: int
    exactly: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Places for digits, with a comma between each two."""

    parts: tuple[Digits, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)


class Mark(Enum):
    """What a format has beside digits. The brackets of PR are around the rest."""

    POINT = "."
    DOLLAR = "$"
    SIGN = "S"
    MINUS = "M"
    OPEN = "<"
    CLOSE = ">"


_MARKS = {".": Mark.POINT, "D": Mark.POINT, "$": Mark.DOLLAR, "S": Mark.SIGN, "MI": Mark.MINUS}


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The tokens of a format, with the number of digits before the point and after it."""

    text: str
    tokens: tuple[Group | Mark, ...]
    before: int
    after: int


def number_format(text: str) -> NumberFormat:
    """Returns the format that a text is, in any case; raises `BadFormat`."""
    tokens: list[Group | Mark] = []
    counts = [0, 0]
    behind = False
    for found in _TOKENS.findall(text.upper()):
        if found[0] in "09,G":
            group = _group(found, behind)
            counts[behind] += group.count
            tokens.append(group)
        elif found == "PR":
            tokens = [Mark.OPEN, *tokens, Mark.CLOSE]
        elif found in _MARKS:
            tokens.append(_MARKS[found])
            behind = behind or _MARKS[found] is Mark.POINT
        else:
            raise BadFormat(f"{found!r} means nothing in a format")
    _check(tokens)
    return NumberFormat(text, tuple(tokens), *counts)


def _group(text: str, behind: bool) -> Group:
    parts = _COMMA.split(text)
    if behind and len(parts) > 1:
        raise BadFormat("a comma is before the point")
    if not all(parts):
        raise BadFormat("a comma has a digit on both sides")
    return Group(tuple(Digits(len(part), part[0] == "0" and not behind) for part in parts))


def _check(tokens: list[Group | Mark]) -> None:
    written = "".join("9" if isinstance(token, Group) else token.value for token in tokens)
    if "9" not in written:
        raise BadFormat("it has no digit")
    twice = [mark for mark, count in Counter(written).items() if count > 1 and mark != "9"]
    if twice:
        raise BadFormat("a sign, a point, $ or PR is there twice")
    if not _IN_ORDER.fullmatch(written):
        raise BadFormat("its parts are in another order than [MI | S] [$] 9,999.99 [PR | MI | S]")
