"""The calls of every aggregate of the registry. Only constants and clauses with their own syntax are written here."""

from __future__ import annotations

from stretto.bench.fuzz.forms import Form
from stretto.expressions.aggregate_functions import FUNCTIONS

NUMBER = "r"
"""The column that numbers the rows."""
ARGUMENTS_MAX = 2

_FRACTIONS = ("0.5", "0", "1.0", "0.9", "array(0.1, 0.75)")
_HINTS: dict[str, dict[int, tuple[str, ...]]] = {
    "approx_count_distinct": {1: ("0.05",)},
    "top_k": {1: ("2", "1")},
    "quantile": {1: _FRACTIONS},
    "percentile": {1: _FRACTIONS},
    "percentile_approx": {1: _FRACTIONS},
    "approx_percentile": {1: _FRACTIONS},
    **{key: {1: ("true", "false")} for key in ("first", "first_value", "last", "last_value", "any_value", "mode")},
    **{key: {1: ("','", "''")} for key in ("listagg", "string_agg")},
}
_WRITTEN: dict[str, tuple[tuple[str, ...], ...]] = {
    "count": (("count(*)",),),
    "mode": (("mode() WITHIN GROUP (ORDER BY ", ")"), ("mode() WITHIN GROUP (ORDER BY ", " DESC)")),
    "percentile_cont": (("percentile_cont(0.25) WITHIN GROUP (ORDER BY ", ")"),),
    "first": (("first(", ") IGNORE NULLS"),),
    "last": (("last(", ") IGNORE NULLS"),),
    "max_by": (("max_by(", f", {NUMBER})"),),
    "min_by": (("min_by(", f", {NUMBER})"),),
    **{
        name: (
            (f"{name}(", f") WITHIN GROUP (ORDER BY {NUMBER})"),
            (f"{name}(", ", ',') WITHIN GROUP (ORDER BY ", " DESC)"),
        )
        for name in ("listagg", "string_agg")
    },
}
"""Calls with clauses, and others that random arguments would not make."""
_ORDERED = frozenset(("listagg", "string_agg", "percentile_cont"))
"""Aggregates that are tried with an order only: they have no other call, or Spark leaves open what it gives."""


def aggregate_forms() -> list[Form]:
    """Returns the calls of all aggregates, in a fixed order; the weights of each aggregate sum up to 1."""
    return [form for name in sorted(FUNCTIONS) for form in _forms(name)]


def _forms(name: str) -> list[Form]:
    definition = FUNCTIONS[name]
    most = ARGUMENTS_MAX if definition.most is None else min(definition.most, ARGUMENTS_MAX)
    counts = range(0) if name in _ORDERED else range(max(definition.least, 1), most + 1)
    hints = _HINTS.get(name, {})
    plain = [
        Form(
            name,
            (f"{name}(", *[", "] * (count - 1), ")"),
            1.0,
            tuple(each for each in hints.items() if each[0] < count),
        )
        for count in counts
    ]
    every = [*plain, *(Form(name, pieces) for pieces in _WRITTEN.get(name, ()))]
    return [Form(form.label, form.pieces, 1.0 / len(every), form.hints) for form in every]
