"""to_timestamp with a pattern: reads texts as Java's strict formatter does, by one regular expression for an array."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions.formats import Part, for_parsing
from stretto.expressions.local_times import SAFE_DAYS
from stretto.expressions.time_parsing import date_or_none, in_zones
from stretto.expressions.vectors import validity
from stretto.expressions.zones import MICROS_PER_SECOND, Zone

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_YEARS = {1: r"-?\d{1,9}", 2: r"\d{2}", 3: r"-?\d{3,9}", 4: r"\d{4}|\+\d{5,9}|-\d{4,9}", 5: r"\d{5}|\+\d{6,9}|-\d{5,9}",
          6: r"\d{6}|\+\d{7,9}|-\d{6,9}"}  # fmt: skip
_OFFSETS = {
    1: r"[+-]\d{2}(?:\d{2})?",
    2: r"[+-]\d{4}",
    3: r"[+-]\d{2}:\d{2}",
    4: r"[+-]\d{4}(?:\d{2})?",
    5: r"[+-]\d{2}:\d{2}(?::\d{2})?",
}
_RANGES = {
    "M": (1, 12),
    "d": (1, 31),
    "H": (0, 23),
    "k": (1, 24),
    "K": (0, 11),
    "h": (1, 12),
    "m": (0, 59),
    "s": (0, 59),
}


@lru_cache(maxsize=256)
def _expression(pattern: str) -> tuple[str, dict[str, Part]]:
    """Returns the regular expression of a pattern, and its fields by letter."""
    text, fields = "", {}
    for part in for_parsing(pattern):
        if not part.letter:
            text += re.escape(part.text) if part.text != " " else " "
        elif part.letter in "[]":
            text += "(?:" if part.letter == "[" else ")?"
        else:
            fields[part.letter] = part
            text += f"(?P<{part.letter}>{_field(part)})"
    return f"(?is)^{text}$", fields


def _field(part: Part) -> str:
    letter, width = part.letter, part.width
    if letter == "y":
        return _YEARS[width]
    if letter in "ML" and width >= 3:
        return "|".join(name[: None if width == 4 else 3] for name in _MONTHS)
    if letter == "a":
        return "am|pm"
    if letter == "S":
        return rf"\d{{1,{width}}}"
    if letter in "Xx":
        return _OFFSETS[width] + ("|Z" if letter == "X" else "")
    if letter == "Z":
        return _OFFSETS[2]
    return r"\d{2}" if width == 2 else r"\d{1,9}"


def read_by(pattern: str, strings: pa.Array, zone: Zone) -> tuple[Any, Any, Any]:
    """Returns microseconds since 1970, whether the text fits the pattern (a null does not), and whether it does but no
    timestamp is so far away."""
    expression, fields = _expression(pattern)
    found = pc.extract_regex(strings, expression)
    exists = validity(found).copy()
    texts = {letter: pc.fill_null(pc.struct_field(found, letter), "") for letter in fields}
    numbers: dict[str, Any] = {}
    for letter, (low, high) in _RANGES.items():
        source = "L" if letter == "M" and "L" in fields else letter
        given = _numbers(fields.get(source), texts.get(source))
        if given is not None:
            present = given >= 0
            exists &= ~present | ((given >= low) & (given <= high))
            numbers[letter] = np.where(present, given, {"M": 1, "d": 1}.get(letter, 0))
    zero = np.zeros(len(strings), np.int64)
    years = _years(fields, texts, zero)
    if "y" in texts and np.any(years == 0):  # Java reads the year 0, and no -0.
        exists &= (years != 0) | ~pc.starts_with(texts["y"], "-").to_numpy(zero_copy_only=False)
    days, on_calendar = date_or_none(years, numbers.get("M", zero + 1), numbers.get("d", zero + 1))
    seconds = _hours(numbers, texts, zero) * 3_600 + numbers.get("m", zero) * 60 + numbers.get("s", zero)
    micros = seconds * MICROS_PER_SECOND + _fraction(texts, zero)
    zones = [pc.ascii_upper(texts[letter]) for letter in "XxZ" if letter in texts]
    named = zones[0] if zones else pa.array([""] * len(strings), pa.string())
    far = exists & on_calendar & (np.abs(days) > SAFE_DAYS)
    return *in_zones(days, micros, exists & on_calendar, named, zone), far


def _numbers(part: Part | None, texts: Any) -> Any:
    """Returns the numbers of a field, -1 where an optional part is missing."""
    if part is None:
        return None
    if part.letter in "ML" and part.width >= 3:
        names = pa.array([name[: None if part.width == 4 else 3] for name in _MONTHS])
        places = pc.fill_null(pc.index_in(pc.utf8_lower(texts), value_set=names), -2)
        return places.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    filled = pc.if_else(pc.equal(texts, ""), "-1", texts)
    return pc.cast(filled, pa.int64()).to_numpy(zero_copy_only=False)


def _years(fields: dict[str, Part], texts: dict[str, Any], zero: Any) -> Any:
    if "y" not in fields:
        return zero + 1970
    digits = pc.utf8_ltrim(texts["y"], characters="+")
    missing = pc.equal(digits, "")
    years = pc.cast(pc.if_else(missing, "1970", digits), pa.int64()).to_numpy(zero_copy_only=False)
    return years if fields["y"].width != 2 else np.where(missing.to_numpy(zero_copy_only=False), years, years + 2000)


def _hours(numbers: dict[str, Any], texts: dict[str, Any], zero: Any) -> Any:
    if "H" in numbers:
        return numbers["H"]
    if "k" in numbers:
        return numbers["k"] % 24
    half = numbers["h"] % 12 if "h" in numbers else numbers.get("K")
    if "a" not in texts:
        return zero if half is None else half
    after_noon = pc.equal(pc.ascii_lower(texts["a"]), "pm").to_numpy(zero_copy_only=False)
    return np.where(after_noon, 12, 0) + (zero if half is None else half)


def _fraction(texts: dict[str, Any], zero: Any) -> Any:
    if "S" not in texts:
        return zero
    padded = pc.utf8_rpad(pc.utf8_slice_codeunits(texts["S"], 0, 6), 6, "0")
    return pc.cast(padded, pa.int64()).to_numpy(zero_copy_only=False)
