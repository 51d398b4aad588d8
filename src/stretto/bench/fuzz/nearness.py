"""Whether an aggregate of doubles differs by no more than rounding explains: the answer of values that hardly differ.

A sum about a mean loses digits where values are large and close together, here as in Spark, and which digits depends on
the order of the rows. So a difference is one of rounding if the answer moves as far when each value is moved by an ulp.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregates import our_answer
from stretto.bench.fuzz.answers import Answer, Answered, Failure, same
from stretto.bench.fuzz.documented import MOMENTS
from stretto.bench.fuzz.terms import Term, column

MOVES = 6
"""Ways in which the values are moved, at random."""
FACTOR = 4.0
"""How much farther than the moved answers Spark's may be: rounding happens at every step, and not only at first."""
_NUMBERS = ("double", "float", "tinyint", "smallint", "int", "bigint", "string")


def with_near(term: Term, rows: pa.RecordBatch, mine: Answer, theirs: Answer) -> Answer:
    """Returns Spark's answer for an aggregate, with ours in place of doubles that only rounding tells apart."""
    if not isinstance(mine, Answered) or not isinstance(theirs, Answered) or len(mine.rows) != len(theirs.rows):
        return theirs
    if term.arguments[0].label not in MOMENTS or mine.kind != "double":
        return theirs
    moved = [_moved(term, rows, Random(move)) for move in range(MOVES)]
    answers = [our_answer(*each) for each in moved if each is not None]
    every = [each.rows for each in answers if isinstance(each, Answered) and len(each.rows) == len(mine.rows)]
    near = [_is_near(*row) for row in zip(mine.rows, theirs.rows, *every, strict=True)]
    chosen = [here if is_near else there for here, there, is_near in zip(mine.rows, theirs.rows, near, strict=True)]
    return replace(theirs, rows=chosen)


def _is_near(mine: Any, theirs: Any, *moved: Any) -> bool:
    """Whether two rows of an aggregate have doubles no farther apart than ours and those of moved values."""
    rows = (mine, theirs, *moved)
    if any(isinstance(row, Failure) or not same(row[:-1], mine[:-1]) for row in rows):
        return False
    if not all(isinstance(row[-1], float) and math.isfinite(row[-1]) for row in rows):
        return False
    spread = max((abs(row[-1] - mine[-1]) for row in moved), default=0.0)
    return bool(abs(mine[-1] - theirs[-1]) <= FACTOR * spread)


def _moved(term: Term, rows: pa.RecordBatch, rng: Random) -> tuple[Term, pa.RecordBatch] | None:
    """Returns an aggregate of columns with the values of its arguments, each moved by an ulp or not; None if one fails.

    Equal values are moved alike, since DISTINCT tells them apart."""
    call = term.arguments[0]
    for place, argument in enumerate(call.arguments):
        answer = ours.answer(f"CAST({argument.text} AS double)", rows)
        if ours.kind(argument.text, rows.schema) not in _NUMBERS or not isinstance(answer, Answered):
            continue
        if any(isinstance(row, Failure) for row in answer.rows):
            return None
        moves: dict[float | None, float | None] = {None: None}
        for value in answer.rows:
            moves.setdefault(value, value if value is None else _beside(value, rng))
        name = f"moved{place}"
        array = pa.array([moves[value] for value in answer.rows], pa.float64())
        rows = pa.record_batch([*rows.columns, array], schema=rows.schema.append(pa.field(name, pa.float64())))
        term = term.with_replaced((0, place), column(name, "double"))
    return term, rows


def _beside(value: float, rng: Random) -> float:
    if not math.isfinite(value):
        return value
    return float(np.nextafter(value, rng.choice((-math.inf, value, math.inf))))
