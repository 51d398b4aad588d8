"""A SELECT cut into its clauses. Texts are cut, never rendered, so that each expression means what Spark says it means.

What is not supported is refused by its name and its position in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from stretto.errors import ExpressionError
from stretto.expressions.parse import cut, tokens_of

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET)
_ORDER_OF_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET")
_REFUSED = (
    "UNION", "INTERSECT", "EXCEPT", "MINUS", "WITH", "WINDOW", "QUALIFY", "LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT",
    "CLUSTER BY", "DISTRIBUTE BY", "SORT BY", "FETCH", "FOR", "INTO", "VALUES", "TABLE",
)  # fmt: skip
_JOINS = {
    "JOIN": "inner",
    "INNER JOIN": "inner",
    "LEFT JOIN": "left",
    "LEFT OUTER JOIN": "left",
    "LEFT SEMI JOIN": "semi",
    "LEFT ANTI JOIN": "anti",
}
_JOIN_WORDS = ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "OUTER", "SEMI", "ANTI", "ASOF", "JOIN")
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
LIMIT_MAX = 2**31 - 1


@dataclass(frozen=True)
class TableRef:
    """A table as it is named in FROM; `alias` is how its columns may be qualified."""

    name: str
    alias: str
    position: int


@dataclass(frozen=True)
class JoinRef:
    """The small table that is joined, and its condition: a text, or the columns of USING."""

    table: TableRef
    how: str
    on: str | None
    using: tuple[str, ...] = ()


@dataclass(frozen=True)
class Order:
    """One expression of ORDER BY."""

    text: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Select:
    """The clauses of a question."""

    text: str
    items: tuple[str, ...]
    table: TableRef
    distinct: bool = False
    join: JoinRef | None = None
    where: str | None = None
    groups: tuple[str, ...] = ()
    having: str | None = None
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    tables: tuple[str, ...] = field(default=())


def clauses(text: str) -> Select:
    """Returns the clauses of a SELECT; an ExpressionError says what is not supported, and where."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or word(tokens[0]) != "SELECT":
        raise _refused(text, tokens[0] if tokens else None, "a question must be a SELECT", "write SELECT ... FROM ...")
    parts = _parts(tokens, text)
    _refuse_inner(tokens, text)
    if "FROM" not in parts:
        raise _refused(text, tokens[-1], "a question without FROM", "name a table: SELECT ... FROM table")
    chosen = parts["SELECT"]
    distinct = bool(chosen) and word(chosen[0]) == "DISTINCT"
    if chosen and word(chosen[0]) in ("DISTINCT", "ALL"):
        chosen = chosen[1:]
    table, join = _sources(parts["FROM"], text)
    return Select(
        text,
        tuple(_listed(chosen, text, tokens[0])),
        table,
        distinct,
        join,
        _one(parts, "WHERE", text),
        tuple(_groups(parts.get("GROUP BY"), text, tokens)),
        _one(parts, "HAVING", text),
        tuple(_order(each, text) for each in separated(parts.get("ORDER BY", []))),
        _number(parts.get("LIMIT"), text, "LIMIT"),
        _number(parts.get("OFFSET"), text, "OFFSET") or 0,
        (table.name,) if join is None else (table.name, join.table.name),
    )


def word(token: Token) -> str:
    """Returns a word of the grammar in capitals; a name in quotes or a string is none."""
    return "" if token.token_type in _QUOTED else " ".join(token.text.upper().split())


def separated(tokens: Sequence[Token]) -> list[list[Token]]:
    """Returns the words between commas that are in no parentheses."""
    if not tokens:
        return []
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if token.token_type == TokenType.COMMA and not depth:
            groups.append([])
        else:
            groups[-1].append(token)
    return groups


def _parts(tokens: Sequence[Token], text: str) -> dict[str, list[Token]]:
    """Returns the words of each clause."""
    found: dict[str, list[Token]] = {}
    current, depth = "", 0
    for place, token in enumerate(tokens):
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        name = word(token)
        before = word(tokens[place - 1]) if place else ""
        compares = name == "FROM" and before == "DISTINCT" and place > 1 and word(tokens[place - 2]) in ("IS", "NOT")
        if depth or compares or before == "." or name not in (*_ORDER_OF_CLAUSES, *_REFUSED):
            found.setdefault(current, []).append(token)
            continue
        if name in _REFUSED:
            if not _is_refused(name, tokens, place):
                found.setdefault(current, []).append(token)
                continue
            raise _refused(text, token, f"{name} is not supported in a question", "ask without it, or use Spark")
        later = current and _ORDER_OF_CLAUSES.index(name) <= _ORDER_OF_CLAUSES.index(current)
        if later or name in found:
            raise _refused(text, token, f"{name} is in the wrong place", f"write {', '.join(_ORDER_OF_CLAUSES)}")
        current = name
        found[current] = []
    return found


def _is_refused(name: str, tokens: Sequence[Token], place: int) -> bool:
    """Whether a word is a clause here: EXCEPT may follow a star, and some of these words may name a column."""
    if name == "EXCEPT":
        return tokens[place - 1].token_type != TokenType.STAR
    if tokens[place].token_type == TokenType.VAR:
        follows = tokens[place + 1] if place + 1 < len(tokens) else None
        return name in ("LATERAL", "QUALIFY", "MINUS", "FETCH") and follows is not None and word(follows).isidentifier()
    return True


def _refuse_inner(tokens: Sequence[Token], text: str) -> None:
    for place, token in enumerate(tokens):
        if place and word(token) == "SELECT":
            raise _refused(text, token, "a query inside a query is not supported", "ask twice, or use Spark")
        opens = place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN
        if place and opens and token.token_type == TokenType.OVER:
            raise _refused(text, token, "OVER (...) is not supported", "group by the columns, or use Spark")


