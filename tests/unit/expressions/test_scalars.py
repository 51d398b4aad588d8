"""Scalar expressions with results known by hand. The same and many more run against Spark in tests/spark."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.expressions import compile_scalar, spark_type_name

D = Decimal


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        # promotion and results of arithmetic
        ("i / 2", "double", [3.5, -3.5, None, 0.0]),
        ("i div 2", "bigint", [3, -3, None, 0]),
        ("i % 4", "int", [3, -3, None, 0]),
        ("pmod(i, 4)", "int", [3, 1, None, 0]),
        ("i + n", "bigint", [130, 239, None, -1]),
        ("i * 1.5", "decimal(13,1)", [D("10.5"), D("-10.5"), None, D("0.0")]),
        ("n * 0.908", "decimal(24,3)", [D("111.684"), D("223.368"), None, D("-0.908")]),
        ("d * d", "decimal(21,4)", [D("152.2756"), D("0.0025"), None, D("6.2500")]),
        ("d / 3", "decimal(14,6)", [D("4.113333"), D("-0.016667"), None, D("0.833333")]),
        ("d + 1", "decimal(11,2)", [D("13.34"), D("0.95"), None, D("3.50")]),
        ("d % 0.7", "decimal(2,2)", [D("0.44"), D("-0.05"), None, D("0.40")]),
        ("-y", "tinyint", [-1, 5, None, -127]),
        # comparison and three-valued logic
        ("i > 3.5", "boolean", [True, False, None, False]),
        ("d = 2.5", "boolean", [False, False, None, True]),
        ("x > 1000", "boolean", [False, False, None, True]),
        ("i <=> null", "boolean", [False, False, True, False]),
        ("b and i > 0", "boolean", [True, False, None, False]),
        ("b or i is null", "boolean", [True, False, True, True]),
        ("not b", "boolean", [False, True, None, False]),
        ("i in (7, null)", "boolean", [True, None, None, None]),
        ("i in (1, 2, 3, 4, 5, 7)", "boolean", [True, False, None, False]),
        ("i in (1, 2, 3, 4, 5, 7, null)", "boolean", [True, None, None, None]),
        ("s in ('hello', 'x')", "boolean", [True, False, None, False]),
        ("d between -1 and 2.5", "boolean", [False, True, None, True]),
        ("s like 'h%o'", "boolean", [True, False, None, False]),
        ("s rlike 'W.*d$'", "boolean", [False, True, None, False]),
        # a row does not fail in a branch it does not take
        ("if(i = 0, 0D, 14 / i)", "double", [2.0, -2.0, None, 0.0]),
        ("i <> 0 and 14 div i > 0", "boolean", [True, False, None, False]),
        ("coalesce(i, 1 div (n - 123))", "bigint", [7, -7, None, 0]),
        ("case when i = 0 then 'z' when 7 / i > 0 then 'p' else 'n' end", "string", ["p", "n", "n", "z"]),
        ("coalesce(i, d)", "decimal(12,2)", [D("7.00"), D("-7.00"), None, D("0.00")]),
        ("nullif(i, 7)", "int", [None, -7, None, 0]),
        ("greatest(i, y)", "int", [7, -5, None, 127]),
        ("greatest(i, 3)", "int", [7, 3, 3, 3]),
        # numbers
        ("round(d, 1)", "decimal(10,1)", [D("12.3"), D("-0.1"), None, D("2.5")]),
        ("round(i, -1)", "int", [10, -10, None, 0]),
        ("floor(d)", "decimal(9,0)", [D("12"), D("-1"), None, D("2")]),
        ("ln(i)", "double", [float(np.log(7)), None, None, None]),
        # strings
        ("length(s)", "int", [5, 6, None, 0]),
        ("trim(s) || '!'", "string", ["hello!", "World!", None, "!"]),
        ("substring(s, -3, 2)", "string", ["ll", "rl", None, ""]),
        ("split_part(s, 'l', 2)", "string", ["", "d", None, ""]),
        ("split_part(s, 'l', -1)", "string", ["o", "d", None, ""]),
        ("replace(s, 'l', 'LL')", "string", ["heLLLLo", " WorLLd", None, ""]),
        ("contains(s, 'or')", "boolean", [False, True, None, False]),
        # times
        ("year(t)", "int", [2024, 1969, None, 2000]),
        ("second(t)", "int", [56, 59, None, 0]),
        ("unix_millis(t)", "bigint", [1709210096789, -1000, None, 949276800000]),
        ("t > '2000-01-01'", "boolean", [True, False, None, True]),
        ("dt + interval 1 month", "date", [date(2024, 3, 29), date(1970, 1, 31), None, date(2000, 2, 29)]),
        ("dt = t", "boolean", [False, False, None, True]),
        # nested values
        ("st.a", "int", [1, 2, None, -3]),
        ("st.b", "string", ["p", None, None, "q"]),
        ("size(tags)", "int", [2, 0, None, 1]),
        ("struct(i, 'k' as k)", "struct<i:int,k:string>", [{"i": v, "k": "k"} for v in (7, -7, None, 0)]),
        # casts
        ("cast(d as int)", "int", [12, 0, None, 2]),
        ("i::string", "string", ["7", "-7", None, "0"]),
        ("cast(d as string)", "string", ["12.34", "-0.05", None, "2.50"]),
        ("cast(x as string)", "string", ["2.5", "-1.5", None, "NaN"]),
        ("cast(t as string)", "string",
         ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59", None, "2000-01-31 00:00:00"]),
        # constants take the length of the batch
        ("1 + 1", "int", [2, 2, 2, 2]),
        ("concat('a', 'b')", "string", ["ab"] * 4),
        ("upper(substring('hello', 2, 2))", "string", ["EL"] * 4),
        ("null", "void", [None] * 4),
        ("cast(null as decimal(5,2))", "decimal(5,2)", [None] * 4),
        ("timestamp '2024-01-01' + interval 90 seconds", "timestamp", [datetime(2024, 1, 1, 0, 1, 30, 0, UTC)] * 4),
        ("0.908", "decimal(3,3)", [D("0.908")] * 4),
        ("12345678901234567890.5 * 2", "decimal(23,1)", [D("24691357802469135781.0")] * 4),
    ],
)  # fmt: skip
def test_value_and_type(text: str, kind: str, values: list[Any], batch: pa.RecordBatch) -> None:
    scalar = compile_scalar(text, batch.schema)
    assert spark_type_name(scalar.type) == kind
    result = scalar.evaluate(batch)
    result.validate(full=True)
    assert result.type == scalar.type
    assert result.to_pylist() == values


EVERY_KIND = [
    "i + 1L", "i % 3 = 0", "d * 2", "d / 7", "x * 2 > 1", "s || 'x'", "b and i > 0",
    "case when b then s else 'n' end", "coalesce(i, 0)", "t + interval 1 day", "date_trunc('month', t)", "size(tags)",
    "st.a", "struct(i, s)", "i in (7, null)", "split_part(s, 'l', 1)", "cast(d as string)",
    "cast(cast(i as string) as int)", "if(i = 0, null, 10 div i)", "1 + 1", "null", "s is null", "d > 1 or b",
    "greatest(i, n)", "round(x, 1)", "cast(t as date)", "'k'", "nullif(s, '')", "i <=> 7", "dt + 1",
]  # fmt: skip


@pytest.mark.parametrize("text", EVERY_KIND)
def test_slices_and_empty_batches(text: str, batch: pa.RecordBatch) -> None:
    scalar = compile_scalar(text, batch.schema)
    whole = scalar.evaluate(batch)
    for start, size in ((1, 2), (3, 1), (0, 0), (2, 0), (2, 1)):
        part = scalar.evaluate(batch.slice(start, size))
        part.validate(full=True)
        assert part.type == whole.type
        assert str(part.to_pylist()) == str(whole.slice(start, size).to_pylist())
    long = pa.Table.from_batches([batch] * 20).combine_chunks().to_batches()[0]
    assert str(scalar.evaluate(long.slice(13, 30)).to_pylist()) == str((whole.to_pylist() * 20)[13:43])


@pytest.mark.parametrize("text", EVERY_KIND)
def test_survives_pickling(text: str, batch: pa.RecordBatch) -> None:
    scalar = compile_scalar(text, batch.schema)
    again = pickle.loads(pickle.dumps(scalar))
    assert (again.text, again.sql, again.name, again.type) == (scalar.text, scalar.sql, scalar.name, scalar.type)
    assert str(again.evaluate(batch).to_pylist()) == str(scalar.evaluate(batch).to_pylist())


def test_names_and_texts(batch: pa.RecordBatch) -> None:
    plain = compile_scalar("i * 1L", batch.schema)
    assert (plain.name, plain.sql, plain.columns) == ("i * 1L", "i * 1L", {"i"})
    renamed = compile_scalar("i * 1L  AS `my name`", batch.schema)
    assert (renamed.name, renamed.sql, renamed.text) == ("my name", "i * 1L", "i * 1L  AS `my name`")
    assert compile_scalar("I", batch.schema).name == "I"
    assert compile_scalar("ST.b", batch.schema).name == "b"
    assert compile_scalar("ST.b", batch.schema).columns == {"st"}
    assert compile_scalar("i + n k", batch.schema).name == "k"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_timestamps_of_any_unit_compare(unit: str, zone: str | None) -> None:
    moments = pa.array([0, 3600, None], pa.int64()).cast(pa.timestamp("s", tz="UTC")).cast(pa.timestamp(unit, tz="UTC"))
    column = moments.cast(pa.int64()).cast(pa.timestamp(unit, tz=zone))
    rows = pa.record_batch({"t": column})
    assert compile_scalar("t >= '1970-01-01 01:00:00'", rows.schema).evaluate(rows).to_pylist() == [False, True, None]
    shifted = compile_scalar("t + interval 1 second", rows.schema).evaluate(rows)
    assert shifted.cast(pa.int64()).to_pylist() == [1_000_000, 3_601_000_000, None]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.large_string(), pa.float16()])
def test_types_that_spark_lacks_are_read_as_the_nearest(kind: pa.DataType) -> None:
    values = ["a", None, "b"] if kind == pa.large_string() else [1, None, 2]
    column = pa.array([None if v is None else np.float16(v) for v in values] if kind == pa.float16() else values, kind)
    rows = pa.record_batch({"c": column})
    constant = "'b'" if kind == pa.large_string() else "2"
    assert compile_scalar(f"c = {constant}", rows.schema).evaluate(rows).to_pylist() == [False, None, True]


def test_values_under_nulls_are_never_read() -> None:
    hidden = pa.array(np.array([0, 2**63 - 1, 5]), mask=np.array([True, True, False]))
    rows = pa.record_batch({"n": hidden})
    assert compile_scalar("10 div n", rows.schema).evaluate(rows).to_pylist() == [None, None, 2]
    assert compile_scalar("n + 1", rows.schema).evaluate(rows).to_pylist() == [None, None, 6]
    assert compile_scalar("cast(n as tinyint)", rows.schema).evaluate(rows).to_pylist() == [None, None, 5]
    assert compile_scalar("n * 1000000", rows.schema).evaluate(rows).to_pylist() == [None, None, 5000000]


def test_wide_decimals_are_exact() -> None:
    kind = pa.decimal128(38, 2)
    rows = pa.record_batch({"d": pa.array([D("123456789012345678901234567890.12"), None, D("-0.01")], kind)})
    doubled = compile_scalar("d + d", rows.schema).evaluate(rows)
    assert doubled.to_pylist() == [D("246913578024691357802469135780.24"), None, D("-0.02")]
    assert compile_scalar("d > 123456789012345678901234567890.1", rows.schema).evaluate(rows).to_pylist() == [
        True,
        None,
        False,
    ]


def test_wide_decimals_where_no_row_takes_the_other_branch() -> None:
    rows = pa.record_batch({"n": [1, 2]})
    scalar = compile_scalar("if(n > 5, n, 12345678901234567890)", rows.schema)
    assert [int(value) for value in scalar.evaluate(rows).to_pylist()] == [12345678901234567890] * 2


def test_a_tinyint_literal_beside_a_decimal_has_three_digits(batch: pa.RecordBatch) -> None:
    kinds = [str(compile_scalar(text, batch.schema).type) for text in ("d * 3Y", "d * 3S", "d * 3", "d * 3L")]
    assert kinds == ["decimal128(14, 2)", *["decimal128(12, 2)"] * 3]
