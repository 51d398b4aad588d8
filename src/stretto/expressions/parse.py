"""Parses text to sqlglot's tree, and finds an alias or a direction in the text.

Spark must get exactly the user's text, because sqlglot's rendering differs in ways that change types (`1L` becomes a
cast, and a cast is not a literal in Spark's decimal rules). So texts are cut, never rendered.

sqlglot reads many dialects, and drops what it takes for noise. A word or a literal of the text that is nowhere in the
tree is refused here; what is in the tree and has no meaning to the binder is refused in `reads.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from stretto.errors import ExpressionError
from stretto.expressions.call_forms import FORMS, WORDS, CallForms
from stretto.expressions.other_grammars import refuse_other_grammars
from stretto.expressions.time_grammar import SparkTimes

_DIALECT = Dialect.get_or_raise("spark")
_SPARK_PARSER: Any = Spark.parser_class
#: Under this name a node's `meta` has the offsets of its first and last character.
SPAN = "span"


#: The only types whose name before a string makes a literal in Spark, as in `date '2024-02-29'`.
_TYPES_OF_LITERALS = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
_LITERALS = (TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
#: Words of the grammar that sqlglot knows by their text; in the tree they are a node or one of its properties.
_WORDS = frozenset(
    (
        "at",
        "cast",
        "exclude",
        "extract",
        "format",
        "if",
        "ignore",
        "nulls",
        "respect",
        "symmetric",
        "to",
        "try_cast",
        "within",
        *WORDS,
    )
)
_TYPES_WITH_LENGTH = (TokenType.VARCHAR, TokenType.CHAR)
#: What Spark applies to a value and not to the answer of another one, as in `a IS NULL = b`.
_TESTS = (exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Is)
_NO_OPERATORS = (exp.Connector, exp.Escape, exp.Dot)
#: Signs that are one word in Spark.
_NEGATED = {TokenType.LT: TokenType.GTE, TokenType.GT: TokenType.LTE}
_DIRECTIONS = {TokenType.ASC: False, TokenType.DESC: True}


def _typed_literal(parser: Any, this: Any, kind: exp.DataType) -> Any:
    """Returns the tree of `date '2024-02-29'`. What follows applies to the date: sqlglot applies it to the string."""
    if kind.this not in _TYPES_OF_LITERALS:
        parser.raise_error("a literal of this type")
    literal = this
    while not isinstance(literal, exp.Literal):
        literal = literal.this
    typed = parser.expression(exp.Cast(this=literal.copy(), to=kind))
    if literal is this:
        return typed
    literal.replace(typed)
    return this


class _Parser(CallForms, SparkTimes):
    """Spark's grammar, with every function call kept under the user's name for it, and the place of each part."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: parser for name, parser in _SPARK_PARSER.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")},
        "EXTRACT": lambda self: self.parse_field_of(),
    } | FORMS
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    # Without TRANSFORM, which is a function of arrays here and not Hive's clause.
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser for name, parser in _SPARK_PARSER.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
    }
    # Without ARRAY and LIST: `array(1)[0]` is an element, not the list [0].
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Any]] = dict.fromkeys(exp.DType, _typed_literal)
    # sqlglot ignores a plus; in Spark it makes a number of a string.
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = _SPARK_PARSER.UNARY_PARSERS | {
        TokenType.PLUS: lambda self: self.expression(exp.Anonymous(this="positive", expressions=[self._parse_unary()])),
        TokenType.DASH: lambda self: self._parse_minus(),
    }
    # Without the colon, which sqlglot skips before a name.
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        token: parser for token, parser in _SPARK_PARSER.PLACEHOLDER_PARSERS.items() if token != TokenType.COLON
    }

    def _parse_unary(self) -> Any:
        first = self._curr
        return self._placed(first, super()._parse_unary())

    def _parse_minus(self) -> Any:
        """Returns a negative; before digits the sign is part of the number, and `-5::string` is a string."""
        before_digits = self._curr is not None and self._curr.token_type == TokenType.NUMBER
        operand = number = self._parse_unary()
        while before_digits and isinstance(number, exp.TryCast):
            number = number.this
        if number is operand or not isinstance(number, exp.Literal):
            return self.expression(exp.Neg(this=operand))
        number.replace(exp.Neg(this=number.copy()))
        return operand

    def _parse_equality(self, *arguments: Any, **options: Any) -> Any:
        first = self._curr
        return self._placed(first, super()._parse_equality(*arguments, **options))

    def _parse_range(self, this: Any = None, parse_is: bool = False) -> Any:
        node = super()._parse_range(this, parse_is=parse_is)
        if node is not this and isinstance(this, exp.Expr):
            first, _ = span_of(this) or (0, 0)
            node.meta[SPAN] = (first, self._prev.end)
        return node

    def _parse_lambda(self, *arguments: Any, **options: Any) -> Any:
        first = self._curr
        return self._placed(first, super()._parse_lambda(*arguments, **options))

    def _placed(self, first: Token | None, node: Any) -> Any:
        """Records where the node's text begins and ends; an operator between two of them lies around both."""
        if first is not None and isinstance(node, exp.Expr) and SPAN not in node.meta:
            node.meta[SPAN] = (first.start, self._prev.end)
        return node


