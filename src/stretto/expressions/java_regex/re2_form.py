"""Writes the tree of a pattern for RE2, if RE2 finds exactly what Java does.

RE2 matches in linear time and without a Python call per row. It has no look-around, back references, possessive
repetitions or `$` before a line end, and its \\b knows ASCII only; whoever needs those gets None.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.expressions.java_regex import characters
from stretto.expressions.java_regex.characters import Ranges
from stretto.expressions.java_regex.python_form import written_counts
from stretto.expressions.java_regex.syntax import (
    At,
    Chars,
    Choice,
    Group,
    GroupKind,
    Mode,
    Part,
    Place,
    Repeat,
    Sequence,
    can_be_empty,
    has_groups,
    may_end_in_return,
)

#: The most repetitions that RE2 takes.
_COUNT_MAX = 1_000
_FINAL_LINE = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"


@dataclass(frozen=True, slots=True)
class Re2Pattern:
    """A pattern for RE2; `ascii_only` says that it is right only for texts of ASCII characters."""

    text: str
    ascii_only: bool


class _NoForm(Exception):
    pass


class _Writer:
    """Writes a tree; `exact` asks for the same groups and ends of a match, and not only for the same texts."""

    def __init__(self, exact: bool, only: int | None = None) -> None:
        self.exact = exact
        #: The one group that captures, under a name; None if all do.
        self.only = only
        self.groups = 0
        self.ascii_only = False

    def write(self, part: Part) -> str:
        match part:
            case Chars(ranges):
                return _written_set(ranges)
            case At(place):
                return self._place(place)
            case Sequence(parts):
                return "".join(map(self.write, parts))
            case Choice(parts):
                return "|".join(map(self.write, parts))
            case Repeat():
                return self._repeat(part)
            case Group(GroupKind.CAPTURE, inner):
                return f"{self._opening()}{self.write(inner)})"
            case Group(GroupKind.PLAIN, inner):
                return f"(?:{self.write(inner)})"
        raise _NoForm

    def _opening(self) -> str:
        self.groups += 1
        if self.only is None:
            return "("
        return "(?P<found>" if self.only == self.groups else "(?:"

    def _place(self, place: Place) -> str:
        if place in (Place.START, Place.END):
            return str(place.value)
        if place in (Place.WORD_EDGE, Place.NO_WORD_EDGE):
            self.ascii_only = True
            return str(place.value)
        raise _NoForm

    def _repeat(self, part: Repeat) -> str:
        if part.mode is Mode.POSSESSIVE or max(part.least, part.most or 0) > _COUNT_MAX:
            raise _NoForm
        # Engines differ in what an empty round of a loop leaves in the groups.
        if self.exact and (can_be_empty(part.part) or has_groups(part.part)):
            raise _NoForm
        return self.write(part.part) + written_counts(part.least, part.most) + str(part.mode.value)


def re2_search(tree: Part) -> Re2Pattern | None:
    """Returns a pattern that occurs in the same texts."""
    parts = tree.parts if isinstance(tree, Sequence) else (tree,)
    final = bool(parts) and parts[-1] == At(Place.FINAL_LINE)
    if final:
        parts = parts[:-1]
        if not parts or may_end_in_return(Sequence(parts)):
            return None
    return _written(Sequence(parts), False, _FINAL_LINE if final else "")


def re2_matches(tree: Part) -> Re2Pattern | None:
    """Returns a pattern that has the same matches and groups one after the other, none of them empty."""
    return None if can_be_empty(tree) else _written(tree, True, "")


def re2_group(tree: Part, number: int) -> Re2Pattern | None:
    """Returns a pattern with the same first match, which captures just this group, 0 for the whole match."""
    return _written(tree, True, "", number)


def _written(tree: Part, exact: bool, end: str, only: int | None = None) -> Re2Pattern | None:
    writer = _Writer(exact, only)
    try:
        written = writer.write(tree) + end
        return Re2Pattern(f"(?P<found>{written})" if only == 0 else written, writer.ascii_only)
    except _NoForm:
        return None


def _written_set(ranges: Ranges) -> str:
    # Texts have no halves of surrogate pairs.
    ranges = characters.intersection(ranges, characters.negated(((0xD800, 0xDFFF),)))
    if not ranges:
        raise _NoForm
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _point(ranges[0][0])
    return "[" + "".join(_point(low) if low == high else f"{_point(low)}-{_point(high)}" for low, high in ranges) + "]"


def _point(point: int) -> str:
    return chr(point) if chr(point).isascii() and chr(point).isalnum() else f"\\x{{{point:x}}}"
