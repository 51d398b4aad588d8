"""format_string: Java's java.util.Formatter, for the conversions %s %d %x %o %f %e %c %b %n and %%."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.java_digits import double_digits
from stretto.expressions.java_regex import joined
from stretto.expressions.nodes import Node, Site, known
from stretto.expressions.registry import MANY, Function, with_aliases
from stretto.expressions.rows import by_rows
from stretto.expressions.texts import java_double, java_float
from stretto.expressions.vectors import dtype_of

_DIRECTIVE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)([1-9]\d*)?(?:\.(\d+))?([a-zA-Z%])")
_EXACT = Context(prec=800)
#: The flags that each conversion takes.
_FLAGS = {"s": "-", "b": "-", "c": "-", "d": "-+ 0,(", "x": "-#0", "o": "-#0", "f": "-#+ 0,(", "e": "-#+ 0("}
_ORDINALS = (types.TINYINT, types.SMALLINT, types.INT, types.BIGINT, types.DATE, types.TIMESTAMP)


class _Refused(Exception):
    """What Java's Formatter refuses, or what is not supported here."""


@dataclass(frozen=True, slots=True)
class _Directive:
    """One %... of a format; `index` counts the arguments from 0."""

    index: int
    flags: str
    width: int
    precision: int | None
    conversion: str
    upper: bool


def format_string(site: Site, template: Node, *nodes: Node) -> Node:
    """Returns the format with its arguments written in; a null is written as null."""
    for node in nodes:
        if types.is_nested(node.type) or node.type in (types.BINARY, types.DURATION, types.MONTHS):
            raise site.wrong_type("a string, a number, a boolean or a time", node.type)
    kinds = tuple(_number(node.type) for node in nodes)
    plain = [replace(node, type=_number(node.type)) for node in nodes]

    def of_row(format_text: str | None, *values: Any) -> str | None:
        if format_text is None:
            return None
        try:
            return _written(format_text, kinds, values)
        except _Refused as error:
            raise site.error(f"{error} in the format {format_text!r}", None, "see Java's Formatter") from None

    pattern = text(template, site)
    if known(pattern) is not None:
        _checked(known(pattern), len(nodes), site)
    return by_rows(types.STRING, of_row, site, (pattern, *plain), fallible=True, takes_null=True)


def _number(kind: pa.DataType) -> pa.DataType:
    """Returns the type as which Spark hands a value over: dates and timestamps are numbers."""
    return {types.DATE: types.INT, types.TIMESTAMP: types.BIGINT}.get(kind, kind)


def _checked(format_text: str, count: int, site: Site) -> None:
    try:
        directives = _parsed(format_text)
    except _Refused as error:
        raise site.error(f"{error} in the format {format_text!r}", None, "see Java's Formatter") from None
    most = max((part.index for part in directives if isinstance(part, _Directive)), default=-1)
    if most >= count:
        raise site.error(f"the format {format_text!r} takes {most + 1} values", f"got {count}", "give one for each %")


@lru_cache(maxsize=1_024)
def _parsed(format_text: str) -> tuple[str | _Directive, ...]:
    parts: list[str | _Directive] = []
    place = ordinary = 0
    while (start := format_text.find("%", place)) >= 0:
        parts.append(format_text[place:start])
        found = _DIRECTIVE.match(format_text, start)
        if found is None:
            raise _Refused(f"an unknown {format_text[start : start + 5]!r}")
        place = found.end()
        number, flags, width, precision, letter = found.groups()
        if letter in "%n":
            if number or flags.strip("-") or precision or (width and letter == "n"):
                raise _Refused(f"{found[0]!r} is not supported")
            parts.append(_aligned("%" if letter == "%" else "\n", flags, int(width or 0)))
            continue
        index = int(number) - 1 if number else ordinary
        ordinary += not number
        parts.append(_directive(found[0], index, flags, width, precision, letter))
    return (*parts, format_text[place:])


def _directive(whole: str, index: int, flags: str, width: str | None, precision: str | None, letter: str) -> _Directive:
    conversion = letter.lower()
    if conversion not in _FLAGS or letter in "DFO":
        raise _Refused(f"the conversion {whole!r} is not supported")
    if index < 0 or set(flags) - set(_FLAGS[conversion]) or len(set(flags)) < len(flags):
        raise _Refused(f"the flags of {whole!r} are not supported")
    if ("-" in flags or "0" in flags) and (width is None or ("-" in flags and "0" in flags)):
        raise _Refused(f"{whole!r} needs a width, and either - or 0")
    if ("+" in flags and " " in flags) or (precision and conversion in "dxoc"):
        raise _Refused(f"{whole!r} has what does not go together")
    return _Directive(
        index, flags, int(width or 0), None if precision is None else int(precision), conversion, letter.isupper()
    )


def _written(format_text: str, kinds: tuple[pa.DataType, ...], values: tuple[Any, ...]) -> str:
    texts = []
    for part in _parsed(format_text):
        if isinstance(part, str):
            texts.append(part)
            continue
        if part.index >= len(values):
            raise _Refused("a % without a value")
        written = _converted(part, kinds[part.index], values[part.index])
        texts.append(written.upper() if part.upper else written)
    return "".join(texts)