@dataclass(frozen=True, slots=True)
class Parsed:
    """An expression: its tree without the alias, its text without the alias, and the alias, or several of them."""

    tree: exp.Expression
    body: str
    alias: str | None
    aliases: tuple[str, ...] = ()


def parse(text: str, several: bool = False) -> Parsed:
    """Returns one parsed expression, which may have an alias; with `several` also `AS (a, b)`."""
    tokens = tokens_of(text)
    if "${" in text:
        raise ExpressionError(
            f"${{...}} in the expression {text!r}",
            "Spark SQL replaces it by a variable before it reads the text",
            "put the value into the text, or write '$' '{...}'",
        )
    if not tokens:
        raise ExpressionError("the expression is empty", f"got {text!r}", "write a Spark SQL expression")
    refuse_other_grammars(tokens, text)
    try:
        trees = _Parser(dialect=_DIALECT, error_level=ErrorLevel.IMMEDIATE).parse_into(exp.Expr, tokens, text)
    except ParseError as error:
        raise _unparsable(text, error) from None
    except RecursionError:
        raise too_deep(text) from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise ExpressionError("not one expression", f"in {text!r}", "put each expression in its own string")
    _refuse_dropped(tokens, tree, text)
    _refuse_bare_tests(tree, text)
    if several and isinstance(tree, exp.Aliases):
        names = tuple(identifier.name for identifier in tree.expressions)
        # The names, the commas between them, and the parentheses.
        return Parsed(tree.this, cut(text, _without_as(tokens[: -2 * len(names) - 1])), None, names)
    if not isinstance(tree, exp.Alias):
        return Parsed(tree, text.strip(), None)
    return Parsed(tree.this, cut(text, _without_as(tokens[:-1])), tree.alias)


def _without_as(tokens: list[Token]) -> list[Token]:
    return tokens[:-1] if tokens[-1].token_type == TokenType.ALIAS else tokens


def _refuse_dropped(tokens: list[Token], tree: exp.Expr, text: str) -> None:
    """Raises if a name or a literal of the text is not in the tree."""
    names = {node.name.lower() for node in tree.find_all(exp.Identifier, exp.Var, exp.Anonymous)} | _WORDS
    for token in tokens:
        if token.token_type in _NAMES and token.text.lower() not in names:
            raise _unread(token, text)
    # The length in varchar(10) has no meaning in a cast.
    lengths = {place + 2 for place, token in enumerate(tokens) if token.token_type in _TYPES_WITH_LENGTH}
    literals = [t for place, t in enumerate(tokens) if t.token_type in _LITERALS and place not in lengths]
    kept = [node.name for node in tree.find_all(exp.Literal, exp.RawString, exp.HexString)]
    if len(literals) > len(kept):
        raise _unread(next((token for token in literals if token.text not in kept), literals[0]), text)


def _refuse_bare_tests(tree: exp.Expr, text: str) -> None:
    """Raises if NOT, IN, LIKE, IS and the like are an operand without parentheses, other than of AND, OR and NOT."""
    for node in tree.find_all(*_TESTS, exp.Not):
        place: exp.Expr = node
        while isinstance(place.parent, exp.Not | exp.Escape) or _is_made_up(place.parent):
            place = place.parent
        parent = place.parent
        if not isinstance(parent, (exp.Binary, *_TESTS)) or isinstance(parent, _NO_OPERATORS):
            continue
        if place.arg_key == "expressions":
            continue
        first, last = span_of(node if SPAN in node.meta else parent) or (0, len(text) - 1)
        raise ExpressionError(
            f"{text[first : last + 1]!r} as an operand without parentheses",
            f"at position {first + 1} in the expression {text!r}",
            "put parentheses around what belongs together, as in (a IN (1)) IS TRUE",
        )


