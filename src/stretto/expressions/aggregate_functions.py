"""The aggregate functions: for each its arguments, its result type, and the Spark SQL with the same result.

Where Spark's own answer depends on the order of rows, `sql` computes the one that `operators/` computes: lists are
sorted, and of tied values the greatest or the least is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stretto.expressions import aggregate_choices as choices
from stretto.expressions import aggregate_lists as lists
from stretto.expressions import aggregate_numbers as numbers
from stretto.expressions.aggregate_calls import AggregateCall, Written


@dataclass(frozen=True, slots=True)
class Definition:
    """A function: the least and the greatest number of its arguments (None: any), and what compiles a call."""

    least: int
    most: int | None
    build: Callable[[Written], AggregateCall]
    takes_order: bool = False
    takes_nulls: bool = False


_SAMPLES = Definition(1, 1, numbers.moment("stddev_samp"))
_VARIANCE = Definition(1, 1, numbers.moment("var_samp"))
_FIRST = Definition(1, 2, choices.end("first", "min_by"), takes_nulls=True)
_LAST = Definition(1, 2, choices.end("last", "max_by"), takes_nulls=True)
_ALL_TRUE, _ANY_TRUE = Definition(1, 1, choices.every("min")), Definition(1, 1, choices.every("max"))
_COLLECT, _AVG = Definition(1, 1, lists.collect), Definition(1, 1, numbers.avg)
_PERCENTILE, _APPROX = Definition(2, 2, lists.percentile), Definition(2, 3, lists.percentile_approx)
_LISTAGG = Definition(1, 2, lists.listagg, takes_order=True)
_TWO = Definition(2, 2, numbers.comoment)

FUNCTIONS: dict[str, Definition] = {
    "count": Definition(1, None, numbers.count),
    "count_if": Definition(1, 1, numbers.count_if),
    "approx_count_distinct": Definition(1, 2, numbers.approx_count_distinct),
    "sum": Definition(1, 1, numbers.total),
    "try_sum": Definition(1, 1, numbers.total),
    "avg": _AVG,
    "mean": _AVG,
    "try_avg": _AVG,
    "min": Definition(1, 1, choices.extreme),
    "max": Definition(1, 1, choices.extreme),
    "max_by": Definition(2, 2, choices.extreme_by),
    "min_by": Definition(2, 2, choices.extreme_by),
    "first": _FIRST,
    "first_value": _FIRST,
    "last": _LAST,
    "last_value": _LAST,
    "any_value": Definition(1, 2, choices.any_value, takes_nulls=True),
    "bool_and": _ALL_TRUE,
    "every": _ALL_TRUE,
    "bool_or": _ANY_TRUE,
    "some": _ANY_TRUE,
    "any": _ANY_TRUE,
    "bit_and": Definition(1, 1, choices.bits),
    "bit_or": Definition(1, 1, choices.bits),
    "bit_xor": Definition(1, 1, choices.bits),
    "stddev": _SAMPLES,
    "stddev_samp": _SAMPLES,
    "std": _SAMPLES,
    "stddev_pop": Definition(1, 1, numbers.moment("stddev_pop")),
    "variance": _VARIANCE,
    "var_samp": _VARIANCE,
    "var_pop": Definition(1, 1, numbers.moment("var_pop")),
    "skewness": Definition(1, 1, numbers.moment("skewness")),
    "kurtosis": Definition(1, 1, numbers.moment("kurtosis")),
    **dict.fromkeys(("covar_pop", "covar_samp", "corr", "regr_sxx", "regr_syy", "regr_sxy"), _TWO),
    **dict.fromkeys(("regr_slope", "regr_intercept", "regr_r2"), _TWO),
    "regr_count": Definition(2, 2, numbers.regr_count),
    "regr_avgx": Definition(2, 2, numbers.regr_average),
    "regr_avgy": Definition(2, 2, numbers.regr_average),
    "collect": _COLLECT,
    "collect_list": _COLLECT,
    "array_agg": _COLLECT,
    "collect_set": Definition(1, 1, lists.collect_set),
    "top_k": Definition(2, 2, lists.top_k),
    "mode": Definition(0, 2, lists.mode, takes_order=True),
    "quantile": _PERCENTILE,
    "percentile": _PERCENTILE,
    "percentile_cont": Definition(1, 1, lists.percentile_cont, takes_order=True),
    "median": Definition(1, 1, lists.median),
    "percentile_approx": _APPROX,
    "approx_percentile": _APPROX,
    "listagg": _LISTAGG,
    "string_agg": _LISTAGG,
}
