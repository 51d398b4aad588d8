"""Numbers against Spark: random and extreme values of every type, in arithmetic, casts, rounding, bits and texts.

Where an operation can fail, the `try_` form runs on both sides, so that one query shows every row: a row that fails in
Spark must fail here.
"""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests import answers

from stretto.expressions import parse_schema

DDL = (
    "y tinyint, h smallint, i int, n bigint, f float, x double, z double, a decimal(10,2), p decimal(18,2), "
    "c decimal(38,10), w decimal(38,0), v decimal(38,18), u decimal(38,38), s string"
)
ROWS = 1_500

EXTREME = {
    "y": (0, 1, -1, 127, -128),
    "h": (0, 1, -1, 32767, -32768),
    "i": (0, 1, -1, 2**31 - 1, -(2**31)),
    "n": (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 9223372036854775795),
    "f": (0.0, -0.0, math.nan, math.inf, -math.inf, 1.005, 3.4e38, 1e-45, 2147483648.0, 16777217.0),
    "x": (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, 2.5, -2.5, 1.005, 2.0**63, -(2.0**63), 1e300,
          5e-324, 2.0**-44, 1e23, 2e23, 9007199254740993.0),
    "z": (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 2.0, 3.0, -2.0, 1e308),
}  # fmt: skip
TEXTS = [
    "12", "-7", "+3", "1.5", ".5", "5.", "1e3", "1E-5", "1e400", "-1e400", "NaN", "nan", "-NaN", "+NaN", "Infinity",
    "-inf", "+Infinity", "inf", "1d", "1.5f", "0x1p3", "0X.8P1f", "abc", "-", "+", "127", "128", "-129",
    "99999999999999999999", "1e38", "0.1e-40", "true", "1_000", "--1", "1e", "0x10", "1L",
    "1.23456789012345678901234567890123456789", "", " 12 ", "\t7\n", "\u00a012", "12\u00a0", "\u0661\u0662",
    "\u2009\u0035", "\x7f5", "\x005", "1 2", "\uff15",
]  # fmt: skip

