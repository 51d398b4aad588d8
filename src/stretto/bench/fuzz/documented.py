"""Differences from Spark that are known and meant, each with its reason. They are counted, not hidden."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stretto.bench.fuzz.answers import same
from stretto.bench.fuzz.terms import Term

ULPS_MAX = 4
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


_RANGES = (
    (re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?"), "interval day to second"),
    (re.compile(r"interval (year|month)( to month)?"), "interval year to month"),
)


def without_ranges(kind: str) -> str:
    """Returns a type's name with the widest intervals: stretto's types do not say which fields an interval has."""
    for pattern, widest in _RANGES:
        kind = pattern.sub(widest, kind)
    return kind


DOCUMENTED = (
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
