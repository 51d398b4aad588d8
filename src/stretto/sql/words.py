"""The words of a script: names, quoted names, strings, numbers and signs, each with its place.

Only the structure of statements is read from these. Expressions are cut out and read again by `expressions/`, which
knows more: so a word is no more than what brackets and keywords need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from stretto.sql.script import Script


class Kind(Enum):
    """What a word is."""

    NAME = "name"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Word:
    """A word from `start` to before `end`. `key` is what keywords and signs are compared with."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        return self.text.upper() if self.kind in (Kind.NAME, Kind.SIGN) else ""

    @property
    def value(self) -> str:
        """The name without its backticks, or the string without its quotes."""
        if self.kind is Kind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        if self.kind is Kind.STRING:
            quote = self.text[-1]
            inner = self.text[self.text.index(quote) + 1 : -1].replace(quote * 2, quote)
            return inner if self.text[0] in "rR" else re.sub(r"\\(.)", _unescaped, inner, flags=re.DOTALL)
        return self.text


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": r"\%", "_": r"\_"}
_WORD = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*(?!\+).*?\*/)
    | (?P<string>r'[^']*'|R'[^']*'|r"[^"]*"|R"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD])?(?![A-Za-z_]))
    | (?P<name>[^\W\d]\w*|\d\w*)
    | (?P<sign>=>|->|::|<=>|<=|>=|<>|!=|==|\|\||.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_KINDS = {
    "string": Kind.STRING,
    "quoted": Kind.QUOTED,
    "number": Kind.NUMBER,
    "name": Kind.NAME,
    "sign": Kind.SIGN,
}
_UNCLOSED = {"'": "a string", '"': "a string", "`": "a quoted name"}


def words_of(script: Script) -> list[Word]:
    """Returns the words of a script without spaces and comments."""
    words = []
    for found in _WORD.finditer(script.text):
        kind = found.lastgroup or "space"
        if kind == "space":
            continue
        text, start = found.group(), found.start()
        if kind == "sign" and text in _UNCLOSED:
            raise script.error(start, f"{_UNCLOSED[text]} is not closed", f"Write {text} at its end.")
        if script.text.startswith("/*", start):
            hint = script.text.startswith("/*+", start)
            fact = "hints are not supported" if hint else "a comment is not closed"
            raise script.error(start, fact, "Leave the hint out." if hint else "Write */ at its end.")
        words.append(Word(_KINDS[kind], text, start, found.end()))
    return words


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found.group(1), found.group(1))