def _is_made_up(node: exp.Expr | None) -> TypeGuard[exp.Paren]:
    """Whether these are parentheses of sqlglot's own, which are not in the text: they begin with what is in them."""
    if not isinstance(node, exp.Paren) or SPAN not in node.meta:
        return isinstance(node, exp.Paren)
    inner = span_of(node.this)
    return inner is not None and inner[0] == node.meta[SPAN][0]


def _unread(token: Token, text: str) -> ExpressionError:
    place = f"at position {token.start + 1}, near {text[token.start : token.end + 1]!r}"
    return ExpressionError(
        f"cannot read the whole expression {text!r}", place, "write a Spark SQL expression; parentheses may help"
    )


def split_direction(text: str) -> tuple[str, bool | None]:
    """Returns the text without a direction at its end, and whether that is DESC; None if it has none."""
    tokens = tokens_of(text)
    for place, token in enumerate(tokens):
        if token.text.upper() == "NULLS" and tokens[place - 1].token_type in _DIRECTIONS:
            raise ExpressionError(
                f"NULLS {tokens[-1].text.upper()} in {text!r}",
                f"at position {token.start + 1}",
                "leave it out: nulls come first with ASC and last with DESC",
            )
    if len(tokens) < 2 or tokens[-1].token_type not in _DIRECTIONS or tokens[-2].token_type == TokenType.ALIAS:
        return text, None
    return cut(text, tokens[:-1]), _DIRECTIONS[tokens[-1].token_type]


def too_deep(text: str) -> ExpressionError:
    return ExpressionError("the expression nests too deep", f"in {text[:80]!r}...", "split it in two, or use IN")


def span_of(tree: exp.Expr) -> tuple[int, int] | None:
    """Returns the offsets of the first and the last character of a node's text, or of what the node is a part of.

    None if the tree was not made of a text.
    """
    place: exp.Expr | None = tree
    while place is not None:
        spans = [node.meta[SPAN] for node in place.walk() if SPAN in node.meta]
        if spans:
            return min(first for first, _ in spans), max(last for _, last in spans)
        place = place.parent
    return None


def tokens_of(text: str) -> list[Token]:
    """Returns the words of a text, as the parser reads them."""
    try:
        tokens = list(_DIALECT.tokenize(text))
    except TokenError as error:
        raise ExpressionError(f"cannot read the expression {text!r}", str(error), "check its quotes") from None
    return _rejoin_quotes(text, _rejoin_suffixed_numbers(text, _rejoin_negated(tokens)))


def _rejoin_negated(tokens: list[Token]) -> list[Token]:
    """Returns tokens where `!<` is `>=` and `!>` is `<=`, which sqlglot reads as two."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if last is not None and last.text == "!" and last.end + 1 == token.start and token.token_type in _NEGATED:
            kind = _NEGATED[token.token_type]
            joined[-1] = Token(kind, last.text + token.text, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def _rejoin_quotes(text: str, tokens: list[Token]) -> list[Token]:
    """Returns tokens where `'it''s'` is one string with a quote in it; sqlglot reads two strings in a row."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.token_type == token.token_type == TokenType.STRING
            and last.end + 1 == token.start
            and text[last.end] == text[token.start]
        ):
            whole = last.text + text[token.start] + token.text
            joined[-1] = Token(TokenType.STRING, whole, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


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


def cut(text: str, tokens: Sequence[Token]) -> str:
    """Returns the part of a text from the first to the last of these words of it."""
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _unparsable(text: str, error: ParseError) -> ExpressionError:
    first = error.errors[0] if error.errors else {}
    near = first.get("highlight")
    # sqlglot counts columns to the end of the token; the error gives its start.
    start = len(first.get("start_context") or "") + 1 if near else len(text)
    place = f"at position {start}, near {near!r}" if near else f"at position {start}"
    fix = "write a Spark SQL expression"
    if near == ":":
        fix = "Spark SQL has no paths with a colon: use get_json_object(text, '$.name'), or struct.field"
    return ExpressionError(f"cannot parse the expression {text!r}", place, fix)
