"""Answers of both sides compared: what is a disagreement, what is documented, and what is neither."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused, same
from stretto.bench.fuzz.judging import Kind, judge
from stretto.bench.fuzz.terms import Term, column

PLUS = Term("+", ("(", " + ", ")"), (column("x", "double"), column("x2", "double")), "double")
EXP = Term("exp", ("exp(", ")"), (column("x", "double"),), "double")
TEXT = Term("cast as string", ("CAST(", " AS string)"), (column("x", "double"),), "string")
NAN = float("nan")


@pytest.mark.parametrize(
    ("ours", "sparks", "kind"),
    [
        (Answered("int", [1, None]), Answered("int", [1, None]), None),
        (Answered("double", [NAN]), Answered("double", [NAN]), None),
        (Answered("double", [0.0]), Answered("double", [-0.0]), Kind.VALUE),
        (Answered("int", [1]), Answered("int", [None]), Kind.VALUE),
        (Answered("int", [1]), Answered("bigint", [1]), Kind.TYPE),
        (Answered("int", [Failure("overflow")]), Answered("int", [Failure("too")]), None),
        (Answered("int", [Failure("overflow")]), Answered("int", [1]), Kind.FAILS_HERE),
        (Answered("int", [1]), Answered("int", [Failure("too")]), Kind.FAILS_IN_SPARK),
        (Answered("int", [Failure("TypeError", crash=True)]), Answered("int", [Failure("too")]), Kind.CRASH),
        (Answered("int", [1], on_nothing=Failure("overflow")), Answered("int", [1]), Kind.EMPTY_BATCH),
        (Answered("int", [Failure("x")], Failure("x")), Answered("int", [Failure("too")]), None),
        (Answered("int", [1]), Refused("no such function"), Kind.REFUSED_BY_SPARK),
        (Refused("wrong type"), Answered("int", [1]), None),
        (Refused("TypeError", crash=True), Answered("int", [1]), Kind.CRASH),
        (Answered("interval year to month", [1]), Answered("interval year to month", [], comparable=False), None),
    ],
)
def test_what_is_a_disagreement(ours: Answer, sparks: Answer, kind: Kind | None) -> None:
    found = judge(PLUS, ours, sparks).disagreement
    assert (found.kind if found else None) == kind


@pytest.mark.parametrize(
    ("term", "mine", "theirs", "is_documented"),
    [
        (EXP, 1.0, math.nextafter(1.0, 2.0), True),
        (PLUS, 1.0, math.nextafter(1.0, 2.0), False),
        (EXP, 1.0, 1.000001, False),
        (EXP, math.inf, 1e308, False),
        (TEXT, "2.0E-3", "0.0020", True),
        (TEXT, "2.0E-3", "0.003", False),
        (TEXT, "2.00E-3", "2.0E-3", False),
    ],
)
def test_documented_differences_are_counted(term: Term, mine: Any, theirs: Any, is_documented: bool) -> None:
    verdict = judge(term, Answered("double", [mine]), Answered("double", [theirs]))
    assert (verdict.disagreement is None) == is_documented
    assert bool(verdict.documented) == is_documented


def test_a_documented_difference_does_not_hide_another_row() -> None:
    ours, sparks = Answered("double", [1.0, 5.0]), Answered("double", [math.nextafter(1.0, 2.0), 7.0])
    verdict = judge(EXP, ours, sparks)
    assert verdict.disagreement is not None
    assert verdict.disagreement.row == 1
    assert len(verdict.documented) == 1


def test_values_are_the_same_only_with_the_same_type() -> None:
    assert same([1, (NAN, "a")], [1, (NAN, "a")])
    assert not same(1, True)
    assert not same((0.0, 1), (-0.0, 1))
    assert not same([1], [1, None])


SUM = Term("group", ("", ""), (Term("sum", ("sum(", ")"), (column("n", "bigint"),)),))
MAX = Term("group", ("", ""), (Term("max", ("max(", ")"), (column("x", "double"),)),))
STDDEV = Term("group", ("", ""), (Term("stddev", ("stddev(", ")"), (column("x", "double"),)),))


@pytest.mark.parametrize(
    ("term", "ours", "sparks", "name"),
    [
        (PLUS, [Failure("bytes that are not UTF-8 in 's'")], ["\udcff"], "bytes that are not UTF-8 as a string"),
        (PLUS, [None], ["a\udcff"], "bytes that are not UTF-8 as a string"),
        (
            PLUS,
            [Failure("bytes that are not UTF-8 in 's'")],
            [[("a", b"\xff")]],
            "bytes that are not UTF-8 as a string",
        ),
        (PLUS, [Failure("cannot cast '12:34' to timestamp in 's'")], [0], "a time by the clock"),
        (PLUS, [None], [time.strftime("%Y-%m-%d 12:34:00")], "a time by the clock"),
        (STDDEV, [(1.0000000000001,)], [(1.0,)], "sums of doubles in another order"),
        (MAX, [(7, 0.0)], [(7, -0.0)], "the greatest or the least of zeros of both signs"),
    ],
)
def test_differences_by_name(term: Term, ours: list[Any], sparks: list[Any], name: str) -> None:
    verdict = judge(term, Answered("double", ours), Answered("double", sparks))
    assert verdict.disagreement is None
    assert [each.name for each in verdict.documented] == [name]


@pytest.mark.parametrize(
    ("term", "ours", "sparks"),
    [
        (PLUS, [Failure("cannot cast 'x' to timestamp in 's'")], [0]),
        (PLUS, [Failure("bytes that are not UTF-8 in 's'")], ["abc"]),
        (PLUS, [Failure("bytes that are not UTF-8 in 's'")], [7]),
        (PLUS, [Failure("bytes that are not UTF-8 in 's'")], [[b"abc", None]]),
        (SUM, [(7,)], [(8,)]),
        (SUM, [(7,), (8,)], [Failure("fails in Spark")]),
        (PLUS, [None], ["2020-01-01 12:34:00"]),
        (PLUS, [None], ["2026-22-20"]),
        (PLUS, ["a"], ["a\udcff"]),
        (STDDEV, [(7,)], [Failure("fails in Spark")]),
        (STDDEV, [(1.001,)], [(1.0,)]),
        (MAX, [(7, 0.0)], [(8, -0.0)]),
        (MAX, [(7, 0.0)], [(7, -1.0)]),
        (MAX, [(7, 0.0)], [(7, None)]),
        (SUM, [(7, 0.0)], [(7, -0.0)]),
    ],
)
def test_other_differences_have_no_name(term: Term, ours: list[Any], sparks: list[Any]) -> None:
    assert judge(term, Answered("double", ours), Answered("double", sparks)).disagreement is not None


def test_what_fails_while_spark_plans_it_disagrees_unless_it_fails_here_too() -> None:
    sparks = Refused("[CAST_INVALID_INPUT]", crash=True)
    found = judge(PLUS, Answered("int", [1]), sparks).disagreement
    assert found is not None
    assert found.kind is Kind.PLANNING
    assert judge(PLUS, Answered("int", [Failure("bad")]), sparks).disagreement is None
