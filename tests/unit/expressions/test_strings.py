"""Functions of strings, with Spark's answers; the same over columns of odd texts is in tests/spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name

BATCH = pa.record_batch(
    {
        "s": pa.array(["straße", "a,b;c", None, "", "a\n"]),
        "e": pa.array([",", ";", ",", "", None]),
        "p": pa.array(["ß", "[,;]", "a", "^$", "a$"]),
        "i": pa.array([1, -1, 1, 2, None], pa.int32()),
    }
)
NONE = pa.record_batch([pa.nulls(3, pa.string()), pa.nulls(3, pa.string())], names=["s", "e"])


def evaluated(text: str, batch: pa.RecordBatch = BATCH) -> Any:
    scalar = compile_scalar(text, batch.schema)
    result = scalar.evaluate(batch)
    result.validate(full=True)
    scalar.evaluate(batch.slice(0, 0)).validate(full=True)
    return result.to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("upper(s)", ["STRASSE", "A,B;C", None, "", "A\n"]),
        ("lower(upper(s))", ["strasse", "a,b;c", None, "", "a\n"]),
        ("initcap(s)", ["Straße", "A,b;c", None, "", "A\n"]),
        ("split_part(s, ',', 2)", ["", "b;c", None, "", ""]),
        ("split_part(s, e, i)", ["straße", "c", None, "", None]),
        ("split_part(s, '', 2)", ["", "", None, "", ""]),
        ("s rlike p", [True, True, None, True, True]),
        ("s rlike 'a$'", [False, False, None, False, True]),
        ("s rlike '[a&&b]'", [False, False, None, False, False]),
        ("regexp_replace(s, p, '-')", ["stra-e", "a-b-c", None, "-", "-\n"]),
        ("regexp_extract(s, '(.)[,;](.)', 2)", ["", "b", None, "", ""]),
        ("regexp_extract_all(s, '\\\\w', 0)", [["s", "t", "r", "a", "e"], ["a", "b", "c"], None, [], ["a"]]),
        ("regexp_count(s, p)", [1, 2, None, 1, 1]),
        ("regexp_instr(s, p)", [5, 2, None, 1, 1]),
        ("regexp_substr(s, p)", ["ß", ",", None, None, "a"]),
        ("split(s, p)", [["stra", "e"], ["a", "b", "c"], None, [""], ["", "\n"]]),
        ("split(s, ',', 2)", [["straße"], ["a", "b;c"], None, [""], ["a\n"]]),
        ("s like concat('%', e, '%')", [False, True, None, True, None]),
        ("s ilike 'STRA%'", [True, False, None, False, False]),
        ("s like any ('s%', '%c')", [True, True, None, False, False]),
        ("s not like all ('s%', null)", [False, None, None, None, None]),
    ],
)
def test_over_columns(text: str, values: list[Any]) -> None:
    assert evaluated(text) == values


@pytest.mark.parametrize("text", ["upper(s)", "split_part(s, e, 1)", "s rlike e", "split(s, ',')", "s like 'a_'"])
def test_over_nulls(text: str) -> None:
    assert evaluated(text, NONE) == [None, None, None]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("lower('İ')", "string", "i̇"),
        ("lower('ΑΣ')", "string", "ας"),
        ("upper('ŉ ǰ ﬀ')", "string", "ʼN J̌ FF"),
        ("initcap('ǆ ﬁx o''neil İx')", "string", "ǅ Fix O'neil İx"),
        ("upper(12)", "string", "12"),
        ("upper(date '2020-01-01')", "string", "2020-01-01"),
        ("split_part(NULL, '', 2)", "string", None),
        ("split_part(12.3, '.', 1)", "string", "12"),
        ("'it''s'", "string", "it's"),
        ('"say ""x"""', "string", 'say "x"'),
        ("'a' 'b'", "string", "ab"),
        ("'É' rlike '(?i)é'", "boolean", False),
        ("'É' rlike '(?iu)é'", "boolean", True),
        ("'İ' ilike 'i̇'", "boolean", True),
        ("'STRASSE' ilike 'straße'", "boolean", False),
        ("'a%c' like 'a\\\\%c'", "boolean", True),
        ("123 like '1%'", "boolean", True),
        ("regexp_replace('abc', '(b)', '[$1$1]')", "string", "a[bb]c"),
        ("regexp_replace('abc', '(x)', '[$2]')", "string", "abc"),
        ("regexp_replace('abcabc', '^b', 'X', 2)", "string", "aXcabc"),
        ("regexp_replace('a😀b', '', '-')", "string", "-a-?-?-b-"),
        ("regexp_instr('a😀b', 'b')", "int", 3),
        ("split('abc', '')", "array<string>", ["a", "b", "c"]),
        ("split('abc', 'x*')", "array<string>", ["a", "b", "c", ""]),
        ("split('abc', '', 2)", "array<string>", ["a", "bc"]),
        ("regexp_like(null, 'a')", "boolean", None),
    ],
)
def test_of_constants(text: str, kind: str, value: Any) -> None:
    assert spark_type_name(compile_scalar(text, BATCH.schema).type) == kind
    assert evaluated(text)[0] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("split_part(s, ',', 0)", "index 0"),
        ("s rlike concat(e, '(')", "a bad regular expression"),
        ("s like concat(e, '\\\\')", "a stray escape character"),
        ("regexp_extract(s, 'a', 1)", "no group 1"),
        ("regexp_replace(s, 'a', '$1')", "a bad replacement"),
    ],
)
def test_a_row_that_fails(text: str, words: str) -> None:
    scalar = compile_scalar(text, BATCH.schema)
    with pytest.raises(ExpressionError) as caught:
        scalar.evaluate(BATCH)
    assert words in str(caught.value)
    assert compile_scalar(f"if(s is null, {text}, null)", BATCH.schema).evaluate(BATCH).null_count == len(BATCH)
