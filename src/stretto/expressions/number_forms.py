"""Numbers as texts by a format (to_char), and texts by a format as numbers (to_number).

What a text must be like, and where the spaces of a number go, is what Spark's own parser does; where Spark's answer for
a number with too many digits is a row of #, so is this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from stretto.expressions.number_formats import Group, Mark, NumberFormat

_NO_SPACES = "\x85\xa0\u2007\u202f"
"""What is a space for Python, and not for Java."""
_LAST_OF_BMP = "\uffff"
_LONG_DIGITS_MAX = 18
_WORDS = 2**64


class TooLarge(Exception):
    """A text fits a format, but the number does not: its digits before the point have no place there."""


class _Reading:
    """A text while it is read by a format: the place in it, and the digits found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.before = ""
        self.after = ""
        self.behind = False
        self.negative = False
        self.open: bool | None = None
        """Whether a bracket is still open; None if there was none."""

    def takes(self, token: Group | Mark) -> bool:
        """Reads what a token stands for, and returns whether the text can have the format still."""
        if isinstance(token, Group):
            return self._digits(token)
        char = self.text[self.place : self.place + 1]
        known = _SIGNS[token]
        if char == "" or char not in known:
            return char == "" or token is not Mark.DOLLAR
        self.place += 1
        if token is Mark.POINT:
            self.behind = True
        elif token is Mark.OPEN:
            self.open = True
        elif token is Mark.CLOSE:
            if not self.open:
                return False
            self.open, self.negative = False, not self.negative
        elif char == "-":
            self.negative = not self.negative
        return True

    def _digits(self, group: Group) -> bool:
        """Reads digits, commas and spaces as far as there are any; counts the digits between commas."""
        sizes, digits = [0], []
        while self.place < len(self.text):
            char = self.text[self.place]
            if char.isdecimal() and char <= _LAST_OF_BMP:
                digits.append(char)
                sizes[-1] += 1
            elif char == ",":
                sizes.append(0)
            elif not char.isspace() or char in _NO_SPACES:
                break
            self.place += 1
        if self.behind:
            self.after += "".join(digits)
        else:
            self.before += "".join(digits)
        if len(sizes) > len(group.parts):
            return False
        padded = [0] * (len(group.parts) - len(sizes)) + sizes
        each = zip(padded, group.parts, strict=True)
        return all(size == part.count if part.exactly else size <= part.count for size, part in each)


_SIGNS = {
    Mark.POINT: ".",
    Mark.DOLLAR: "$",
    Mark.SIGN: "+-",
    Mark.MINUS: "-",
    Mark.OPEN: "<",
    Mark.CLOSE: ">",
}


def number_of(text: str, form: NumberFormat) -> Decimal | None:
    """Returns the number that a text is by a format, or None if it is none; raises `TooLarge`."""
    reading = _Reading(text)
    fits = all(map(reading.takes, form.tokens))
    digits = reading.before + reading.after
    if not fits or reading.place < len(text) or reading.open or not digits:
        return None
    value = int(digits) * 10 ** (form.after - len(reading.after))
    precision = form.before + form.after
    if precision <= _LONG_DIGITS_MAX:  # Spark has 64 bits of it, and looks at its size then.
        value = (value + _WORDS // 2) % _WORDS - _WORDS // 2
    if value >= 10**precision or value <= -(10**precision):
        raise TooLarge
    negative = value != 0 and reading.negative != (value < 0)
    return Decimal((int(negative), tuple(map(int, str(abs(value)))), -form.after))


def text_of(value: Decimal, form: NumberFormat) -> str:
    """Returns a number by a format; # in place of its digits if there are too many."""
    before, after = _digits_of(value, form)
    writing = _Writing(value < 0, iter(before), iter(after))
    for token in form.tokens:
        writing.write(token)
    writing.strip_point()
    written = "".join(writing.chars)
    return "0" if written in ("", "+", "-") else written


def _digits_of(value: Decimal, form: NumberFormat) -> tuple[str, str]:
    """Returns the digits of a number before and after its point, as many as the format has; spaces for leading ones."""
    before, _, after = f"{value.copy_abs():f}".partition(".")
    before, after = before.lstrip("0"), after.rstrip("0")
    if len(before) > form.before or len(after) > form.after:
        return "#" * form.before, "#" * form.after
    return before.rjust(form.before), after.ljust(form.after, "0")


class _Writing:
    """A number while it is written: the characters so far."""

    def __init__(self, negative: bool, before: Iterator[str], after: Iterator[str]) -> None:
        self.chars: list[str] = []
        self._negative = negative
        self._before, self._after = before, after
        self._behind = False

    def write(self, token: Group | Mark) -> None:
        """Writes what a token stands for."""
        if isinstance(token, Group):
            self._group(token)
        elif token is Mark.POINT:
            if self.chars and self.chars[-1] == " ":  # The number has nothing before its point.
                self.chars[-1] = "0"
            self.chars.append(".")
            self._behind = True
        elif token is Mark.DOLLAR:
            self.chars.append("$")
        elif token is Mark.OPEN:
            self.chars += "<" if self._negative else ""
        elif token is Mark.MINUS and not self._negative:
            self.chars.append(" ")
        else:
            self._sign(token)

    def _sign(self, token: Mark) -> None:
        self.strip_point()
        if token is Mark.CLOSE and not self._negative:
            self.chars += "  "
            return
        sign = ">" if token is Mark.CLOSE else "-" if self._negative else "+"
        place = len(self.chars)
        while place and self.chars[place - 1] == " ":
            place -= 1
        self.chars.insert(place, sign)

    def _group(self, group: Group) -> None:
        for place, part in enumerate(group.parts):
            if place and self.chars and self.chars[-1].isdecimal():
                self.chars.append(",")
            elif place:
                self._space()
            for _ in range(part.count):
                char = next(self._after if self._behind else self._before)
                if char != " ":
                    self.chars.append(char)
                elif part.exactly:
                    self.chars.append("0")
                else:
                    self._space()

    def _space(self) -> None:
        """Writes a space before the signs at the end, so that these stay beside the digits."""
        place = len(self.chars)
        while place and self.chars[place - 1] in "+-<":
            place -= 1
        self.chars.insert(place, " ")

    def strip_point(self) -> None:
        """Makes a space of a point that nothing follows."""
        if "." in self.chars:
            place = self.chars.index(".")
            if self.chars[place + 1 : place + 2] in ([], [" "]):
                self.chars[place] = " "
