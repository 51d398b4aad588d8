"""Time zones by Java's names and rules: the local time of an instant, and the instant of a local time.

A local time is a pair of numbers: days since 1970, and microseconds of that day. That also fits the local times of
the greatest timestamps, which microseconds since 1970 in 64 bits would not.

What is compiled in a block of `in_zone` belongs to that zone, as Spark's expressions belong to their session's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from stretto.errors import ExpressionError
from stretto.expressions.zone_files import CYCLE_S, SECONDS_PER_DAY, Rules, rules_of

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_OFFSET_MAX_S = 18 * 3_600
_PROBED_UNTIL_S = 2**32
_OFFSET = re.compile(r"([+-])(\d\d?)(?::?(\d\d)(?::?(\d\d))?)?")
_OFFSET_FORMS = re.compile(r"[+-](\d|\d\d|\d{4}|\d\d:\d\d|\d{6}|\d\d:\d\d:\d\d)")
_PREFIXED = re.compile(r"(UTC|GMT|UT)([+-].*)?")
#: java.time.ZoneId.SHORT_IDS, with which Spark reads zones.
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}


class Zone:
    """A time zone. Make one with `zone_named`."""

    __slots__ = ("_local_changes", "_rules", "is_utc", "name")

    def __init__(self, name: str, rules: Rules) -> None:
        self.name = name
        self._rules = rules
        #: Whether the offset is always zero, which makes local times a division.
        self.is_utc = not len(rules.changes) and int(rules.offsets[0]) == 0
        # A local time that a change skips, or repeats, has the offset from before the change, as in Java.
        before, after = rules.offsets[:-1], rules.offsets[1:]
        self._local_changes = rules.changes + np.maximum(before, after)

    @property
    def spread_us(self) -> int:
        """How far the offsets of this zone are apart, at most."""
        offsets = self._rules.offsets
        return int(offsets.max() - offsets.min()) * MICROS_PER_SECOND

    @property
    def around_changes_us(self) -> tuple[int, ...]:
        """Returns times within an hour before and after each change of the offset, from 1970 on."""
        changes = [int(change) for change in self._rules.changes if 0 < change < _PROBED_UNTIL_S]
        return tuple((change + hour) * MICROS_PER_SECOND for change in changes for hour in (-1_800, 1_800))

    def offset_s(self, seconds: Any) -> Any:
        """Returns the offset, in seconds east of Greenwich, at instants in seconds since 1970."""
        return self._looked_up(self._rules.changes, seconds)

    def _looked_up(self, changes: Any, seconds: Any) -> Any:
        if not len(changes):
            return self._rules.offsets[0]
        return self._rules.offsets[np.searchsorted(changes, self._in_cycle(seconds), side="right")]

    def _in_cycle(self, seconds: Any) -> Any:
        """Returns times beyond the listed changes as the same times some cycles of the calendar earlier."""
        start = self._rules.repeats_from
        if start is None or np.size(seconds) == 0 or np.max(seconds) < start:
            return seconds
        return seconds - (np.maximum(seconds - start, -1) // CYCLE_S + 1) * CYCLE_S

    def local(self, micros: Any) -> tuple[Any, Any]:
        """Returns the days and the microseconds of the day of instants in microseconds since 1970."""
        if self.is_utc:
            return micros // MICROS_PER_DAY, micros % MICROS_PER_DAY
        seconds = micros // MICROS_PER_SECOND
        local = seconds + self.offset_s(seconds)
        days = local // SECONDS_PER_DAY
        return days, (local - days * SECONDS_PER_DAY) * MICROS_PER_SECOND + micros % MICROS_PER_SECOND

    def local_offset_s(self, days: Any, micros: Any) -> Any:
        """Returns the offset at local times."""
        if self.is_utc:
            return np.int64(0)
        return self._looked_up(self._local_changes, days * SECONDS_PER_DAY + micros // MICROS_PER_SECOND)

    def instant(self, days: Any, micros: Any, kept_s: Any = None) -> Any:
        """Returns the instants of local times, whose days int64 must hold as microseconds.

        A local time that exists twice has the offset `kept_s` if that is one of its two, and else the earlier one."""
        if self.is_utc:
            return days * MICROS_PER_DAY + micros
        offset = self.local_offset_s(days, micros)
        if kept_s is not None:
            seconds = days * SECONDS_PER_DAY + micros // MICROS_PER_SECOND - kept_s
            offset = np.where(self.offset_s(seconds) == kept_s, kept_s, offset)[()]
        return days * MICROS_PER_DAY + (micros - offset * MICROS_PER_SECOND)

    def start_of_day(self, days: Any) -> Any:
        """Returns the instants at which local days begin: the end of the hour that a change skips at midnight."""
        if self.is_utc:
            return days * MICROS_PER_DAY
        offset = self.local_offset_s(days, 0)
        seconds = days * SECONDS_PER_DAY - offset
        skipped = self.offset_s(seconds) != offset
        if np.any(skipped):
            reduced, changes = self._in_cycle(seconds), self._rules.changes
            change = changes[np.searchsorted(changes, reduced, side="right") - 1]
            seconds = np.where(skipped, seconds - reduced + change, seconds)[()]
        return seconds * MICROS_PER_SECOND

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"


@lru_cache(maxsize=256)
def find_zone(name: str) -> Zone | None:
    """Returns the zone that Spark means by a name or an offset, or None if it knows none."""
    full = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1)
    full = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", full, count=1)
    full = _SHORT_NAMES.get(full, full)
    prefixed = _PREFIXED.fullmatch(full)
    if prefixed is not None:
        full = prefixed[2] or "Z"
    if full == "Z" or full[:1] in ("+", "-"):
        offset = 0 if full == "Z" else _offset(full)
        return None if offset is None else Zone(name, Rules(np.empty(0, np.int64), np.array([offset]), None))
    rules = rules_of(full)
    return None if rules is None else Zone(name, rules)


def _offset(text: str) -> int | None:
    found = _OFFSET.fullmatch(text)
    if found is None or not _OFFSET_FORMS.fullmatch(text):
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    total = hours * 3_600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _OFFSET_MAX_S:
        return None
    return -total if found[1] == "-" else total


def zone_named(name: str) -> Zone:
    """Returns a zone by its name or its offset."""
    zone = find_zone(name)
    if zone is None:
        raise ExpressionError(
            f"there is no time zone {name!r}", None, "use a name such as Europe/Berlin, or an offset such as +05:30"
        )
    return zone


UTC = zone_named("UTC")
_session: ContextVar[Zone] = ContextVar("stretto_zone", default=UTC)


@contextmanager
def in_zone(zone: Zone) -> Iterator[None]:
    """Makes a zone the session's for what is compiled in a block."""
    token = _session.set(zone)
    try:
        yield
    finally:
        _session.reset(token)


def session_zone() -> Zone:
    """Returns the zone of what is compiled here: UTC, unless a block says otherwise."""
    return _session.get()
