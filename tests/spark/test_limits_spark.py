"""What Spark does where a value is at the limit of its type: found by the fuzzer, at random. Here by name."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.judging import judge
from stretto.bench.fuzz.sparks import SparkOracle
from stretto.bench.fuzz.terms import literal

INT_MIN, INT_MAX, LONG_MIN, LONG_MAX = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1
FLOAT_NEAR_INT_MAX = 2.0**31
"""What the largest int is as a float."""
INTS = (INT_MIN, INT_MIN + 1, INT_MIN + 7, -9, -1, 0, 1, 2, 178956970, 178956971, INT_MAX - 6, INT_MAX)
OTHERS = (0, 1, -1, 3, INT_MIN, INT_MAX, 7, -8, -100, 2, -1, 100)
LONGS = (LONG_MIN, LONG_MIN + 1, -9223372036855, -9223372036854, -1500000, -1, 0, 1, 9223372036855, 1, LONG_MAX, 5)
NO_38 = "99999999999999999999999999999999999999"
ROWS = pa.record_batch(
    {
        "i": pa.array(INTS, pa.int32()),
        "j": pa.array(OTHERS, pa.int32()),
        "n": pa.array(LONGS, pa.int64()),
        "o": pa.array(LONGS[::-1], pa.int64()),
        "dt": pa.array(INTS, pa.int32()).cast(pa.date32()),
        "d": pa.array([Decimal(value) / 100 for value in LONGS], pa.decimal128(38, 2)),
        "k": pa.array([Decimal("-" + NO_38), Decimal(2), None, Decimal(NO_38)] * 3, pa.decimal128(38, 0)),
        "p": pa.array([Decimal("0.0072487"), Decimal(0), Decimal("0.5")] * 4, pa.decimal128(7, 7)),
        "f": pa.array([FLOAT_NEAR_INT_MAX, 1.5] * 6, pa.float32()),
        "ai": pa.array([[INT_MAX, 3]] * 12, pa.list_(pa.int32())),
        "af": pa.array([[FLOAT_NEAR_INT_MAX, None]] * 12, pa.list_(pa.float32())),
        "mi": pa.array([[(INT_MAX, "a")]] * 12, pa.map_(pa.int32(), pa.string())),
        "s": pa.array(["abcdefgh"] * 12),
        "y": pa.array(["-0", "0", "-1", "-00", None, "-000001", "0000", "-0000", "-0001", "+0", "0001", "12"]),
        "span": pa.array([LONG_MIN, LONG_MIN + 1, -90_000_000_000, 90_000_000_000] * 3, pa.duration("us")),
    }
)
DECIMALS = (
    "abs(cast(n as decimal(38,0)))", "-cast(n as decimal(20,0))", "abs(d)", "-d", "cast(d as bigint)",
    "cast(d as int)", "cast(n as decimal(38,0)) div -1", "cast(n as decimal(19,0)) % -1", "floor(d)", "ceil(d)",
    "round(d, 1)", "string(d)", "try_mod(k, p)", "try_mod(cast(j as decimal(38,0)), p)",
)  # fmt: skip
SPANS = (
    *(
        f"timestampdiff({unit}, timestamp_micros({start}), timestamp_micros({end}))"
        for unit in ("MICROSECOND", "MILLISECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
        for start, end in (("n", "o"), ("n", "0"), ("0", "n"), ("-1", "n"))
    ),
    "-span", "abs(span)", "timestamp_micros(o) - span", "dt - span", "interval '-1' second - span", "span - span",
    "-(interval 1 month * i)", "abs(interval 1 month * i)", "dt - interval 1 month * i",
    "interval '-1' month - interval 1 month * i",
    "extract(HOUR FROM span)", "extract(DAY FROM span)", "extract(SECOND FROM span)", "string(span)",
    "to_unix_timestamp(timestamp_micros(n))", "cast(n as timestamp)",
    "make_ym_interval(i, j)", "make_ym_interval(178956971, j)", "make_ym_interval(-178956971, j)",
    "make_dt_interval(106751992, j)", "make_dt_interval(i, j)", "make_dt_interval(0, i, j, 1.5)",
    "months_between(timestamp_micros(n), timestamp'2020-02-29 12:34:56.789')",
    "months_between(timestamp_micros(n), timestamp_micros(o))",
    "try_make_timestamp(i, 1, 1, 0, 0, 0)", "try_make_timestamp(j * 10000, 2, j, 0, 0, 0)",
    "sequence(date'2020-03-02', date'2020-03-02', interval 1 month * i)",
    "sequence(timestamp'2020-03-02', timestamp'2020-03-02', interval 1 month * i)",
    "sequence(timestamp'2020-03-02', timestamp'2020-03-02', interval 1 day * (i div 20))",
)  # fmt: skip
DATES = (
    *(f"trunc(dt, '{unit}')" for unit in ("week", "month", "quarter", "year")),
    *(f"next_day(dt, '{day}')" for day in ("mo", "tu", "we", "th", "fr", "sa", "su")),
    *(
        f"{read}(y, '{pattern}')"
        for read in ("to_unix_timestamp", "try_to_timestamp", "try_to_date")
        for pattern in ("y", "yyyy", "yyy", "yy")
    ),
)  # fmt: skip
TEXTS = (
    *(
        f"{read}(format_number({number}, {count}){rest})"
        for number in ("1.5D", "1.5BD", "cast(n as decimal(38,0))", "f", "n", "4.9e-324D", "1e300D")
        for count in (340, 341, 5000)
        for read, rest in (("length", ""), ("right", ", 50"))
    ),
    "overlay(s, 'xy', i, j)",
    "overlay(s, 'xy', i)",
    "overlay(binary(s), binary('xy'), i, 0)",
)
SOUGHT = (
    "array_contains(ai, f)", "array_contains(af, i)", "array_contains(array(n), f)", "array_contains(array(d), f)",
    "array_contains(array(n), d)", "array_position(ai, f)", "map_contains_key(mi, f)",
    "map_contains_key(map(f, 1), i)", "map_contains_key(map(i, 1), 2.0)", "element_at(mi, f)",
    "array_contains(array(ai), af)",
)  # fmt: skip


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> SparkOracle:
    return SparkOracle(spark)


@pytest.mark.parametrize(
    "texts", [DECIMALS, SPANS, DATES, TEXTS, SOUGHT], ids=["decimals", "spans", "dates", "texts", "sought"]
)
def test_answers_are_sparks(oracle: SparkOracle, texts: tuple[str, ...]) -> None:
    theirs = oracle.answers(list(texts), ROWS)
    mine = [ours.answer(text, ROWS) for text in texts]
    verdicts = [judge(literal(text, ""), *each) for text, *each in zip(texts, mine, theirs, strict=True)]
    assert {text: each.disagreement for text, each in zip(texts, verdicts, strict=True) if each.disagreement} == {}
    assert not [text for text, each in zip(texts, mine, strict=True) if isinstance(each, ours.Refused)]
