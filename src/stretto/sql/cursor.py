"""Reads the words of one statement from left to right: keywords, names, literals, and expressions as pieces of text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from stretto.errors import SqlError
from stretto.sql.script import Piece, Script
from stretto.sql.words import Kind, Word

_OPENS = {"(": ")", "[": "]"}
_NO_ALIAS = frozenset(
    [
        "ANTI",
        "AS",
        "ASOF",
        "BY",
        "CLUSTER",
        "CROSS",
        "CUBE",
        "DISTRIBUTE",
        "EXCEPT",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INTERSECT",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIMIT",
        "MATCH_CONDITION",
        "MATCH_RECOGNIZE",
        "MINUS",
        "NATURAL",
        "OFFSET",
        "ON",
        "OPTIONS",
        "ORDER",
        "PIVOT",
        "QUALIFY",
        "RIGHT",
        "SELECT",
        "SEMI",
        "SET",
        "SORT",
        "TABLESAMPLE",
        "UNION",
        "UNPIVOT",
        "USING",
        "VALUES",
        "WATERMARK",
        "WHERE",
        "WINDOW",
        "WITH",
        "EMIT",
        "FOR",
        "FETCH",
    ]
)
"""Names that are not an alias without AS, since they begin a clause."""

Stops = Collection[str]


class Cursor:
    """A place among the words of a statement."""

    def __init__(self, script: Script, words: Sequence[Word]) -> None:
        self.script = script
        self._words = words
        self._place = 0

    @property
    def ended(self) -> bool:
        return self._place >= len(self._words)

    @property
    def start(self) -> int:
        """Where the next word begins, or the statement ends."""
        if not self.ended:
            return self._words[self._place].start
        return self._words[-1].end if self._words else 0

    def at(self, *keys: str) -> bool:
        """Whether these keywords or signs are next."""
        found = self._words[self._place : self._place + len(keys)]
        return [word.key for word in found] == list(keys)

    def at_any(self, keys: Collection[str]) -> bool:
        return not self.ended and self._words[self._place].key in keys

    def accept(self, *keys: str) -> bool:
        """Whether these keywords or signs are next; if so, they have been read."""
        found = self.at(*keys)
        if found:
            self._place += len(keys)
        return found

    def expect(self, *keys: str, fix: str | None = None) -> int:
        """Reads these keywords or signs, and returns where they begin."""
        start = self.start
        if not self.accept(*keys):
            raise self.unexpected(" ".join(keys), fix)
        return start

    def unexpected(self, expected: str, fix: str | None = None) -> SqlError:
        """Returns the error that something else is here."""
        found = "the end of the statement" if self.ended else repr(self._words[self._place].text)
        return self.script.error(self.start, f"{expected} is expected, and there is {found}", fix)

    def back(self, words: int) -> None:
        """Goes back by some words."""
        self._place -= words

    def name(self, what: str) -> str:
        """Reads a name of one part."""
        if self.ended or self._words[self._place].kind not in (Kind.NAME, Kind.QUOTED):
            raise self.unexpected(what)
        self._place += 1
        return self._words[self._place - 1].value

    def dotted(self, what: str) -> str:
        """Reads a name that may have parts, such as a module's."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name(what))
        return ".".join(parts)

    def alias(self) -> str | None:
        """Reads an alias, with or without AS; None if there is none."""
        if self.accept("AS"):
            return self.name("an alias")
        word = None if self.ended else self._words[self._place]
        if word is None or word.kind not in (Kind.NAME, Kind.QUOTED) or word.key in _NO_ALIAS:
            return None
        self._place += 1
        return word.value

    def string(self, what: str) -> str:
        """Reads a string."""
        if self.ended or self._words[self._place].kind is not Kind.STRING:
            raise self.unexpected(what)
        self._place += 1
        return self._words[self._place - 1].value

    def is_string(self) -> bool:
        return not self.ended and self._words[self._place].kind is Kind.STRING

    def is_number(self) -> bool:
        return not self.ended and self._words[self._place].kind is Kind.NUMBER

    def literal(self, what: str) -> str:
        """Reads a string, a number with its sign, or a name such as true."""
        sign = "-" if self.accept("-") else ""
        if self.ended or self._words[self._place].kind is Kind.SIGN:
            raise self.unexpected(what)
        self._place += 1
        return sign + self._words[self._place - 1].value

    def expression(self, what: str, stops: Stops) -> Piece:
        """Reads an expression up to a keyword or sign of `stops` that is not inside brackets or CASE."""
        begin, depth, cases = self._place, 0, 0
        while not self.ended:
            key = self._words[self._place].key
            if key in (")", "]"):
                if not depth:
                    break
                depth -= 1
            elif not depth and not cases and key in stops and not self._is_part(key):
                break
            depth += key in _OPENS
            cases += (key == "CASE") - (key == "END" and cases > 0)
            self._place += 1
        if depth:
            raise self.script.error(self.start, "a bracket is not closed", "Write ) or ] at its end.")
        if begin == self._place:
            raise self.unexpected(what)
        first, last = self._words[begin], self._words[self._place - 1]
        return Piece(self.script.text[first.start : last.end], first.start)

    def _is_part(self, key: str) -> bool:
        """Whether a keyword is not one here: a field, a function, or a word of an operator."""
        before = self._words[self._place - 1].key if self._place else ""
        after = self._words[self._place + 1].key if self._place + 1 < len(self._words) else ""
        if (key, before) in (("FROM", "DISTINCT"), ("GROUP", "WITHIN")):
            return True
        if key == "EXCEPT" and after == "(":
            return before == "*"
        if key == "WINDOW":  # As a clause it is WINDOW name AS (...).
            return [word.key for word in self._words[self._place + 2 : self._place + 4]] != ["AS", "("]
        if key in ("LEFT", "RIGHT") and after == "(":
            return True
        return before == "." and key.isalpha()

    def expressions(self, what: str, stops: Stops) -> list[Piece]:
        """Reads expressions with commas between them."""
        found = [self.expression(what, (*stops, ","))]
        while self.accept(","):
            found.append(self.expression(what, (*stops, ",")))
        return found

    def listed(self, read: Callable[[], object]) -> list[object]:
        """Reads what is between parentheses, with commas between."""
        self.expect("(")
        found = [read()]
        while self.accept(","):
            found.append(read())
        self.expect(")")
        return found

    def names(self, what: str) -> list[str]:
        """Reads names between parentheses."""
        return [str(name) for name in self.listed(lambda: self.name(what))]