def _listed(tokens: Sequence[Token], text: str, at: Token) -> list[str]:
    found = [cut(text, each) for each in separated(tokens)]
    if not found or not all(found):
        raise _refused(text, at, "an expression is missing in the list of SELECT", "write one between two commas")
    return found


def _groups(tokens: list[Token] | None, text: str, every: Sequence[Token]) -> list[str]:
    if tokens is None:
        return []
    for place, token in enumerate(tokens):
        opens = place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN
        several = word(token) in ("ROLLUP", "CUBE", "GROUPING SETS") and opens
        if several or word(token) in ("GROUPING SETS", "WITH ROLLUP", "WITH CUBE") or word(token) == "WITH":
            raise _refused(text, token, f"{word(token)} is not supported in a question", "group by one list of columns")
    if len(tokens) == 1 and word(tokens[0]) == "ALL":
        raise _refused(text, tokens[0], "GROUP BY ALL is not supported in a question", "name the columns")
    return _listed(tokens, text, every[-1])


def _one(parts: dict[str, list[Token]], clause: str, text: str) -> str | None:
    tokens = parts.get(clause)
    if tokens is None:
        return None
    if not tokens:
        raise ExpressionError(f"{clause} has no condition", f"in {text!r}", "write one after it")
    return cut(text, tokens)


def _order(tokens: list[Token], text: str) -> Order:
    nulls: bool | None = None
    if len(tokens) > 2 and word(tokens[-2]) == "NULLS" and word(tokens[-1]) in ("FIRST", "LAST"):
        nulls, tokens = word(tokens[-1]) == "FIRST", tokens[:-2]
    descending = bool(tokens) and tokens[-1].token_type == TokenType.DESC
    if tokens and tokens[-1].token_type in (TokenType.ASC, TokenType.DESC):
        tokens = tokens[:-1]
    if not tokens:
        raise ExpressionError("ORDER BY has no expression", f"in {text!r}", "write one after it")
    return Order(cut(text, tokens), descending, (not descending) if nulls is None else nulls)


def _number(tokens: list[Token] | None, text: str, clause: str) -> int | None:
    if tokens is None or (len(tokens) == 1 and word(tokens[0]) == "ALL" and clause == "LIMIT"):
        return None
    if len(tokens) == 1 and tokens[0].token_type == TokenType.NUMBER and tokens[0].text.isdecimal():
        found = int(tokens[0].text)
        if found <= LIMIT_MAX:
            return found
    at = tokens[0] if tokens else None
    raise _refused(text, at, f"{clause} takes a whole number up to {LIMIT_MAX}", "write one, such as 10")


def _sources(tokens: list[Token], text: str) -> tuple[TableRef, JoinRef | None]:
    joins = [place for place, token in enumerate(tokens) if word(token) in _JOIN_WORDS and _at_top(tokens, place)]
    if any(token.token_type == TokenType.COMMA for place, token in enumerate(tokens) if _at_top(tokens, place)):
        raise _refused(text, tokens[0], "several tables in FROM are not supported", "write JOIN ... ON ...")
    if not joins:
        return _table(tokens, text), None
    first = joins[0]
    table = _table(tokens[:first], text)
    last = next((place for place in joins if word(tokens[place]) == "JOIN"), None)
    kind = " ".join(word(token) for token in tokens[first : first if last is None else last + 1])
    if last is None or kind not in _JOINS:
        name = kind or word(tokens[first])
        raise _refused(text, tokens[first], f"{name} is not supported in a question", f"use {', '.join(_JOINS)}")
    if joins[-1] > last:
        raise _refused(text, tokens[joins[-1]], "a second JOIN is not supported in a question", "join one small table")
    rest = tokens[last + 1 :]
    at = next((place for place, token in enumerate(rest) if word(token) in ("ON", "USING")), None)
    if at is None:
        raise _refused(text, tokens[last], "a JOIN without ON or USING", "write the columns that must be equal")
    small, condition = _table(rest[:at], text), rest[at + 1 :]
    if word(rest[at]) == "ON":
        return table, JoinRef(small, _JOINS[kind], cut(text, condition))
    names = tuple(name.text for each in separated(condition[1:-1]) for name in each)
    return table, JoinRef(small, _JOINS[kind], None, names)


def _at_top(tokens: Sequence[Token], place: int) -> bool:
    before = tokens[:place]
    return sum(each.token_type in _OPEN for each in before) == sum(each.token_type in _CLOSE for each in before)


def _table(tokens: list[Token], text: str) -> TableRef:
    if not tokens:
        raise ExpressionError("a table is missing", f"in {text!r}", "name it after FROM or JOIN")
    names, place = [tokens[0].text], 1
    while place + 1 < len(tokens) and tokens[place].token_type == TokenType.DOT:
        names.append(tokens[place + 1].text)
        place += 2
    rest = tokens[place:]
    if rest and rest[0].token_type == TokenType.ALIAS:
        rest = rest[1:]
    is_name = tokens[0].token_type == TokenType.IDENTIFIER or tokens[0].text.isidentifier()
    if not is_name or len(rest) > 1 or (rest and not (rest[0].text.isidentifier() or rest[0].token_type in _QUOTED)):
        at = rest[1] if len(rest) > 1 else rest[0] if rest else tokens[0]
        raise _refused(text, at, "this is not a table", "write FROM table, or FROM table AS name")
    return TableRef(".".join(names), rest[0].text if rest else names[-1], tokens[0].start + 1)


def _refused(text: str, token: Token | None, fact: str, fix: str) -> ExpressionError:
    if token is None:
        return ExpressionError(fact, f"got {text!r}", fix)
    near = text[token.start : token.end + 1]
    return ExpressionError(fact, f"at position {token.start + 1}, near {near!r}", fix)
