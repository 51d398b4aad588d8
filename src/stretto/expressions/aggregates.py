"""Aggregate calls: the function, its argument, and Spark's result type. They are computed in `operators/`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.parse import Call, parse, split_call
from stretto.expressions.scalar import Scalar, compile_value

_NAMES = {"mean": "avg", "percentile": "quantile", "collect_list": "collect"}
_ARGUMENTS = {
    "count": 1,
    "sum": 1,
    "min": 1,
    "max": 1,
    "avg": 1,
    "top_k": 2,
    "quantile": 2,
    "collect": 1,
    "max_by": 2,
    "min_by": 2,
}
_ONE_ROW = pa.record_batch({"row": [0]})
_KNOWN = "count, count(distinct), sum, min, max, avg, top_k, quantile, collect, max_by, min_by"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate. `sql` is the Spark SQL expression, without an alias, that has the same result."""

    name: str
    function: str
    argument: Scalar | None
    ordering: Scalar | None
    parameter: float | int | None
    type: pa.DataType
    sql: str


def is_aggregate(name: str) -> bool:
    """Whether an aggregate has this name."""
    return name in _ARGUMENTS or name in _NAMES


def parse_aggregate(text: str, schema: pa.Schema, name: str | None = None) -> AggregateCall:
    """Returns the call of an aggregate such as "max(price) AS highest"."""
    parsed = parse(text)
    call = split_call(parsed.body)
    if call is None:
        raise ExpressionError(
            f"{text!r} is not an aggregate", f"known aggregates: {_KNOWN}", "write one call, for example max(price)"
        )
    function = _function(call, text)
    output = parsed.alias or name or parsed.body
    if function == "count" and call.arguments[0] == "*":
        return AggregateCall(output, "count", None, None, None, types.BIGINT, "count(*)")
    argument = compile_value(call.arguments[0], schema, "an argument")
    if function == "count" and _is_never_null(argument):
        # count(1) counts rows, as count(*) does.
        return AggregateCall(output, "count", None, None, None, types.BIGINT, "count(*)")
    ordering = compile_value(call.arguments[1], schema, "an argument") if function in ("max_by", "min_by") else None
    parameter = _parameter(function, call, schema, text)
    kind = _result_type(function, argument, text)
    for ordered in (ordering, argument if function in ("min", "max", "top_k", "collect") else None):
        _require_orderable(ordered, text)
    sql = _SQL[function](argument.sql, ordering.sql if ordering else "", parameter)
    return AggregateCall(output, function, argument, ordering, parameter, kind, sql)


def _is_never_null(argument: Scalar) -> bool:
    """Whether this is a constant that is not null. One that fails is not, since it must fail for every row."""
    if argument.columns:
        return False
    try:
        return bool(argument.evaluate(_ONE_ROW)[0].is_valid)
    except ExpressionError:
        return False


def _function(call: Call, text: str) -> str:
    function = _NAMES.get(call.name, call.name)
    if function not in _ARGUMENTS:
        close = difflib.get_close_matches(call.name, [*_ARGUMENTS, *_NAMES], 1)
        hint = f"did you mean {close[0]}?" if close else "use a UserAggregate for other aggregates"
        raise ExpressionError(f"unknown aggregate {call.name}", f"in {text!r}; known aggregates: {_KNOWN}", hint)
    wanted = _ARGUMENTS[function]
    if len(call.arguments) != wanted:
        raise ExpressionError(
            f"{call.name} takes {wanted} argument(s), not {len(call.arguments)}", f"in {text!r}", f"pass {wanted}"
        )
    if not call.distinct:
        return function
    if function != "count":
        raise ExpressionError(f"DISTINCT inside {call.name}", f"in {text!r}", "only count takes DISTINCT")
    return "count_distinct"


def _parameter(function: str, call: Call, schema: pa.Schema, text: str) -> float | int | None:
    if function not in ("top_k", "quantile"):
        return None
    node = compile_value(call.arguments[1], schema, "an argument")
    value: Any = None
    if not node.columns and types.is_numeric(node.type):
        value = node.evaluate(_ONE_ROW)[0].as_py()
    if function == "top_k":
        if not isinstance(value, int) or value < 1:
            raise ExpressionError(
                f"top_k of {call.arguments[1]}", f"in {text!r}", "k must be a whole number, 1 or more"
            )
        return value
    if value is None or not 0 <= value <= 1:
        raise ExpressionError(f"quantile of {call.arguments[1]}", f"in {text!r}", "q must be a number from 0 to 1")
    return float(value)


def _result_type(function: str, argument: Scalar, text: str) -> pa.DataType:
    kind = types.canonical(argument.type)
    if function in ("count", "count_distinct"):
        return types.BIGINT
    if function in ("min", "max", "max_by", "min_by"):
        return kind
    if function in ("top_k", "collect"):
        return pa.list_(kind)
    if not types.is_numeric(kind):
        raise ExpressionError(
            f"{function} needs numbers",
            f"{argument.text!r} is {types.spark_type_name(kind)}, in {text!r}",
            "CAST it first",
        )
    if function == "quantile" or types.is_fractional(kind):
        return types.DOUBLE
    if types.is_decimal(kind):
        if function == "sum":
            return pa.decimal128(min(kind.precision + 10, types.DECIMAL_DIGITS_MAX), kind.scale)
        return _bounded_average(kind)
    return types.BIGINT if function == "sum" else types.DOUBLE


def _bounded_average(kind: Any) -> pa.DataType:
    """Returns the type with four more digits of precision and of scale, each at most 38."""
    limit = types.DECIMAL_DIGITS_MAX
    return pa.decimal128(min(kind.precision + 4, limit), min(kind.scale + 4, limit))


def _require_orderable(scalar: Scalar | None, text: str) -> None:
    if scalar is not None and types.is_nested(types.canonical(scalar.type)):
        raise ExpressionError(
            f"cannot order {types.spark_type_name(scalar.type)}",
            f"{scalar.text!r}, in {text!r}",
            "order by one of its fields",
        )


_SQL: dict[str, Callable[[str, str, Any], str]] = {
    "count": lambda x, y, k: f"count({x})",
    "count_distinct": lambda x, y, k: f"count(distinct {x})",
    "sum": lambda x, y, k: f"sum({x})",
    "min": lambda x, y, k: f"min({x})",
    "max": lambda x, y, k: f"max({x})",
    "avg": lambda x, y, k: f"avg({x})",
    # Sorted, so that the answer does not depend on the order of arrival.
    "collect": lambda x, y, k: f"sort_array(collect_list({x}))",
    "top_k": lambda x, y, k: f"slice(sort_array(collect_list({x}), false), 1, {k})",
    "quantile": lambda x, y, k: f"percentile({x}, {k!r})",
    "max_by": lambda x, y, k: f"max_by({x}, {y})",
    "min_by": lambda x, y, k: f"min_by({x}, {y})",
}
