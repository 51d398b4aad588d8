"""Finds the calls of aggregates in a text, each with its arguments and clauses, without a parser's tree.

    max(price) FILTER (WHERE open) - min(price)

has two. An expression over aggregates is the same text with a column in the place of each call, so texts are cut here,
never rendered (see `parse.py`). A word of a call that has no meaning here is refused.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from stretto.errors import ExpressionError
from stretto.expressions.parse import cut, tokens_of

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True, slots=True)
class CallText:
    """A call as it is written: `text` is the part of the whole from `first` to before `last`."""

    name: str
    text: str
    first: int
    last: int
    distinct: bool
    arguments: tuple[str, ...]
    ignore_nulls: bool
    """Whether IGNORE NULLS is in the call, or after it."""
    order: str | None
    """What follows ORDER BY in WITHIN GROUP (...)."""
    condition: str | None
    """What follows WHERE in FILTER (...)."""


def calls_in(text: str, names: Container[str]) -> list[CallText]:
    """Returns the calls of functions with these names that are not inside one another, in their order."""
    tokens = tokens_of(text)
    found: list[CallText] = []
    place = 0
    while place < len(tokens):
        if _is_call(tokens, place, names):
            reader = _Reader(text, tokens, place, names)
            found.append(reader.call())
            place = reader.place
        else:
            place += 1
    return found


def _is_call(tokens: Sequence[Token], place: int, names: Container[str]) -> bool:
    return (
        place + 1 < len(tokens)
        and tokens[place + 1].token_type == TokenType.L_PAREN
        and tokens[place].text.lower() in names
        and tokens[place].token_type != TokenType.STRING
        and (place == 0 or tokens[place - 1].token_type != TokenType.DOT)
    )


class _Reader:
    """Reads one call; `place` is the word after it."""

    def __init__(self, text: str, tokens: Sequence[Token], place: int, names: Container[str]) -> None:
        self._text = text
        self._tokens = tokens
        self._names = names
        self.place = place

    def call(self) -> CallText:
        name = self._tokens[self.place]
        self.place += 1
        inner = self._parenthesis()
        self._refuse_nested(inner, name.text)
        distinct = bool(inner) and inner[0].token_type == TokenType.DISTINCT
        if inner and inner[0].token_type in (TokenType.DISTINCT, TokenType.ALL):
            inner = inner[1:]
        inner, ignored = _without_nulls(inner)
        order = condition = None
        while (word := self._word(0)) in ("IGNORE", "RESPECT", "WITHIN", "FILTER"):
            if word in ("IGNORE", "RESPECT") and self._word(1) == "NULLS" and ignored is None:
                ignored = word == "IGNORE"
                self.place += 2
            elif word == "WITHIN" and self._word(1) == "GROUP" and self._opens(2) and order is None:
                self.place += 2
                order = self._clause("ORDER BY")
            elif word == "FILTER" and self._opens(1) and condition is None:
                self.place += 1
                condition = self._clause("WHERE")
            else:
                raise self._unread()
        if word == "OVER" and self._opens(1):
            raise ExpressionError(
                "OVER (...) is not supported",
                f"at position {self._tokens[self.place].start + 1}, in {self._text!r}",
                "use a window of the stream, for example key_by(...).window(...).aggregate(...)",
            )
        end = self._tokens[self.place - 1].end + 1
        arguments = tuple(cut(self._text, group) for group in _separated(inner))
        text = self._text[name.start : end]
        return CallText(name.text.lower(), text, name.start, end, distinct, arguments, bool(ignored), order, condition)

    def _unread(self) -> ExpressionError:
        token = self._tokens[self.place]
        return ExpressionError(
            f"cannot read the whole expression {self._text!r}",
            f"at position {token.start + 1}, near {token.text!r}",
            "write FILTER (WHERE ...), WITHIN GROUP (ORDER BY ...) and IGNORE NULLS once each",
        )

    def _word(self, ahead: int) -> str:
        place = self.place + ahead
        return self._tokens[place].text.upper() if place < len(self._tokens) else ""

    def _opens(self, ahead: int) -> bool:
        return self._word(ahead) == "("

    def _parenthesis(self) -> list[Token]:
        """Returns the words between the parentheses that open here."""
        start, depth = self.place, 0
        while self.place < len(self._tokens):
            kind = self._tokens[self.place].token_type
            depth += (kind in _OPEN) - (kind in _CLOSE)
            self.place += 1
            if not depth:
                return list(self._tokens[start + 1 : self.place - 1])
        raise ExpressionError(
            f"cannot read the whole expression {self._text!r}",
            f"at position {self._tokens[start].start + 1}: a parenthesis is not closed",
            "add a )",
        )

    def _clause(self, keyword: str) -> str:
        """Returns what follows a keyword inside the parentheses that open here."""
        opening = self._tokens[self.place]
        inner = self._parenthesis()
        self._refuse_nested(inner, keyword)
        if len(inner) < 2 or " ".join(inner[0].text.upper().split()) != keyword:
            raise ExpressionError(
                f"cannot read the whole expression {self._text!r}",
                f"at position {opening.start + 1}: {keyword} is expected here",
                f"write ({keyword} ...)",
            )
        return cut(self._text, inner[1:])

    def _refuse_nested(self, inner: Sequence[Token], where: str) -> None:
        for place, token in enumerate(inner):
            if _is_call(inner, place, self._names):
                raise ExpressionError(
                    f"the aggregate {token.text} inside {where} is not supported",
                    f"at position {token.start + 1}, in {self._text!r}",
                    "aggregate in a step of its own first",
                )


def _without_nulls(inner: list[Token]) -> tuple[list[Token], bool | None]:
    """Returns the words of the arguments without IGNORE NULLS or RESPECT NULLS at their end, and whether it is IGNORE;
    None if there is neither."""
    if len(inner) >= 3 and inner[-1].text.upper() == "NULLS" and inner[-2].text.upper() in ("IGNORE", "RESPECT"):
        return inner[:-2], inner[-2].text.upper() == "IGNORE"
    return inner, None


def _separated(inner: Sequence[Token]) -> list[list[Token]]:
    """Returns the words of each argument; commas inside parentheses do not separate arguments."""
    if not inner:
        return []
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in inner:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if token.token_type == TokenType.COMMA and depth == 0:
            groups.append([])
        else:
            groups[-1].append(token)
    return groups
