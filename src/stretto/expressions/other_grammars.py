"""Refuses words that sqlglot reads and Spark SQL does not have, or has for a type that is not supported.

sqlglot reads many dialects: `0x1F` is a number of MySQL's, `a ISNULL` is Postgres'. Spark would read a column `0x1F`,
or refuse the text in the batch twin only. These are found by their words, because the tree has no trace of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from stretto.errors import ExpressionError
from stretto.expressions.refused import refusal_of

_POSTFIX = {TokenType.ISNULL: "IS NULL", TokenType.NOTNULL: "IS NOT NULL"}
_LITERALS_OF = {
    "TIMESTAMP_NTZ": "write timestamp '2026-01-01 12:00:00', an instant in the session's time zone",
    "TIME": "there is no type TIME; use a timestamp, or seconds of the day",
}


#: The aggregates that take WITHIN GROUP (ORDER BY ...).
TAKE_ORDER = ("listagg", "mode", "percentile_cont", "string_agg")
_OPENS_TYPE = ("ARRAY", "MAP", "STRUCT")
#: What Spark takes for the beginning of a clause after a |, since |> begins one: it reads no expression there.
BEGINS_CLAUSE = frozenset(
    (
        "AGGREGATE", "ANTI", "AS", "ASOF", "BIN", "CLUSTER", "CROSS", "DISTRIBUTE", "DROP", "EXCEPT", "EXTEND", "FULL",
        "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "OFFSET", "ORDER", "PIVOT",
        "RIGHT", "SELECT", "SEMI", "SET", "SORT", "TABLESAMPLE", "UNION", "UNPIVOT", "WHERE", "WINDOW",
    )
)  # fmt: skip


def refuse_other_grammars(tokens: Sequence[Token], text: str) -> None:
    """Raises for the first word that has no meaning in Spark SQL, or one that is not supported."""
    _refuse_hints(tokens, text)
    _refuse_within_group(tokens, text)
    for place, token in enumerate(tokens):
        after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
        found = _refused(token, after, text)
        if found is not None:
            what, fix = found
            raise ExpressionError(f"{what} is not supported in {text!r}", f"at position {token.start + 1}", fix)
    for before, token in pairwise(tokens):
        word = text[token.start : token.end + 1]
        if before.token_type == TokenType.PIPE and word.upper() in BEGINS_CLAUSE:
            raise ExpressionError(
                f"{word!r} after | is not supported in {text!r}",
                f"at position {token.start + 1}: Spark SQL takes it for the beginning of a clause",
                f"put parentheses around what is after |, or write `{word}` in backticks",
            )


def refuse_shift_after_type(tokens: Sequence[Token], text: str) -> None:
    """Raises if Spark would not read a `>>` that follows these words, as it takes it for the end of a type.

    To Spark's lexer ARRAY, MAP and STRUCT begin a type, also as functions, and the next > ends it."""
    opened, shifted_until = 0, -1
    for token in tokens:
        if text[token.start : token.end + 1].upper() in _OPENS_TYPE:
            opened += 1
        elif token.token_type == TokenType.GT and token.start > shifted_until:
            if opened:
                opened -= 1
            elif text.startswith(">>", token.start):
                shifted_until = token.start + (2 if text.startswith(">>>", token.start) else 1)
    if opened:
        raise ExpressionError(
            f">> after array, map or struct is not supported in {text!r}",
            f"at position {tokens[-1].end + 2}: Spark SQL takes > for the end of a type there",
            "write shiftright(a, b), or `array`(...) with the word in backticks",
        )


def _refuse_hints(tokens: Sequence[Token], text: str) -> None:
    """Raises for `/*+ ... */`, which is between two words: sqlglot takes it for a comment."""
    starts = [token.start for token in tokens]
    ends = [0, *(token.end + 1 for token in tokens)]
    for end, start in zip(ends, [*starts, len(text)], strict=True):
        if "/*+" in text[end:start]:
            place = text.index("/*+", end) + 1
            raise ExpressionError(f"a hint is not supported in {text!r}", f"at position {place}", "leave it out")


def _refuse_within_group(tokens: Sequence[Token], text: str) -> None:
    """Raises for a call with WITHIN GROUP, by its name. Those of aggregates are cut out before a text is parsed."""
    for place, words in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        before, within, group = words
        if before.token_type != TokenType.R_PAREN or (within.text.upper(), group.text.upper()) != ("WITHIN", "GROUP"):
            continue
        name = _called(tokens, place)
        where = f"at position {name.start + 1}"
        refusal = refusal_of(name.text.lower())
        if refusal is not None:
            raise ExpressionError(
                f"{name.text} is not supported in {text!r}", f"{where}: {refusal.reason}", refusal.fix
            )
        raise ExpressionError(
            f"WITHIN GROUP after {name.text}(...) is not supported in {text!r}",
            where,
            f"it belongs to {', '.join(TAKE_ORDER)}, and these into an aggregate",
        )


def _called(tokens: Sequence[Token], last: int) -> Token:
    """Returns the name before the parentheses that this word closes."""
    depth = 0
    for place in range(last, 0, -1):
        depth += (tokens[place].token_type == TokenType.R_PAREN) - (tokens[place].token_type == TokenType.L_PAREN)
        if not depth:
            return tokens[place - 1]
    return tokens[0]


def _refused(token: Token, after: TokenType | None, text: str) -> tuple[str, str] | None:
    """Returns what a word is and what to write instead, or None if it may stand here."""
    written = text[token.start : token.end + 1]
    word = token.text.upper()
    if token.token_type == TokenType.HEX_STRING and written[:1] == "0":
        digits = written[2:]
        return f"{written}, a number of another dialect,", f"write X'{digits}' for bytes, or conv('{digits}', 16, 10)"
    if token.token_type in _POSTFIX and after != TokenType.L_PAREN:
        return f"{word} after a value", f"write {_POSTFIX[token.token_type]}"
    if word in _LITERALS_OF and after == TokenType.STRING:
        return f"a literal of type {word}", _LITERALS_OF[word]
    return None
