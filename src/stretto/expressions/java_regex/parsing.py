"""Reads a pattern of java.util.regex, as Java 17 does, into a tree."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.expressions.java_regex import characters, classes
from stretto.expressions.java_regex.reader import Flags, Reader
from stretto.expressions.java_regex.syntax import (
    LOOKS,
    At,
    Back,
    BadPattern,
    Chars,
    Choice,
    Group,
    GroupKind,
    Mode,
    Part,
    Place,
    Repeat,
    Sequence,
    UnsupportedPattern,
)

_LOOKS = {
    ":": GroupKind.PLAIN,
    ">": GroupKind.ATOMIC,
    "=": GroupKind.AHEAD,
    "!": GroupKind.NOT_AHEAD,
    "<=": GroupKind.BEHIND,
    "<!": GroupKind.NOT_BEHIND,
}
_COUNT_MAX = 2**31 - 1
#: Places behind a backslash.
_PLACES = {"A": Place.START, "z": Place.END, "b": Place.WORD_EDGE, "B": Place.NO_WORD_EDGE}
_NO_FORM = {"G": "\\G", "X": "\\X (a grapheme)", "N": "\\N{name of a character}"}
_LINE_END: Part = Group(
    GroupKind.PLAIN,
    Choice((Sequence((Chars(((13, 13),)), Chars(((10, 10),)))), Chars(characters.VERTICAL))),
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tree of a pattern, the number of its groups, and the numbers of those with names."""

    tree: Part
    groups: int
    names: dict[str, int]


def parse(text: str) -> Parsed:
    """Returns the tree of a pattern. Raises BadPattern if Java has none, UnsupportedPattern if it is not read here."""
    parser = _Parser(text)
    tree = parser.choice()
    if not parser.reader.done:
        raise BadPattern("an unmatched closing parenthesis")
    return Parsed(tree, parser.groups, parser.names)


