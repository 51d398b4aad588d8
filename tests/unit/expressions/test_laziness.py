"""A row fails only in what Spark evaluates for it. The answers are Spark's, see tests/spark/test_binding_spark.py."""

from __future__ import annotations

from typing import Any

import pytest
from tests.expression_cases import FAILING, LAZY, LAZY_ROWS

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar


@pytest.mark.parametrize(("text", "expected"), LAZY.items())
def test_what_no_row_reaches_does_not_fail(text: str, expected: list[Any]) -> None:
    scalar = compile_scalar(text, LAZY_ROWS.schema)
    assert scalar.evaluate(LAZY_ROWS).to_pylist() == expected
    for row in range(LAZY_ROWS.num_rows):
        assert scalar.evaluate(LAZY_ROWS.slice(row, 1)).to_pylist() == expected[row : row + 1]
    assert scalar.evaluate(LAZY_ROWS.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize("text", FAILING)
def test_what_a_row_reaches_fails(text: str) -> None:
    scalar = compile_scalar(text, LAZY_ROWS.schema)
    with pytest.raises(ExpressionError):
        scalar.evaluate(LAZY_ROWS)
