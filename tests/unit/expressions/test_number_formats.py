"""to_number and to_char by formats, with Spark's answers; random formats are in tests/spark/test_forms_spark.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.form_cases import READ, WRITTEN

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name
from stretto.expressions.number_formats import BadFormat, number_format

ROWS = pa.record_batch({"s": pa.array(["12", None]), "t": pa.array([0, None], pa.timestamp("us", "UTC"))})


def first(text: str) -> Any:
    return compile_scalar(text, ROWS.schema).evaluate(ROWS).to_pylist()[0]


@pytest.mark.parametrize(("text", "kind", "value"), READ)
def test_numbers_are_read(text: str, kind: str, value: Any) -> None:
    assert spark_type_name(compile_scalar(text, ROWS.schema).type) == kind
    assert first(text) == value


@pytest.mark.parametrize(("text", "value"), WRITTEN)
def test_values_are_written(text: str, value: str | None) -> None:
    assert first(text) == value


@pytest.mark.parametrize(
    "text", ["", "$", "9$", ".$9", "9,", ",9", "9,,9", "9.9,9", "S9S", "9.9.9", "PR9", "9PR9", "9x", "9 ", "MIS9", "9-"]
)
def test_a_bad_format_is_refused(text: str) -> None:
    with pytest.raises(BadFormat):
        number_format(text)
    with pytest.raises(ExpressionError, match="is no format of numbers"):
        compile_scalar(f"to_number(s, '{text}')", ROWS.schema)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"to_number(s, '{'9' * 39}')", "39 digits"),
        ("to_number('9', s)", "the format must be a constant string"),
        ("to_char(true, '9')", "wrong type boolean"),
        ("to_char(X'00', '9')", "the format '9' of binary"),
        ("to_number(s, '9')", "'12' does not fit the format '9'"),
        ("try_to_number(s, '.99')", r"'12' does not fit decimal\(2,2\)"),
    ],
)
def test_errors_name_the_fact(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        compile_scalar(text, ROWS.schema).evaluate(ROWS)
