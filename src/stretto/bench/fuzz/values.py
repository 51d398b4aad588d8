"""Random values of each type, with a liking for those that break code: limits, NaN, -0.0, far dates, odd characters."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

NULL_SHARE = 0.12
ODD_SHARE = 0.45
_DAY_US = 86_400_000_000
_NAN, _INF = float("nan"), float("inf")

TEXTS = (
    "", " ", "  ", "a", "A", "abc", "ABC", "Hello World", "hello, world", "a,b,c", ",", "a,,b", "%", "_", "a%b_c", "\\",
    "it's", '"', "`", "\t", "\n", "a\nb", "a\r\n", "\u00a0", "\u00a012", " 12 ", "\u2003x", "ß", "straße", "ẞ", "İ",
    "ı", "i̇", "I", "é", "e\u0301", "É", "Σας", "ΣΑΣ", "ǆ", "ﬁ", "日本", "한국어", "🙂", "👩‍👩‍👧", "🇩🇪", "a🙂b",
    "0", "-0", "+1", "1", "12", "-7", "007", "1.5", "-1.50", ".5", "5.", "1e3", "1E-3", "1.5e400", "1d", "1.5f", "0x1A",
    "١٢", "१२", "１２", "NaN", "nan", "Infinity", "-Infinity", "inf", "9223372036854775807", "9223372036854775808",
    "-128", "127", "128", "2147483648", "99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001", "true", "TRUE", "t", "yes", "y", "n", "no", "false", "f", "null",
    "NULL", "2020-02-29", "2021-02-29", "2020-2-9", "2020", "2020-01", "20200101", "0001-01-01", "9999-12-31",
    "10000-01-01", "+10000-01-01", "-0001-01-01", "1582-10-10", "1900-03-01", "2020-01-01T12", "2020-01-01 12:34",
    "12:34:56", "2020-01-01 12:34:56.789", "2020-01-01T12:34:56.123456789Z", "2020-06-01 00:00:00 Europe/Berlin",
    "2020-01-01 00:00:00+01:30", "2020-01-01 24:00:00", "epoch", "now",
    '{"a": 1, "b": [1, 2]}', '{"a": null}', "[1, 2]", "{", "a=1&b=2", "http://h.org/p?q=1#f", "abcabcabc",
    "aaaa", "AbC dEf",
)  # fmt: skip
_ALPHABET = "abcXYZ019 ,.-_%éßİ🙂日"

_ODD_DAYS = (
    0,
    -1,
    1,
    11_016,
    11_017,
    18_262,
    19_782,
    -141_428,
    -141_427,
    -25_508,
    -719_162,
    2_932_896,
    2_932_897,
    -719_163,
)
_ODD_TIMES = (
    0, -1, 1, 999_999, -999_999, 1_000_000, 1_709_210_096_789_000, 951_782_400_000_000, -62_135_596_800_000_000,
    -62_135_596_800_000_001, 253_402_300_799_999_999, 253_402_300_800_000_000, -12_219_292_800_000_000,
    -2_203_891_200_000_000, 1_585_443_600_000_000, 1_603_587_600_000_000, 4_102_444_800_000_000, -1_500,
)  # fmt: skip
_ODD_NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1.005, 3.14159, 1e-5, 1e-3, 1e7, 12345678.9, 1e15, 1e16,
    9007199254740993.0, 1e19, 9.223372036854776e18, -9.223372036854776e18, 1e20, 1e22, 1e38, -1e38, 2.0**31, 100.0,
    0.30000000000000004, 2e-3, 8.41e21, 9.999999e22, _NAN, _INF, -_INF,
)  # fmt: skip
_ODD_DOUBLES = (
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    1e300,
    1e-300,
    2.0e-323,
)
_ODD_FLOATS = (1.4e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 16777217.0, 1.17549435e-38)


def random_value(kind: pa.DataType, rng: Random, null_share: float = NULL_SHARE) -> Any:
    """Returns a plain value of this type, or None."""
    if rng.random() < null_share:
        return None
    if pat.is_list(kind):
        return [random_value(kind.value_type, rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))]
    if pat.is_struct(kind):
        return tuple(random_value(field.type, rng) for field in kind)
    if pat.is_map(kind):
        keys = [random_value(kind.key_type, rng, 0.0) for _ in range(rng.choice((0, 1, 2, 3)))]
        return [(key, random_value(kind.item_type, rng)) for key in dict.fromkeys(keys)]
    return _odd_value(kind, rng) if rng.random() < ODD_SHARE else _usual_value(kind, rng)


def simple_values(kind: pa.DataType) -> list[Any]:
    """Returns plain values to try first when a disagreement is made small, the simplest first."""
    if pat.is_integer(kind):
        return [0, 1, -1, 2, int(np.iinfo(kind.to_pandas_dtype()).max)]
    if pat.is_floating(kind):
        return [0.0, 1.0, -1.0, 0.5, 1.5, _NAN, -0.0, 1e10]
    if pat.is_decimal(kind):
        return [Decimal(0), Decimal(1).scaleb(-kind.scale), _widest(kind)]
    if pat.is_string(kind):
        return ["", "a", "1", " ", "A"]
    if pat.is_binary(kind):
        return [b"", b"a"]
    if pat.is_date(kind) or pat.is_timestamp(kind):
        return [0, 1, -1]
    if pat.is_boolean(kind):
        return [True, False]
    if pat.is_list(kind):
        return [[], *([value] for value in simple_values(kind.value_type)[:2]), [None]]
    if pat.is_struct(kind):
        return [(None,) * kind.num_fields, tuple(simple_values(field.type)[0] for field in kind)]
    return [[]] if pat.is_map(kind) else []


def _odd_value(kind: pa.DataType, rng: Random) -> Any:
    if pat.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        low, high = int(info.min), int(info.max)
        return rng.choice((low, low + 1, -1, 0, 1, high - 1, high, low // 2, high // 2 + 1))
    if pat.is_float32(kind):
        return float(np.float32(rng.choice(_ODD_NUMBERS + _ODD_FLOATS)))
    if pat.is_float64(kind):
        return rng.choice(_ODD_NUMBERS + _ODD_DOUBLES)
    if pat.is_decimal(kind):
        half = Decimal(5).scaleb(-kind.scale) if kind.precision > 1 else Decimal(1).scaleb(-kind.scale)
        return rng.choice(
            (Decimal(0), _widest(kind), _widest(kind).copy_negate(), Decimal(1).scaleb(-kind.scale), half, -half)
        )
    if pat.is_string(kind):
        return rng.choice(TEXTS)
    if pat.is_binary(kind):
        return rng.choice((b"", b"\x00", b"abc", b"\xff\xfe", "ß🙂".encode()))
    if pat.is_date(kind):
        return rng.choice(_ODD_DAYS)
    if pat.is_timestamp(kind):
        return rng.choice(_ODD_TIMES)
    return rng.random() < 0.5


def _usual_value(kind: pa.DataType, rng: Random) -> Any:
    if pat.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        bound = min(rng.choice((5, 100, 10_000, 10**12, 2**63)), int(info.max))
        return rng.randint(-bound, bound)
    if pat.is_float32(kind):
        return float(np.float32(_usual_number(rng)))
    if pat.is_float64(kind):
        return _usual_number(rng)
    if pat.is_decimal(kind):
        digits = rng.randint(1, kind.precision)
        return Decimal((rng.randint(0, 1), tuple(rng.randint(0, 9) for _ in range(digits)), -kind.scale))
    if pat.is_string(kind):
        return "".join(rng.choice(_ALPHABET) for _ in range(rng.randint(1, 8)))
    if pat.is_binary(kind):
        return rng.randbytes(rng.randint(1, 6))
    if pat.is_date(kind):
        return rng.randint(-30_000, 40_000)
    if pat.is_timestamp(kind):
        return rng.randint(-30_000, 40_000) * _DAY_US + rng.choice((0, rng.randrange(_DAY_US)))
    return rng.random() < 0.5


def _usual_number(rng: Random) -> float:
    return rng.choice(
        (
            float(rng.randint(-100, 100)),
            rng.randint(-10_000, 10_000) / 100,
            rng.uniform(-1, 1),
            rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20),
        )
    )


def _widest(kind: Any) -> Decimal:
    return Decimal((0, (9,) * kind.precision, -kind.scale))
