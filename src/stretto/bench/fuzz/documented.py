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
from stretto.bench.fuzz.terms import Term

ULPS_MAX = 4
_DAY_S = 86_400
_NEAR_S = 3 * _DAY_S
"""How far from now the date of a text is that was made of a time of today, and maybe moved by a day or a zone."""
_ORDER_TOLERANCE = 1e-9
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
    return floats and mine[-1] != 0 and math.isclose(mine[-1], theirs[-1], rel_tol=_ORDER_TOLERANCE)


_EXTREMES = frozenset(("max", "min", "max_by", "min_by", "any_value"))
"""Aggregates that are a max or a min in Spark, of pairs if they are by another column."""


def _other_zero(term: Term, mine: Any, theirs: Any) -> bool:
    """Whether both are a zero as the greatest or the least of a group, of another sign."""
    if not term.arguments or term.arguments[0].label not in _EXTREMES or not isinstance(mine, tuple):
        return False
    same_keys = isinstance(theirs, tuple) and same(mine[:-1], theirs[:-1])
    return same_keys and all(isinstance(each[-1], float) and each[-1] == 0 for each in (mine, theirs))


_RANGES = (
    (re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?"), "interval day to second"),
    (re.compile(r"interval (year|month)( to month)?"), "interval year to month"),
)


def without_ranges(kind: str) -> str:
    """Returns a type's name with the widest intervals: stretto's types do not say which fields an interval has."""
    for pattern, widest in _RANGES:
        kind = pattern.sub(widest, kind)
    return kind


def fails_at_bytes(mine: Any) -> bool:
    """Whether stretto fails at bytes that are not UTF-8; an aggregate that fails has one row."""
    first = mine[0] if isinstance(mine, list) and mine else mine
    return isinstance(first, Failure) and not first.crash and first.text.startswith("bytes that are not UTF-8")


def has_other_bytes(value: Any) -> bool:
    """Whether there are bytes that are not UTF-8 in a value of Spark's."""
    if isinstance(value, list | tuple):
        return any(map(has_other_bytes, value))
    if isinstance(value, bytes):
        return has_other_bytes(value.decode("utf-8", "surrogateescape"))
    return isinstance(value, str) and _FOREIGN.search(value) is not None


def _not_utf8(term: Term, mine: Any, theirs: Any) -> bool:
    if fails_at_bytes(mine):
        return has_other_bytes(theirs)
    return mine is None and isinstance(theirs, str) and has_other_bytes(theirs)


_FOREIGN = re.compile("[\udc80-\udcff]")
"""Bytes of a text that are not UTF-8 (`plain.py`). try_cast is NULL there."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\b")
_TIME_ALONE = re.compile(
    r"cannot cast '\s*(T?\d{1,2}:\d{1,2}.*|now|today|tomorrow|yesterday)\s*' to (timestamp|date)", re.DOTALL
)


def _time_alone(term: Term, mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Failure):
        return _TIME_ALONE.match(mine.text) is not None
    # A try_ form is NULL where the time is read as one of today.
    return mine is None and _is_of_today(theirs, term.family)


def _is_of_today(value: Any, family: str) -> bool:
    now = time.time()
    if isinstance(value, str) and _DATE.match(value):
        try:
            of_text = time.strptime(value[:10], "%Y-%m-%d")
        except ValueError:  # Such as 2026-22-20, by a pattern with other fields.
            return False
        return abs(time.mktime(of_text) - now) < _NEAR_S
    return isinstance(value, int) and family == "timestamp" and abs(value / 1e6 - now) < _DAY_S


def _never(term: Term, mine: Any, theirs: Any) -> bool:
    return False


PLANNING = Documented(
    "a constant that fails while the query is planned",
    "Spark evaluates a constant text that is cast to a date or a time when it plans a query, which fails then though "
    "no row needs it: SELECT if(x > 0, date('b'), NULL) FROM VALUES (0) AS t(x). In an aggregate it does so with every "
    "constant: SELECT sum(int(concat())) FILTER (WHERE x > 0) FROM VALUES (0) AS t(x). Proved by asking with columns "
    "instead, which have Spark's own values of constants that are calls",
    _never,
)
MODES = Documented(
    "answers of Spark's own that differ",
    "Spark's answer depends on how it evaluates: its optimizer leaves out parts that could fail, "
    "SELECT if(isnull(1 / x), 0, 0) FROM VALUES (0) AS t(x), and a constant that fails where it is in a branch: "
    "SELECT if(x = 1, 0, if(1 = 'U', x, 2) + if(x = 1, NULL, NULL)) FROM VALUES (0) AS t(x). "
    "A map keeps the entries of a row that failed before. A cast to float between a bigint and a double is left out: "
    "SELECT sum(double(float(n))) FROM VALUES (16777217L) AS t(n). "
    "Proved by asking in the other ways: one of Spark's answers is stretto's",
    _never,
)
STEPS = Documented(
    "a sum that overflows on the way to a total that fits",
    "Spark fails at the first step that overflows, so its answer depends on the order; stretto judges the total: "
    "SELECT sum(n) FROM VALUES (9223372036854775807L), (1L), (-1L) AS t(n). Proved by adding the rows up",
    _never,
)
ANY_BYTES = Documented(
    "bytes that are not UTF-8 as a string",
    "a string is Arrow's, which is UTF-8; Spark's may be of any bytes: SELECT string(X'FF'). "
    "Proved by Spark's value, or by that of a part, which has such bytes",
    _not_utf8,
)
SCALES = Documented(
    "a decimal of more than 18 digits after the point",
    "Spark keeps a small decimal as a long, and looks up powers of ten that it has only up to 18, which is an error "
    "of Java's: SELECT cast(cast(cast(id as decimal(7,7)) as decimal(20,20)) as int) FROM range(1). "
    "Proved by a column of the same values, with which Spark does not fail",
    _never,
)
ORDER = Documented(
    "sums of doubles in another order",
    "doubles are not added in the order of Spark's, on which the last digits depend: "
    "SELECT sum(x) FROM VALUES (0.1D), (0.2D), (0.3D) AS t(x). More digits than that are proved by values moved by an "
    "ulp, with which the answer moves as far (`nearness.py`)",
    _other_order,
)
DIVIDED = Documented(
    "an aggregate that depends on how Spark divides its rows",
    "Spark's answer depends on the order of rows and on its partitions, for NaN, infinity and zeros of both signs: "
    "SELECT approx_percentile(x, 0) FROM VALUES (double('NaN')), (-1.25D) AS t(x) is NaN, and the other way round "
    "-1.25; and `first` evaluates the first row of each partition only. "
    "Proved by asking with the rows in other orders, or each in its own partition: one of Spark's answers is stretto's",
    _never,
)
CLOCK = Documented(
    "a time by the clock",
    "Spark reads '12:34' as a time of the day of the query, and 'now'; an answer here does not depend on the clock: "
    "SELECT timestamp('12:34'). Where the answer is no time, it is proved by the text with the day of the query in it, "
    "which Spark answers alike, and stretto as Spark does",
    _time_alone,
)
DOCUMENTED = (
    PLANNING,
    MODES,
    STEPS,
    SCALES,
    ANY_BYTES,
    CLOCK,
    DIVIDED,
    ORDER,
    Documented(
        "the greatest or the least of zeros of both signs",
        "0.0 and -0.0 are equal, and Spark keeps the one that comes first: "
        "SELECT max(x) FROM VALUES (-0.0D), (0.0D) AS t(x)",
        _other_zero,
    ),
    Documented(
        "transcendental functions within 4 ulp",
        "the last digits of these functions are those of the C library, not of Java's: SELECT tan(2.5D)",
        _few_ulps,
    ),
    Documented(
        "the text of a double has fewer digits",
        "Java 17 does not always write the shortest text of a double; Java 19 does, as stretto does: "
        "SELECT string(2e-3D)",
        _other_digits,
    ),
)


def documented(term: Term, mine: Any, theirs: Any) -> Documented | None:
    """Returns the documented difference that explains these values of a term, or None."""
    return next((each for each in DOCUMENTED if each.covers(term, mine, theirs)), None)
