"""Aggregates of numbers: counts, sums, averages and moments."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.aggregate_calls import AggregateCall, Written, present
from stretto.expressions.scalar import quoted


def count(written: Written) -> AggregateCall:
    arguments = written.arguments
    if arguments == ("*",):
        if written.distinct:
            arguments = tuple(map(quoted, written.names))
        elif written.has_condition:
            return written.made("count", written.scalar("1"), types.BIGINT, f"count(*){written.where()}")
        else:
            return written.made("count", None, types.BIGINT, "count(*)")
    if written.distinct:
        return _count_distinct(written, arguments, written.call_sql("count", *arguments))
    sql = f"count({', '.join(arguments)}){written.where()}"
    if len(arguments) > 1:
        return written.made("count", written.scalar("1", *map(present, arguments)), types.BIGINT, sql)
    if not written.has_condition and written.is_never_null(arguments[0]):
        # count(1) counts rows, as count(*) does.
        return written.made("count", None, types.BIGINT, "count(*)")
    return written.made("count", written.scalar(arguments[0]), types.BIGINT, sql)


def _count_distinct(written: Written, arguments: tuple[str, ...], sql: str) -> AggregateCall:
    for text in arguments:
        written.orderable(text)  # Maps are equal in any order of their entries, which would have to be found first.
    if len(arguments) == 1:
        argument = written.scalar(arguments[0])
    else:
        fields = ", ".join(f"'c{place}', {text}" for place, text in enumerate(arguments))
        argument = written.scalar(f"named_struct({fields})", *map(present, arguments))
    return written.made("count_distinct", argument, types.BIGINT, sql)


def count_if(written: Written) -> AggregateCall:
    (text,) = written.arguments
    written.require_boolean(text)
    sql = written.call_sql("count_if", text)
    # Spark computes what may fail for every row, also for those that FILTER leaves out.
    counted = written.scalar("true", text)
    if written.may_fail(text):
        counted = written.first(text, counted)
    return written.made(written.function("count"), counted, types.BIGINT, sql)


def approx_count_distinct(written: Written) -> AggregateCall:
    """The exact number: it is within any error that the second argument allows."""
    text = written.arguments[0]
    if len(written.arguments) == 2 and not isinstance(written.constant(1), int | float | Decimal):
        raise written.error(
            f"approx_count_distinct of {written.arguments[1]}", "the second argument is an error", "pass 0.05"
        )
    # Not DISTINCT with FILTER, which evaluates also what FILTER leaves out.
    return _count_distinct(written, (text,), f"count(DISTINCT {written.scalar(text).text})")


# Sums and averages


def _summed(written: Written, text: str) -> tuple[str, pa.DataType]:
    kind = written.type_of(text)
    return (text, kind) if kind == types.DURATION else written.number(text)


def total(written: Written) -> AggregateCall:
    (given,) = written.arguments
    text, kind = _summed(written, given)
    result = kind
    if types.is_decimal(kind):
        result = pa.decimal128(min(kind.precision + 10, types.DECIMAL_DIGITS_MAX), kind.scale)
    elif kind != types.DURATION:
        result = types.DOUBLE if types.is_fractional(kind) else types.BIGINT
    sql = written.call_sql(written.name, given)
    if written.name == "try_sum" and result == types.BIGINT:
        # Spark's own is NULL from the first step that overflows on, so it depends on the order of rows.
        sql = f"try_cast({written.call_sql('sum', f'CAST(({given}) AS DECIMAL(38, 0))')} AS BIGINT)"
    return written.made(written.function(written.name), written.scalar(text), result, sql)


def avg(written: Written) -> AggregateCall:
    (given,) = written.arguments
    text, kind = _summed(written, given)
    function = "try_avg" if written.name == "try_avg" else "avg"
    sql = written.call_sql(function, given)
    return written.made(written.function(function), written.scalar(text), _average_type(kind), sql)


def _average_type(kind: Any) -> pa.DataType:
    """Returns a decimal with four more digits of precision and of scale, each at most 38; else a double."""
    if kind == types.DURATION:
        return types.DURATION
    if not types.is_decimal(kind):
        return types.DOUBLE
    limit = types.DECIMAL_DIGITS_MAX
    return pa.decimal128(min(kind.precision + 4, limit), min(kind.scale + 4, limit))


# Moments

_CHOSEN = frozenset(("regr_sxx", "regr_syy"))
"""Functions of a variable that Spark makes NULL where the other one is."""
_BOTH = frozenset(("regr_slope", "regr_intercept"))
"""Functions for which Spark evaluates both variables of every row."""


def moment(function: str) -> Callable[[Written], AggregateCall]:
    def build(written: Written) -> AggregateCall:
        (text,) = written.arguments
        written.number(text)
        argument = written.scalar(_as_double(text))
        return written.made(written.function(function), argument, types.DOUBLE, written.call_sql(function, text))

    return build


def comoment(written: Written) -> AggregateCall:
    written.refuse_distinct()
    for text in written.arguments:
        written.number(text)
    y, x = map(_as_double, written.arguments)
    if written.name in _CHOSEN and any(map(written.is_null_constant, written.arguments)):
        y = x = _as_double("NULL")  # Spark evaluates nothing then.
    # Where y is null, x is not evaluated.
    guarded = written.name not in _BOTH and written.may_fail(x)
    argument, ordering = written.scalar(y), written.scalar(x, *([present(y)] if guarded else []))
    sql = written.call_sql(written.name, *written.arguments)
    return written.made(written.name, argument, types.DOUBLE, sql, ordering)


def _as_double(text: str) -> str:
    return f"CAST(({text}) AS DOUBLE)"


def regr_count(written: Written) -> AggregateCall:
    written.refuse_distinct()
    for text in written.arguments:
        written.number(text)
    # As doubles, since a text that is no number fails though it is only counted; y is evaluated beside a NULL too.
    y, x = (present(_as_double(text)) for text in written.arguments)
    argument = written.scalar(f"nullif(IF({y}, CAST({x} AS INT), 0), 0)")
    return written.made("count", argument, types.BIGINT, written.call_sql("regr_count", *written.arguments))


def regr_average(written: Written) -> AggregateCall:
    written.refuse_distinct()
    y, x = written.arguments
    written.number(y if written.name == "regr_avgx" else x)
    text, kind = written.number(x if written.name == "regr_avgx" else y)
    argument = written.scalar(text, present(_as_double(y)), present(_as_double(x)))
    return written.made("avg", argument, _average_type(kind), written.call_sql(written.name, y, x))
