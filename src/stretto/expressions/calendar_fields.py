"""Fields of dates and timestamps: year, week, hour and the others, also by `extract`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import civil, types
from stretto.expressions.arithmetic import truncated_quotient
from stretto.expressions.intervals import DAY_TIME, FIELD_MICROS, YEAR_MONTH, fields_of, is_interval
from stretto.expressions.local_times import of_local_time
from stretto.expressions.moments import day, moment
from stretto.expressions.nodes import Node, Site, constant_argument, elementwise, kernel, null
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.vectors import dtype_of
from stretto.expressions.zones import MICROS_PER_SECOND, session_zone

Build = Callable[[Site, Node], Node]
_DAY_NAMES = pa.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
_MONTH_NAMES = pa.array(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
_SECONDS_DECIMAL = pa.decimal128(8, 6)


def of_day(field: Callable[[Any], Any]) -> Build:
    """Returns the builder of a field of a date, which is an int."""

    def build(site: Site, node: Node) -> Node:
        if node.type == types.TIMESTAMP:
            return of_local_time(types.INT, lambda days, micros: field(days).astype(np.int32), site, node)
        return elementwise(types.INT, lambda days: field(days).astype(np.int32), site, (day(node, site),))

    return build


def of_clock(unit_micros: int, modulus: int) -> Build:
    """Returns the builder of hour, minute or second, which in UTC are a division."""

    def build(site: Site, node: Node) -> Node:
        inner = moment(node, site)
        if session_zone().is_utc:
            return elementwise(
                types.INT, lambda micros: (micros // unit_micros % modulus).astype(np.int32), site, (inner,)
            )
        return of_local_time(
            types.INT, lambda days, micros: (micros // unit_micros % modulus).astype(np.int32), site, inner
        )

    return build


def seconds_with_fraction(site: Site, node: Node) -> Node:
    """Returns the second of a timestamp with its microseconds, as a decimal."""
    return of_local_time(
        _SECONDS_DECIMAL, lambda days, micros: micros % (60 * MICROS_PER_SECOND), site, moment(node, site)
    )


def _named(names: pa.Array, field: Callable[[Any], Any]) -> Build:
    def build(site: Site, node: Node) -> Node:
        place = elementwise(types.INT, lambda days: field(days).astype(np.int32), site, (day(node, site),))
        return kernel(types.STRING, lambda places: _taken(names, places), site, (place,))

    return build


def _taken(names: pa.Array, places: Any) -> Any:
    if isinstance(places, pa.Scalar):
        return names[places.as_py()] if places.is_valid else pa.scalar(None, types.STRING)
    return names.take(places)


def last_day(site: Site, node: Node) -> Node:
    return elementwise(types.DATE, lambda days: civil.last_of_month(days).astype(np.int32), site, (day(node, site),))


FIELDS: dict[str, Build] = {
    "year": of_day(civil.year),
    "yearofweek": of_day(civil.year_of_week),
    "quarter": of_day(civil.quarter),
    "month": of_day(civil.month),
    "week": of_day(civil.week),
    "day": of_day(civil.day),
    "dayofweek": of_day(lambda days: (civil.weekday(days) + 1) % civil.DAYS_PER_WEEK + 1),
    "dayofweek_iso": of_day(lambda days: civil.weekday(days) + 1),
    "doy": of_day(civil.day_of_year),
    "hour": of_clock(3_600 * MICROS_PER_SECOND, 24),
    "minute": of_clock(60 * MICROS_PER_SECOND, 60),
    "second": of_clock(MICROS_PER_SECOND, 60),
}


_ALIASES = {
    "year": ("y", "years", "yr", "yrs"),
    "quarter": ("qtr",),
    "month": ("mon", "mons", "months"),
    "week": ("w", "weeks"),
    "day": ("d", "days"),
    "dayofweek": ("dow",),
    "dayofweek_iso": ("dow_iso",),
    "hour": ("h", "hours", "hr", "hrs"),
    "minute": ("m", "min", "mins", "minutes"),
    "second": ("s", "sec", "seconds", "secs"),
}
_FIELD_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}


def extracted(name: str, node: Node, site: Site) -> Node:
    """Returns `extract(name FROM node)`: a field of a time or of an interval."""
    field = _FIELD_NAMES.get(name.lower(), name.lower())
    if is_interval(node.type):
        return _of_interval(field, node, site)
    if field not in FIELDS:
        raise site.error(f"there is no field {name!r}", None, f"fields: {', '.join(FIELDS)}")
    if field == "second":
        return seconds_with_fraction(site, node)
    return FIELDS[field](site, node)


def _of_interval(field: str, node: Node, site: Site) -> Node:
    """Returns a field of an interval; all fields have its sign."""
    first, last = fields_of(node)
    names = YEAR_MONTH if node.type == types.MONTHS else DAY_TIME
    known = names[names.index(first) : names.index(last) + 1]
    if field not in known:
        raise site.error(f"this interval has no field {field!r}", None, f"fields: {', '.join(known)}")
    if field == "second":
        return elementwise(_SECONDS_DECIMAL, lambda span: np.fmod(span, 60 * MICROS_PER_SECOND), site, (node,))
    size = {"year": 12, "month": 1}.get(field) or FIELD_MICROS[field]
    kind, modulus = {
        "year": (types.INT, 2**40),
        "day": (types.INT, 2**40),
        "month": (types.TINYINT, 12),
        "hour": (types.TINYINT, 24),
        "minute": (types.TINYINT, 60),
    }[field]
    dtype = dtype_of(kind)

    def apply(span: Any) -> Any:
        return np.fmod(truncated_quotient(span, size), modulus).astype(dtype)

    return elementwise(kind, apply, site, (node,))


def date_part(site: Site, name: Node, node: Node) -> Node:
    """Returns `date_part('field', x)`, whose field is a constant."""
    field = constant_argument(name, types.STRING, "the field of date_part")
    return null(types.DOUBLE, site) if field is None else extracted(field, node, site)


def _function(name: str) -> Function:
    return fixed(FIELDS[name], 1)


FUNCTIONS = with_aliases(
    {
        "year": _function("year"),
        "quarter": _function("quarter"),
        "month": _function("month"),
        "weekofyear": _function("week"),
        "day": _function("day"),
        "dayofweek": _function("dayofweek"),
        "weekday": fixed(of_day(civil.weekday), 1),
        "dayofyear": _function("doy"),
        "hour": _function("hour"),
        "minute": _function("minute"),
        "second": _function("second"),
        "dayname": fixed(_named(_DAY_NAMES, civil.weekday), 1),
        "monthname": fixed(_named(_MONTH_NAMES, lambda days: civil.month(days) - 1), 1),
        "last_day": fixed(last_day, 1),
        "date_part": fixed(date_part, 2),
    },
    dayofmonth="day",
    datepart="date_part",
)
