"""`*` and `* EXCEPT (...)` in a select list."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection

ROWS = pa.record_batch({"a": [1], "B": [2], "c d": [3], "st": [{"x": 4}]})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("*", ["a", "B", "c d", "st"]),
        ("* EXCEPT (b)", ["a", "c d", "st"]),
        ("* except(`c d`, A, a)", ["B", "st"]),
    ],
)
def test_columns(text: str, names: list[str]) -> None:
    projection = compile_projection([text], ROWS.schema)
    assert projection.schema.names == names
    assert projection.evaluate(ROWS).equals(ROWS.select(names))


def test_a_column_left_out_can_be_made_again() -> None:
    projection = compile_projection(["* EXCEPT (b, st)", "b + 1 AS b"], ROWS.schema)
    assert projection.evaluate(ROWS).to_pylist() == [{"a": 1, "c d": 3, "b": 3}]


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("* EXCEPT (zz)", ["unknown column 'zz'", "a, B, c d, st"]),
        ("* EXCEPT (b, b)", ["'b' is left out twice"]),
        ("* EXCEPT (st.x)", ["not 'st.x'", "name whole columns"]),
        ("* EXCEPT (a + 1)", ["a + 1"]),
        ("* EXCLUDE (b)", ["EXCLUDE is not Spark SQL", "write * EXCEPT (column, ...)"]),
        ("* REPLACE (1 AS b)", ["* REPLACE (...) is not supported", "name the columns"]),
        ("* RENAME (b AS q)", ["* RENAME (...) is not supported", "name the columns, with AS"]),
        ("* ILIKE 'a%'", ["* ILIKE is not supported", "name the columns"]),
        ("* EXCEPT (b) REPLACE (1 AS a)", ["* REPLACE (...) is not supported"]),
        ("* AS q", ["a star with the name 'q'"]),
        ("concat(* EXCEPT (b))", ["a star is not supported", "position 8"]),
    ],
)
def test_refused(text: str, needles: list[str]) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_projection([text], ROWS.schema)
    for needle in needles:
        assert needle in str(caught.value)
