"""to_binary, with Spark's answers; the same and more is asked of Spark in tests/spark/test_forms_spark.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar

ROWS = pa.record_batch({"s": pa.array(["YQ==", None, "?"]), "i": pa.array([0, 1, 2], pa.int32())})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("to_binary('abc')", b"\x0a\xbc"),
        ("to_binary(12)", b"\x12"),
        ("to_binary('é', 'UTF-8')", "é".encode()),
        ("to_binary('YQ', 'base64')", b"a"),
        ("to_binary(' Y Q', 'base64')", b"a"),
        ("to_binary('', 'base64')", b""),
        ("to_binary(s, 'base64')", b"a"),
        ("to_binary('ab', NULL)", None),
        ("try_to_binary('YQ=', 'base64')", None),
        ("try_to_binary('g')", None),
        ("try_to_binary('ab', 'x')", None),
        ("try_to_binary(string(1 div i))", None),
    ],
)
def test_bytes_of_texts(text: str, value: bytes | None) -> None:
    assert compile_scalar(text, ROWS.schema).evaluate(ROWS.slice(0, 2)).to_pylist()[0] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("to_binary(s, 'base64')", r"'\?' is not base64"),
        ("to_binary('ab', 'x')", "the format 'x' of binary"),
        ("try_to_binary(X'9E46', 'utf8')", "bytes that are not UTF-8"),
        ("to_binary('ab', s)", "the format must be a constant string"),
    ],
)
def test_errors_name_the_fact(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        compile_scalar(text, ROWS.schema).evaluate(ROWS)
