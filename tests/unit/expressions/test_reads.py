"""No part of a text passes that the binder does not read: not a kind of node, not a property of one, not a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import compile_predicate, compile_projection, compile_scalar, parse_schema
from stretto.expressions.binder import bind
from stretto.expressions.parse import parse
from stretto.expressions.reads import READS

SCHEMA = parse_schema("a bigint, b boolean, s string, t timestamp, st struct<x:int,y:string>, tags array<string>")

#: Together they use every argument that the table of forms declares.
READ = [
    "~(a & 1 | 2 ^ 3) = 0",
    "(a)", "-a", "-5", "not b", "a + 1", "a - 1", "a * 2", "a / 2", "a % 2", "a div 2", "a = 1", "a <> 1", "a < 1",
    "a <= 1", "a > 1", "a >= 1", "a <=> 1", "a is distinct from 1", "b and b", "b or b", "a is null", "b is true",
    "s like 'x'", "s not like 'x'", "s ilike 'x'", "s not ilike 'x'", "s like 'x' escape '/'", "s like any ('x', 'y')",
    "s like all ('x')", "s rlike 'x'", "x'ff'",
    "s not rlike 'x'", "named_struct('f', 1).f", "st.x", "`st`.`x`", "s || 'x'", "r'x'", "'x' 'y'", "true", "null",
    "interval 5 seconds", "interval '1 day 2 hours'", "interval '1 02' day to hour", "extract(year from t)",
    "a in (1, 2)", "a between 1 and 2",
    "case a when 1 then 2 else 3 end", "if(b, 1, 2)", "cast(a as string)", "date '2024-02-29'", "a::decimal(10,2)",
    "upper(s)", "struct(a as f)", "concat(s, '1')", "1", "'1'",
    "cast(null as struct<f: int not null comment 'c', g: array<int>, h: map<string,int>>)",
    "tags[0]", "transform(tags, x -> x)", "(a, b)",
]  # fmt: skip


class _Recording(dict[str, Any]):
    """The arguments of a node, which notes the ones that were asked for."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(arguments)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        return super().__getitem__(name)


def _kinds() -> list[type[exp.Expr]]:
    """Returns every kind of node that sqlglot has."""
    found: list[type[exp.Expr]] = []
    waiting: list[type[exp.Expr]] = [exp.Expression]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting.extend(kind.__subclasses__())
    return sorted({kind for kind in found if kind.__module__.startswith("sqlglot.")}, key=lambda kind: kind.__name__)


def _argument() -> exp.Expr:
    return exp.column("a")


def _refusal(tree: exp.Expr) -> str:
    """Returns the words with which a tree is refused, also as a part of another."""
    messages = []
    for whole in (tree, exp.Paren(this=tree), exp.Anonymous(this="upper", expressions=[tree])):
        with pytest.raises(ExpressionError) as caught:
            bind(whole, SCHEMA, "the text")
        messages.append(str(caught.value))
    return "\n".join(messages)


def _unread() -> Iterator[tuple[type[exp.Expr], str]]:
    for kind in _kinds():
        for name in kind.arg_types:
            if kind in READS and name not in READS[kind]:
                yield kind, name


def test_every_kind_without_a_form_is_refused_without_its_name() -> None:
    kinds = [kind for kind in _kinds() if kind not in READS]
    assert len(kinds) > 900  # sqlglot's grammar has many more than Spark's.
    for kind in kinds:
        message = _refusal(kind())
        assert "is not supported" in message, kind
        assert kind.__name__ not in message.replace("JSON", "").replace("All", ""), kind


@pytest.mark.parametrize(("kind", "name"), list(_unread()))
def test_every_property_that_no_form_reads_is_refused(kind: type[exp.Expr], name: str) -> None:
    arguments: dict[str, Any] = {needed: _argument() for needed, required in kind.arg_types.items() if required}
    for value in (True, "word", _argument(), [_argument()]):
        assert "is not supported" in _refusal(kind(**arguments, **{name: value}))


