"""Bit operations, and numbers in other bases."""

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
        ("6 & 3 | 8 ^ 1", "int", 11),
        ("1 | 6 & 8", "int", 1),
        ("1 | 6 ^ 7", "int", 1),
        ("6 ^ 7 & 1", "int", 7),
        ("1 << 2 + 1", "int", 8),
        ("3 & 1 << 1", "int", 2),
        ("-1 >>> 28", "int", 15),
        ("6 & 3 = 2", "boolean", True),
        ("~5L", "bigint", -6),
        ("shiftleft(1, 33)", "int", 2),
        ("shiftrightunsigned(-1, 28)", "int", 15),
        ("bit_count(-1Y)", "int", 64),
        ("bit_get(11, 2)", "tinyint", 0),
        ("conv('-7', 10, 16)", "string", "FFFFFFFFFFFFFFF9"),
        ("conv('zz', 36, 10)", "string", "1295"),
        ("bin(-1Y)", "string", "1" * 64),
        ("hex(-1)", "string", "F" * 16),
        ("unhex('abc')", "binary", b"\x0a\xbc"),
    ],
)
def test_a_value_and_its_type(text: str, kind: str, value: Any) -> None:
    assert spark_type_name(compile_scalar(text, ROW.schema).type) == kind
    assert _values(text, ROW) == [value]


@pytest.mark.parametrize(
    "text", ["conv('99999999999999999999999', 10, 16)", "bit_get(7, 32)", "~1.5", "shiftleft(1.5, 1)", "1 & 2.5"]
)
def test_what_fails(text: str) -> None:
    with pytest.raises(ExpressionError):
        _values(text, ROW)


def test_shifts_and_bits_of_columns() -> None:
    rows = pa.record_batch(
        [pa.array([1, -1, None, 2**31 - 1], pa.int32()), pa.array([1, -1, None, 2**63 - 1])], ["i", "n"]
    )
    assert _values("i << 31", rows) == [-(2**31), -(2**31), None, -(2**31)]
    assert _values("shiftrightunsigned(n, i)", rows) == [0, 1, None, 0]
    assert _values("n & 255", rows) == [1, 255, None, 255]
    assert _values("bit_get(n, 63)", rows) == [0, 1, None, 0]
