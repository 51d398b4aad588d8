"""Forms whose meaning the parser could change, and strings that become numbers, with Spark's answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.expression_cases import FORMS, LAZY_ROWS, REFUSED

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection


@pytest.mark.parametrize(("text", "expected"), FORMS.items())
def test_answers_are_sparks(text: str, expected: list[Any]) -> None:
    projection = compile_projection([text], LAZY_ROWS.schema)
    assert projection.evaluate(LAZY_ROWS).column(0).to_pylist() == expected
    assert projection.evaluate(LAZY_ROWS.slice(2, 1)).column(0).to_pylist() == expected[2:3]
    assert projection.evaluate(LAZY_ROWS.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_refuses_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_projection([text], LAZY_ROWS.schema)
