"""The characters of a pattern one by one: quotes \\Q...\\E taken away, and with (?x) blanks and comments left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stretto.expressions.java_regex.syntax import BadPattern, UnsupportedPattern

_BLANKS = " \t\n\x0b\f\r"
_COMMENT_ENDS = "\n\r\x85\u2028\u2029"


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that hold at a place of the pattern."""

    ignore_case: bool = False
    unicode_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    unix_lines: bool = False
    comments: bool = False


_LETTERS = {
    "i": "ignore_case",
    "u": "unicode_case",
    "m": "multiline",
    "s": "dot_all",
    "d": "unix_lines",
    "x": "comments",
}


class Reader:
    """A cursor over a pattern."""

    def __init__(self, text: str) -> None:
        self._items = _unquoted(text)
        self._place = 0
        self.flags = Flags()

    def _skip(self) -> None:
        while self.flags.comments and self._place < len(self._items):
            char, quoted = self._items[self._place]
            if quoted or char not in _BLANKS + "#":
                return
            self._place += 1
            while char == "#" and self._place < len(self._items):
                self._place += 1
                if self._items[self._place - 1][0] in (_COMMENT_ENDS if not self.flags.unix_lines else "\n"):
                    break

    @property
    def done(self) -> bool:
        self._skip()
        return self._place >= len(self._items)

    @property
    def quoted(self) -> bool:
        """Whether the next character was between \\Q and \\E, so that it means itself."""
        return not self.done and self._items[self._place][1]

    def at(self, char: str) -> bool:
        """Whether the next character is this one, and not quoted."""
        return not self.done and self._items[self._place] == (char, False)

    def take(self, char: str) -> bool:
        """Takes the character if it is the next one."""
        found = self.at(char)
        self._place += found
        return found

    def take_all(self, text: str) -> bool:
        """Takes these characters if they are the next ones."""
        if self._items[self._place : self._place + len(text)] != [(char, False) for char in text]:
            return False
        self._place += len(text)
        return True

    def next(self) -> str:
        """Takes one character."""
        self._skip()
        return self.next_raw()

    def next_raw(self) -> str:
        """Takes one character, also a blank where (?x) holds."""
        char = self.peek_raw()
        self._place += 1
        return char

    def peek_raw(self, ahead: int = 0, beyond: str | None = None) -> str:
        """Returns a character without taking it; `beyond` after the end."""
        if self._place + ahead < len(self._items):
            return self._items[self._place + ahead][0]
        if beyond is None:
            raise BadPattern("it ends too early")
        return beyond

    def digit(self) -> str | None:
        """Returns the next character if it is a digit."""
        if self.done or self.quoted or self.peek_raw() not in "0123456789":
            return None
        return self.peek_raw()

    def until(self, end: str) -> str:
        """Takes the text up to a character, and that too."""
        text = ""
        while not self.take_all(end):
            text += self.next_raw()
        return text

    def read_flags(self) -> Flags:
        """Takes the letters in (?im-s) and returns the flags that hold then."""
        flags, value = self.flags, True
        while not self.at(")") and not self.at(":"):
            char = self.next_raw()
            if char == "-" and value:
                value = False
            elif char == "U":
                raise UnsupportedPattern("the flag (?U)")
            elif char in _LETTERS:
                flags = replace(flags, **{_LETTERS[char]: value})
            else:
                raise BadPattern(f"an unknown flag {char!r}")
        return flags


def _unquoted(text: str) -> list[tuple[str, bool]]:
    """Returns the characters, each with whether it was quoted."""
    items, place = list[tuple[str, bool]](), 0
    while place < len(text):
        pair = text[place : place + 2]
        if pair == "\\Q":
            end = text.find("\\E", place + 2)
            quoted = text[place + 2 :] if end < 0 else text[place + 2 : end]
            items.extend((char, True) for char in quoted)
            place = len(text) if end < 0 else end + 2
        elif pair[0] == "\\" and len(pair) == 2:
            items.extend((char, False) for char in pair)
            place += 2
        else:
            items.append((pair[0], False))
            place += 1
    return items
