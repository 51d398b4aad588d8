"""Aggregates that choose one of the values, or combine them by their bits."""

from __future__ import annotations

from collections.abc import Callable

from stretto.expressions import types
from stretto.expressions.aggregate_calls import AggregateCall, Written, present
from stretto.expressions.scalar import quoted


def extreme(written: Written) -> AggregateCall:
    (text,) = written.arguments
    kind = written.orderable(text)
    return written.made(written.name, written.scalar(text), kind, f"{written.name}({text}){written.where()}")


def extreme_by(written: Written) -> AggregateCall:
    text, by = written.arguments
    return _by(written, written.name, text, by)


def _by(written: Written, function: str, text: str, by: str, *conditions: str) -> AggregateCall:
    """Returns the value of the row that is greatest or least by an expression; of tied values the greatest or least."""
    kind = written.orderable(text)
    written.orderable(by)
    where = written.where(present(by), *conditions)
    # Not struct(), since Spark's lexer takes a >> behind that word for the end of a type.
    sql = f"({function[:3]}(named_struct('o', {by}, 'v', {text})){where}).v"
    return written.made(function, written.scalar(text), kind, sql, written.scalar(by, *conditions))


def end(function: str, by: str) -> Callable[[Written], AggregateCall]:
    """Returns what compiles first or last: by event time if rows have one, else in the order of arrival."""

    def build(written: Written) -> AggregateCall:
        written.refuse_distinct()  # Distinct values have no order.
        text = written.arguments[0]
        conditions = [present(text)] if _ignores_nulls(written) else []
        if written.time is not None:
            return _by(written, by, text, quoted(written.time), *conditions)
        marks = written.scalar("true", *conditions) if conditions or written.has_condition else None
        sql = f"{function}({text}{', true' if conditions else ''}){written.where()}"
        return written.made(function, written.scalar(text), written.type_of(text), sql, marks)

    return build


def _ignores_nulls(written: Written) -> bool:
    if len(written.arguments) == 1:
        return written.ignore_nulls
    flag = written.constant(1)
    if not isinstance(flag, bool):
        raise written.error(f"{written.name} of {written.arguments[1]}", "a flag is expected", "pass true or false")
    return flag or written.ignore_nulls


def any_value(written: Written) -> AggregateCall:
    """The least value: any other would do, but would depend on the order of rows."""
    text = written.arguments[0]
    _ignores_nulls(written)
    kind = written.orderable(text)
    return written.made("min", written.scalar(text), kind, f"min({text}){written.where()}")


def every(function: str) -> Callable[[Written], AggregateCall]:
    def build(written: Written) -> AggregateCall:
        (text,) = written.arguments
        written.require_boolean(text)
        argument = written.scalar(f"CAST(({text}) AS BOOLEAN)")
        sql = f"bool_{'and' if function == 'min' else 'or'}({text}){written.where()}"
        return written.made(function, argument, types.BOOLEAN, sql)

    return build


def bits(written: Written) -> AggregateCall:
    (text,) = written.arguments
    kind = written.type_of(text)
    sql = written.call_sql(written.name, text)
    if kind == types.NULL:  # Spark puts a NULL in its place, and so does not evaluate it.
        text, kind = "CAST(NULL AS INT)", types.INT
    written.require(kind, types.is_integral(kind), "whole numbers", text)
    return written.made(written.function(written.name), written.scalar(text), kind, sql)
