"""The try_ family: NULL where the operation itself fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name

ROW = pa.record_batch({"one": [1]})


def _values(text: str, rows: pa.RecordBatch) -> list[Any]:
    result = compile_scalar(text, rows.schema).evaluate(rows)
    result.validate(full=True)
    values: list[Any] = result.to_pylist()
    return values


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("try_cast('x' as int)", "int", None),
        ("try_add(9223372036854775807, 1)", "bigint", None),
        ("try_divide(1, 0)", "double", None),
        ("try_mod(7.5, 0.0)", "decimal(1,1)", None),
    ],
)
def test_a_value_and_its_type(text: str, kind: str, value: Any) -> None:
    assert spark_type_name(compile_scalar(text, ROW.schema).type) == kind
    assert _values(text, ROW) == [value]


@pytest.mark.parametrize(
    "text", ["try_add(1 / 0, 1)", "try_cast(1 div 0 as string)", "try_add(one)", "try_cast(one as date)"]
)
def test_what_fails(text: str) -> None:
    with pytest.raises(ExpressionError):
        _values(text, ROW)


def test_try_keeps_the_rows_that_do_not_fail() -> None:
    texts = [" 12", "x", None, "7", "x", ""] * 50
    assert _values("try_cast(s as int)", pa.record_batch({"s": texts})) == [12, None, None, 7, None, None] * 50
    numbers = pa.record_batch({"n": [2**63 - 1, 1, None, -5], "i": [1, 0, 1, 2]})
    assert _values("try_add(n, i)", numbers) == [None, 1, None, -3]
    assert _values("try_divide(n, i)", numbers) == [float(2**63), None, None, -2.5]
    assert _values("try_divide(n, 0)", numbers.slice(0, 0)) == []
    assert _values("try_divide(n, 0)", numbers) == [None] * 4


def test_try_does_not_hide_what_fails_in_an_operand() -> None:
    with pytest.raises(ExpressionError, match="division by zero"):
        _values("try_add(1 div i, 1)", pa.record_batch({"i": [1, 0]}))


def test_a_row_that_fails_does_not_hide_one_that_try_does_not_catch() -> None:
    rows = pa.record_batch({"year": [1_000_000_000, 300_000], "one": [1, 1]})
    scalar = compile_scalar("1 + year(try_make_timestamp(year, one, one, one, one, one))", rows.schema)
    with pytest.raises(ExpressionError, match=r"timestamp overflow in 'try_make_timestamp\(year, one"):
        scalar.evaluate(rows)
