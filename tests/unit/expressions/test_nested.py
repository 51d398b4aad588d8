"""Arrays, maps and structs, with the answers that Spark gave."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from tests.nested_cases import ROWS, Answer, recorded, shown, texts

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection

ANSWERS = {text: answer for text, answer in recorded().items() if answer is not None}
FAILING = [text for text, answer in recorded().items() if answer is None]


def _answer(text: str, rows: pa.RecordBatch) -> Any:
    column = compile_projection([f"{text} AS v"], rows.schema).evaluate(rows).column(0)
    column.validate(full=True)
    return shown(column)


def test_every_text_has_an_answer() -> None:
    assert set(texts()) == set(recorded())
    assert len(ANSWERS) > len(FAILING) > 10


@pytest.mark.parametrize(("text", "expected"), ANSWERS.items())
def test_answers_are_sparks(text: str, expected: Answer) -> None:
    assert expected is not None
    kind, values = expected
    assert _answer(text, ROWS) == expected
    for first, count in ((0, 0), (1, 3), (2, 1), (3, 2)):
        assert _answer(text, ROWS.slice(first, count)) == (kind, values[first : first + count])


@pytest.mark.parametrize("text", FAILING)
def test_what_fails_in_spark_fails(text: str) -> None:
    with pytest.raises(ExpressionError):
        _answer(text, ROWS)


def test_a_function_of_elements_survives_being_sent() -> None:
    projection = compile_projection(["transform(a, x -> x + i) AS v"], ROWS.schema)
    again = pickle.loads(pickle.dumps(projection))
    assert again.evaluate(ROWS).equals(projection.evaluate(ROWS))


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("a[0]", "the index 0 is out of bounds"),
        ("element_at(a, 9)", "use try_element_at"),
        ("map(i, 1)", "a map with a null key"),
        ("map_concat(m, m)", "comes twice"),
        ("m = m", "cannot compare map<string,int>"),
        ("transform(a, (x, y, z) -> x)", "a function of 3 parameters"),
        ("transform(a, 1)", "an argument must be a function"),
        ("transform(a, (x, x) -> x)", "two parameters of one name"),
        ("aggregate(a, 0, (acc, x) -> acc * 1.5)", "the start value is int"),
        ("map()", "a map without a type"),
    ],
)
def test_errors_say_what_is_wrong(text: str, needle: str) -> None:
    with pytest.raises(ExpressionError, match=needle.replace("(", r"\(")):
        _answer(text, ROWS)
