"""Calls whose arguments are parted by words: trim(both 'x' from s), position(a in b), substring(s from 2 for 3).

Each is read as the call with commas that means the same, so that the binder knows only calls.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from stretto.expressions.precedence import SparkPrecedence

#: Words of these forms that sqlglot's tokens do not tell from names, and names that are read as another.
WORDS = ("both", "leading", "trailing", "placing", "trim", "substr")
_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


class CallForms(SparkPrecedence):
    """The part of the parser that reads these calls."""

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.expression(exp.Anonymous(this=name, expressions=list(arguments)))

    def _listed(self, name: str, *first: Any) -> Any:
        """Returns the call with the rest of its arguments, which have commas before them."""
        arguments = list(first)
        while self._match(TokenType.COMMA):
            arguments.append(self._parse_lambda())
        return self._call(name, *arguments)

    def parse_trim(self) -> Any:
        word = self._curr.text.upper() if self._curr else ""
        ends = self._next is not None and self._next.token_type in (TokenType.R_PAREN, TokenType.COMMA)
        name = "trim"
        if word in _TRIMS and not ends:
            self._advance()
            name = _TRIMS[word]
            if self._match(TokenType.FROM):
                return self._call(name, self._parse_lambda())
        first = self._parse_lambda()
        if self._match(TokenType.FROM):
            return self._call(name, first, self._parse_lambda())
        if word in _TRIMS and not ends:
            self.raise_error("FROM expected")
        return self._listed(name, first)

    def parse_position(self) -> Any:
        first = self._parse_bitwise()
        if self._match(TokenType.IN):
            return self._call("position", first, self._parse_bitwise())
        return self._listed("position", first)

    def parse_substring(self) -> Any:
        first = self._parse_lambda()
        if self._match(TokenType.FROM):
            return self._from_for("substring", first)
        return self._listed("substring", first)

    def parse_overlay(self) -> Any:
        first = self._parse_lambda()
        if not self._match_text_seq("PLACING"):
            return self._listed("overlay", first)
        new = self._parse_lambda()
        if not self._match(TokenType.FROM):
            self.raise_error("FROM expected")
        return self._from_for("overlay", first, new)

    def _from_for(self, name: str, *first: Any) -> Any:
        start = self._parse_lambda()
        size = [self._parse_lambda()] if self._match_text_seq("FOR") else []
        return self._call(name, *first, start, *size)


FORMS: dict[str, Any] = {
    "TRIM": CallForms.parse_trim,
    "POSITION": CallForms.parse_position,
    "SUBSTRING": CallForms.parse_substring,
    "SUBSTR": CallForms.parse_substring,
    "OVERLAY": CallForms.parse_overlay,
}