class _Parser:
    def __init__(self, text: str) -> None:
        self.reader = Reader(text)
        self.groups = 0
        self.names: dict[str, int] = {}
        self._closed: set[int] = set()

    @property
    def flags(self) -> Flags:
        return self.reader.flags

    def choice(self) -> Part:
        options = [self._sequence()]
        while self.reader.take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while not self.reader.done and not self.reader.at("|") and not self.reader.at(")"):
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Part | None:
        reader = self.reader
        if reader.quoted:
            return self._letter(reader.next())
        if reader.take("("):
            return self._group()
        if reader.take("["):
            return Chars(classes.bracketed(reader))
        if reader.take("\\"):
            return self._escape()
        char = reader.next()
        if char in "*+?":
            raise BadPattern(f"nothing to repeat before {char!r}")
        if char == "{":
            raise BadPattern("a '{' that is no repetition")
        if char == "^":
            return At(self._line_place(Place.START, Place.LINE_START, Place.LINE_FEED_START))
        if char == "$":
            final = Place.FINAL_LINE_FEED if self.flags.unix_lines else Place.FINAL_LINE
            return At(self._line_place(final, Place.LINE_END, Place.LINE_FEED_END))
        if char == ".":
            return Chars(self._dot(), dot=True)
        return self._letter(char)

    def _line_place(self, single: Place, lines: Place, line_feeds: Place) -> Place:
        if not self.flags.multiline:
            return single
        return line_feeds if self.flags.unix_lines else lines

    def _dot(self) -> characters.Ranges:
        if self.flags.dot_all:
            return characters.EVERY
        return characters.negated(((10, 10),) if self.flags.unix_lines else characters.LINE_ENDS)

    def _letter(self, char: str) -> Part:
        return Chars(classes.letter(ord(char), self.flags))

    def _escape(self) -> Part:
        reader = self.reader
        char = reader.peek_raw()
        if char in _NO_FORM:
            raise UnsupportedPattern(_NO_FORM[char])
        if char in _PLACES:
            reader.next_raw()
            if char == "b" and reader.at("{"):
                raise UnsupportedPattern("\\b{g}")
            return At(_PLACES[char])
        if char == "Z":
            reader.next_raw()
            return At(Place.FINAL_LINE_FEED if self.flags.unix_lines else Place.FINAL_LINE)
        if char == "R":
            reader.next_raw()
            return _LINE_END
        if char == "k":
            reader.next_raw()
            return self._named_back()
        if char in "123456789":
            return self._numbered_back()
        return Chars(classes.escaped_set(reader))

    def _named_back(self) -> Part:
        if not self.reader.take("<"):
            raise BadPattern("\\k without a name in <>")
        name = self.reader.until(">")
        if name not in self.names:
            raise BadPattern(f"\\k<{name}> names no group before it")
        return self._back(self.names[name])

    def _numbered_back(self) -> Part:
        number = int(self.reader.next_raw())
        if number > self.groups:
            raise UnsupportedPattern(f"\\{number} before the group {number}")
        while self.reader.digit() is not None and number * 10 + int(self.reader.digit() or 0) <= self.groups:
            number = number * 10 + int(self.reader.next())
        return self._back(number)

    def _back(self, number: int) -> Part:
        if number not in self._closed:
            raise UnsupportedPattern(f"\\{number} inside the group {number}")
        if self.flags.ignore_case and self.flags.unicode_case:
            raise UnsupportedPattern("a back reference with (?iu)")
        return Back(number, self.flags.ignore_case)

    def _group(self) -> Part | None:
        outer = self.flags
        if not self.reader.take("?"):
            return self._captured(None, outer)
        for opening in ("<=", "<!", ":", ">", "=", "!"):
            if self.reader.take_all(opening):
                return self._closed_group(_LOOKS[opening], outer)
        if self.reader.take("<"):
            name = self.reader.until(">")
            if not (name.isascii() and name.isalnum() and name[0].isalpha()):
                raise BadPattern(f"{name!r} is no name of a group")
            if name in self.names:
                raise BadPattern(f"two groups are named {name!r}")
            return self._captured(name, outer)
        self.reader.flags = self.reader.read_flags()
        if self.reader.take(")"):
            return None
        if not self.reader.take(":"):
            raise BadPattern("an unknown form of parentheses")
        return self._closed_group(GroupKind.PLAIN, outer)

    def _captured(self, name: str | None, outer: Flags) -> Part:
        self.groups += 1
        number = self.groups
        if name is not None:
            self.names[name] = number
        group = self._closed_group(GroupKind.CAPTURE, outer)
        self._closed.add(number)
        return group

    def _closed_group(self, kind: GroupKind, outer: Flags) -> Part:
        inner = self.choice()
        if not self.reader.take(")"):
            raise BadPattern("an unclosed group")
        self.reader.flags = outer
        return Group(kind, inner)

    def _repeated(self, part: Part) -> Part:
        counts = self._counts()
        if counts is None:
            return part
        if isinstance(part, At) or (isinstance(part, Group) and part.kind in LOOKS):
            raise UnsupportedPattern("a repetition of a place in the text, such as ^* or (?=a)+")
        if part is _LINE_END:
            # In a repetition Java does not try a shorter line end again.
            part = Group(GroupKind.ATOMIC, part)
        mode = Mode.LAZY if self.reader.take("?") else Mode.POSSESSIVE if self.reader.take("+") else Mode.GREEDY
        return Repeat(part, *counts, mode)

    def _counts(self) -> tuple[int, int | None] | None:
        for char, counts in {"?": (0, 1), "*": (0, None), "+": (1, None)}.items():
            if self.reader.take(char):
                return counts
        if not self.reader.take("{"):
            return None
        least = self._number()
        if least is None:
            raise BadPattern("a '{' that is no repetition")
        most: int | None = least
        if self.reader.take(","):
            most = self._number()
        if not self.reader.take("}"):
            raise BadPattern("an unclosed repetition {...")
        if most is not None and most < least:
            raise BadPattern("a repetition {...} whose most is below its least")
        return least, most

    def _number(self) -> int | None:
        digits = ""
        while self.reader.digit() is not None:
            digits += self.reader.next()
        if digits and int(digits) > _COUNT_MAX:
            raise BadPattern("a repetition {...} of too many")
        return int(digits) if digits else None
