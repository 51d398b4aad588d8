"""Answers of Spark that the fuzzer once found different here. The twin in tests/spark asks Spark itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stretto.bench.fuzz.aggregates import grouped, our_answer
from stretto.bench.fuzz.answers import Answered, Failure
from stretto.bench.fuzz.plain import plain_values
from stretto.bench.fuzz.terms import literal
from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name

ROWS = pa.record_batch(
    {
        "s": pa.array(["x"]),
        "h": pa.array([None], pa.int16()),
        "n": pa.array([-9223372036854775807], pa.int64()),
        "f": pa.array([1.5], pa.float32()),
        "ai": pa.array([[-1045835680, -33205015, -1, None, 1654]], pa.list_(pa.int32())),
        "ad": pa.array([[]], pa.list_(pa.decimal128(10, 2))),
        "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "mi": pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())),
    }
)
LAST = 2**63 - 1
ANSWERS: dict[str, tuple[str, Any]] = {
    "n > 1 in (false)": ("boolean", True),
    "false = false < false": ("boolean", False),
    f"n - n in (cast(0.0000000000001BD as decimal(38,18)), raise_error(s), {'9' * 38})": ("boolean", True),
    "1.00000000000000001BD in (1BD, double(f), int(s))": ("boolean", True),
    "nullif(timestamp_seconds(h), date_add(date'1970-01-01', if(n = 5, 0, 2147483647)))": ("timestamp", None),
    "abs(cast(n - 1 as decimal(38,0)))": ("decimal(38,0)", Decimal(2**63)),
    "cast(cast(n - 1 as decimal(38,0)) / 100BD as bigint)": ("bigint", -92233720368547758),
    "timestampdiff(DAY, timestamp_micros(n - 1), timestamp_micros(0))": ("bigint", 106751991),
    "timestampdiff(SECOND, timestamp_micros(n - 1), timestamp_micros(9223372036854775807))": ("bigint", 18446744073709),
    "next_day(date_add(date'1970-01-01', 2147483647), 'tu')": ("date", -2147483645),
    "overlay('abc', '', -2147483648, 0)": ("string", "abc"),
    "array_contains(array(2147483647), float(2147483647))": ("boolean", True),
    "map_contains_key(map(2147483647, 1), float(2147483647))": ("boolean", True),
    "cast(-9223372036855L as timestamp)": ("timestamp", -LAST - 1),
    "make_date(h, s, 1)": ("date", None),
    "slice(cast(null as array<int>), s, 1)": ("array<int>", None),
    "array_append(cast(null as array<int>), minute(s))": ("array<int>", None),
    "locate('a', minute(s), h)": ("int", 0),
    "try_multiply(s, 2)": ("bigint", None),
    "levenshtein('kitten', 'sitting', h)": ("int", None),
    "ai[n]": ("int", -33205015),
    "array_append(array(1), f)": ("array<float>", [1.0, 1.5]),
    "array_sort(ai, (v, w) -> case when v < w then 1 when v > w then -1 else 0 end)": (
        "array<int>",
        [1654, -1, -33205015, -1045835680, None],
    ),
    "cast(9223372036854775807L as timestamp)": ("timestamp", LAST),
    "cast(9999999999999999999BD as timestamp)": ("timestamp", 1590897978358414784),
    "cast(99999999999999999999.999999999999999999BD as timestamp)": ("timestamp", -2537764290115403776),
    "timestamp_seconds(1e300D)": ("timestamp", LAST),
    "timestamp_seconds(double('NaN'))": ("timestamp", None),
    "date'1970-01-01' - cast(-32768 as smallint)": ("date", 32768),
    "floor(null, 2)": ("decimal(23,2)", None),
    "typeof(interval 5 seconds)": ("string", "interval second"),
    "printf('%s', 0.0000005)": ("string", "5E-7"),
    "cast('epoch' as timestamp)": ("timestamp", 0),
    "from_json('{\"a\": \"7\"}', 'a DATE')": ("struct<a:date>", (7,)),
    "null / 1.5": ("double", None),
    "repeat(s, round(h, null))": ("string", None),
    "repeat(s, try_divide(h, 0))": ("string", None),
    "repeat(string(null), length(s))": ("string", None),
    "try_cast(12345678901234567890.12 as boolean)": ("boolean", True),
    "typeof(nvl2(interval 2 years, interval 1 month, interval 1 month))": ("string", "interval month"),
    "conv('\ufb01', 16, 10)": ("string", "0"),
    "9999999999999999999999999999999999999 div 0.1": ("bigint", 687399551400673270),
    "array_join(raise_error(s), null)": ("string", None),
    "soundex(raise_error(s))": ("string", None),
    "n !< 2": ("boolean", False),
    "n!>2 and h!<2": ("boolean", None),
    "n = 1 is true": ("boolean", False),
    "(n not in (1)) is true": ("boolean", True),
    "s like 'x!%' escape '!' and not s is null": ("boolean", False),
    "element_at(mi, decimal(1.0))": ("string", "a"),
    "map_contains_key(mi, 1.5)": ("boolean", False),
    "map_from_arrays(array(-0.0D), array(1))": ("map<double,int>", [(-0.0, 1)]),
    "aggregate(cast(null as array<int>), int(s), (total, z) -> z)": ("int", None),
    "1.5 / null": ("decimal(8,6)", None),
    "99999999999999999999 > h": ("boolean", True),
    "cast(null as bigint) >= 99999999999999999999.5": ("boolean", False),
    "99999999999999999999 = h": ("boolean", None),
    "timestampadd(MONTH, 9223372036854775807, cast(h as timestamp))": ("timestamp", None),
    "make_ym_interval(1, h + 1)": ("interval year to month", None),
    "sequence(date'2020-01-01', date'2020-01-03', interval '36' hour)": ("array<date>", [18262, 18263]),
    "sequence(date'2020-01-03', date'2020-01-01', interval '-36' hour)": ("array<date>", [18264, 18262]),
    "make_timestamp(2020, 1, 1, 1, 1, -2147483648)": ("timestamp", 1577840460000000),
    "make_timestamp(2020, 1, 1, 1, 1, 4294967297.5)": ("timestamp", 1577840461500000),
    "raise_error(s) <=> s": ("boolean", False),
    "s = raise_error(s)": ("boolean", None),
    "nullif(s, raise_error(s))": ("string", "x"),
    "round(1 div 0, null) + (1 div 0)": ("bigint", None),
    "date_add(raise_error(s), 1)": ("date", None),
    "date_sub(date'2020-01-01', raise_error(s))": ("date", None),
    "dateadd(MICROSECOND, -9223372036854775807 - 1, timestamp_micros(5))": ("timestamp", -LAST + 4),
    "dateadd(DAY, 159935176, timestamp_micros(-9223372036854775807))": ("timestamp", 4595027169545224193),
    "timestampadd(WEEK, 30500568, timestamp_micros(-9223372036854775807))": ("timestamp", 9223371489545224193),
    "timestampadd(WEEK, n, cast(h as timestamp))": ("timestamp", None),
    "timestampadd(HOUR, n, cast(h as timestamp))": ("timestamp", None),
    "sequence(date'2020-01-31', date'2020-03-31', interval 1 month)": ("array<date>", [18292, 18321, 18352]),
    "sequence(timestamp_micros(10), timestamp_micros(-172799999989), interval '-1' day)": (
        "array<timestamp>",
        [10, -86399999990, -172799999990],
    ),
    "from_json('\u00a0', 'x int')": ("struct<x:int>", (None,)),
    "from_json(' \t', 'x int')": ("struct<x:int>", None),
    "(1 div 0) + abs(null)": ("double", None),
    "(n div 0) + length(concat_ws(null, null))": ("bigint", None),
    "(n div 0) + extract(YEAR FROM null)": ("bigint", None),
    "(n div 0) + if(true, null, h)": ("bigint", None),
    "'' and (not true)": ("boolean", False),
    "array_insert(ai, h, 1 div 0)": ("array<bigint>", None),
    "format_string(string(h), 1 div 0)": ("string", None),
    "try_add('a', 1)": ("bigint", None),
    "conv('11', nvl(2, 10), 10)": ("string", "3"),
    "raise_error(s) and null": ("boolean", None),
    "1 in (1, raise_error(s))": ("boolean", True),
    "sort_array(ai, raise_error(s))": ("array<int>", None),
    "nanvl(f, null)": ("float", 1.5),
    "date_trunc(array_join(ai, s, null), timestamp'2020-01-01')": ("timestamp", None),
    "string(if(true, interval '1' day, f * interval '1' day))": ("string", "INTERVAL '1 00:00:00' DAY TO SECOND"),
    "array_distinct(array(struct(array(-0.0D)), struct(array(0.0D))))": (
        "array<struct<col1:array<double>>>",
        [([0.0],)],
    ),
}
FAIL = (
    "make_date(s, h, 1)", "pow(s, h)", "width_bucket(1, 'abc', h, 2)", "date_add(s, h)", "slice(ai, s, h)", "s | h",
    "timestamp_seconds(1.1234567BD)", "timestamp_seconds(9223372036854775807L)",
    "add_months(date'2020-01-01', -2147483648)",
    "try_to_date('20200229', 'y')", "try_make_timestamp(300000, 1, 1, 1, 1, 1)",
    "99999999999999999999999999999999999999 div 0.01",
    "raise_error(s) + 1", "abs(raise_error(s))", "- raise_error(s)", "1 ^ raise_error(s)",
    "rtrim(null, string(date(s)))", "locate(string(date(s)), null)", "timestampadd(MONTH, n, timestamp'2020-01-01')",
    "sequence(date'2020-03-02', date'2020-03-02', interval '0' day)",
    "try_make_timestamp(s, h, 1, 1, 1, 1)", "if(raise_error(s), 1, 2)", "get(ai, n)",
    "sequence(date'2020-01-01', date'2020-01-03', interval '12' hour)",
    "make_timestamp(2020, 1, 1, 1, 1, -2147483648.5)",
    "dateadd(DAY, 2147483648, timestamp_micros(n))", "dateadd(DAY, 213503983, timestamp_micros(n))",
    "timestampadd(HOUR, 2562047789, timestamp_micros(n))",
    "dateadd(DAY, raise_error(s), timestamp'2020-01-01')", "dateadd(MICROSECOND, n, timestamp_micros(-2))",
    "(1 div 0) + round(h, null)", "pow(s, bround(n, null))",
    "raise_error(s) <=> 1", "null <=> raise_error(s)", "s in (raise_error(s))", "raise_error(s) in (1)",
    "'' and (1 = 2)", "(1 div 0 = 1) or (1 = 1)",
    "(n div 0) + length(array_join(ai, s, null))", "int(s) + locate(s, null)", "sequence(int(s), null)",
    "(n div 0) + length(elt(1, null))", "elt(raise_error(s), s)", "locate(s, s, raise_error(s))",
    "interval '1' day in (raise_error(s), interval '1' day)", "date_sub('b', try_add(',', interval '1' day))",
    "map(timestamp_micros(9223372036854775807), 1, timestamp_micros(9223372036854775807), 2)",
    "shiftrightunsigned(' ', decode('', 'US-ASCII', ' '))",
    "get_json_object(null, string(date(s)))", "encode(string(h), string(date(s)))", "btrim(string(date(s)), null)",
    "date('') <= try_cast('b' as date)", "(1 div 0) + try_cast('b' as int)", "make_ym_interval(178956971, -100)",
    "timestampdiff(MICROSECOND, timestamp_micros(-2), timestamp_micros(9223372036854775807))",
    "months_between(timestamp_micros(n), timestamp'2020-02-29')", "make_dt_interval(106751992, -24)",
    "sequence(date'2020-03-02', date'2020-03-02', interval 1 month * -2147483646)",
    "to_unix_timestamp('-0', 'y')", "int(current_timezone()) + greatest(null, null)",
    "array_insert(ai, 2147483647, 1)", "sequence(date'2020-06-30', date'2020-01-31', interval 1 month)",
)  # fmt: skip
REFUSED = (
    "round(f, if(null, null, nvl2(null, null, null)))", "round(f, if(true, 1, h))", "round(f, nvl(null, null) + 1)",
    "round(f, int(1 in (nvl(null, null))))", "n | left(s, 1)", "size(array(1)) >> 1", "true = not (n > 1)",
    "true = 2 > 1",
    "array_append(ad, f)", "array_union(ad, ai)", "ad <= ai", "array(m, mi)", "null <=> m", "m = null", "chr(true)",
    "mask(1)", "soundex(h)", "raise_error(ai)", "unix_date(s)", "m[m]", "element_at(ai, null)",
    "timestampadd('DAY', 1, timestamp'2020-01-01')", "timestampdiff(1, s, s)", "array_position(null, null)",
    "round(f, null + n)", "bround(f, n * null)", "round(f, raise_error(s))", "floor(f, null + n)",
    "regexp_replace(s, 'a', 'b', ifnull(null, null))", "round(f, elt(1, 1))", "null in (ai, n)",
    "round(f, int(1 between 1 and 2))", "n in (1) is true", "n not in (1) is null", "s is null = true",
    "s like 'x' is true", "(n) not in (1) is true", "n is null is true", "n between 1 and 2 is true",
    "element_at(mi, 1.5)", "try_element_at(mi, cast(1 as decimal(10,2)))",
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ANSWERS.items())
def test_answers_are_sparks(text: str, expected: tuple[str, Any]) -> None:
    scalar = compile_scalar(text, ROWS.schema)
    assert (spark_type_name(scalar.type), plain_values(scalar.evaluate(ROWS))[0]) == expected


@pytest.mark.parametrize("text", FAIL)
def test_it_fails_where_spark_does(text: str) -> None:
    scalar = compile_scalar(text, ROWS.schema)
    with pytest.raises(ExpressionError):
        scalar.evaluate(ROWS)


@pytest.mark.parametrize("text", ["format_string('%s', lower(x))", "printf('%s', cot(x - x))", "printf('%f', asin(y))"])
def test_infinity_and_nan_raise_no_warning(text: str) -> None:
    rows = pa.record_batch({"x": pa.array([float("nan"), 1.0], pa.float32()), "y": [2.0, float("inf")]})
    assert len(compile_scalar(text, rows.schema).evaluate(rows)) == 2


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_as_in_spark(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_scalar(text, ROWS.schema)


GROUP = pa.record_batch(
    {
        "s": pa.array(["", "1", None]),
        "n": pa.array([None, None, None], pa.int64()),
        "z": pa.array([0.0, -0.0, 0.0]),
    }
)
AGGREGATES: dict[str, Any] = {
    "corr(null, s)": None,
    "corr(n, s)": None,
    "regr_count(null, s)": 0,
    "regr_sxx(s, null)": None,
    "regr_syy(n, s)": None,
    "regr_r2(n, s)": None,
    "percentile(z, 0.0)": -0.0,
    "percentile(z, 0.25)": -0.0,
    "percentile(z, 0.5)": 0.0,
    "median(-z)": -0.0,
    "percentile_approx(z, 0.25)": -0.0,
    "percentile_approx(float(z), 0.5)": 0.0,
    "approx_count_distinct(int(s)) FILTER (WHERE s <> '')": 1,
    "count(int(s)) FILTER (WHERE s <> '')": 1,
    "bit_xor(assert_true(n > 0))": None,
    "max(DISTINCT int(s)) FILTER (WHERE s <> '')": 1,
    "count(null) FILTER (WHERE int(s) = 1)": 0,
    "approx_count_distinct(null) FILTER (WHERE int(s) = 1)": 0,
    "count(DISTINCT 8 >> 1, coalesce(n >> 1, 3))": 1,
}
AGGREGATES_FAIL = (
    "corr(s, n)",
    "regr_count(s, null)",
    "regr_slope(null, s)",
    "regr_syy(s, n)",
    "count(DISTINCT int(s)) FILTER (WHERE s <> '')",
    "count(DISTINCT n, int(s)) FILTER (WHERE s <> '')",
    "sum(DISTINCT int(s)) FILTER (WHERE s <> '')",
    "sum(null) FILTER (WHERE int(s) = 1)",
    "max(cast(null as int)) FILTER (WHERE int(s) = 1)",
)


def aggregated(text: str) -> Any:
    answer = our_answer(grouped(literal(text, ""), []), GROUP)
    assert isinstance(answer, Answered)
    return answer.rows[0]


@pytest.mark.parametrize(("text", "expected"), AGGREGATES.items())
def test_aggregates_are_sparks(text: str, expected: Any) -> None:
    assert repr(aggregated(text)) == repr((expected,))  # The sign of a zero counts.


@pytest.mark.parametrize("text", AGGREGATES_FAIL)
def test_an_aggregate_fails_where_sparks_does(text: str) -> None:
    found = aggregated(text)
    assert isinstance(found, Failure)
    assert not found.crash
