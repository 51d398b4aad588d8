"""A difference of doubles is one of rounding only if values moved by an ulp move the answer as far."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from stretto.bench.fuzz.aggregates import grouped, our_answer
from stretto.bench.fuzz.answers import Answered
from stretto.bench.fuzz.nearness import with_near
from stretto.bench.fuzz.terms import Term, column

NEAR = [0.25, 1.75, -0.5, 1.0, 2.25, -2.0]
# As far from zero as they are close together: of their variance, half of the digits are lost.
FAR = [923_127_371 + each for each in NEAR]


def answered(values: list[float], name: str = "var_pop") -> tuple[Term, pa.RecordBatch, Answered]:
    rows = pa.record_batch({"x": pa.array(values), "g": ["a"] * len(values), "r": list(range(len(values)))})
    term = grouped(Term(name, (f"{name}(", ")"), (column("x", "double"),)), [column("g", "string")])
    answer = our_answer(term, rows)
    assert isinstance(answer, Answered)
    return term, rows, answer


def other(answer: Answered, value: float) -> Answered:
    return replace(answer, rows=[(*answer.rows[0][:-1], value)])


def by(answer: Answered, share: float) -> Answered:
    ((key, value),) = answer.rows
    return replace(answer, rows=[(key, value * (1 + share))])


def test_digits_that_large_values_lose_are_rounding() -> None:
    term, rows, mine = answered(FAR)
    assert with_near(term, rows, mine, by(mine, 3e-8)) == mine


def test_the_same_difference_of_small_values_is_none() -> None:
    term, rows, mine = answered(NEAR)
    theirs = by(mine, 3e-8)
    assert with_near(term, rows, mine, theirs) == theirs


def test_a_larger_difference_is_none() -> None:
    term, rows, mine = answered(FAR)
    theirs = by(mine, 1e-3)
    assert with_near(term, rows, mine, theirs) == theirs


def test_an_aggregate_that_adds_nothing_up_has_no_rounding() -> None:
    term, rows, mine = answered(FAR, "max")
    theirs = by(mine, 1e-15)
    assert theirs != mine
    assert with_near(term, rows, mine, theirs) == theirs


def test_what_is_left_of_the_skewness_of_two_values_is_rounding() -> None:
    term, rows, mine = answered([-5410.15, -6.2], "skewness")
    assert with_near(term, rows, mine, other(mine, 3.9e-16)) == mine
    assert with_near(term, rows, mine, other(mine, 1e-12)) != mine


def test_the_skewness_of_large_values_that_are_close_together_has_more_left() -> None:
    term, rows, mine = answered([2147483646.0, 2147483647.0], "skewness")
    assert with_near(term, rows, mine, other(mine, 1e-7)) == mine
    assert with_near(term, rows, mine, other(mine, 1e-3)) != mine
