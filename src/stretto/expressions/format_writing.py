"""date_format: writes timestamps by a pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import civil, types
from stretto.expressions.formats import Part, parsed
from stretto.expressions.time_texts import fixed_width, per_distinct, put_digits
from stretto.expressions.zones import MICROS_PER_SECOND, Zone

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_HOUR = 3_600 * MICROS_PER_SECOND


class _Moments:
    """Timestamps as local times; each field is computed when it is asked for."""

    def __init__(self, micros: Any, zone: Zone) -> None:
        self.zone = zone
        self.days, self.of_day = zone.local(micros)
        self.offsets = zone.offset_s(micros // MICROS_PER_SECOND) + np.zeros(len(micros), np.int64)

    def hour(self) -> Any:
        return self.of_day // _HOUR


#: Fields that are numbers of one or two digits.
_NUMBERS: dict[str, Callable[[_Moments], Any]] = {
    "M": lambda moments: civil.month(moments.days),
    "L": lambda moments: civil.month(moments.days),
    "d": lambda moments: civil.day(moments.days),
    "D": lambda moments: civil.day_of_year(moments.days),
    "Q": lambda moments: civil.quarter(moments.days),
    "q": lambda moments: civil.quarter(moments.days),
    "H": lambda moments: moments.hour(),
    "k": lambda moments: (moments.hour() - 1) % 24 + 1,
    "K": lambda moments: moments.hour() % 12,
    "h": lambda moments: (moments.hour() - 1) % 12 + 1,
    "m": lambda moments: moments.of_day // (60 * MICROS_PER_SECOND) % 60,
    "s": lambda moments: moments.of_day // MICROS_PER_SECOND % 60,
}


def writer(pattern: str) -> Callable[[Any, Zone], pa.Array]:
    """Returns a function from timestamps and a zone to texts."""
    parts = [part for part in parsed(pattern) if part.letter not in ("[", "]")]
    with_era = any(part.letter == "G" for part in parts)
    compact = bool(parts) and all(_is_compact(part) for part in parts)

    def write(micros: Any, zone: Zone) -> pa.Array:
        moments = _Moments(micros, zone)
        if compact and len(micros):
            years = civil.year(moments.days)
            if years.min() >= (1 if with_era else 0) and years.max() <= 9_999:
                return _compactly(parts, moments)
        columns = [_column(part, moments, with_era) for part in parts]
        columns = [column for column in columns if column is not None]
        if not columns:
            return pa.array([""] * len(micros), types.STRING)
        return pc.binary_join_element_wise(*columns, "") if len(columns) > 1 else columns[0]

    return write


def _is_compact(part: Part) -> bool:
    """Whether a part always has the same number of ASCII characters, all digits if it is a field."""
    if not part.letter:
        return part.text.isascii()
    return (part.letter, part.width) in (("y", 4), ("D", 3)) or part.letter == "S" or _is_pair(part)


def _is_pair(part: Part) -> bool:
    return part.width == 2 and part.letter in "MLdHkKhms"


def _compactly(parts: list[Part], moments: _Moments) -> pa.Array:
    """Returns texts from a matrix of their bytes, a column for each place."""
    widths = [part.width or len(part.text) for part in parts]
    matrix = np.empty((len(moments.days), sum(widths)), np.uint8)
    place = 0
    for part, width in zip(parts, widths, strict=True):
        if not part.letter:
            matrix[:, place : place + width] = np.frombuffer(part.text.encode(), np.uint8)
        else:
            put_digits(matrix, place, width, _digits(part, moments))
        place += width
    return fixed_width(matrix)


def _digits(part: Part, moments: _Moments) -> Any:
    if part.letter == "y":
        return civil.year(moments.days)
    if part.letter == "S":
        micros = moments.of_day % MICROS_PER_SECOND
        return micros // 10 ** (6 - part.width) if part.width <= 6 else micros * 10 ** (part.width - 6)
    return _NUMBERS[part.letter](moments)


def _column(part: Part, moments: _Moments, with_era: bool) -> Any:
    letter, width = part.letter, part.width
    if not letter:
        return pa.scalar(part.text, types.STRING)
    if letter == "V":
        return pa.scalar(moments.zone.name, types.STRING)
    if letter == "S":
        return per_distinct(_digits(part, moments), lambda digits: f"{digits:0{width}d}")
    if letter in "XxZO":
        return per_distinct(moments.offsets, partial(offset_text, letter, width))
    write, numbers = _text(part, moments, with_era)
    return per_distinct(numbers, write)


def _text(part: Part, moments: _Moments, with_era: bool) -> tuple[Callable[[Any], str], Any]:
    """Returns how a number of this field is written, and the numbers."""
    letter, width = part.letter, part.width
    if letter in "yG":
        years = civil.year(moments.days)
        if letter == "G":
            names = ("BC", "AD") if width < 4 else ("Before Christ", "Anno Domini")
            return (lambda year: names[year > 0]), years
        return partial(_year, width), np.where(years > 0, years, 1 - years) if with_era else years
    if letter == "a":
        return (lambda hour: ("AM", "PM")[hour >= 12]), moments.hour()
    if letter == "E":
        return (lambda day: _DAYS[day] if width == 4 else _DAYS[day][:3]), civil.weekday(moments.days)
    numbers = _NUMBERS[letter](moments)
    if width >= 3 and letter in "ML":
        return (lambda month: _MONTHS[month - 1] if width == 4 else _MONTHS[month - 1][:3]), numbers
    if width >= 3 and letter in "Qq":
        return (lambda quarter: _QUARTERS[quarter - 1] if width == 4 else f"Q{quarter}"), numbers
    return (lambda number: f"{number:0{width}d}"), numbers


def _year(width: int, year: int) -> str:
    if width == 2:
        return f"{abs(year) % 100:02d}"
    sign = "-" if year < 0 else "+" if width >= 4 and abs(year) >= 10**width else ""
    return f"{sign}{abs(year):0{width}d}"


def offset_text(letter: str, width: int, offset_s: int) -> str:
    """Returns an offset as `X`, `x`, `Z` or `O` write it."""
    sign, rest = ("-" if offset_s < 0 else "+"), abs(offset_s)
    hours, minutes, seconds = rest // 3_600, rest // 60 % 60, rest % 60
    if letter == "O" or (letter == "Z" and width == 4):
        if not rest:
            return "GMT"
        tail = f":{seconds:02d}" if seconds else ""
        if letter == "O" and width == 1:
            return f"GMT{sign}{hours}" + (f":{minutes:02d}" if minutes or seconds else "") + tail
        return f"GMT{sign}{hours:02d}:{minutes:02d}{tail}"
    if letter == "Z":
        letter, width = ("X", 5) if width == 5 else ("x", 2)
    if letter == "X" and not rest:
        return "Z"
    colon = ":" if width in (3, 5) else ""
    text = f"{sign}{hours:02d}"
    if width > 1 or minutes:
        text += f"{colon}{minutes:02d}"
    return text + (f"{colon}{seconds:02d}" if width > 3 and seconds else "")
