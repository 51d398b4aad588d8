"""What Spark's own classes say of functions: which are NULL if an argument is, and when they are constants.

The tables in `expressions/folding.py` say the same; `test_found_by_fuzzing.py` has what follows from it.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stretto.expressions.folding import NEVER_FOLDED, OPTIMIZED, TAKES_NULLS, folds_of, takes_nulls
from stretto.expressions.functions import FUNCTIONS
from stretto.expressions.nodes import Folds

ROWS = """SELECT * FROM VALUES (1, 2.5D, 'a', date'2020-01-01', array(1), map('a', 1), X'61'),
(NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS t(i, x, s, d, a, m, n)"""
# Of columns, so that nothing is folded.
CALLS = """
array(i, i) | array_append(a, i) | array_compact(a) | array_insert(a, i, i) | array_join(a, s) | array_prepend(a, i)
array_repeat(i, i) | array_size(a) | arrays_zip(a, a) | btrim(s) | btrim(s, s) | cardinality(a)
coalesce(i, i + 1) | concat(s, s) | concat(a, a) | concat_ws(s, s) | date_trunc(s, d) | decode(s, s, s) | elt(i, s, s)
equal_null(i, i + 1) | format_string(s, i) | get_json_object(s, s) | greatest(i, i + 1) | hash(i) | ifnull(i, i + 1)
isnan(x) | isnotnull(i + 1) | isnull(i + 1) | least(i, i + 1) | locate(s, s) | locate(s, s, i) | ltrim(s, s)
map(i, i) | map_concat(m, m) | mask(s) | named_struct('a', i) | nanvl(x, x + 1) | nullifzero(i)
nvl(i, i + 1) | position(s, s) | printf(s, i) | raise_error(s) | round(x) | bround(x, 1) | rtrim(s, s)
sequence(i, i) | size(a) | to_unix_timestamp(s) | trim(s) | trunc(d, s) | unix_timestamp(s, s) | xxhash64(i)
zeroifnull(i) | ceil(x, 1) | floor(x, 1) | to_date(s, s) | to_timestamp(s, s) | to_timestamp_ltz(s, s)
try_to_timestamp(s, s) | assert_true(i > 1)
power(x, x) | upper(s) | substring(s, i) | lpad(s, i, s) | abs(i) | date_add(d, i) | split(s, s)
regexp_replace(s, s, s) | regexp_like(s, s) | element_at(a, i) | array_contains(a, i) | slice(a, i, i) | map_keys(m)
sort_array(a) | sha2(n, i) | make_date(i, i, i) | months_between(d, d) | add_months(d, i) | next_day(d, s) | unhex(s)
conv(s, 10, i) | translate(s, s, s) | width_bucket(x, x, x, i) | shiftleft(i, i) | levenshtein(s, s)
levenshtein(s, s, i) | substring_index(s, s, i)
str_to_map(s) | arrays_overlap(a, a) | flatten(array(a, a)) | array_max(a) | array_remove(a, i) | map_from_arrays(a, a)
from_unixtime(i, s) | ceil(x) | floor(x) | encode(s, s) | decode(n, s) | url_decode(s) | instr(s, s) | ascii(s)
format_number(x, i) | soundex(s) | reverse(s) | reverse(a) | sign(x) | date_format(d, s) | to_date(s) | repeat(s, i)
to_binary(s) | parse_url(s, s) | try_parse_url(s, s, s) | to_number(s, '9') | to_char(i, '9')
try_add(i, i) | try_divide(s, i) | try_element_at(a, i) | split_part(s, s, i) | left(s, i) | overlay(s, s, i)
"""
# Of constants, for which Spark says whether they are one.
CONSTANTS = """
array_append(array(1), 1) | array_compact(array(1)) | array_prepend(array(1), 1) | array_size(array(1)) | btrim('a')
date_part('year', date'2020-01-01') | datepart('year', date'2020-01-01') | decode('a', 'b', 'c') | encode('a', 'UTF-8')
equal_null(1, 1) | ifnull(1, 2) | ilike('a', 'b') | is_valid_utf8('a') | left('a', 1) | luhn_check('1')
make_valid_utf8('a') | map_contains_key(map('a', 1), 'a') | nullif(1, 2) | nullifzero(1) | nvl(1, 2) | nvl2(1, 2, 3)
regexp_count('a', 'b') | regexp_substr('a', 'b') | right('a', 1) | split_part('a', 'b', 1) | to_date('2020-01-01')
to_timestamp('2020-01-01') | to_timestamp_ltz('2020-01-01') | try_add(1, 2) | try_divide(1, 2)
try_element_at(array(1), 1) | try_make_timestamp(2020, 1, 1, 1, 1, 1) | try_mod(1, 2) | try_multiply(1, 2)
try_subtract(1, 2) | try_to_date('2020-01-01') | try_to_timestamp('2020-01-01') | try_url_decode('a')
try_validate_utf8('a') | url_decode('a') | url_encode('a') | validate_utf8('a') | zeroifnull(1)
array_sort(array(1)) | assert_true(true) | current_timezone() | elt(1, 'a') | map_concat(map('a', 1)) | raise_error('a')
upper('a') | power(1D, 2D) | coalesce(1, 2) | concat('a', 'b') | substring('a', 1) | element_at(array(1), 1) | array(1)
date_add(date'2020-01-01', 1) | round(1.5, 1) | conv('1', 10, 2) | trim('a') | greatest(1, 2) | size(array(1)) | hash(1)
isnull(1) | to_unix_timestamp('a') | sequence(1, 2)
locate('a', 'b') | levenshtein('a', 'b') | get_json_object('a', 'b') | parse_url('a', 'b') | try_parse_url('a', 'b')
to_binary('1', 'hex') | try_to_binary('1') | try_make_timestamp_ltz(2020, 1, 1, 1, 1, 1)
to_number('1', '9') | to_char(1, '9') | to_varchar(1, '9') | try_to_number('1', '9')
"""
REPLACED_BY_SEVERAL = ("decode(", "equal_null", "nullifzero", "assert_true", "arrays_zip")
"""Calls whose root, after they are replaced, is another form."""


def calls(texts: str) -> list[str]:
    return [text.strip() for line in texts.strip().splitlines() for text in line.split(" | ")]


def named(text: str) -> str:
    return text.partition("(")[0]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    # Rows at hand would be evaluated before anything is optimized.
    rule = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    return spark.sql(ROWS)


def expressions(frame: DataFrame, texts: list[str], stage: str) -> dict[str, Any]:
    """Returns Spark's expressions at a stage of planning, without their names."""
    plan = getattr(frame.selectExpr(*texts)._jdf.queryExecution(), stage)()
    found = [plan.expressions().apply(place) for place in range(len(texts))]
    return {
        text: each.children().apply(0) if each.getClass().getSimpleName() == "Alias" else each
        for text, each in zip(texts, found, strict=True)
    }


def test_functions_take_nulls_as_sparks_classes_say(frame: DataFrame) -> None:
    found = expressions(frame, calls(CALLS), "optimizedPlan")
    # to_date with a pattern is a cast of what takes nulls.
    roots = {
        text: each.children().apply(0) if text == "to_date(s, s)" else each
        for text, each in found.items()
        if not text.startswith(REPLACED_BY_SEVERAL)
    }
    theirs = {text: not each.nullIntolerant() for text, each in roots.items()}
    mine = {text: takes_nulls(named(text), text.count(",") + 1) for text in roots}
    assert {text: takes for text, takes in mine.items() if takes != theirs[text]} == {}


def test_functions_are_constants_when_spark_says_so(frame: DataFrame) -> None:
    analysed = expressions(frame, calls(CONSTANTS), "analyzed")
    theirs = {text: bool(each.foldable()) for text, each in analysed.items()}
    mine = {text: folds_of(named(text)) is Folds.ANALYSED for text in analysed}
    assert mine == theirs


def test_every_name_is_of_a_function_and_asked() -> None:
    asked, of_constants = {named(text) for text in calls(CALLS)}, {named(text) for text in calls(CONSTANTS)}
    assert {*FUNCTIONS, "struct", "arrays_zip"} >= TAKES_NULLS | OPTIMIZED | NEVER_FOLDED
    assert of_constants >= OPTIMIZED | NEVER_FOLDED
    assert TAKES_NULLS - asked == {"array_sort", "nullif", "nvl2", "struct", "typeof"}
