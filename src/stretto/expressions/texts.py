"""Converts values to text and back in Java's format, for CAST to and from string."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.java_digits import double_digits, float_digits
from stretto.expressions.time_parsing import read_dates, read_timestamps
from stretto.expressions.vectors import INT64_MAX, Value, bound, dtype_of, null_of, reader, validity
from stretto.expressions.zones import session_zone

_EXACT = Context(prec=400)
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])
#: What a cast ignores around a number or a boolean: spaces and control characters of ASCII, and nothing of Unicode.
_BLANK = "".join(map(chr, range(33)))
_BLANK_OR_DELETE = _BLANK + "\x7f"
# Java's decimals read the digits of every script, and its doubles only those of ASCII.
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DOUBLE = re.compile(r"([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?")
_INFINITE = ("inf", "+inf", "infinity", "+infinity")


class Unreadable(Exception):
    """A text that is not a value of the wanted type."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def java_double(value: Any) -> str:
    return _java(float(value), double_digits)


def java_float(value: Any) -> str:
    return _java(float(value), float_digits)


def _java(value: float, digits_of: Callable[[float], tuple[str, int]]) -> str:
    """Returns a number as Java writes it: plain digits from 0.001 up to 10 million, d.dddE±x outside."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    lead = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{lead}0.0"
    digits, point = digits_of(abs(value))
    if 0 < point <= 7:
        padded = digits.ljust(point, "0")
        return f"{lead}{padded[:point]}.{padded[point:] or '0'}"
    if -3 < point <= 0:
        return f"{lead}0.{'0' * -point}{digits}"
    return f"{lead}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def plain_decimal(scale: int) -> Callable[[Any], str]:
    def write(unscaled: Any) -> str:
        digits = str(abs(int(unscaled))).rjust(scale + 1, "0")
        lead = "-" if unscaled < 0 else ""
        return f"{lead}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{lead}{digits}"

    return write


def parser(kind: Any) -> Callable[[Any], Value] | None:
    """Returns a parser of strings, an array or a scalar, to this type; None if Spark has no such cast."""
    if types.is_integral(kind):
        return _over_arrays(kind, lambda strings: _integers(strings, kind))
    if kind == types.BOOLEAN:
        return _over_arrays(kind, _booleans)
    if kind == types.DATE:
        return _over_arrays(kind, lambda strings: _times(strings, kind, *read_dates(strings)))
    if kind == types.TIMESTAMP:
        zone = session_zone()
        return _over_arrays(kind, lambda strings: _times(strings, kind, *read_timestamps(strings, zone)))
    read: Callable[[str], Any] | None = None
    if types.is_fractional(kind):
        read = _read_double
    elif types.is_decimal(kind):
        read = _decimal_reader(kind)
    return None if read is None else _over_arrays(kind, _row_by_row(read, kind))


def _over_arrays(kind: Any, parse: Callable[[Any], Value]) -> Callable[[Any], Value]:
    def run(strings: Any) -> Value:
        if not isinstance(strings, pa.Scalar):
            return parse(strings)
        if not strings.is_valid:
            return null_of(kind)
        values, _ = parse(pa.array([strings.as_py()], types.STRING))
        return values[0], None

    return run


def _require(ok: Any, strings: Any) -> None:
    bad = pc.invert(pc.fill_null(ok, True))
    if bad.true_count:
        raise Unreadable(strings.filter(bad)[0].as_py())


def _integers(strings: Any, kind: Any) -> Value:
    trimmed = pc.utf8_trim(strings, characters=_BLANK_OR_DELETE)
    _require(pc.match_substring_regex(trimmed, r"^[+-]?[0-9]+$"), strings)
    plain = pc.utf8_ltrim(trimmed, characters="+")
    try:
        numbers = pc.cast(plain, kind)
    except pa.ArrowInvalid as error:
        found = re.search(r"'(.*)'", str(error))
        raise Unreadable(found.group(1) if found else "a value") from None
    return reader(kind)(numbers)


def _booleans(strings: Any) -> Value:
    lowered = pc.ascii_lower(pc.utf8_trim(strings, characters=_BLANK_OR_DELETE))
    true = pc.is_in(lowered, value_set=_TRUE)
    _require(pc.or_(pc.or_(true, pc.is_in(lowered, value_set=_FALSE)), pc.is_null(strings)), strings)
    valid = None if strings.null_count == 0 else validity(strings)
    return true.to_numpy(zero_copy_only=False), valid


def _times(strings: Any, kind: Any, values: Any, exists: Any) -> Value:
    given = validity(strings)
    bad = given & ~exists
    if bad.any():
        raise Unreadable(strings[int(bad.argmax())].as_py())
    return np.where(exists, values, 0).astype(dtype_of(kind)), (None if given.all() else given)


def _row_by_row(read: Callable[[str], Any], kind: Any) -> Callable[[Any], Value]:
    def read_or_zero(text: str | None) -> Any:
        return 0 if text is None else read(text)

    vectorised = np.frompyfunc(read_or_zero, 1, 1)

    def run(strings: Any) -> Value:
        values = vectorised(strings.to_numpy(zero_copy_only=False))
        valid = None if strings.null_count == 0 else validity(strings)
        if types.is_decimal(kind):
            return (values.astype(np.int64) if bound(values) <= INT64_MAX else values), valid
        return values.astype(dtype_of(kind)), valid

    return run


def _read_double(text: str) -> float:
    stripped = text.strip(_BLANK)
    if found := _DOUBLE.fullmatch(stripped):
        return float(found[1])
    if found := _HEX_DOUBLE.fullmatch(stripped):
        return _from_hexadecimal(found[1])
    lowered = stripped.lower()
    if lowered in _INFINITE:
        return math.inf
    if lowered in ("-inf", "-infinity"):
        return -math.inf
    if lowered == "nan" or stripped in ("+NaN", "-NaN"):
        return math.nan
    raise Unreadable(text)


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _decimal_reader(kind: Any) -> Callable[[str], int]:
    step = Decimal(1).scaleb(-kind.scale)

    def read(text: str) -> int:
        stripped = text.strip(_BLANK)
        if not _DECIMAL.fullmatch(stripped):
            raise Unreadable(text)
        try:
            unscaled = int(Decimal(stripped).quantize(step, ROUND_HALF_UP, _EXACT).scaleb(kind.scale, _EXACT))
        except InvalidOperation:
            raise Unreadable(text) from None
        if abs(unscaled) >= 10**kind.precision:
            raise Unreadable(text)
        return unscaled

    return read
