"""Times and intervals from their parts: make_date, make_timestamp, make_dt_interval, make_ym_interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.attempts import attempted
from stretto.expressions.casts import cast
from stretto.expressions.intervals import FIELD_MICROS, whole_fields, with_fields
from stretto.expressions.local_times import TimeOverflow, instants
from stretto.expressions.moments import integer, string
from stretto.expressions.nodes import Node, Site, computed, constant
from stretto.expressions.registry import Function, fixed
from stretto.expressions.time_parsing import date_or_none
from stretto.expressions.vectors import Value, widened
from stretto.expressions.zone_functions import by_zone
from stretto.expressions.zones import MICROS_PER_SECOND, Zone, session_zone

_SECONDS = pa.decimal128(16, 6)
_SECONDS_OF_INTERVAL = pa.decimal128(18, 6)
_INT_MAX = 2**31 - 1
_YEARS_MAX = 999_999_999
"""Java has no other years."""


def _bad(what: str, site: Site) -> Exception:
    return site.error(f"{what} that does not exist", "a part is out of range", "use the try_ form, or filter first")


def _all(ok: Any, valid: Any) -> bool:
    return bool(np.all(ok if valid is None else ok | ~valid))


def make_date(site: Site, year: Node, month: Node, of_month: Node) -> Node:
    """Returns a date; raises if there is no such day."""

    def apply(valid: Any, years: Any, months: Any, days: Any) -> Value:
        made, exists = date_or_none(*(np.int64(0) + part for part in (years, months, days)))
        exists &= np.abs(made) <= _INT_MAX
        if not _all(exists, valid):
            raise _bad("a date", site)
        return np.where(exists, made, 0).astype(np.int32)[()], valid

    return computed(types.DATE, apply, site, [integer(part, site) for part in (year, month, of_month)])


def _decimal(node: Node, kind: pa.DataType, site: Site) -> Node:
    if node.type not in (types.NULL, types.STRING) and not types.is_numeric(node.type):
        raise site.wrong_type("a number of seconds", node.type)
    return cast(node, kind, site)


def make_timestamp(site: Site, *parts: Node) -> Node:
    """Returns the timestamp of a local time in the session's zone, or in the zone that the last argument names."""
    fields = [integer(part, site) for part in parts[:5]]
    seconds = _decimal(parts[5], _SECONDS, site)

    def made(zone: Zone, valid: Any, *given: Any) -> Value:
        *whole, micros = (np.int64(0) + part for part in given)
        days, exists = date_or_none(*whole[:3])
        hours, minutes = whole[3:]
        exists &= (hours >= 0) & (hours < 24) & (minutes >= 0) & (minutes < 60)
        micros = micros.astype(np.int32).astype(np.int64)  # Spark keeps 32 bits of them: -2147483648 seconds are 0.
        exists &= (micros >= 0) & (micros <= 60 * MICROS_PER_SECOND) & (np.abs(whole[0]) <= _YEARS_MAX)
        if not _all(exists, valid):
            raise _bad("a timestamp", site)
        of_day = hours * FIELD_MICROS["hour"] + minutes * FIELD_MICROS["minute"] + micros
        days = np.where(exists, days, 0)[()] + of_day // FIELD_MICROS["day"]
        return instants(zone, days, of_day % FIELD_MICROS["day"], valid, site), valid

    if len(parts) == 6:
        zone = session_zone()
        return computed(types.TIMESTAMP, lambda *given: made(zone, *given), site, [*fields, seconds])
    return by_zone(string(parts[6], site), [*fields, seconds], made, site)


def try_make_timestamp(site: Site, *parts: Node) -> Node:
    """Returns NULL where there is no such time; a part that is no number still raises."""
    cast_parts = [*(integer(part, site) for part in parts[:5]), _decimal(parts[5], _SECONDS, site), *parts[6:]]
    return attempted(lambda *given: make_timestamp(given[-1], *given[:-1]), cast_parts, site, TimeOverflow)


def _parts(given: tuple[Node, ...], count: int, site: Site) -> list[Node]:
    zero = constant(types.INT, (np.int32(0), None), site)
    return [*given, *([zero] * (count - len(given)))]


def make_dt_interval(site: Site, *given: Node) -> Node:
    """Returns an interval of days, hours, minutes and seconds; parts that are left out are 0."""
    parts = _parts(given, 4, site)
    nodes = [*(integer(part, site) for part in parts[:3]), _decimal(parts[3], _SECONDS_OF_INTERVAL, site)]
    sizes = [FIELD_MICROS[name] for name in ("day", "hour", "minute")] + [1]

    def apply(valid: Any, *values: Any) -> Value:
        return _checked_total(values, sizes, 2**63 - 1, valid, site), valid

    return with_fields(computed(types.DURATION, apply, site, nodes), whole_fields(types.DURATION))


def make_ym_interval(site: Site, *given: Node) -> Node:
    """Returns an interval of years and months; parts that are left out are 0."""
    nodes = [integer(part, site) for part in _parts(given, 2, site)]

    def apply(valid: Any, *values: Any) -> Value:
        return _checked_total(values, [12, 1], _INT_MAX, valid, site), valid

    return with_fields(computed(types.MONTHS, apply, site, nodes), whole_fields(types.MONTHS))


def _checked_total(values: tuple[Any, ...], sizes: list[int], limit: int, valid: Any, site: Site) -> Any:
    """Returns the sum of amounts times their sizes. Only what may overflow, by a rough sum, needs more than 64 bits."""
    rough = sum(np.max(np.abs(np.float64(value)), initial=0) * size for value, size in zip(values, sizes, strict=True))
    if rough < limit:
        return sum(np.int64(value) * np.int64(size) for value, size in zip(values, sizes, strict=True))
    products = [widened(value) * size for value, size in zip(values, sizes, strict=True)]
    total = sum(products)
    # Java computes each product in as many bits, also one that another makes up for.
    inside = np.logical_and.reduce(
        [np.asarray((each >= -limit - 1) & (each <= limit), np.bool_) for each in np.broadcast_arrays(*products, total)]
    )
    if not _all(inside, valid):
        raise site.error("interval overflow", "the parts are too large together", "use smaller ones")
    return np.where(inside, total, 0).astype(np.int64)[()]


FUNCTIONS = {
    "make_date": fixed(make_date, 3),
    "make_timestamp": Function(make_timestamp, 6, 7),
    "make_timestamp_ltz": Function(make_timestamp, 6, 7),
    "try_make_timestamp": Function(try_make_timestamp, 6, 7),
    "try_make_timestamp_ltz": Function(try_make_timestamp, 6, 7),
    "make_dt_interval": Function(make_dt_interval, 0, 4),
    "make_ym_interval": Function(make_ym_interval, 0, 2),
}
