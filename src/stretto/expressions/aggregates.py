"""Aggregate calls: the function, its arguments, and Spark's result type. They are computed in `operators/`.

An expression over aggregates, such as `sum(price) / count(*)`, is its calls and an expression over their results.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions.aggregate_calls import AggregateCall, Written
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.expressions.aggregate_texts import CallText, calls_in
from stretto.expressions.parse import Parsed, parse
from stretto.expressions.refused import refusal_of
from stretto.expressions.scalar import quoted

GROUPING_CALLS = ("grouping", "grouping_id")
"""Calls that have a meaning in an aggregate over grouping sets."""

_KNOWN = ", ".join(sorted({*FUNCTIONS, "count(distinct)"}))


@dataclass(frozen=True, slots=True)
class AggregateText:
    """An expression over aggregates. `body` has a column in the place of each call, named by `columns`."""

    text: str
    name: str
    body: str
    columns: dict[str, CallText]

    @property
    def call(self) -> CallText | None:
        """The call, if the expression is one call and nothing else."""
        for column, call in self.columns.items():
            if self.body == quoted(column):
                return call
        return None

    def over(self, expressions: dict[str, str]) -> str:
        """Returns the expression with these expressions in the places of its columns."""
        body = self.body
        for column in self.columns:
            body = body.replace(quoted(column), expressions[column])
        return body


def is_aggregate(name: str) -> bool:
    """Whether an aggregate has this name."""
    return name in FUNCTIONS


def read_aggregates(text: str, name: str | None = None, further: Sequence[str] = ()) -> AggregateText:
    """Returns the calls of aggregates in a text, and what is computed from their results. Calls with the `further`
    names count as such."""
    calls = calls_in(text, {*FUNCTIONS, *further})
    columns: dict[str, CallText] = {}
    pieces, done = [], 0
    for call in calls:
        column = next((known for known, each in columns.items() if each.text == call.text), None)
        if column is None:
            # Names of columns must differ in more than the case of letters.
            taken = call.text.lower() in map(str.lower, columns)
            column = f"{call.text} #{len(columns)}" if taken else call.text
            columns[column] = call
        pieces += [text[done : call.first], quoted(column)]
        done = call.last
    parsed = _parsed("".join([*pieces, text[done:]]), text, calls)
    if not calls:
        raise _not_an_aggregate(text, parsed.tree)
    body = parsed.body
    original = body
    for column, call in columns.items():
        original = original.replace(quoted(column), call.text)
    return AggregateText(text, parsed.alias or name or original, body, columns)


def _parsed(over: str, text: str, calls: Sequence[CallText]) -> Parsed:
    """Returns an expression over aggregates; an error is about the text that the user wrote, if it is one of that."""
    try:
        return parse(over)
    except ExpressionError:
        if not any(call.order for call in calls):  # WITHIN GROUP is no expression.
            parse(text)
        raise


def parse_aggregate(text: str, schema: pa.Schema, name: str | None = None, time: str | None = None) -> AggregateCall:
    """Returns the call of an aggregate such as "max(price) AS highest". `time` is the column of the event time."""
    read = read_aggregates(text, name)
    call = read.call
    if call is None:
        raise ExpressionError(
            f"{text!r} is not an aggregate alone",
            f"it computes {read.name!r} from aggregates",
            "write one call, for example max(price)",
        )
    return replace(compiled_call(call, schema, text, time), name=read.name)


def compiled_call(call: CallText, schema: pa.Schema, text: str, time: str | None) -> AggregateCall:
    """Returns a call over rows of a schema. Its name is its text."""
    definition = FUNCTIONS[call.name]
    written = Written(call, schema, text, time)
    written.check_count(definition.least, definition.most)
    written.check_clauses(definition.takes_order, definition.takes_nulls)
    return definition.build(written)


def _not_an_aggregate(text: str, tree: exp.Expr) -> ExpressionError:
    while isinstance(tree, exp.Filter):
        tree = tree.this
    if isinstance(tree, exp.Anonymous):
        refusal = refusal_of(tree.name.lower())
        if refusal is not None:
            own = "" if tree.name.lower() in GROUPING_CALLS else "; or use a stretto.UserAggregate"
            return ExpressionError(f"{tree.name} is not supported here", refusal.reason, refusal.fix + own)
        close = difflib.get_close_matches(tree.name.lower(), FUNCTIONS, 1)
        hint = f"did you mean {close[0]}?" if close else "use a stretto.UserAggregate for other aggregates"
        return ExpressionError(f"unknown aggregate {tree.name}", f"in {text!r}; known aggregates: {_KNOWN}", hint)
    return ExpressionError(
        f"{text!r} is not an aggregate", f"known aggregates: {_KNOWN}", "write a call, for example max(price)"
    )


__all__ = [
    "GROUPING_CALLS",
    "AggregateCall",
    "AggregateText",
    "compiled_call",
    "is_aggregate",
    "parse_aggregate",
    "read_aggregates",
]
