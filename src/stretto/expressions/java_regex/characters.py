"""Sets of characters as sorted ranges of code points, with Java's named classes and its rules of letter case.

Categories are those of Unicode 13, which Java 17 has. Python's are a version ahead or more: what Unicode added since
is unassigned here too, but for letters that were not known when this was written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

Ranges = tuple[tuple[int, int], ...]
"""Ranges of code points, both ends included, in order and apart from each other."""

_LAST = 0x10FFFF
EVERY: Ranges = ((0, _LAST),)
NONE: Ranges = ()
#: The ranges that Unicode 14 added to those of Unicode 13.
_ADDED = (
    "61d 870-88e 890-891 898-89f 8b5 8c8-8d2 c3c c5d cdd 170d 1715 171f 180f 1ac1-1ace 1b4c 1b7d-1b7e 1dfa 20c0 2c2f "
    "2c5f 2e53-2e5d 9ffd-9fff a7c0-a7c1 a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a7f4 fbc2 fd40-fd4f fdcf fdfe-fdff 10570-1057a "
    "1057c-1058a 1058c-10592 10594-10595 10597-105a1 105a3-105b1 105b3-105b9 105bb-105bc 10780-10785 10787-107b0 "
    "107b2-107ba 10f70-10f89 11070-11075 110c2 116b9 11740-11746 11ab0-11abf 12f90-12ff2 16a70-16abe 16ac0-16ac9 "
    "1aff0-1aff3 1aff5-1affb 1affd-1affe 1b11f-1b122 1cf00-1cf2d 1cf30-1cf46 1cf50-1cfc3 1d1e9-1d1ea 1df00-1df1e "
    "1e290-1e2ae 1e7e0-1e7e6 1e7e8-1e7eb 1e7ed-1e7ee 1e7f0-1e7fe 1f6dd-1f6df 1f7f0 1f979 1f9cc 1fa7b-1fa7c 1faa9-1faac "
    "1fab7-1faba 1fac3-1fac5 1fad7-1fad9 1fae0-1fae7 1faf0-1faf6 2a6de-2a6df 2b735-2b738"
)
#: A character whose category changed: a mark without width in Unicode 13, one with width since.
_MARK_THAT_CHANGED = 0x1734


def ranges_of(points: Iterable[int]) -> Ranges:
    """Returns the ranges of these code points."""
    return union(*(((point, point),) for point in points))


def union(*sets: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(entry for ranges in sets for entry in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def negated(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        found.append((start, _LAST))
    return tuple(found)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    return negated(union(negated(left), negated(right)))


def contains(ranges: Ranges, point: int) -> bool:
    return any(low <= point <= high for low, high in ranges)


def _hexadecimal(text: str) -> Ranges:
    pairs = [entry.split("-") for entry in text.split()]
    return union(*(((int(pair[0], 16), int(pair[-1], 16)),) for pair in pairs))


@cache
def _categories() -> dict[str, Ranges]:
    """Returns the ranges of each category of two letters."""
    added = _hexadecimal(_ADDED)
    starts: dict[str, list[tuple[int, int]]] = {}
    first, current = 0, unicodedata.category(chr(0))
    for point in range(1, _LAST + 2):
        found = unicodedata.category(chr(point)) if point <= _LAST else ""
        if found != current:
            starts.setdefault(current, []).append((first, point - 1))
            first, current = point, found
    categories = {name: intersection(tuple(ranges), negated(added)) for name, ranges in starts.items()}
    categories["Cn"] = union(categories["Cn"], added)
    mark = ((_MARK_THAT_CHANGED, _MARK_THAT_CHANGED),)
    categories["Mc"] = intersection(categories["Mc"], negated(mark))
    categories["Mn"] = union(categories["Mn"], mark)
    return categories


@cache
def category(name: str) -> Ranges | None:
    """Returns the characters of a category such as Lu, or of several by their first letter; None if there is none."""
    if name == "LC":
        return union(*(_categories()[part] for part in ("Lu", "Ll", "Lt")))
    if name == "LD":
        return union(*(ranges for part, ranges in _categories().items() if part[0] == "L"), _categories()["Nd"])
    found = [ranges for part, ranges in _categories().items() if name in (part, part[0])]
    return union(*found) if found else None


def _ascii(test: Callable[[str], bool]) -> Ranges:
    return ranges_of(point for point in range(128) if test(chr(point)))


DIGITS = _ascii(str.isdigit)
WORD = _ascii(lambda char: char.isalnum() or char == "_")
SPACES = _ascii(lambda char: char in " \t\n\x0b\f\r")
HORIZONTAL = _hexadecimal("9 20 a0 1680 180e 2000-200a 202f 205f 3000")
VERTICAL = _hexadecimal("a-d 85 2028-2029")
LINE_ENDS = _hexadecimal("a d 85 2028-2029")
#: The classes behind a backslash; the capital letter is the rest.
ESCAPED = {"d": DIGITS, "w": WORD, "s": SPACES, "h": HORIZONTAL, "v": VERTICAL}
#: The names in \p{...} that mean characters of ASCII only.
POSIX: dict[str, Ranges] = {
    "ASCII": ((0, 127),),
    "Lower": _ascii(str.islower),
    "Upper": _ascii(str.isupper),
    "Alpha": _ascii(str.isalpha),
    "Digit": DIGITS,
    "Alnum": _ascii(str.isalnum),
    "Punct": _ascii(lambda char: char.isprintable() and not char.isalnum() and char != " "),
    "Graph": _ascii(lambda char: char.isprintable() and char != " "),
    "Print": _ascii(str.isprintable),
    "Blank": _ascii(lambda char: char in " \t"),
    "Cntrl": _ascii(lambda char: not char.isprintable()),
    "XDigit": _ascii(lambda char: char in "0123456789abcdefABCDEF"),
    "Space": SPACES,
    "L1": ((0, 255),),
    "all": EVERY,
}
#: The blocks that patterns name most; blocks never change.
BLOCKS = {
    "BASICLATIN": "0-7f", "LATIN-1SUPPLEMENT": "80-ff", "LATIN1SUPPLEMENT": "80-ff", "LATINEXTENDED-A": "100-17f",
    "LATINEXTENDED-B": "180-24f", "COMBININGDIACRITICALMARKS": "300-36f", "GREEK": "370-3ff",
    "GREEKANDCOPTIC": "370-3ff", "CYRILLIC": "400-4ff", "HEBREW": "590-5ff", "ARABIC": "600-6ff",
    "DEVANAGARI": "900-97f", "THAI": "e00-e7f",
    "GENERALPUNCTUATION": "2000-206f", "CURRENCYSYMBOLS": "20a0-20cf", "HIRAGANA": "3040-309f",
    "KATAKANA": "30a0-30ff", "CJKUNIFIEDIDEOGRAPHS": "4e00-9fff", "HANGULSYLLABLES": "ac00-d7af",
    "EMOTICONS": "1f600-1f64f",
}  # fmt: skip


def block(name: str) -> Ranges | None:
    """Returns the characters of a block by its name without spaces or underscores, or None if it is not known here."""
    found = BLOCKS.get(name.upper().replace(" ", "").replace("_", ""))
    return None if found is None else _hexadecimal(found)


def simple_upper(char: str) -> str:
    """Returns the one capital letter of a character, or the character itself; Python's may be several letters."""
    for mapped in (char.upper(), char.title()):
        if len(mapped) == 1:
            return mapped
    return char