EXPRESSIONS = """
try_add(n, i) | try_subtract(n, h) | try_multiply(n, i) | try_multiply(i, h) | try_divide(n, i) | try_mod(n, y)
try_divide(x, z) | try_mod(x, z) | try_add(x, f) | f * z | x - z | try_multiply(y, y) | try_add(c, v)
try_subtract(c, w) | try_multiply(c, v) | try_multiply(a, p) | try_divide(c, v) | try_divide(v, v)
try_divide(p, n) | try_divide(a, w) | try_divide(w, a) | try_mod(c, a) | try_mod(v, c) | try_mod(a, p)
try_mod(w, a) | try_divide(u, u) | try_add(w, 1) | try_multiply(w, 2) | try_multiply(u, u) | try_add(u, a)
try_divide(1, c) | try_mod(v, 7) | pmod(n, nullif(i, 0)) | pmod(y, nullif(y, 0)) | pmod(h, -128Y)
pmod(n, -9223372036854775808) | pmod(i, nullif(n, 0)) | pmod(v, 12345.678) | pmod(c, nullif(a, 0)) | pmod(a, 700.25)
pmod(x, nullif(z, 0D)) | pmod(v, -0.7) | pmod(c, 3) | pmod(f, 0.7F) | w > 0.5 | w = 0.5 | w < c | c <= v | v = u
w <> 1 | n < w | a > p | w in (0.5, 1.2) | c in (w, 0.5) | u < w | w = 1.5 | u >= 0.5 | c between 0.5 and 7
w <=> 0.5 | a = i | x > w | w > n | try_cast(f as decimal(10,2)) | try_cast(f as decimal(38,10))
try_cast(x as decimal(38,10)) | try_cast(x as decimal(38,20)) | try_cast(x as decimal(20,3))
try_cast(c as decimal(20,2)) | try_cast(v as decimal(38,20)) | try_cast(n as decimal(38,20))
try_cast(w as decimal(38,4)) | try_cast(u as decimal(10,5)) | try_cast(i as decimal(5,1))
cast(0L as decimal(38,20)) | try_cast(n as int) | try_cast(x as int) | try_cast(x as bigint) | try_cast(f as bigint)
try_cast(f as int) | try_cast(f as tinyint) | try_cast(w as bigint) | try_cast(v as int) | try_cast(c as smallint)
try_cast(u as tinyint) | cast(x as float) | cast(c as double) | cast(w as double) | cast(v as float)
cast(u as double) | cast(n as double) | cast(n as float) | cast(x as boolean) | cast(a as boolean)
cast(f as double) | cast(x as string) | cast(f as string) | cast(z as string) | cast(c as string)
cast(u as string) | cast(n as string) | cast(z * 1e22D as string) | cast(x * 1e-5D as string)
cast(x * 12345 as string) | cast(f / 3 as string) | try_cast(s as int) | try_cast(s as bigint)
try_cast(s as tinyint) | try_cast(s as double) | try_cast(s as float) | try_cast(s as decimal(10,2))
try_cast(s as decimal(38,10)) | try_cast(s as boolean) | try_cast(s as decimal(38,38))
cast(8240.6122538064 as timestamp) | cast(-8240.6122538064 as timestamp) | cast(a as timestamp) | round(x)
round(x, 2) | round(x, -2) | round(x, 400) | round(x, -400) | round(x, 17) | round(f, 2) | round(f) | round(f, -1)
bround(x) | bround(x, 1) | bround(f, 1) | bround(a) | bround(a, 1) | bround(a, -1) | bround(i % 1000, -1)
bround(c, 3) | round(a) | round(c, 3) | round(a, -1) | round(v, 5) | round(u, 3) | round(u, -2)
round(i % 1000, -1) | bround(2.5) | round(a, 5) | round(y % 100Y, -1) | round(n, 0) | round(1.005, 2)
round(a, null) | round(cast(a as decimal(10,2)), -12) | floor(if(abs(x) < 1e18D, x, 0.5D))
ceil(if(abs(f) < 1e18F, f, 1F)) | floor(double('NaN')) | ceil(double('NaN')) | floor(a) | ceil(a) | floor(c)
ceil(v) | floor(u) | ceil(u) | floor(w) | floor(a, 1) | ceil(a, 1) | floor(a, -1) | ceil(c, 3) | floor(i, -2)
ceil(cast(i as bigint), -2) | floor(-0.1) | log(1, n) | log(z, x) | log(2, n) | power(1, z) | power(x, z)
power(z, double('NaN')) | log1p(x) | ln(x) | log10(x) | log2(n) | cbrt(z) | hypot(x, z) | degrees(z) | radians(z)
sin(i) | cos(i) | tan(i) | asin(z) | acos(z) | atan(x) | atan2(x, z) | sinh(y) | cosh(y) | tanh(y) | asinh(x)
acosh(x) | atanh(z) | cot(i) | sec(i) | csc(i) | rint(x) | rint(z / 2) | expm1(y) | exp(y) | e() | pi() | sqrt(x)
sign(x) | sign(a) | signum(z) | factorial(y) | factorial(5) | factorial(21) | bin(n) | bin(y) | hex(n) | hex(i)
hex(s) | unhex(hex(n)) | unhex('abc') | unhex('xyz') | unhex(s) | bin(13) | hex(-1) | conv(hex(n), 16, 10)
conv(hex(n), 16, -10) | conv(cast(i as string), 10, 2) | conv(cast(i as string), 10, -2) | conv('zz', 36, 10)
conv('-7', 10, 16) | conv('-7', 10, -16) | conv('12x', 10, 2) | conv('', 10, 2) | conv(' 7 ', 10, 2)
conv('5', 1, 2) | conv(7, 10, 2) | width_bucket(z, 0, 10, 4) | width_bucket(z, 10, 0, 4)
width_bucket(y, -100, 100, 7) | width_bucket(y, z, 5, 3) | width_bucket(y, 1, 2, i) | width_bucket(y, 1, 2, n)
width_bucket(a, 0, 1000, 10) | width_bucket(x, -5, 5, 0) | positive(i) | negative(f) | positive(c) | negative(a)
-x | abs(x) | abs(f) | abs(p) | -(c / 1000) | -(v / 12345) | abs(c / 7) | negative(z) | isnan(x) | isnan(f)
isnan(null) | isnan(n) | nanvl(x, z) | nanvl(f, f) | nanvl(f, x) | nanvl(x, 1) | nanvl(x, null) | n & i | n|y
i ^ h | ~n | ~y | ~h | i & y | i|h | n & -1L | y ^ 3Y | i & null | i & 5 | 6 ^ 3 | i + 1L & 7 | 1|6 & 8 | 1|6 ^ 7
6 ^ 7 & 1 | y & 3 << 2 | 1 << 2 + 1 | n >>> 3 | i & 7 = 3 | 1|2 ^ 3 & 4 << 1 + 1 | 5 - 3|1 | ~y + 1
shiftleft(i, y) | shiftleft(n, y) | shiftright(i, y) | shiftright(n, y) | shiftrightunsigned(i, y)
shiftrightunsigned(n, y) | shiftleft(y, 3) | shiftleft(i, 5L) | shiftright(h, 1) | i << 3 | n >> 5
shiftleft(i, null) | shiftrightunsigned(-1, 1) | shiftleft(1L, i) | bit_count(n) | bit_count(y) | bit_count(i)
bit_count(true) | bit_count(-1Y) | bit_get(n, 63) | bit_get(n, 5) | getbit(i, 3) | try_divide(n, 0)
try_add(null, 1) | try_add(9223372036854775807, 1) | try_cast('x' as int) | try_cast(null as int) | try_divide(1, 0)
try_multiply(12345678901234567890123456789012345678, 10) | try_mod(7, 0) | try_mod(7.5, 0.7)
n div nullif(abs(h + 0), 0) | y div nullif(h, 0) | a div nullif(p, 0) | a div 0.7 | w div 3 | c div 1 | hex(a)
bin(2.5) | conv(2.5, 10, 2) | factorial(2.5) | shiftleft(1, 2.5) | width_bucket(y, 1, 2, 2.5) | round(a, 1L)
round(z, 1S) | bit_get(5L, 3L) | i % nullif(h, 0) | n % nullif(n, 0) | -9223372036854775808 % -1L | -128Y % -1Y
f % nullif(f, 0F) | x % nullif(z, 0D) | v % nullif(c, 0) | 1.00000000000000000000 * 1.00000000000000000000
12345678901234567890.5 * 0.5 | 1e37BD + 1 | 9223372036854775808 * 1
0.00000000000000000001 * 0.00000000000000000001 | 9223372036854775807.5 / 1 | 18446744073709551616.5 % 7
-9223372036854775808.5 % 9223372036854775807 | cast(9223372036854775808 as decimal(38,10))
round(9223372036854775808, -1)
"""

