"""Writes the tree of a pattern as a pattern of Python's `re`, with no flag but ASCII."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from stretto.expressions.java_regex import characters
from stretto.expressions.java_regex.characters import Ranges
from stretto.expressions.java_regex.syntax import (
    At,
    Back,
    Chars,
    Choice,
    Group,
    GroupKind,
    Part,
    Place,
    Repeat,
    Sequence,
    UnsupportedPattern,
    width,
)

_BEFORE_LAST_LINE_END = r"(?=\r\n\Z|(?<!\r)\n\Z|[\r\x85\u2028\u2029]?\Z)"
# Java has no start of a line at the end of the text, not even of an empty one.
_PLACES = {
    Place.START: r"\A",
    Place.END: r"\Z",
    Place.FINAL_LINE: _BEFORE_LAST_LINE_END,
    Place.FINAL_LINE_FEED: r"(?=\n?\Z)",
    Place.LINE_START: r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))",
    Place.LINE_END: r"(?=(?<!\r)\n|[\r\x85\u2028\u2029]|\Z)",
    Place.LINE_FEED_START: r"(?:(?!\Z)(?:\A|(?<=\n)))",
    Place.LINE_FEED_END: r"(?=\n|\Z)",
}


class Alphabet(Enum):
    """What characters a text has; Python's own \\b is right, and fast, for most texts."""

    ASCII = "ASCII"
    COMMON = "no character that is part of a word in Python only, or in Java only"
    EVERY = "any characters"


#: A mark without width belongs to the letter before it, also behind other marks; so many of them are looked behind.
_MARKS_MAX = 4


def python_pattern(part: Part, alphabet: Alphabet) -> str:
    """Returns the pattern for `re` with the flag ASCII, for texts of this alphabet."""
    match part:
        case Chars(ranges):
            return written_set(ranges, alphabet)
        case At(place):
            return _place(place, alphabet)
        case Sequence(parts):
            return "".join(python_pattern(each, alphabet) for each in parts)
        case Choice(parts):
            return "|".join(python_pattern(each, alphabet) for each in parts)
        case Repeat(inner, least, most, mode):
            return python_pattern(inner, alphabet) + written_counts(least, most) + mode.value
        case Group(GroupKind.BEHIND | GroupKind.NOT_BEHIND as kind, inner):
            return _behind(kind, inner, alphabet)
        case Group(kind, inner):
            return f"{kind.value}{python_pattern(inner, alphabet)})"
        case Back(number, ignore_case):
            return f"(?i:\\{number})" if ignore_case else f"(?:\\{number})"


def written_counts(least: int, most: int | None) -> str:
    short = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((least, most))
    return short or f"{{{least},{'' if most is None else most}}}"


def written_set(ranges: Ranges, alphabet: Alphabet) -> str:
    everything = characters.EVERY
    if alphabet is Alphabet.ASCII:
        everything = characters.POSIX["ASCII"]
        ranges = characters.intersection(ranges, characters.POSIX["ASCII"])
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _point(ranges[0][0])
    if ranges == everything:
        return "(?s:.)"
    return f"[{_points(ranges)}]"


def _points(ranges: Ranges) -> str:
    return "".join(_point(low) if low == high else f"{_point(low)}-{_point(high)}" for low, high in ranges)


def _point(point: int) -> str:
    char = chr(point)
    if char.isascii():
        return char if char.isalnum() else f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _place(place: Place, alphabet: Alphabet) -> str:
    if place not in (Place.WORD_EDGE, Place.NO_WORD_EDGE):
        return _PLACES[place]
    edge = {Alphabet.ASCII: r"\b", Alphabet.COMMON: r"(?u:\b)"}.get(alphabet) or _word_edge()
    # Python's \B does not match an empty text, and Java's does.
    return edge if place is Place.WORD_EDGE else f"(?!{edge})"


@cache
def _word_edge() -> str:
    letters = _points(characters.category("LD") or ())
    marks = _points(characters.category("Mn") or ())
    chains = "|".join(f"(?<=[{letters}][{marks}]{{{count}}})" for count in range(1, _MARKS_MAX + 1))
    marked = f"(?<=[{marks}])(?:{chains})"
    left = f"(?:(?<=[{letters}_])|{marked})"
    right = f"(?:(?=[{letters}_])|(?=[{marks}])(?:(?<=[{letters}])|{marked}))"
    return f"(?:{left}(?!{right})|(?!{left}){right})"


@cache
def _uncommon() -> re.Pattern[str]:
    """Returns the pattern of a character that is part of a word in Python only, or in Java only."""
    letters, marks = characters.category("LD") or (), characters.category("Mn") or ()
    known = characters.negated(characters.category("Cn") or ())
    words = characters.ranges_of(point for low, high in known for point in range(low, high + 1) if chr(point).isalnum())
    common = characters.intersection(characters.intersection(known, characters.negated(marks)), characters.union(
        characters.intersection(words, letters), characters.negated(characters.union(words, letters))
    ))  # fmt: skip
    return re.compile(f"[^{_points(common)}]")


def alphabet_of(text: str) -> Alphabet:
    """Returns the smallest alphabet of a text."""
    if text.isascii():
        return Alphabet.ASCII
    return Alphabet.EVERY if _uncommon().search(text) else Alphabet.COMMON


def _behind(kind: GroupKind, inner: Part, alphabet: Alphabet) -> str:
    """Returns a look behind; one of several widths is several of them, since Python has only fixed ones."""
    options = inner.parts if isinstance(inner, Choice) else (inner,)
    if any(width(option) is None for option in options):
        raise UnsupportedPattern("a look-behind of no fixed width")
    looks = [f"{kind.value}{python_pattern(option, alphabet)})" for option in options]
    return f"(?:{'|'.join(looks)})" if kind is GroupKind.BEHIND else "".join(looks)
