"""Which operator binds tighter, and what Spark's parser does not read: both sides answer alike, or both refuse."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.answers import Refused
from stretto.bench.fuzz.judging import judge
from stretto.bench.fuzz.sparks import SparkOracle
from stretto.bench.fuzz.terms import literal
from stretto.expressions.other_grammars import BEGINS_CLAUSE

ROWS = pa.record_batch(
    {
        "a": pa.array([1, 2, None]),
        "s": pa.array(["a", None, "b"]),
        "x": pa.array([True, False, True]),
        "y": pa.array([False, False, None]),
        "z": pa.array([True, True, False]),
        "bin": pa.array([1, 2, 3]),
        "array": pa.array([1, 2, 3]),
    }
)
ANSWERED = (
    "a > 1 IN (true)", "a > 1 NOT IN (true)", "a = 1 IS NULL", "a = 1 IS TRUE", "a = 1 IS NOT FALSE",
    "NOT a = 1 IS TRUE", "a = 1 BETWEEN false AND true", "a > 1 LIKE 'true'", "s = 'a' RLIKE 'true'",
    "s = 'a' ILIKE ANY ('true', 'c')", "s || 'x' LIKE 'ax' AND s = 'a' IS NOT NULL", "x = y < z", "x < y = z",
    "x = y = z", "x <=> y < z", "z = x > y IN (true, y)", "1 + 1 > 1 IN (1 = 1, false)",
    "1 = 1 IN (1 = 1, false) AND true OR 2 > 1 IN (false)", "a = 1 IS DISTINCT FROM true",
    "a = 1 IS NOT DISTINCT FROM true", "a !< 1 IN (true)", "CASE WHEN a > 1 IN (true) THEN 1 END",
    "if(a > 1 IN (true), 1, 2)", "transform(array(a), v -> v > 1 IN (true))", "a IN (1, 2) AND a IN (2)",
    "NOT a IN (1)", "x IN (NOT y, true)", "x NOT IN (NOT y, true) AND x IS NOT NULL", "NOT x = y", "x AND NOT y",
    "8 | (bin(1))", "8 | `bin`", "`left`('12', 1) | 8", "left('12', 1) | 8", "8 || left('12', 1)", "8 | 0 + bin",
    "1 >> size(array(1))", "size(`array`(1)) >> 1", "`array` >> 1", "int(size(array(1)) > 0) >> 1",
    "int(8 >> 1 > 0) >> size(array(1))", "size(array(8)) > 1 AND 8 >> 1 > 1", "8 >> 1 >> 1 > 0", "8 >>> 1 > 0",
    "size(cast(null as array<array<int>>)) >> 1",
)  # fmt: skip
REFUSED = (
    "a BETWEEN 1 AND 2 = true", "a IN (1) = true", "a IN (1) IS TRUE", "a IS NULL IS NULL", "a IS NULL = true",
    "a IN (1) = a IN (1)", "x = NOT y", "x = NOT y IN (true)", "x = ! y", "x BETWEEN NOT y AND x",
    "8 | bin(1)", "8 | bin", "8 | left('12', 1)", "8 | Aggregate(array(1), 0, (v, w) -> v + w)",
    "size(array(1)) >> 1", "size(map(1, 2)) >>> 1", "array >> 1",
    "int(8 > 1) >> size(array(2)) >>> 1", "size(array(8 >> 1))",
)  # fmt: skip


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> SparkOracle:
    return SparkOracle(spark)


def test_operators_bind_as_in_spark(oracle: SparkOracle) -> None:
    theirs = oracle.answers(list(ANSWERED), ROWS)
    mine = [ours.answer(text, ROWS) for text in ANSWERED]
    verdicts = [judge(literal(text, ""), *each) for text, *each in zip(ANSWERED, mine, theirs, strict=True)]
    assert {text: each.disagreement for text, each in zip(ANSWERED, verdicts, strict=True) if each.disagreement} == {}
    assert not [text for text, each in zip(ANSWERED, mine, strict=True) if isinstance(each, Refused)]


def test_both_refuse(oracle: SparkOracle) -> None:
    kinds = oracle.kinds(list(REFUSED), ROWS)
    assert [text for text, kind in zip(REFUSED, kinds, strict=True) if not isinstance(kind, Refused)] == []
    assert [text for text in REFUSED if ours.kind(text, ROWS.schema) is not None] == []


def test_words_that_spark_does_not_read_after_a_bar(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    words = jvm.org.apache.spark.sql.catalyst.parser.SqlBaseLexer.VOCABULARY
    named = {words.getSymbolicName(number) for number in range(1, words.getMaxTokenType() + 1)} - {None}

    def reads(text: str) -> bool:
        try:
            parser.parseExpression(text)
        except ParseException:
            return False
        return True

    keywords = sorted(name for name in named if re.fullmatch("[A-Z_]+", name) and reads(name))
    assert len(keywords) > 300
    unread = {name for name in keywords if not reads(f"1 | {name}")}
    assert {name for name in BEGINS_CLAUSE if reads(name)} == unread
