"""Aggregate functions over one group, with the results of Spark SQL 4.3 (ANSI mode); partials of any parts agree."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.operators.test_accumulators import results, results_in_parts

from stretto.errors import ExpressionError

NAN, INF = float("nan"), float("inf")
INTS, DOUBLES, TEXTS = pa.int32(), pa.float64(), pa.string()
PAIRS = pa.struct([("a", pa.int32()), ("b", pa.string())])
DURATIONS = pa.duration("us")


@pytest.mark.parametrize(
    ("text", "kind", "values", "expected"),
    [
        ("count(*) FILTER (WHERE x > 1)", INTS, [1, 2, None, 3], 2),
        ("count(*) FILTER (WHERE x > 9)", INTS, [1, 2, None, 3], 0),
        ("sum(1 / x) FILTER (WHERE x <> 0)", INTS, [0, 2], 0.5),
        ("max(x) FILTER (WHERE x < 3)", INTS, [1, 2, None, 3], 2),
        ("max(x) FILTER (WHERE x < 0)", INTS, [1], None),
        ("collect_list(x) FILTER (WHERE x < 3)", INTS, [1, 2, None, 3], [1, 2]),
        ("count(x, x + 1)", INTS, [1, None, 3], 2),
        ("count(DISTINCT x, x % 2)", INTS, [1, 3, 1, None], 2),
        ("count(DISTINCT *)", INTS, [1, 3, 1, None], 2),
        ("count(DISTINCT x) FILTER (WHERE x > 1)", INTS, [1, 3, 3, None], 1),
        ("sum(DISTINCT x)", INTS, [1, 3, 3, None], 4),
        ("sum(DISTINCT x)", DOUBLES, [-0.0], 0.0),
        ("sum(DISTINCT x)", INTS, [None], None),
        ("sum(DISTINCT x) FILTER (WHERE x < 0)", INTS, [1], None),
        ("avg(DISTINCT x)", INTS, [1, 3, 3, None], 2.0),
        ("avg(DISTINCT x)", pa.decimal128(5, 1), [Decimal("1.1"), Decimal("1.1"), Decimal("0.9")], Decimal("1.00000")),
        ("max(DISTINCT x)", INTS, [1, 3, 3], 3),
        ("collect_list(DISTINCT x)", INTS, [3, 1, 3, None], [1, 3]),
        ("stddev(DISTINCT x)", INTS, [1, 2, 2], 0.7071067811865476),
        ("count_if(x > 1)", INTS, [1, 2, None, 3], 2),
        ("count_if(DISTINCT x > 1)", INTS, [1, 2, None, 3], 1),
        ("bool_and(x > 0)", INTS, [1, None], True),
        ("every(x > 1)", INTS, [1, 2], False),
        ("any(x > 1)", INTS, [1, 2], True),
        ("some(x > 2) FILTER (WHERE x < 2)", INTS, [1, 2], False),
        ("bool_or(x > 2)", INTS, [None], None),
        ("bit_and(x)", pa.int8(), [1, 7, None], 1),
        ("bit_or(x)", pa.int8(), [1, 6, None], 7),
        ("bit_xor(x)", pa.int64(), [1, 7, 7, 7], 6),
        ("bit_xor(DISTINCT x)", INTS, [1, 1, 2], 3),
        ("bit_and(x)", pa.int64(), [None], None),
        ("var_pop(x)", INTS, [3, 3], 0.0),
        ("stddev(x)", INTS, [1], None),
        ("stddev_pop(x)", INTS, [1], 0.0),
        ("var_pop(x)", INTS, [None], None),
        ("skewness(x)", INTS, [3, 3], None),
        ("kurtosis(x)", DOUBLES, [0.1, 0.1, 0.1], None),
        ("variance(x)", DOUBLES, [3.0, INF], NAN),
        ("var_pop(x)", DOUBLES, [INF], NAN),
        ("stddev_pop(x)", DOUBLES, [3.0, NAN], NAN),
        ("covar_pop(x, x)", INTS, [1], 0.0),
        ("covar_samp(x, x)", INTS, [1], None),
        ("corr(x, x)", INTS, [3, 3], None),
        ("corr(x, 1)", DOUBLES, [NAN, 2.0], None),
        ("regr_avgy(x, 1) FILTER (WHERE x > '5')", TEXTS, ["7", "1x"], 7.0),
        ("regr_count(x, x)", INTS, [1, None, 2], 2),
        ("regr_avgx(x, 2 * x)", INTS, [1, None, 2], 3.0),
        ("regr_slope(x, x)", INTS, [1], None),
        ("regr_r2(3, x)", INTS, [2, 3], 1.0),
        ("regr_sxx(x, x)", INTS, [None], None),
        ("collect_set(x)", DOUBLES, [-0.0, 0.0, NAN, NAN, None], [0.0, NAN]),
        ("collect_set(x)", TEXTS, ["b", "a", None, "b"], ["a", "b"]),
        ("collect_set(x)", TEXTS, [None], []),
        ("array_agg(x)", INTS, [3, None, 1], [1, 3]),
        ("approx_count_distinct(x)", INTS, [3, None, 1, 3], 2),
        ("approx_count_distinct(x, 0.1)", INTS, [3, None, 1, 3], 2),
        ("any_value(x)", INTS, [None, 3], 3),
        ("mode(x)", INTS, [3, 2, 1, None], 1),
        ("mode(x)", INTS, [3, 2, 2, None], 2),
        ("mode() WITHIN GROUP (ORDER BY x DESC)", INTS, [3, 2, 1], 3),
        ("mode(x)", TEXTS, [None], None),
        ("mode(x)", DOUBLES, [-0.0, 0.0, 1.0], 0.0),
        ("median(x)", INTS, [1, 2, 4, None, 3], 2.5),
        ("median(x)", pa.int64(), [2**53 + 1], 2.0**53),
        ("quantile(x, 0.5)", pa.int64(), [2**63 - 1, 2**63 - 1], 2.0**63),
        ("percentile(x, 0.7)", DOUBLES, [0.1, 0.7, 0.9, 1.3], 0.9399999999999998),
        ("percentile_cont(0.1) WITHIN GROUP (ORDER BY x)", DOUBLES, [0.1, 0.7, 0.9, 1.3], 0.28),
        ("percentile_approx(x, 0.5)", INTS, [1, 2, 3, 4, 5], 3),
        ("percentile_approx(x, 0.25)", INTS, [1, 2, 3, 4, 5], 2),
        ("percentile_approx(x, 0)", pa.decimal128(2, 1), [Decimal("2.5"), Decimal("1.5")], Decimal("1.5")),
        ("approx_percentile(x, 0.5, 100)", pa.date32(), [date(2020, 1, 1), date(2021, 1, 1)], date(2020, 1, 1)),
        ("percentile_approx(x, 0.5)", pa.int64(), [2**53 + 1], 2**53),
        ("percentile_approx(x, 0.5)", pa.int64(), [None], None),
        ("try_sum(x)", pa.int64(), [2**63 - 1, 1], None),
        ("try_sum(x)", pa.int64(), [2**63 - 1, 1, -1], 2**63 - 1),
        ("try_sum(x)", pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)], None),
        ("sum(x)", pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1), Decimal(-1)], Decimal(10**38 - 1)),
        ("try_avg(x)", pa.decimal128(38, 0), [Decimal(10**38 - 1)], None),
        ("try_avg(x)", INTS, [1, 2], 1.5),
        ("sum(x)", TEXTS, ["1", None, "2.5"], 3.5),
        ("sum(x)", DURATIONS, [timedelta(days=1), None, timedelta(days=2)], timedelta(days=3)),
        ("avg(x)", DURATIONS, [timedelta(microseconds=1), timedelta(microseconds=2)], timedelta(microseconds=2)),
        ("avg(x)", DURATIONS, [timedelta(microseconds=-1), timedelta(microseconds=-2)], timedelta(microseconds=-2)),
        ("avg(x)", DURATIONS, [None], None),
        ("max(x)", DURATIONS, [timedelta(days=1), timedelta(days=2)], timedelta(days=2)),
        ("max(x)", PAIRS, [{"a": 1, "b": "p"}, {"a": 1, "b": None}, None], {"a": 1, "b": "p"}),
        ("min(x)", PAIRS, [{"a": 1, "b": "p"}, {"a": 1, "b": None}, None], {"a": 1, "b": None}),
        ("max(x)", pa.list_(INTS), [[1, 2], [1], [1, None], None], [1, 2]),
        ("min(x)", pa.list_(INTS), [[1, 2], [1], [1, None], None], [1]),
        ("max(x.a)", PAIRS, [{"a": 1, "b": "p"}, {"a": 3, "b": None}, None], 3),
        ("listagg(x, ',') WITHIN GROUP (ORDER BY x DESC)", TEXTS, ["x", "y", "y", None], "y,y,x"),
        ("listagg(x, ',')", TEXTS, ["y", "x", None, "y"], "x,y,y"),
        ("string_agg(DISTINCT x, ',')", INTS, [10, 9, None, 10], "9,10"),
        ("string_agg(x) WITHIN GROUP (ORDER BY x)", TEXTS, ["y", "x", "y", None], "xyy"),
        ("listagg(DISTINCT x, ',') WITHIN GROUP (ORDER BY x)", TEXTS, ["y", "x", "y", None], "x,y"),
        ("listagg(x, '-') WITHIN GROUP (ORDER BY x) FILTER (WHERE x > 1)", INTS, [3, 2, 1], "2-3"),
        ("listagg(x) WITHIN GROUP (ORDER BY x)", TEXTS, [None], None),
    ],
)  # fmt: skip
def test_one_group(text: str, kind: pa.DataType, values: list[Any], expected: Any) -> None:
    assert repr(results(text, kind, [values])) == repr([expected])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stddev(x)", 1.5275252316519468),
        ("stddev_pop(x)", 1.247219128924647),
        ("variance(x)", 2.3333333333333335),
        ("var_pop(x)", 1.5555555555555556),
        ("skewness(x)", 0.3818017741606063),
        ("kurtosis(x)", -1.5),
        ("std(1e9D + x)", 1.5275252316519468),
        ("corr(x, 2 * x)", 1.0),
        ("covar_samp(x, 2 * x)", 4.666666666666667),
        ("regr_syy(x, 2 * x)", 4.666666666666667),
        ("regr_intercept(x, 2 * x + 1)", -0.5),
    ],
)
def test_moments(text: str, expected: float) -> None:
    for (found,) in results_in_parts(text, INTS, [[1, 2, None, 4]]):
        assert found == pytest.approx(expected, rel=1e-12)


def test_groups_without_values_beside_others() -> None:
    groups = [[5, 1, None], [None], [7, 7, 8, -9]]
    assert results("sum(DISTINCT x)", INTS, groups) == [6, None, 6]
    assert results("mode(x)", INTS, groups) == [1, None, 7]
    assert results("percentile_approx(x, 0.5)", INTS, groups) == [1, None, 7]
    assert results("collect_set(x)", INTS, groups) == [[1, 5], [], [-9, 7, 8]]
    assert results("var_pop(x)", INTS, groups)[1] is None
    assert results("bit_or(x) FILTER (WHERE x > 0)", INTS, groups) == [5, None, 15]


def test_an_average_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ExpressionError, match=r"the average does not fit decimal\(38,4\)"):
        results("avg(x)", pa.decimal128(38, 0), [[Decimal(10**38 - 1)]])


def test_far_times_in_structs_are_ordered() -> None:
    kind = pa.struct([("t", pa.timestamp("us", "UTC"))])
    far = pa.scalar(2**60, pa.timestamp("us", "UTC"))
    near = pa.scalar(0, pa.timestamp("us", "UTC"))
    assert results("count(DISTINCT x)", kind, [[{"t": far}, {"t": near}, {"t": far}]]) == [2]
    assert results("min(x)", kind, [[{"t": far}, {"t": near}]]) == [{"t": datetime(1970, 1, 1, tzinfo=UTC)}]
    assert math.isnan(results("max(x)", DOUBLES, [[NAN, 1.0]])[0])
