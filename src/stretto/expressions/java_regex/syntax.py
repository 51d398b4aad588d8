"""The tree of a pattern. A letter, a dot and a class are all sets of characters; flags are spelled out in the sets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stretto.expressions.java_regex.characters import Ranges, contains

#: A carriage return and a line feed are one line end, so `$` does not match between them.
_RETURN = 13
_BMP_LAST = 0xFFFF


class BadPattern(Exception):
    """A text that is no pattern in Java either."""


class UnsupportedPattern(Exception):
    """A pattern of Java's that has no exact translation; the text names the part."""


class Mode(Enum):
    GREEDY = ""
    LAZY = "?"
    POSSESSIVE = "+"


class GroupKind(Enum):
    """What the parentheses do; the value is how Python writes them."""

    CAPTURE = "("
    PLAIN = "(?:"
    ATOMIC = "(?>"
    AHEAD = "(?="
    NOT_AHEAD = "(?!"
    BEHIND = "(?<="
    NOT_BEHIND = "(?<!"


class Place(Enum):
    """A condition on a place in the text."""

    START = "\\A"
    END = "\\z"
    FINAL_LINE = "$"
    FINAL_LINE_FEED = "$ with (?d)"
    LINE_START = "^ with (?m)"
    LINE_END = "$ with (?m)"
    LINE_FEED_START = "^ with (?md)"
    LINE_FEED_END = "$ with (?md)"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set; of what the dot means, if that is how it is written."""

    ranges: Ranges
    dot: bool = False


@dataclass(frozen=True, slots=True)
class At:
    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of the parts with which the whole matches."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Part
    least: int
    most: int | None
    mode: Mode


@dataclass(frozen=True, slots=True)
class Group:
    kind: GroupKind
    part: Part


@dataclass(frozen=True, slots=True)
class Back:
    """The text of an earlier group again."""

    number: int
    ignore_case: bool


Part = Chars | At | Sequence | Choice | Repeat | Group | Back
LOOKS = (GroupKind.AHEAD, GroupKind.NOT_AHEAD, GroupKind.BEHIND, GroupKind.NOT_BEHIND)


def can_be_empty(part: Part) -> bool:
    """Whether the part may match without taking a character."""
    match part:
        case Chars():
            return False
        case Sequence(parts):
            return all(map(can_be_empty, parts))
        case Choice(parts):
            return any(map(can_be_empty, parts))
        case Repeat(inner, least, _, _):
            return least == 0 or can_be_empty(inner)
        case Group(kind, inner):
            return kind in LOOKS or can_be_empty(inner)
    return True


def width(part: Part) -> int | None:
    """Returns how many characters the part takes, or None if that is not always the same."""
    match part:
        case Chars():
            return 1
        case At():
            return 0
        case Sequence(parts):
            widths = [width(each) for each in parts]
            return None if None in widths else sum(one for one in widths if one is not None)
        case Choice(parts):
            different = {width(each) for each in parts}
            return different.pop() if len(different) == 1 else None
        case Repeat(inner, least, most, _):
            one = width(inner)
            return least * one if one is not None and least == most else None
        case Group(kind, inner):
            return 0 if kind in LOOKS else width(inner)
    return None


def has_groups(part: Part) -> bool:
    """Whether the part has a group that captures."""
    match part:
        case Sequence(parts) | Choice(parts):
            return any(map(has_groups, parts))
        case Repeat(inner, _, _, _):
            return has_groups(inner)
        case Group(kind, inner):
            return kind is GroupKind.CAPTURE or has_groups(inner)
    return False


def may_end_in_return(part: Part) -> bool:
    """Whether a text that the part takes may end in a carriage return, or may be empty after one."""
    match part:
        case Chars(ranges):
            return contains(ranges, _RETURN)
        case Sequence(parts):
            for each in reversed(parts):
                if may_end_in_return(each):
                    return True
                if not can_be_empty(each):
                    return False
            return True
        case Choice(parts):
            return any(map(may_end_in_return, parts))
        case Repeat(inner, _, _, _) | Group(_, inner):
            return may_end_in_return(inner)
    return True


def has_word_edges(part: Part) -> bool:
    match part:
        case At(place):
            return place in (Place.WORD_EDGE, Place.NO_WORD_EDGE)
        case Sequence(parts) | Choice(parts):
            return any(map(has_word_edges, parts))
        case Repeat(inner, _, _, _) | Group(_, inner):
            return has_word_edges(inner)
    return False


def skips_pairs(part: Part) -> bool:
    """Whether Java looks for the pattern only at whole characters.

    It does so if a set of the pattern, other than the dot, has a character that is a surrogate pair in UTF-16.
    """
    match part:
        case Chars(ranges, dot):
            return not dot and bool(ranges) and ranges[-1][1] > _BMP_LAST
        case Sequence(parts) | Choice(parts):
            return any(map(skips_pairs, parts))
        case Repeat(inner, _, _, _) | Group(_, inner):
            return skips_pairs(inner)
    return False


def may_keep_lost_group(part: Part, optional: bool = False, sealed: bool = False) -> bool:
    """Whether Java may report a group of an attempt that failed later.

    It does not take a group back that is inside what it never tries again: a possessive repetition, an atomic group, a
    look-around. That shows if a match is possible that does not set the group again.
    """
    match part:
        case Sequence(parts):
            return any(may_keep_lost_group(each, optional, sealed) for each in parts)
        case Choice(parts):
            return any(may_keep_lost_group(each, True, sealed) for each in parts)
        case Repeat(inner, least, _, mode):
            return may_keep_lost_group(inner, optional or least == 0, sealed or mode is Mode.POSSESSIVE)
        case Group(GroupKind.CAPTURE, inner):
            return (optional and sealed) or may_keep_lost_group(inner, optional, sealed)
        case Group(GroupKind.NOT_AHEAD | GroupKind.NOT_BEHIND, inner):
            return has_groups(inner)
        case Group(kind, inner):
            return may_keep_lost_group(inner, optional, sealed or kind is not GroupKind.PLAIN)
    return False
