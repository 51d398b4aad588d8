"""Values as Spark SQL text: random literals for expressions, and exact ones for `SELECT ... FROM VALUES`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.bench.fuzz.terms import DECIMAL, Term, literal
from stretto.bench.fuzz.values import random_value
from stretto.expressions import spark_type_name

DATES = ("2020-02-29", "1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "1582-10-15", "2000-01-31")
TIMES = (
    "2020-02-29 12:34:56.789",
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "2024-03-10 02:30:00",
    "9999-12-31",
)
_DECIMALS = (
    "0.5", "1.50", "-2.5", "0.0", "12.34", "100.0", "1.005", "12345678901234567890.12", "0.00000000000000000001",
    "99999999999999999999999999999999999999", "-0.000001", "3.7BD",
)  # fmt: skip
_DOUBLES = (
    "0D",
    "1.5D",
    "-2.5D",
    "1e10",
    "1e-3",
    "double('NaN')",
    "double('Infinity')",
    "1e308",
    "-0.0D",
    "2D",
    "100D",
)
_FLOATS = ("0F", "1.5F", "-2.25F", "float('NaN')", "1e10F", "0.1F")
_DAY_INTERVALS = (
    "interval '1' day",
    "interval 2 hours",
    "interval '-90' minute",
    "interval '1 day 2 hours'",
    "interval 5 seconds",
)
_MONTH_INTERVALS = ("interval 1 month", "interval '-13' month", "interval 2 years")
_INTEGERS = {
    "tinyint": ("Y", pa.int8()),
    "smallint": ("S", pa.int16()),
    "int": ("", pa.int32()),
    "bigint": ("L", pa.int64()),
}

_FIXED: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    DECIMAL: _DECIMALS,
    "double": _DOUBLES,
    "float": _FLOATS,
    "date": tuple(f"date'{text}'" for text in DATES),
    "timestamp": tuple(f"timestamp'{text}'" for text in TIMES),
    "interval day to second": _DAY_INTERVALS,
    "interval year to month": _MONTH_INTERVALS,
    "binary": ("X'00FF'", "cast('abc' as binary)"),
    "void": ("NULL",),
}
FAMILIES = ("string", *_INTEGERS, *_FIXED)
"""The families that have literals."""


def random_literal(of: str, rng: Random) -> Term | None:
    """Returns a literal of the family, or None if it has none."""
    if of == "string":
        return literal(string_text(random_value(pa.string(), rng, 0.0)), of)
    if of in _INTEGERS:
        suffix, kind = _INTEGERS[of]
        value = rng.choice((0, 1, 2, 3, 5, -1, -7, 10, random_value(kind, rng, 0.0)))
        return literal(f"{value}{suffix}", of)
    if of in _FIXED:
        return literal(rng.choice(_FIXED[of]), of)
    return None


def simple_literals(of: str) -> list[Term]:
    """Returns literals to try first when an expression is made small."""
    if of == "string":
        return [literal("''", of), literal("'a'", of)]
    if of in _INTEGERS:
        return [literal(f"{value}{_INTEGERS[of][0]}", of) for value in (0, 1, -1)]
    return [literal(text, of) for text in _FIXED.get(of, ())[:2]]


def string_text(value: str) -> str:
    """Returns a string literal; what has no printed form is escaped."""
    shown = (
        value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return f"'{shown}'"


def exact_text(value: Any, kind: pa.DataType) -> str:
    """Returns Spark SQL for exactly this plain value, which a person can paste."""
    name = spark_type_name(kind)
    if value is None:
        return f"CAST(NULL AS {name})"
    for is_kind, render in _EXACT:
        if is_kind(kind):
            return render(value, kind)
    if pat.is_list(kind):
        items = ", ".join(exact_text(item, kind.value_type) for item in value)
        return f"CAST(array({items}) AS {name})"
    if pat.is_struct(kind):
        pairs = zip(kind, value, strict=True)
        parts = ", ".join(f"'{field.name}', {exact_text(each, field.type)}" for field, each in pairs)
        return f"named_struct({parts})"
    if pat.is_map(kind):
        entries = ", ".join(f"{exact_text(k, kind.key_type)}, {exact_text(v, kind.item_type)}" for k, v in value)
        return f"CAST(map({entries}) AS {name})"
    return f"CAST({string_text(str(value))} AS {name})"


def _exact_float(value: Any, kind: pa.DataType) -> str:
    shown = str(np.float32(value)) if pat.is_float32(kind) else repr(float(value))
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return f"{spark_type_name(kind)}('{words.get(shown, shown)}')"


_EXACT: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], str]], ...] = (
    (pat.is_boolean, lambda value, kind: str(value).lower()),
    (pat.is_floating, _exact_float),
    (pat.is_string, lambda value, kind: string_text(value)),
    (pat.is_binary, lambda value, kind: f"X'{value.hex().upper()}'"),
    (pat.is_date, lambda value, kind: f"date_from_unix_date({value})"),
    (pat.is_timestamp, lambda value, kind: f"timestamp_micros({value})"),
    (pat.is_decimal, lambda value, kind: f"CAST('{value:f}' AS {spark_type_name(kind)})"),
)
