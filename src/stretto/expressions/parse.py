"""Parses text to sqlglot's tree, and finds an alias or a function call in the text.

Spark must get exactly the user's text, because sqlglot's rendering differs in ways that change types (`1L` becomes a
cast, and a cast is not a literal in Spark's decimal rules). So texts are cut, never rendered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from stretto.errors import ExpressionError

_DIALECT = Dialect.get_or_raise("spark")
_SPARK_PARSER: Any = Spark.parser_class


class _Parser(_SPARK_PARSER):  # type: ignore[misc]
    """Spark's grammar, with every function call kept under the user's name for it."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in _SPARK_PARSER.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


@dataclass(frozen=True, slots=True)
class Parsed:
    """An expression: its tree without the alias, its text without the alias, and the alias."""

    tree: exp.Expression
    body: str
    alias: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """A text that is one function call, with the texts of its arguments."""

    name: str
    distinct: bool
    arguments: tuple[str, ...]


def parse(text: str) -> Parsed:
    """Returns one parsed expression, which may have an alias."""
    tokens = _tokens(text)
    if not tokens:
        raise ExpressionError("the expression is empty", f"got {text!r}", "write a Spark SQL expression")
    try:
        trees = _Parser(dialect=_DIALECT, error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except ParseError as error:
        raise _unparsable(text, error) from None
    except RecursionError:
        raise too_deep(text) from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise ExpressionError("not one expression", f"in {text!r}", "put each expression in its own string")
    if not isinstance(tree, exp.Alias):
        return Parsed(tree, text.strip(), None)
    body_tokens = tokens[:-1]
    if body_tokens[-1].token_type == TokenType.ALIAS:
        body_tokens = body_tokens[:-1]
    return Parsed(tree.this, _cut(text, body_tokens), tree.alias)


def too_deep(text: str) -> ExpressionError:
    return ExpressionError("the expression nests too deep", f"in {text[:80]!r}...", "split it in two, or use IN")


def split_call(body: str) -> Call | None:
    """Returns the parts of `name(argument, ...)`, or None for any other text."""
    tokens = _tokens(body)
    if len(tokens) < 3 or tokens[1].token_type != TokenType.L_PAREN or tokens[-1].token_type != TokenType.R_PAREN:
        return None
    inner = tokens[2:-1]
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in inner:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
            if depth < 0:
                return None
        if token.token_type == TokenType.COMMA and depth == 0:
            groups.append([])
        else:
            groups[-1].append(token)
    distinct = bool(groups[0]) and groups[0][0].token_type == TokenType.DISTINCT
    if distinct:
        groups[0] = groups[0][1:]
    return Call(tokens[0].text.lower(), distinct, tuple(_cut(body, group) for group in groups if group))


def _tokens(text: str) -> list[Token]:
    try:
        tokens = list(_DIALECT.tokenize(text))
    except TokenError as error:
        raise ExpressionError(f"cannot read the expression {text!r}", str(error), "check its quotes") from None
    return _rejoin_suffixed_numbers(text, tokens)


def _rejoin_suffixed_numbers(text: str, tokens: list[Token]) -> list[Token]:
    """Returns tokens where `1L` is one literal again; sqlglot reads it as a cast, which loses a literal's precision."""
    joined: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if (
            token.token_type == TokenType.NUMBER
            and i + 2 < len(tokens)
            and tokens[i + 1].token_type == TokenType.DCOLON
            and tokens[i + 1].start == token.start
        ):
            whole = text[token.start : token.end + 1]
            joined.append(Token(TokenType.NUMBER, whole, token.line, token.col, token.start, token.end))
            i += 3
        else:
            joined.append(token)
            i += 1
    return joined


def _cut(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _unparsable(text: str, error: ParseError) -> ExpressionError:
    first = error.errors[0] if error.errors else {}
    near = first.get("highlight")
    # sqlglot counts columns to the end of the token; the error gives its start.
    start = len(first.get("start_context") or "") + 1 if near else len(text)
    place = f"at position {start}, near {near!r}" if near else f"at position {start}"
    return ExpressionError(f"cannot parse the expression {text!r}", place, "write a Spark SQL expression")
