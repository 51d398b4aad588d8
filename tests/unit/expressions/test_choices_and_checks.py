"""Conditionals, checks, strings as numbers, and arguments that no row reaches. The answers are Spark's, see
tests/spark/test_found_by_fuzzing.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_predicate, compile_scalar, spark_type_name

ROWS = pa.record_batch(
    {
        "n": pa.array([None, 1, 2], pa.int64()),
        "i": pa.array([0, None, 1], pa.int32()),
        "s": pa.array(["x", "1", None]),
        "b": pa.array([True, None, True]),
    }
)
ANSWERS: dict[str, tuple[str, list[Any]]] = {
    "nvl2(n, i, 7)": ("int", [7, None, 1]),
    "decode(i, 0, 'zero', NULL, 'none', 'other')": ("string", ["zero", "none", "other"]),
    "decode(i, 0, 'zero')": ("string", ["zero", None, None]),
    "zeroifnull(n)": ("bigint", [0, 1, 2]),
    "zeroifnull(2.5BD)": ("decimal(11,1)", [Decimal("2.5")] * 3),
    "nullifzero(i)": ("int", [None, None, 1]),
    "equal_null(n, i)": ("boolean", [False, False, False]),
    "typeof(n / 2)": ("string", ["double"] * 3),
    "coalesce(n, 5, raise_error('bad'))": ("bigint", [5, 1, 2]),
    "if(n is null, 0, assert_true(n > 0))": ("int", [0, None, None]),
    "decimal('2.5')": ("decimal(10,0)", [Decimal(3)] * 3),
    "div(n, 2)": ("bigint", [None, 0, 1]),
    "power(n, s)": ("double", [None, 1.0, None]),
    "power(NULL, 1 div 0)": ("double", [None] * 3),
    "shiftright(n, s)": ("bigint", [None, 0, None]),
    "n & s": ("bigint", [None, 1, None]),
    "mod(s, n)": ("bigint", [None, 0, None]),
    "try_add(n, s)": ("bigint", [None, 2, None]),
    "X'00fF'": ("binary", [b"\x00\xff"] * 3),
    "x'1'": ("binary", [b"\x01"] * 3),
    "NULL div NULL": ("bigint", [None] * 3),
    "factorial('5')": ("bigint", [120] * 3),
    "floor('2.75', 1)": ("decimal(22,1)", [Decimal("2.7")] * 3),
    "90000000000000000000000000000000000000 % cast('0.00000000000003' as decimal(38,18))": (
        "decimal(38,18)",
        [Decimal(0)] * 3,
    ),
}


@pytest.mark.parametrize("text", ANSWERS)
def test_answers(text: str) -> None:
    kind, expected = ANSWERS[text]
    scalar = compile_scalar(text, ROWS.schema)
    assert spark_type_name(scalar.type) == kind
    assert scalar.evaluate(ROWS).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("assert_true(n > 1)", "'n > 1' is not true!"),
        ("assert_true(b, concat('row ', s))", "row 1"),
        ("raise_error('bad')", "raise_error: bad"),
        ("coalesce(n, raise_error(s))", "raise_error: x"),
        ("99999999999999999999999999999999999999 % cast('0.00000000000003519' as decimal(38,18))", "too far apart"),
        ("'' * n", "cannot cast ''"),
        ("n * ''", "cannot cast ''"),
    ],
)
def test_a_row_that_fails(text: str, fact: str) -> None:
    scalar = compile_scalar(text, ROWS.schema)
    with pytest.raises(ExpressionError, match=fact):
        scalar.evaluate(ROWS)
    assert scalar.evaluate(ROWS.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize("text", ["s and s", "s or NULL", "case when NULL then 1 end", "iff(b, 1, 2)"])
def test_refused_as_in_spark(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_scalar(text, ROWS.schema)


def test_a_constant_fails_only_for_a_row() -> None:
    assert compile_scalar("n * ''", ROWS.schema).evaluate(ROWS.slice(0, 1)).to_pylist() == [None]
    assert compile_predicate("1 div 0 > n", ROWS.schema).evaluate(ROWS.slice(0, 0)).num_rows == 0
