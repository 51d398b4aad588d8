"""Reads dates and timestamps from texts in the forms that CAST reads: 2024, 2024-2, 2024-02-29T12:30:00.5 Asia/Tokyo.

A pattern takes a text apart; the parts are numbers for a whole array. Only zones are looked up one by one, each
distinct one once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import civil
from stretto.expressions.vectors import INT64_MAX, validity, widened
from stretto.expressions.zones import MICROS_PER_DAY, MICROS_PER_SECOND, Zone, find_zone

#: What a cast ignores around a time: spaces and control characters of ASCII.
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_DAY = r"(?P<sign>[+-])?(?P<y>\d{4,7})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T].*)?)?)?"
_DATE = f"(?s)^{_DAY}$"
_TIMESTAMP = (
    r"(?s)^(?P<sign>[+-])?(?P<y>\d{4,6})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T](?P<H>\d{1,2})"
    r"(?::(?P<M>\d{1,2})(?::(?P<S>\d{1,2})(?:\.(?P<f>\d*))?(?P<z>[^0-9].*)?)?)?)?)?)?$"
)
_DAYS_MAX = 2**31 - 1
#: So many days fit a timestamp with every offset.
_SAFE_DAYS = INT64_MAX // MICROS_PER_DAY - 2


class Parts:
    """The parts of texts that match a pattern: numbers, or a default where a part is missing."""

    def __init__(self, strings: pa.Array, pattern: str) -> None:
        trimmed = pc.utf8_trim(strings, characters=_BLANK)
        self._found = pc.extract_regex(trimmed, pattern)
        self.matched = validity(self._found)

    def text(self, name: str) -> pa.Array:
        return pc.fill_null(pc.struct_field(self._found, name), "")

    def number(self, name: str, default: int) -> Any:
        digits = self.text(name)
        filled = pc.if_else(pc.equal(digits, ""), str(default), digits)
        return pc.cast(filled, pa.int64()).to_numpy(zero_copy_only=False)

    def days(self) -> tuple[Any, Any]:
        """Returns days since 1970, and whether there are such days."""
        years, months, days = self.number("y", 1970), self.number("m", 1), self.number("d", 1)
        negative = pc.equal(self.text("sign"), "-").to_numpy(zero_copy_only=False)
        return date_or_none(np.where(negative, -years, years), months, days)


def date_or_none(years: Any, months: Any, days: Any) -> tuple[Any, Any]:
    """Returns days since 1970, and whether there are such days."""
    exists = (months >= 1) & (months <= 12) & (days >= 1)
    first = civil.first_of_month((years - 1970) * 12 + np.where(exists, months, 1) - 1)
    exists = exists & (days <= civil.day(civil.last_of_month(first)))
    return first + days - 1, exists


def read_dates(strings: pa.Array) -> tuple[Any, Any]:
    """Returns days since 1970, and whether the text is a date; a null is none."""
    parts = Parts(strings, _DATE)
    days, exists = parts.days()
    return days, parts.matched & exists & (np.abs(days) <= _DAYS_MAX)


def read_timestamps(strings: pa.Array, zone: Zone) -> tuple[Any, Any]:
    """Returns microseconds since 1970, and whether the text is a timestamp; a null is none.

    The zone is for texts that do not name one."""
    parts = Parts(strings, _TIMESTAMP)
    days, exists = parts.days()
    hours, minutes, seconds = (parts.number(name, 0) for name in "HMS")
    exists &= parts.matched & (hours < 24) & (minutes < 60) & (seconds < 60)
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(parts.text("f"), 0, 6), 6, "0")
    of_day = (hours * 3_600 + minutes * 60 + seconds) * MICROS_PER_SECOND
    of_day += pc.cast(fraction, pa.int64()).to_numpy(zero_copy_only=False)
    return in_zones(days, of_day, exists, parts.text("z"), zone)


def in_zones(days: Any, of_day: Any, exists: Any, named: pa.Array, zone: Zone) -> tuple[Any, Any]:
    """Returns the instants of local times in the zones that are named, or in the given one where the name is empty."""
    if pc.all(pc.equal(named, "")).as_py() is not False:
        return _instants(days, of_day, exists, zone)
    micros = np.zeros(len(named), np.int64)
    encoded = named.dictionary_encode()
    places = encoded.indices.to_numpy(zero_copy_only=False)
    for place, name in enumerate(encoded.dictionary.to_pylist()):
        rows = places == place
        own = find_zone(name.strip(_BLANK)) if name else zone
        if own is None:
            exists[rows] = False
            continue
        micros[rows], exists[rows] = _instants(days[rows], of_day[rows], exists[rows], own)
    return micros, exists


def _instants(days: Any, of_day: Any, exists: Any, zone: Zone) -> tuple[Any, Any]:
    far = np.abs(days) > _SAFE_DAYS
    if not np.any(far & exists):
        return zone.instant(np.where(far, 0, days), of_day), exists
    near = np.clip(days, -_SAFE_DAYS, _SAFE_DAYS)
    micros = widened(zone.instant(near, of_day)) + widened(days - near) * MICROS_PER_DAY
    fits = np.array([-INT64_MAX - 1 <= each <= INT64_MAX for each in micros], np.bool_)
    return np.where(fits, micros, 0).astype(np.int64), exists & fits
