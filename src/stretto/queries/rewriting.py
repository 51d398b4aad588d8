"""Words of an expression replaced by other words: qualified names, the time of the question, keys and aliases.

An expression stays a text. Only whole words outside of strings are replaced, by a column in backticks or by an
expression in parentheses, so that the rest is read as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from stretto.expressions.parse import tokens_of
from stretto.expressions.scalar import quoted

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_NOW = ("now", "current_timestamp")
_TODAY = ("current_date", "curdate")

Words = tuple[tuple[str, str], ...]
"""What an expression says, without regard to capitals, spaces and backticks."""


def words(tokens: Sequence[Token]) -> Words:
    """Returns what is compared when an expression is looked for in another one."""
    return tuple(_word(token) for token in tokens)


def words_of(text: str) -> Words:
    return words(tokens_of(text))


def _word(token: Token) -> tuple[str, str]:
    if token.token_type in _NAMES:
        return "name", token.text.lower()
    if token.token_type == TokenType.STRING:
        return "string", token.text
    return "word", token.text.lower()


def at_time(text: str, now_us: int) -> str:
    """Returns a question with the time at which it was asked in the places of `now()` and the like."""

    def found(tokens: Sequence[Token], place: int) -> tuple[int, str] | None:
        name = tokens[place].text.lower()
        if tokens[place].token_type == TokenType.STRING or name not in (*_NOW, *_TODAY) or _is_part(tokens, place):
            return None
        calls = [each.token_type for each in tokens[place + 1 : place + 3]] == [TokenType.L_PAREN, TokenType.R_PAREN]
        if not calls and (name in ("now", "curdate") or tokens[place].token_type == TokenType.IDENTIFIER):
            return None
        moment = f"timestamp_micros({now_us}L)"
        return 3 if calls else 1, moment if name in _NOW else f"CAST({moment} AS DATE)"

    return replaced(text, found)


def unqualified(text: str, column: Callable[[str, str], str | None]) -> str:
    """Returns an expression in which `table.column` is the column that is named by `column(table, name)`."""

    def found(tokens: Sequence[Token], place: int) -> tuple[int, str] | None:
        parts = tokens[place : place + 3]
        if len(parts) < 3 or parts[1].token_type != TokenType.DOT or parts[0].token_type not in _NAMES:
            return None
        if place and tokens[place - 1].token_type == TokenType.DOT:
            return None
        name = column(parts[0].text, parts[2].text)
        return None if name is None else (3, name if name.isidentifier() else quoted(name))

    return replaced(text, found)


def with_columns(text: str, columns: Mapping[Words, str]) -> str:
    """Returns an expression with these texts in the places of expressions; the longest that fits counts."""
    lengths = sorted({len(each) for each in columns}, reverse=True)

    def found(tokens: Sequence[Token], place: int) -> tuple[int, str] | None:
        if _is_part(tokens, place):
            return None
        for length in lengths:
            name = columns.get(words(tokens[place : place + length])) if place + length <= len(tokens) else None
            follows = tokens[place + length] if place + length < len(tokens) else None
            is_call = follows is not None and follows.token_type == TokenType.L_PAREN and length == 1
            if name is not None and not is_call:
                return length, name
        return None

    return replaced(text, found)


def replaced(text: str, found: Callable[[Sequence[Token], int], tuple[int, str] | None]) -> str:
    """Returns a text in which what `found` recognizes, at a word and for a number of words, is another text."""
    tokens = tokens_of(text)
    pieces, done, place = [], 0, 0
    while place < len(tokens):
        match = found(tokens, place)
        if match is None:
            place += 1
            continue
        length, new = match
        pieces += [text[done : tokens[place].start], new]
        done = tokens[place + length - 1].end + 1
        place += length
    return "".join([*pieces, text[done:]])


def _is_part(tokens: Sequence[Token], place: int) -> bool:
    """Whether a word is the part of a name after a dot."""
    return place > 0 and tokens[place - 1].token_type == TokenType.DOT