def _converted(part: _Directive, kind: pa.DataType, value: Any) -> str:
    if part.conversion == "b":
        shown = "false" if value is None else str(value).lower() if kind == types.BOOLEAN else "true"
        return _aligned(_shortened(shown, part.precision), part.flags, part.width)
    if part.conversion == "s":
        return _aligned(_shortened(_plain(kind, value), part.precision), part.flags, part.width)
    if value is None:
        shown = "null" if part.conversion in "dxoc" else "null"[: part.precision]
        return _aligned(shown, part.flags.replace("0", ""), part.width)
    return _CONVERSIONS[part.conversion](part, kind, value)


def _aligned(shown: str, flags: str, width: int) -> str:
    """Returns the text filled with spaces to a width, which counts UTF-16 units."""
    missing = " " * (width - len(shown.encode("utf-16-le")) // 2)
    return shown + missing if "-" in flags else missing + shown


def _shortened(shown: str, units: int | None) -> str:
    """Returns the first UTF-16 units of a text; half of a character is written as a question mark."""
    if units is None or len(shown) <= units // 2:
        return shown
    return joined(shown.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "surrogatepass"))


def _plain(kind: pa.DataType, value: Any) -> str:
    if value is None:
        return "null"
    if kind == types.BOOLEAN:
        return "true" if value else "false"
    if kind == types.DOUBLE:
        return java_double(value)
    if kind == types.FLOAT:
        return java_float(np.float32(value))
    # A decimal as by Java's BigDecimal, of which Python's has the rules: 5E-7.
    return str(value)


def _required(part: _Directive, kind: pa.DataType, kinds: tuple[pa.DataType, ...]) -> None:
    if kind not in kinds:
        raise _Refused(f"%{part.conversion} of {types.spark_type_name(kind)}")


def _signed(part: _Directive, digits: str, negative: bool) -> str:
    """Returns digits with their sign, filled with zeros or spaces to the width."""
    lead, end = ("+" if "+" in part.flags else " " if " " in part.flags else ""), ""
    if negative:
        lead, end = ("(", ")") if "(" in part.flags else ("-", "")
    if "0" in part.flags:
        digits = digits.rjust(part.width - len(lead) - len(end), "0")
    return _aligned(lead + digits + end, part.flags, part.width)


def _decimal(part: _Directive, kind: pa.DataType, value: int) -> str:
    _required(part, kind, _ORDINALS)
    return _signed(part, f"{abs(value):,}" if "," in part.flags else str(abs(value)), value < 0)


def _radix(letter: str, mark: str) -> Callable[[_Directive, pa.DataType, Any], str]:
    def write(part: _Directive, kind: pa.DataType, value: int) -> str:
        _required(part, kind, _ORDINALS)
        digits = format(value % (1 << 8 * dtype_of(kind).itemsize), letter)
        lead = mark if "#" in part.flags else ""
        if "0" in part.flags:
            digits = digits.rjust(part.width - len(lead), "0")
        return _aligned(lead + digits, part.flags, part.width)

    return write


def _character(part: _Directive, kind: pa.DataType, value: int) -> str:
    _required(part, kind, (types.TINYINT, types.SMALLINT, types.INT))
    if not 0 <= value <= 0x10FFFF or 0xD800 <= value < 0xE000:
        raise _Refused(f"no character {value}")
    return _aligned(chr(value), part.flags, part.width)


def _fixed(part: _Directive, kind: pa.DataType, value: float) -> str:
    _required(part, kind, (types.FLOAT, types.DOUBLE))
    if not math.isfinite(value):
        return _not_finite(part, value)
    places = 6 if part.precision is None else part.precision
    rounded = _digits(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)
    digits = f"{rounded:,f}" if "," in part.flags else f"{rounded:f}"
    return _signed(part, digits + ("." if "#" in part.flags and not places else ""), math.copysign(1.0, value) < 0)


def _scientific(part: _Directive, kind: pa.DataType, value: float) -> str:
    _required(part, kind, (types.FLOAT, types.DOUBLE))
    if not math.isfinite(value):
        return _not_finite(part, value)
    places = 6 if part.precision is None else part.precision
    number = _digits(value)
    exponent = number.adjusted() if number else 0
    step = Decimal(1).scaleb(exponent - places)
    rounded = number.quantize(step, ROUND_HALF_UP, _EXACT)
    if rounded and rounded.adjusted() > exponent:
        exponent += 1
    mantissa = rounded.scaleb(-exponent, _EXACT).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)
    dot = "." if "#" in part.flags and not places else ""
    digits = f"{mantissa:f}{dot}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return _signed(part, digits, math.copysign(1.0, value) < 0)


def _digits(value: float) -> Decimal:
    """Returns the digits that Java writes of a double, without its sign; Java rounds those, and not its exact value."""
    if value == 0:
        return Decimal(0)
    digits, point = double_digits(abs(value))
    return Decimal((0, tuple(map(int, digits)), point - len(digits)))


def _not_finite(part: _Directive, value: float) -> str:
    if math.isnan(value):
        return _aligned("NaN", part.flags, part.width)
    flags = part.flags.replace("0", "")
    return _signed(_Directive(part.index, flags, part.width, None, part.conversion, False), "Infinity", value < 0)


_CONVERSIONS: dict[str, Callable[[_Directive, pa.DataType, Any], str]] = {
    "d": _decimal,
    "x": _radix("x", "0x"),
    "o": _radix("o", "0"),
    "c": _character,
    "f": _fixed,
    "e": _scientific,
}

FUNCTIONS = with_aliases({"format_string": Function(format_string, 1, MANY)}, printf="format_string")
