"""Differences from Spark that are known and meant, each with its reason. They are counted, not hidden."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stretto.bench.fuzz.answers import Failure, same
from stretto.bench.fuzz.terms import DECIMAL, Term

ULPS_MAX = 4
_DAY_S = 86_400
_ORDER_TOLERANCE = 1e-9
_EXACT = ("tinyint", "smallint", "int", "bigint", DECIMAL, "interval day to second")
MOMENTS = frozenset(
    (
        "sum", "avg", "mean", "try_sum", "try_avg", "stddev", "stddev_samp", "std", "stddev_pop", "variance",
        "var_samp", "var_pop", "skewness", "kurtosis", "covar_pop", "covar_samp", "corr", "regr_sxx", "regr_syy",
        "regr_sxy", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy",
    )
)  # fmt: skip
"""Aggregates that add doubles up."""
TRANSCENDENTAL = frozenset(
    (
        "exp", "expm1", "ln", "log", "log10", "log2", "log1p", "power", "pow", "sin", "cos", "tan", "cot", "sec", "csc",
        "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "hypot", "degrees",
        "radians",
    )
)  # fmt: skip
_TO_TEXT = frozenset(("cast as string", "try_cast as string", "string"))


@dataclass(frozen=True, slots=True)
class Documented:
    """A difference: its name, why it is meant, and whether the values of a term differ in this way."""

    name: str
    reason: str
    covers: Callable[[Term, Any, Any], bool]


def _few_ulps(term: Term, mine: Any, theirs: Any) -> bool:
    if term.label not in TRANSCENDENTAL or not (isinstance(mine, float) and isinstance(theirs, float)):
        return False
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return False
    return abs(mine - theirs) <= ULPS_MAX * float(np.spacing(max(abs(mine), abs(theirs))))


def _other_digits(term: Term, mine: Any, theirs: Any) -> bool:
    """Whether both texts are of the same number, and ours is the shorter or as short."""
    if term.label not in _TO_TEXT or not (isinstance(mine, str) and isinstance(theirs, str)):
        return False
    of = term.arguments[0].family
    if of not in ("float", "double") or len(mine) > len(theirs):
        return False
    kind = np.float32 if of == "float" else np.float64
    try:
        return same(float(kind(mine)), float(kind(theirs)))
    except ValueError:
        return False


def _other_order(term: Term, mine: Any, theirs: Any) -> bool:
    """Whether the last values of two rows of an aggregate are doubles that differ in their last digits only."""
    if not term.arguments or term.arguments[0].label not in MOMENTS or not isinstance(mine, tuple):
        return False
    same_keys = isinstance(theirs, tuple) and same(mine[:-1], theirs[:-1])
    floats = same_keys and isinstance(mine[-1], float) and isinstance(theirs[-1], float)
    return floats and math.isclose(mine[-1], theirs[-1], rel_tol=_ORDER_TOLERANCE)


def _steps_overflow(term: Term, mine: Any, theirs: Any) -> bool:
    """Whether Spark fails in a sum of which stretto has the total."""
    call = term.arguments[0] if term.arguments else term
    is_sum = call.label in ("sum", "avg", "mean") and call.arguments and call.arguments[0].family in _EXACT
    return bool(is_sum) and isinstance(theirs, Failure) and isinstance(mine, tuple)


_RANGES = (
    (re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?"), "interval day to second"),
    (re.compile(r"interval (year|month)( to month)?"), "interval year to month"),
)


def without_ranges(kind: str) -> str:
    """Returns a type's name with the widest intervals: stretto's types do not say which fields an interval has."""
    for pattern, widest in _RANGES:
        kind = pattern.sub(widest, kind)
    return kind


def _not_utf8(term: Term, mine: Any, theirs: Any) -> bool:
    return isinstance(mine, Failure) and mine.text.startswith("bytes that are not UTF-8")


_TIME_ALONE = re.compile(
    r"cannot cast '\s*(T?\d{1,2}:\d{1,2}.*|now|today|tomorrow|yesterday)\s*' to (timestamp|date)", re.DOTALL
)


def _time_alone(term: Term, mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Failure):
        return _TIME_ALONE.match(mine.text) is not None
    # A try_ form is NULL where the time is read as one of today.
    today = abs(theirs / 1e6 - time.time()) < _DAY_S if isinstance(theirs, int) else False
    return mine is None and term.family == "timestamp" and today


PLANNING = Documented(
    "a constant that fails while the query is planned",
    "Spark evaluates some constants when it plans a query, which fails then though no row needs them",
    lambda term, mine, theirs: False,
)
DOCUMENTED = (
    PLANNING,
    Documented(
        "bytes that are not UTF-8 as a string",
        "a string is Arrow's, which is UTF-8; Spark's may be of any bytes",
        _not_utf8,
    ),
    Documented(
        "a time by the clock",
        "Spark reads '12:34' as a time of the day of the query, and 'now'; an answer here does not depend on the clock",
        _time_alone,
    ),
    Documented(
        "sums of doubles in another order",
        "doubles are not added in the order of Spark's, on which the last digits depend",
        _other_order,
    ),
    Documented(
        "a sum of which a part overflows",
        "Spark fails at the first step that overflows, so its answer depends on the order; stretto judges the total",
        _steps_overflow,
    ),
    Documented(
        "transcendental functions within 4 ulp",
        "the last digits of these functions are those of the C library, not of Java's",
        _few_ulps,
    ),
    Documented(
        "the text of a double has fewer digits",
        "Java 17 does not always write the shortest text of a double; Java 19 does, as stretto does",
        _other_digits,
    ),
)


def documented(term: Term, mine: Any, theirs: Any) -> Documented | None:
    """Returns the documented difference that explains these values of a term, or None."""
    return next((each for each in DOCUMENTED if each.covers(term, mine, theirs)), None)