FAILING = """
round(9223372036854775807L, -1) | round(n, -1) | bround(9223372036854775807L, -1) | cast('\u0661\u0662' as int)
cast('\u00a012' as bigint) | cast('12\u00a0' as double) | cast('\u00a01' as boolean) | floor(1e20D)
ceil(double('inf')) | floor(9223372036854775808D) | factorial(n) | bit_get(n, 64) | bit_get(y, 8) | bit_get(i, -1)
conv('99999999999999999999999', 10, 16) | i & x | ~a | shiftleft(x, 1) | pmod(a, nullif(p, 0)) | negative(c)
abs(c) | try_cast(x as date) | n div 0 | try_add(1 / 0, 1) | try_cast(1 div 0 as string)
cast(1e40D as decimal(38,0)) | isnan(s, 1) | rand(x) | e(1) | width_bucket(1, 2)
"""


def _doubles(rng: random.Random, count: int) -> list[float]:
    kinds = (
        lambda: struct.unpack("<d", rng.randbytes(8))[0],
        lambda: rng.uniform(-1e4, 1e4),
        lambda: rng.randrange(10**9) / 10 ** rng.randrange(1, 9),
        lambda: float(rng.randrange(-(2**62), 2**62)),
        lambda: rng.randrange(-2000, 2000) / 8,
    )
    return [kinds[n % len(kinds)]() for n in range(count)]


def _decimals(rng: random.Random, kind: Any, count: int) -> list[Decimal]:
    top = 10**kind.precision - 1
    special = [
        0,
        1,
        -1,
        5,
        -5,
        top,
        -top,
        10**kind.scale,
        5 * 10 ** max(kind.scale - 1, 0),
        5 * 10**18,
        -(2**63),
        2**63,
    ]
    units = [unit for unit in special if abs(unit) <= top]
    while len(units) < count:
        units.append(rng.randrange(-top, top) // 10 ** rng.randrange(kind.precision))
    rng.shuffle(units)
    return [Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -kind.scale)) for unit in units]


def _column(field: pa.Field, rng: random.Random) -> pa.Array:
    kind = field.type
    if pa.types.is_string(kind):
        values: list[Any] = [rng.choice(TEXTS) for _ in range(ROWS)]
        values[: len(TEXTS)] = TEXTS
    elif pa.types.is_decimal(kind):
        values = _decimals(rng, kind, ROWS)
    elif pa.types.is_floating(kind):
        values = _doubles(rng, ROWS)
        if field.name == "z":
            values = [rng.randrange(-40, 40) / 4 if rng.random() < 0.6 else value for value in values]
    else:
        bits = kind.bit_width
        values = [rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) >> rng.randrange(bits) for _ in range(ROWS)]
    for place in range(0, ROWS // 2, 3):
        if field.name in EXTREME:
            values[place] = rng.choice(EXTREME[field.name])
    if field.type == pa.float32():
        values = [struct.unpack("<f", struct.pack("<f", v))[0] if abs(v) < 3.4e38 or v != v else v for v in values]
    return pa.array([None if rng.random() < 0.04 else value for value in values], kind)


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    rng = random.Random(16)
    schema = parse_schema(DDL)
    return pa.record_batch([_column(field, rng) for field in schema], schema=schema)


@pytest.fixture(scope="module")
def table(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).cache()


def test_numbers_are_sparks(batch: pa.RecordBatch, table: DataFrame) -> None:
    wrong = answers.differences(answers.listed(EXPRESSIONS), table, batch)
    assert not wrong, "\n" + "\n".join(wrong)


def test_what_fails_in_spark_fails_here(batch: pa.RecordBatch, table: DataFrame) -> None:
    wrong = answers.not_failing(answers.listed(FAILING), table, batch)
    assert not wrong, "\n" + "\n".join(wrong)
