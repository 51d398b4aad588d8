"""Whether an aggregate of doubles differs by no more than rounding explains: the answer of values that hardly differ.

A sum about a mean loses digits where values are large and close together, here as in Spark, and which digits depends on
the order of the rows. So a difference is one of rounding if the answer moves as far when each value is moved by an ulp.
Ratios such as the skewness may differ by ulps of one too, times how much larger values are than their deviation: of two
values it is 0 however they are moved, and what is left of it in Spark is rounding alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregates import FILTER, in_order, our_answer
from stretto.bench.fuzz.answers import Answer, Answered, Failure, same
from stretto.bench.fuzz.documented import MOMENTS
from stretto.bench.fuzz.plain import plain_values
from stretto.bench.fuzz.terms import Term, column

MOVES = 6
"""Ways in which the values are moved, at random."""
FACTOR = 4.0
"""How much farther than the moved answers Spark's may be: rounding happens at every step, and not only at first."""
RATIOS = frozenset(("skewness", "kurtosis", "corr", "regr_r2"))
ULPS_OF_ONE = 16
_NUMBERS = ("double", "float", "tinyint", "smallint", "int", "bigint", "string", "decimal")


def with_near(term: Term, rows: pa.RecordBatch, mine: Answer, theirs: Answer) -> Answer:
    """Returns Spark's answer for an aggregate, with ours in place of doubles that only rounding tells apart."""
    if not isinstance(mine, Answered) or not isinstance(theirs, Answered) or len(mine.rows) != len(theirs.rows):
        return theirs
    if term.arguments[0].label not in MOMENTS or mine.kind != "double":
        return theirs
    answers = [our_answer(*_moved(term, rows, Random(move))) for move in range(MOVES)]
    every = [each.rows for each in answers if isinstance(each, Answered) and len(each.rows) == len(mine.rows)]
    allowed = _of_ratios(term, rows) if term.arguments[0].label in RATIOS else {}
    near = [_is_near(allowed, *row) for row in zip(mine.rows, theirs.rows, *every, strict=True)]
    chosen = [here if is_near else there for here, there, is_near in zip(mine.rows, theirs.rows, near, strict=True)]
    return replace(theirs, rows=chosen)


def _is_near(allowed: dict[str, float], mine: Any, theirs: Any, *moved: Any) -> bool:
    """Whether two rows of an aggregate have doubles no farther apart than ours and those of moved values."""
    rows = (mine, theirs, *moved)
    if any(isinstance(row, Failure) or not same(row[:-1], mine[:-1]) for row in rows):
        return False
    if not all(isinstance(row[-1], float) and math.isfinite(row[-1]) for row in rows):
        return False
    spread = max((abs(row[-1] - mine[-1]) for row in moved), default=0.0)
    return bool(abs(mine[-1] - theirs[-1]) <= FACTOR * spread + allowed.get(repr(mine[:-1]), 0.0))


def _of_ratios(term: Term, rows: pa.RecordBatch) -> dict[str, float]:
    """Returns what rounding alone makes of a ratio, for each group with at least two values that differ."""
    call, *keys = term.arguments
    found: dict[str, float] = {}
    for argument in call.arguments:
        values = _doubles(argument, rows)
        if values is None:
            continue
        groups: dict[str, list[float]] = {}
        for row, value, keep in zip(_keys(keys, rows), values, _kept(call, rows), strict=True):
            if keep is True and value is not None and math.isfinite(value):
                groups.setdefault(row, []).append(value)
        for row, each in groups.items():
            deviation = float(np.std(np.subtract(each, each[0])))
            larger = max(map(abs, each)) / deviation if deviation else 0.0
            found[row] = max(found.get(row, 0.0), ULPS_OF_ONE * float(np.spacing(1.0)) * (1 + larger))
    return found


def _keys(keys: Sequence[Term], rows: pa.RecordBatch) -> list[str]:
    """Returns the keys of each row as they are in an answer (`aggregates.in_order`)."""
    columns = [plain_values(rows.column(key.text)) for key in keys]
    each = zip(*columns, strict=True) if columns else [()] * rows.num_rows
    return [repr(in_order([row], len(keys))[0]) for row in each]


def _kept(call: Term, rows: pa.RecordBatch) -> list[Any]:
    """Returns the condition of FILTER for each row."""
    answer = ours.answer(call.arguments[-1].text, rows) if FILTER in call.text else None
    return answer.rows if isinstance(answer, Answered) else [True] * rows.num_rows


def _doubles(term: Term, rows: pa.RecordBatch) -> list[float | None] | None:
    """Returns the values of an argument as doubles; None if it is no number, or fails."""
    kind = ours.kind(term.text, rows.schema)
    if kind is None or kind.split("(")[0] not in _NUMBERS:
        return None
    answer = ours.answer(f"CAST({term.text} AS double)", rows)
    if not isinstance(answer, Answered) or any(isinstance(row, Failure) for row in answer.rows):
        return None
    return answer.rows


def _moved(term: Term, rows: pa.RecordBatch, rng: Random) -> tuple[Term, pa.RecordBatch]:
    """Returns an aggregate of columns with the values of its arguments, each moved by an ulp or not.

    Equal values are moved alike, since DISTINCT tells them apart."""
    for place, argument in enumerate(term.arguments[0].arguments):
        values = _doubles(argument, rows)
        if values is None:
            continue
        moves: dict[float | None, float | None] = {None: None}
        for value in values:
            moves.setdefault(value, value if value is None else _beside(value, rng))
        name = f"moved{place}"
        array = pa.array([moves[value] for value in values], pa.float64())
        rows = pa.record_batch([*rows.columns, array], schema=rows.schema.append(pa.field(name, pa.float64())))
        term = term.with_replaced((0, place), column(name, "double"))
    return term, rows


def _beside(value: float, rng: Random) -> float:
    if not math.isfinite(value):
        return value
    return float(np.nextafter(value, rng.choice((-math.inf, value, math.inf))))