def test_what_sqlglot_does_not_declare_is_refused_too() -> None:
    for kind in READS:
        assert "is not supported" in _refusal(kind(undeclared=True))


def test_forms_read_what_they_declare() -> None:
    """A property in the table that nothing reads would pass in silence."""
    asked: dict[type[exp.Expr], set[str]] = {}
    recorded: list[tuple[type[exp.Expr], _Recording]] = []
    for text in READ:
        tree = parse(text).tree
        for node in list(tree.walk()):
            recording = _Recording(node.args)
            node.args = recording
            recorded.append((type(node), recording))
        for _, recording in recorded:
            recording.asked.clear()
        _bind_without_checks(tree, text)
        for kind, recording in recorded:
            asked.setdefault(kind, set()).update(recording.asked)
    notes = {(exp.Div, "typed"), (exp.Div, "safe"), (exp.DPipe, "safe"), (exp.Identifier, "quoted")}
    notes |= {(exp.DataType, "nested"), (exp.DataType, "kind"), (exp.CommentColumnConstraint, "this")}
    declared = {(kind, name) for kind, names in READS.items() for name in names}
    unused = {(kind, name) for kind, name in declared - notes if name not in asked.get(kind, set())}
    assert not unused


def _bind_without_checks(tree: exp.Expr, text: str) -> None:
    from stretto.expressions import binder

    binder._Binder(SCHEMA, text).bind(tree)


@pytest.mark.parametrize("text", READ)
def test_what_is_read_is_accepted(text: str) -> None:
    compile_scalar(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ("upper(x -> x)", "a function with -> here", 7),
        ("upper(value => s)", "an argument with a name", 7),
        ("upper(distinct s)", "DISTINCT", 7),
        ("concat(*)", "a star", 8),
        ("1 + (select 1)", "a query inside an expression", 5),
        ("b and exists(select 1)", "a query inside an expression", 7),
        ("a = any (1, 2)", "ANY or SOME", 5),
        ("b and a between symmetric 1 and 2", "BETWEEN SYMMETRIC", 7),
        ("1 + sum(a) filter (where b)", "FILTER (WHERE ...)", 5),
        ("cast(a as int format 'x')", "CAST with FORMAT", 1),
        ("upper(s as name)", "a name with AS", 7),
        ("1 + ?", "a parameter", 5),
        ("a similar to 'x'", "this form", 1),
    ],
)
def test_refusals_have_the_users_words_and_the_position(text: str, words: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(text, SCHEMA)
    assert caught.value.fact.startswith(f"{words} is not supported in ")
    assert caught.value.detail == f"at position {position}, in the expression {text!r}"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("s:price", "':'"),
        ("s:price.x", "':'"),
        ("s at time zone 'UTC'", "'zone'"),
        ("int '5'", "5"),
        ("select 1", "select"),
        ("drop table a", "drop"),
    ],
)
def test_what_the_parser_drops_is_refused(text: str, near: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(text, SCHEMA)
    assert near in str(caught.value)
    assert "position" in str(caught.value)


def test_names_of_statements_are_names_of_columns() -> None:
    rows = pa.record_batch({"comment": [1], "begin": [2], "set": [3], "desc": [4]})
    projection = compile_projection(["comment", "begin + 1 AS b", "set", "desc"], rows.schema)
    assert projection.evaluate(rows).to_pylist() == [{"comment": 1, "b": 3, "set": 3, "desc": 4}]


def test_errors_quote_the_users_text() -> None:
    with pytest.raises(ExpressionError, match=r"in '1L \+ upper\( s \) \+  t'"):
        compile_scalar("a > 0 and 1L + upper( s ) +  t > 0", SCHEMA)


@pytest.mark.parametrize("text", ["a > 1 DESC", "a > 1 ASC", "a > 1 AS x", "a > 1 x"])
def test_a_condition_has_no_name(text: str) -> None:
    with pytest.raises(ExpressionError, match="a condition has no name of its own"):
        compile_predicate(text, SCHEMA)
