"""Whether a sum overflows on the way to a total that fits: Spark fails at such a step, and stretto judges the total."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.answers import Answered, Failure
from stretto.bench.fuzz.terms import Term

SUMS = ("sum", "try_sum", "avg", "mean", "try_avg")
_INT64 = (-(2**63), 2**63 - 1)
_DIGITS = 10**38


def overflows_on_the_way(term: Term, rows: pa.RecordBatch) -> bool:
    """Whether a sum of exact numbers passes its type's limits in a group and comes back, by the order of the rows."""
    call, *keys = term.arguments
    if call.label not in SUMS or "DISTINCT" in call.pieces[0]:
        return False
    answer = ours.answer(call.arguments[0].text, rows)
    kept = _values(call.arguments[1], rows) if len(call.arguments) > 1 else [True] * rows.num_rows
    values = _values(call.arguments[0], rows)
    if values is None or kept is None or not isinstance(answer, Answered):
        return False
    groups = list(zip(*(_values(key, rows) or () for key in keys), strict=True)) or [()] * rows.num_rows
    totals: dict[str, int] = {}
    passed: set[str] = set()
    for group, value, keep in zip(map(repr, groups), values, kept, strict=True):
        if keep is not True or value is None or isinstance(value, float | str):
            continue
        totals[group] = totals.get(group, 0) + _unscaled(value)
        if not _fits(totals[group], answer.kind):
            passed.add(group)
    return any(_fits(totals[group], answer.kind) for group in passed)


def _unscaled(value: int | Decimal) -> int:
    if isinstance(value, int):
        return value
    sign, digits, _ = value.as_tuple()  # Python's own arithmetic rounds to 28 digits.
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def _fits(total: int, kind: str) -> bool:
    return abs(total) < _DIGITS if kind.startswith("decimal") else _INT64[0] <= total <= _INT64[1]


def _values(term: Term, rows: pa.RecordBatch) -> list[Any] | None:
    answer = ours.answer(term.text, rows)
    if not isinstance(answer, Answered) or any(isinstance(row, Failure) for row in answer.rows):
        return None
    return answer.rows
