"""Functions that make rows in a select list, with Spark's answers, and the fields of a struct by a star."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.nested_cases import GENERATED, ROWS, shown

from stretto.errors import ExpressionError
from stretto.expressions import compile_predicate, compile_projection, compile_scalar, parse_schema


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["i", "explode(a) AS e"], {"i": "1 1 1 0 0 0 0 2", "e": "3 1 2 null 5 null 5 7"}),
        (["explode_outer(a)", "i"], {"col": "3 1 2 null null null 5 null 5 7", "i": "1 1 1 -1 null 0 0 0 0 2"}),
        (["posexplode(w)"], {"pos": "0 1 2 0 1 2 3 0", "col": "'b' 'a' 'é' null 'a' 'a' '' 'zz'"}),
        (["posexplode_outer(m)"], {"pos": "0 1 null null 0 0 1", "key": "'k' 'z' null null 'k' 'k' 'a'",
                                   "value": "1 2 null null null 7 0"}),
        (["explode(m) AS (k, v)"], {"k": "'k' 'z' 'k' 'k' 'a'", "v": "1 2 null 7 0"}),
        (["inline(ps)"], {"p": "1 2 null 3 null 1 1", "q": "'x' null null 'y' null 'x' 'x'"}),
        (["inline_outer(ps) (x, y)"], {"x": "1 2 null null null 3 null 1 1",
                                       "y": "'x' null null null null 'y' null 'x' 'x'"}),
        (["stack(2, i, n, i + 1) AS (x, y)"], {"x": "1 2 -1 0 null null 0 1 2 3",
                                               "y": "10 null 20 null null null null null 2 null"}),
        (["st.*"], {"a": "1 null null 2 1", "B": "'x' null null '' 'x'", "c": "[1,2] null null [null] [1,2]"}),
    ],
)  # fmt: skip
def test_rows_are_sparks(texts: list[str], expected: dict[str, str]) -> None:
    made = compile_projection(texts, ROWS.schema).evaluate(ROWS)
    made.validate(full=True)
    answers = {name: shown(column) for name, column in zip(made.schema.names, made.columns, strict=True)}
    assert {name: " ".join(a[1]).replace(", ", ",") for name, a in answers.items() if a is not None} == expected


@pytest.mark.parametrize("texts", GENERATED)
def test_a_slice_makes_the_rows_of_its_own(texts: list[str]) -> None:
    projection = pickle.loads(pickle.dumps(compile_projection(texts, ROWS.schema)))
    whole = projection.evaluate(ROWS)
    parts = pa.Table.from_batches([projection.evaluate(ROWS.slice(first, 1)) for first in range(ROWS.num_rows)])
    assert [shown(column.combine_chunks()) for column in parts.columns] == [shown(column) for column in whole.columns]
    assert projection.evaluate(ROWS.slice(0, 0)).num_rows == 0


def test_rows_that_are_dropped_do_not_fail() -> None:
    rows = pa.record_batch({"a": pa.array([[1, 2], []]), "z": pa.array([1, 0])})
    made = compile_projection(["explode(a) AS e", "1 / z AS q"], rows.schema).evaluate(rows)
    assert made.to_pylist() == [{"e": 1, "q": 1.0}, {"e": 2, "q": 1.0}]
    with pytest.raises(ExpressionError, match="division by zero"):
        compile_projection(["explode_outer(a) AS e", "1 / z AS q"], rows.schema).evaluate(rows)


@pytest.mark.parametrize(
    ("texts", "needle"),
    [
        (["explode(a) + 1 AS x"], "stands inside of an expression"),
        (["explode(a)", "explode(w) AS v"], "two functions that make rows"),
        (["explode(m) AS x"], "1 name.s. for 2 column"),
        (["explode(a) AS (x, y)"], "2 name.s. for 1 column"),
        (["i AS (x, y)"], "several names for 'i'"),
        (["explode(i)"], "expected an array or a map"),
        (["inline(a)"], "expected an array of structs"),
        (["stack(0, 1)"], "stack of no rows"),
        (["stack(2, 1, 'a', 'b')"], "has two types"),
        (["explode(a, 1)"], "takes 1 argument"),
        (["explode(a) AS i", "i"], "two columns are named 'i'"),
        (["i.*"], "a struct before"),
        (["st.* AS x"], "a star with the name 'x'"),
        (["st.* EXCEPT (a)"], "a star"),
    ],
)
def test_refusals(texts: list[str], needle: str) -> None:
    with pytest.raises(ExpressionError, match=needle):
        compile_projection(texts, ROWS.schema)


def test_a_value_or_a_condition_makes_no_rows() -> None:
    schema = parse_schema("a array<boolean>")
    with pytest.raises(ExpressionError, match="stands inside of an expression"):
        compile_predicate("explode(a)", schema)
    with pytest.raises(ExpressionError, match="several names with AS"):
        compile_scalar("explode(a) AS (x, y)", schema)
