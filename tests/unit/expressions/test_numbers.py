"""Numbers with results as Spark has them; tests/spark/test_numbers_spark.py compares many more with Spark itself."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, parse_schema, spark_type_name

D = Decimal
SCHEMA = parse_schema(
    "i int, n bigint, f float, x double, p decimal(18,2), c decimal(38,10), w decimal(38,0), v decimal(38,18), s string"
)


def _rows(**columns: list[Any]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in SCHEMA]
    return pa.record_batch(arrays, schema=SCHEMA)


def _values(text: str, rows: pa.RecordBatch) -> list[Any]:
    result = compile_scalar(text, rows.schema).evaluate(rows)
    result.validate(full=True)
    return result.to_pylist()


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        # wide decimals, whose unscaled integers do not fit 64 bits on the way
        ("v / cast(5 as decimal(38,18))", "decimal(38,6)", D("0.000000")),
        ("cast(1.005F as decimal(10,2))", "decimal(10,2)", D("1.00")),
        ("cast(1.005D as decimal(10,2))", "decimal(10,2)", D("1.01")),
        ("cast(0L as decimal(38,20))", "decimal(38,20)", D("0E-20")),
        ("1.00000000000000000000 * 1.00000000000000000000", "decimal(38,35)", D(1)),
        ("18446744073709551616.5 % 7", "decimal(2,1)", D("2.5")),
        ("cast(9223372036854775808 as decimal(38,10))", "decimal(38,10)", D(2**63)),
        ("pmod(c, cast(7 as decimal(38,10)))", "decimal(38,10)", D("6.9999999999")),
        ("w = 0.5", "boolean", True),
        ("cast(8240.6122538064 as timestamp) = timestamp_micros(8240612253)", "boolean", True),
        ("cast(-8240.6122538064 as timestamp) = timestamp_micros(-8240612253)", "boolean", True),
        ("cast(9223372036854775808D as bigint)", "bigint", 2**63 - 1),
        # doubles
        ("floor(double('NaN'))", "bigint", 0),
        ("log(1, 5)", "double", math.inf),
        ("power(1, double('NaN'))", "double", math.nan),
        ("power(-1, double('inf'))", "double", math.nan),
        ("round(-0.3D)", "double", 0.0),
        ("round(1.005F, 2)", "float", 1.0),
        ("bround(2.5D)", "double", 2.0),
        ("bround(3.5)", "decimal(2,0)", D(4)),
        ("bround(25, -1)", "int", 20),
        ("floor(3.1411, 3)", "decimal(5,3)", D("3.141")),
        ("ceil(3.1411, -1)", "decimal(2,0)", D(10)),
        # texts
        ("cast(2.0E-3D as string)", "string", "0.002"),
        ("cast(2.85449538541192E45D as string)", "string", "2.8544953854119198E45"),
        ("cast(7E-323D as string)", "string", "6.9E-323"),
        ("cast(1.0E10F as string)", "string", "1.0E10"),
        ("cast(double(' 0x1p3 ') as string)", "string", "8.0"),
        ("cast('\u0661\u0662' as decimal(5,0))", "decimal(5,0)", D(12)),
        # other functions
        ("width_bucket(5.3, 0.2, 10.6, 5)", "bigint", 3),
        ("factorial(21)", "bigint", None),
        ("nanvl(double('NaN'), 7)", "double", 7.0),
        ("isnan(null)", "boolean", False),
        ("e() + pi()", "double", math.e + math.pi),
    ],
)
def test_a_value_and_its_type(text: str, kind: str, value: Any) -> None:
    rows = _rows(c=[D("-0.0000000001")], v=[D(0)], w=[D(1)])
    scalar = compile_scalar(text, SCHEMA)
    assert spark_type_name(scalar.type) == kind
    (result,) = _values(text, rows)
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(result)
    else:
        assert result == value
        assert not isinstance(value, float) or math.copysign(1, result) == math.copysign(1, value)


@pytest.mark.parametrize("prices", [[D(0), D(0)], [None, None], []])
def test_a_decimal_by_a_bigint_when_there_is_no_amount(prices: list[Any]) -> None:
    rows = _rows(p=prices, n=[3] * len(prices))
    assert _values("p / n", rows) == prices


@pytest.mark.parametrize(
    "text",
    [
        "round(9223372036854775807L, -1)",
        "bround(9223372036854775807L, -1)",
        "floor(1e20D)",
        "floor(9223372036854775808D)",
        "cast('\u0661\u0662' as int)",
        "cast('\u0661\u0662' as double)",
        "cast('\u00a012' as bigint)",
        "cast('12\u00a0' as double)",
        "cast('\u00a01' as boolean)",
    ],
)
def test_what_fails(text: str) -> None:
    with pytest.raises(ExpressionError):
        _values(text, _rows(i=[1]))


def test_pmod_of_the_lowest_numbers_wraps_as_javas_does() -> None:
    rows = _rows(n=[-2, 5, None], i=[-2, 5, None])
    assert _values("pmod(n, -9223372036854775808)", rows) == [2**63 - 2, 5, None]
    assert _values("pmod(cast(i as tinyint), -128Y)", rows) == [-2, 5, None]


def test_wide_integers_compare_with_wide_decimals() -> None:
    rows = _rows(w=[D(10**38 - 1), D(0), D(1), None], n=[2**63 - 1, 0, 1, 1])
    assert _values("w > n", rows) == [True, False, False, None]
    assert _values("w in (0.5, 7)", rows) == [False, False, True, None]
    assert _values("w < 0.5", rows) == [False, True, False, None]


def test_random_functions_are_refused_by_name() -> None:
    for name in ("rand", "randn", "uuid", "shuffle"):
        with pytest.raises(ExpressionError, match=f"function {name} is not supported"):
            compile_scalar(f"{name}()", SCHEMA)


def test_numpy_does_not_warn() -> None:
    rows = _rows(x=[0.0, -1.0, math.inf, math.nan, 1e308, None], n=[2**63 - 1, -(2**63), 0, 1, -1, None])
    with np.errstate(all="raise"):
        for text in ("log(x, x)", "atanh(x)", "power(x, 400)", "csc(x)", "width_bucket(x, 0, 1, 3)", "round(x, 400)"):
            assert len(_values(text, rows)) == 6
