"""Patterns of date_format and to_timestamp, as in Java's DateTimeFormatter: a list of fields and literals.

What Spark refuses is refused; of what it takes, the names of zones (z) are refused, since they are texts of Java's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from stretto.errors import ExpressionError

#: The numbers of letters that each field takes.
_WIDTHS = {
    **dict.fromkeys("y", range(1, 7)),
    **dict.fromkeys("MLQqE", range(1, 5)),
    **dict.fromkeys("dhHkKms", range(1, 3)),
    "D": range(1, 4),
    "a": range(1, 2),
    "S": range(1, 10),
    "G": range(1, 5),
    "V": range(2, 3),
    "O": (1, 4),
    **dict.fromkeys("Xx", range(1, 6)),
    "Z": range(1, 6),
}
_NO_PARSING = "EqQGODV"


@dataclass(frozen=True, slots=True)
class Part:
    """A literal (without a letter), a field of `width` letters, or the start "[" or the end "]" of an optional part."""

    letter: str
    width: int = 0
    text: str = ""


def _refused(pattern: str, detail: str) -> ExpressionError:
    return ExpressionError(
        f"the time pattern {pattern!r} is not supported", detail, "use the letters yMLdDEaHhKkmsSQqGVOXxZ and quotes"
    )


@lru_cache(maxsize=256)
def parsed(pattern: str) -> tuple[Part, ...]:
    """Returns the parts of a pattern."""
    parts: list[Part] = []
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "'":
            text, place = _quoted(pattern, place)
            parts.append(Part("", 0, text))
            continue
        end = place
        if letter.isascii() and letter.isalpha():
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if end - place not in _WIDTHS.get(letter, ()):
                raise _refused(pattern, f"{pattern[place:end]!r} is no field of it")
            parts.append(Part(letter, end - place))
        elif letter in "{}#":
            raise _refused(pattern, f"{letter!r} is reserved")
        else:
            end += 1
            parts.append(Part(letter) if letter in "[]" else Part("", 0, letter))
        place = end
    depths = [0, *accumulate({"[": 1, "]": -1}.get(part.letter, 0) for part in parts)]
    if min(depths) < 0:
        raise _refused(pattern, "']' without '['")
    return (*parts, *[Part("]")] * depths[-1])


def _quoted(pattern: str, place: int) -> tuple[str, int]:
    """Returns a text in quotes, in which two quotes stand for one, and the place after it."""
    if pattern[place : place + 2] == "''":
        return "'", place + 2
    text, place = "", place + 1
    while place < len(pattern):
        if pattern[place] != "'":
            text += pattern[place]
        elif pattern[place : place + 2] == "''":
            text += "'"
            place += 1
        else:
            return text, place + 1
        place += 1
    raise _refused(pattern, "a quote is not closed")


def for_parsing(pattern: str) -> tuple[Part, ...]:
    """Returns the parts of a pattern that texts are read with."""
    parts = parsed(pattern)
    letters = [part.letter for part in parts if part.letter not in ("", "[", "]")]
    for letter in letters:
        if letter in _NO_PARSING:
            raise _refused(pattern, f"{letter!r} is only for writing")
        if letters.count(letter) > 1:
            raise _refused(pattern, f"{letter!r} is in it twice")
    return parts