def simple_lower(char: str) -> str:
    # The only letter that becomes several.
    return "i" if char == "\u0130" else char.lower()


@cache
def _by_fold() -> dict[str, Ranges]:
    """Returns for each folded letter the characters that are equal to it in any case."""
    members: dict[str, list[int]] = {}
    for name in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Nl", "So"):
        for low, high in _categories()[name]:
            for point in range(low, high + 1):
                folded = _folded(chr(point))
                if folded != chr(point):
                    members.setdefault(folded, [ord(folded)]).append(point)
    return {folded: ranges_of(points) for folded, points in members.items()}


def _folded(char: str) -> str:
    return simple_lower(simple_upper(char))


def same_letter(point: int, unicode: bool) -> Ranges:
    """Returns the characters that (?i), or with `unicode` (?iu), takes for this one."""
    own: Ranges = ((point, point),)
    if unicode:
        return union(own, _by_fold().get(_folded(chr(point)), NONE))
    return ranges_of((point, point ^ 32)) if point < 128 and chr(point).isalpha() else own


def range_in_any_case(low: int, high: int, unicode: bool) -> Ranges:
    """Returns a range of a class with what (?i), or with `unicode` (?iu), adds to it."""
    own: Ranges = ((low, high),)
    if not unicode:
        letters = [point for point in range(max(low, 65), min(high, 122) + 1) if chr(point).isalpha()]
        return union(own, ranges_of(point ^ 32 for point in letters))
    # Java compares the capital of the text's character, and the small letter of that, with the range.
    found = [own]
    for folded, ranges in _by_fold().items():
        for point in (point for start, end in ranges for point in range(start, end + 1)):
            if low <= ord(simple_upper(chr(point))) <= high or low <= ord(folded) <= high:
                found.append(((point, point),))
    return union(*found)
