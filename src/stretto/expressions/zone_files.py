"""The rules of a region's time zone from the tz database: when its offset changed, and how it goes on for ever.

A file (RFC 8536) has the changes up to some year, and a rule for the years after it. Java applies that rule without
end. The calendar repeats itself every 400 years, so changes are made for so many years, and later times are moved
back into them.
"""

from __future__ import annotations

import pkgutil
import re
import struct
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

SECONDS_PER_DAY = 86_400
CYCLE_YEARS = 400
CYCLE_S = 146_097 * SECONDS_PER_DAY
_EPOCH = date(1970, 1, 1).toordinal()
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
#: What lies beside the regions in the database, and is none.
_NOT_REGIONS = ("posix/", "right/", "posixrules", "localtime", "leap", "tzdata", "zone", "iso3166", "Factory", "+")
_HEADER = struct.Struct(">4sc15x6l")
_RULE = re.compile(r"(<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)(?:(<[^>]+>|[A-Za-z]+)([+-]?[\d:]+)?,(.+),(.+))?")


@dataclass(frozen=True)
class Rules:
    """`offsets[i]` seconds east of Greenwich hold before `changes[i]`, seconds since 1970, and the last one after all.
    A time at or after `repeats_from` has the offset that holds some cycles of 400 years earlier."""

    changes: Any
    offsets: Any
    repeats_from: int | None


def rules_of(region: str) -> Rules | None:
    """Returns the rules of a region such as Europe/Berlin, or None if the database has no such region."""
    if not _REGION.fullmatch(region) or ".." in region or region.startswith(_NOT_REGIONS):
        return None
    data = _file(region)
    return None if data is None or data[:4] != b"TZif" else _read(data)


def _file(region: str) -> bytes | None:
    # Not the system's files: some systems give regions a time of their own before 1970, and Java does not.
    try:
        return pkgutil.get_data("tzdata.zoneinfo", region)
    except OSError:
        return None


def _read(data: bytes) -> Rules:
    _, version, *counts = _HEADER.unpack_from(data)
    start, size = _HEADER.size, 4
    if version >= b"2":  # The first block has 32 bits for a time; the second has 64.
        start += _block_size(counts, size)
        _, _, *counts = _HEADER.unpack_from(data, start)
        start, size = start + _HEADER.size, 8
    changes_count, types_count = counts[3], counts[4]
    changes = np.frombuffer(data, f">i{size}", changes_count, start).astype(np.int64)
    kinds = np.frombuffer(data, np.uint8, changes_count, start + size * changes_count)
    records = start + (size + 1) * changes_count
    by_kind = [struct.unpack_from(">l", data, records + 6 * kind)[0] for kind in range(types_count)]
    offsets = np.array([by_kind[0], *(by_kind[kind] for kind in kinds)], np.int64)
    footer = data[start + _block_size(counts, size) :].strip(b"\n").decode() if size == 8 else ""
    return _continued(changes, offsets, footer)


def _block_size(counts: list[int], size: int) -> int:
    utc, standard, leaps, changes, types, characters = counts
    return changes * (size + 1) + types * 6 + characters + leaps * (size + 4) + standard + utc


def _continued(changes: Any, offsets: Any, footer: str) -> Rules:
    """Returns the rules with those of the footer, which is a text such as EST5EDT,M3.2.0,M11.1.0."""
    found = _RULE.fullmatch(footer)
    if found is None or found[3] is None:
        return Rules(changes, offsets, None)
    standard = -_clock(found[2])
    summer = -_clock(found[4]) if found[4] else standard + 3_600
    last = int(changes[-1]) if len(changes) else 0
    first_year = date.fromordinal(_EPOCH + last // SECONDS_PER_DAY).year
    years = range(first_year, first_year + CYCLE_YEARS + 3)
    rows = [(_moment(found[5], year) - standard, summer) for year in years]
    rows += [(_moment(found[6], year) - summer, standard) for year in years]
    later = sorted(row for row in rows if row[0] > last)
    repeats_from = (date(first_year + 1 + CYCLE_YEARS, 1, 1).toordinal() - _EPOCH) * SECONDS_PER_DAY
    return Rules(
        np.append(changes, [moment for moment, _ in later]), np.append(offsets, [o for _, o in later]), repeats_from
    )


def _moment(rule: str, year: int) -> int:
    """Returns the local time of a change in a year, in seconds since 1970."""
    day, _, clock = rule.partition("/")
    return (_day(day, year) - _EPOCH) * SECONDS_PER_DAY + (_clock(clock) if clock else 7_200)


def _day(rule: str, year: int) -> int:
    if rule.startswith("M"):
        month, week, weekday = map(int, rule[1:].split("."))
        first = date(year, month, 1).toordinal()
        day = first + (weekday - first) % 7 + 7 * (week - 1)
        after = date(year + month // 12, month % 12 + 1, 1).toordinal()
        return day if day < after else day - 7
    first = date(year, 1, 1).toordinal()
    if not rule.startswith("J"):
        return first + int(rule)
    leap = date(year, 12, 31).toordinal() - first == 365
    return first + int(rule[1:]) - 1 + (leap and int(rule[1:]) >= 60)


def _clock(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = (*map(int, text.lstrip("+-").split(":")), 0, 0)[:3]
    return sign * (hours * 3_600 + minutes * 60 + seconds)
