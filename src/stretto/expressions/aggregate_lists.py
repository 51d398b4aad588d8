"""Aggregates that keep all values of a group: lists, modes, quantiles and joined texts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.aggregate_calls import AggregateCall, Written, present

_PERCENTILE_APPROX_DIGITS_MAX = 15
"""Spark computes percentile_approx with doubles, in which decimals of more digits are not exact."""


def top_k(written: Written) -> AggregateCall:
    written.refuse_distinct()
    text, number = written.arguments
    kind = written.orderable(text)
    k = written.constant(1)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise written.error(f"top_k of {number}", None, "k must be a whole number, 1 or more")
    sql = f"slice(sort_array(collect_list({text}){written.where()}, false), 1, {k})"
    return written.made("top_k", written.scalar(text), pa.list_(kind), sql, parameter=k)


def collect(written: Written) -> AggregateCall:
    (text,) = written.arguments
    kind = written.orderable(text)
    # Sorted, so that the answer does not depend on the order of arrival.
    sql = f"sort_array({written.call_sql('collect_list', text)})"
    return written.made(written.function("collect"), written.scalar(text), pa.list_(kind), sql)


def collect_set(written: Written) -> AggregateCall:
    (text,) = written.arguments
    kind = written.orderable(text)
    sql = f"sort_array(collect_set({text}){written.where()})"
    return written.made("collect_set", written.scalar(text), pa.list_(kind), sql)


def mode(written: Written) -> AggregateCall:
    """Of values that occur equally often the least, as Spark's mode(x, true)."""
    written.refuse_distinct()
    descending = False
    if written.order is not None:
        if written.arguments:
            raise written.error("mode() WITHIN GROUP (...) takes no argument", None, "leave out one of them")
        text, descending = written.ordered_by()
    elif not written.arguments:
        raise written.error("mode takes an argument", None, "pass one")
    else:
        text = written.arguments[0]
        if len(written.arguments) == 2 and not isinstance(written.constant(1), bool):
            raise written.error(f"mode of {written.arguments[1]}", "a flag is expected", "pass true or false")
    kind = written.orderable(text)
    sql = f"mode() WITHIN GROUP (ORDER BY {text} DESC)" if descending else f"mode({text}, true)"
    return written.made("mode", written.scalar(text), kind, sql + written.where(), parameter=descending)


# Quantiles


def percentile(written: Written) -> AggregateCall:
    given, fraction = written.arguments
    text, _ = written.number(given)
    parameter = _fractions(written, 1)
    sql = written.call_sql("percentile", given, fraction if isinstance(parameter, list) else repr(parameter))
    return _quantile(written, text, parameter, sql)


def _quantile(written: Written, text: str, parameter: Any, sql: str) -> AggregateCall:
    kind = pa.list_(types.DOUBLE) if isinstance(parameter, list) else types.DOUBLE
    return written.made(written.function("quantile"), written.scalar(text), kind, sql, parameter=parameter)


def median(written: Written) -> AggregateCall:
    (given,) = written.arguments
    text, _ = written.number(given)
    return _quantile(written, text, 0.5, written.call_sql("median", given))


def percentile_cont(written: Written) -> AggregateCall:
    if written.order is None:
        raise written.error("percentile_cont has no order", None, "add WITHIN GROUP (ORDER BY x)")
    written.refuse_distinct()
    given, descending = written.ordered_by()
    if descending:
        raise written.error("percentile_cont in descending order is not supported", None, "pass 1 - fraction")
    text, _ = written.number(given)
    sql = f"percentile_cont({written.arguments[0]}) WITHIN GROUP (ORDER BY {given}){written.where()}"
    return _quantile(written, text, _fractions(written, 0), sql)


def percentile_approx(written: Written) -> AggregateCall:
    """The exact value: it is within any error that the third argument allows."""
    written.refuse_distinct()
    given, fraction = written.arguments[:2]
    text, kind = given, written.type_of(given)
    if not types.is_temporal(kind):
        text, kind = written.number(given)
    if types.is_decimal(kind) and kind.precision > _PERCENTILE_APPROX_DIGITS_MAX:
        raise written.error(
            f"percentile_approx of {types.spark_type_name(kind)} is not supported",
            None,
            "CAST it to DOUBLE",
        )
    if len(written.arguments) == 3:
        accuracy = written.constant(2)
        if not isinstance(accuracy, int) or isinstance(accuracy, bool) or accuracy < 1:
            raise written.error(
                f"percentile_approx with an accuracy of {written.arguments[2]}", None, "pass a whole number from 1"
            )
    parameter = _fractions(written, 1)
    result = pa.list_(kind) if isinstance(parameter, list) else kind
    sql = f"percentile_approx({given}, {fraction}, {2**31 - 1}){written.where()}"
    return written.made("percentile_approx", written.scalar(text), result, sql, parameter=parameter)


def _fractions(written: Written, place: int) -> float | list[float]:
    """Returns the fraction, or the list of fractions, of a quantile."""
    value = written.constant(place)
    several = isinstance(value, list)
    values = value if several else [value]
    for each in values:
        number = isinstance(each, int | float | Decimal) and not isinstance(each, bool)
        if not number or not 0 <= each <= 1:
            raise written.error(
                f"{written.name} of {written.arguments[place]}", None, "a fraction must be a number from 0 to 1"
            )
    if not values:
        raise written.error(f"{written.name} of no fraction", None, "pass a number from 0 to 1")
    return [float(each) for each in values] if several else float(value)


# Text


def listagg(written: Written) -> AggregateCall:
    """Without an order the values are sorted, as in a list: the text must not depend on the order of arrival."""
    given = written.arguments[0]
    kind = written.type_of(given)
    written.require(kind, kind != types.BINARY and not types.is_nested(kind), "text", given)
    by, descending = (given, False) if written.order is None else written.ordered_by()
    written.orderable(by)
    delimiter = written.constant(1) if len(written.arguments) == 2 else None
    if delimiter is not None and not isinstance(delimiter, str):
        raise written.error(f"{written.name} with {written.arguments[1]}", "a delimiter is text", "pass ', '")
    if written.distinct and by.lower() != given.lower():
        raise written.error(f"{written.name} of distinct values in another order", None, "order by the values")
    direction = "DESC" if descending else "ASC"
    order = f"{by} {direction}" if written.distinct else f"{by} {direction}, CAST(({given}) AS STRING) {direction}"
    distinct = "DISTINCT " if written.distinct else ""
    arguments = ", ".join(written.arguments)
    sql = f"listagg({distinct}{arguments}) WITHIN GROUP (ORDER BY {order}){written.where()}"
    text = f"CAST(({given}) AS STRING)"
    ordering = written.scalar(by, present(given))
    parameter = [delimiter or "", descending, written.distinct]
    return written.made("listagg", written.scalar(text), types.STRING, sql, ordering, parameter)
