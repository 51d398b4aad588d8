"""An aggregate's answer is documented as one of how Spark divides its rows only if Spark has it for another one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.bench.fuzz.aggregates import Division, grouped
from stretto.bench.fuzz.answers import Answer, Answered, Failure
from stretto.bench.fuzz.divisions import with_other_divisions
from stretto.bench.fuzz.sparks import FAILED
from stretto.bench.fuzz.terms import Term, column

ROWS = pa.record_batch({"x": [1.0, 2.0, 3.0]})
FAILS = Failure("cannot cast")


def aggregate(name: str) -> Term:
    return grouped(Term(name, (f"{name}(", ")"), (column("x", "double"),)), [])


def answered(rows: list[Any]) -> Answered:
    return Answered("double", rows)


@pytest.mark.parametrize(
    ("name", "answers", "expected"),
    [
        ("approx_percentile", {"backward": [(1.0,)]}, [(1.0,)]),
        ("covar_pop", {"backward": [(1.0,)]}, [(1.0,)]),
        ("covar_pop", {"apart": [(1.0,)]}, [(1.0,)]),
        ("covar_pop", {"backward": [(3.0,)]}, [(2.0,)]),
        ("first", {"backward": [(1.0,)]}, [(2.0,)]),
        ("first", {"apart": [(1.0,)]}, [(1.0,)]),
        ("last", {"backward": [(1.0,)]}, [(2.0,)]),
    ],
)
def test_another_answer_of_sparks_counts_where_the_order_does_not_matter(
    name: str, answers: dict[str, Any], expected: list[Any]
) -> None:
    def asked(term: Term, rows: pa.RecordBatch, division: Division) -> Answer:
        values = rows.column(0).to_pylist()
        apart = answers.get("apart") if division is Division.APART and values == [1.0, 2.0, 3.0] else None
        backward = answers.get("backward") if values == [3.0, 2.0, 1.0] else None
        return answered(apart or backward or [(2.0,)])

    found = with_other_divisions(aggregate(name), ROWS, answered([(1.0,)]), answered([(2.0,)]), asked)
    assert isinstance(found, Answered)
    assert found.rows == expected


def test_groups_are_explained_one_by_one() -> None:
    mine, theirs = answered([(1, 1.0), (2, 1.0), (3, 1.0)]), answered([(1, 2.0), (2, 2.0), (3, 2.0)])

    def asked(term: Term, rows: pa.RecordBatch, division: Division) -> Answer:
        values = rows.column(0).to_pylist()
        first, second = division is Division.APART, values == [3.0, 2.0, 1.0]
        return answered([(1, 1.0 if first else 2.0), (2, 1.0 if second else 2.0), (3, 2.0)])

    found = with_other_divisions(aggregate("approx_percentile"), ROWS, mine, theirs, asked)
    assert isinstance(found, Answered)
    assert found.rows == [(1, 1.0), (2, 1.0), (3, 2.0)]


@pytest.mark.parametrize(("apart", "agrees"), [([FAILED], True), ([(7.0,)], False)])
def test_a_failure_is_explained_by_one_of_sparks(apart: list[Any], agrees: bool) -> None:
    mine = answered([FAILS])
    found = with_other_divisions(
        aggregate("first"), ROWS, mine, answered([(7.0,)]), lambda term, rows, division: answered(apart)
    )
    assert isinstance(found, Answered)
    assert (found.rows == mine.rows) == agrees
