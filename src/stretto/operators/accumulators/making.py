"""Finds the accumulator of an aggregate call."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from stretto.errors import PlanError
from stretto.operators.accumulators.arrival import Arrival
from stretto.operators.accumulators.base import Accumulator, Call
from stretto.operators.accumulators.decimal_sums import DecimalAverage, DecimalSum
from stretto.operators.accumulators.distinct import CollectSet, CountDistinct, OfDistinct
from stretto.operators.accumulators.extremes import Bits, Extreme, ExtremeBy
from stretto.operators.accumulators.frequencies import Mode
from stretto.operators.accumulators.listed import Collect, ListAgg, TopK
from stretto.operators.accumulators.moments import COMOMENTS, MOMENTS, Comoments, Moments
from stretto.operators.accumulators.quantiles import PercentileApprox, Quantile
from stretto.operators.accumulators.sums import (
    Average,
    Count,
    DurationAverage,
    Sum,
)
from stretto.operators.accumulators.user_defined import UserDefined
from stretto.operators.grouping import plain_type
from stretto.operators.user_aggregate import UserAggregate

_DISTINCT = "_distinct"


class _Parts(NamedTuple):
    """A call without its expressions: their types are enough."""

    name: str
    result: pa.DataType
    kind: pa.DataType
    by: pa.DataType | None
    parameter: Any


def accumulator(call: Call | UserAggregate) -> Accumulator:
    """Returns the accumulator of an aggregate call."""
    if isinstance(call, UserAggregate):
        return UserDefined(call)
    if call.function == "count":
        return Count(call.name, call.type, call.argument is not None)
    if call.argument is None:
        raise PlanError(f"{call.function} needs an argument", None, f"Write {call.function}(column).")
    by = None if call.ordering is None else plain_type(call.ordering.type)
    parts = _Parts(call.name, call.type, plain_type(call.argument.type), by, call.parameter)
    if call.function == "count_distinct":
        return CountDistinct(call.name, call.type, parts.kind)
    if call.function.endswith(_DISTINCT):
        return OfDistinct(_made(call.function.removesuffix(_DISTINCT), parts), parts.kind)
    return _made(call.function, parts)


def _made(function: str, parts: _Parts) -> Accumulator:
    name, result, kind, by, parameter = parts
    match function:
        case "count":
            return Count(name, result, True)
        case "sum" | "try_sum":
            tolerant = function == "try_sum"
            if pa.types.is_decimal(kind):
                return DecimalSum(name, result, kind, tolerant)
            return Sum(name, result, tolerant)
        case "avg" | "try_avg":
            if pa.types.is_duration(kind):
                return DurationAverage(name, result)
            if pa.types.is_decimal(kind):
                return DecimalAverage(name, result, kind, function == "try_avg")
            return Average(name, result)
        case "min" | "max":
            return Extreme(name, result, kind, function == "max")
        case "max_by" | "min_by" if by is not None:
            return ExtremeBy(name, result, kind, by, function == "max_by")
        case "bit_and" | "bit_or" | "bit_xor":
            return Bits(name, result, function)
        case "first" | "last":
            return Arrival(name, result, kind, function == "last", by is not None)
        case "top_k":
            return TopK(name, result, kind, int(parameter))
        case "collect":
            return Collect(name, result, kind)
        case "collect_set":
            return CollectSet(name, result, kind)
        case "listagg" if by is not None:
            return ListAgg(name, result, by, *parameter)
        case "mode":
            return Mode(name, result, kind, bool(parameter))
        case "quantile":
            return Quantile(name, result, parameter)
        case "percentile_approx":
            return PercentileApprox(name, result, kind, parameter)
        case _ if function in MOMENTS:
            return Moments(name, result, function)
        case _ if function in COMOMENTS and by is not None:
            return Comoments(name, result, function)
    raise PlanError("the aggregate function is unknown", repr(function), "Use the version of stretto that wrote it.")
