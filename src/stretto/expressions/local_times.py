"""Timestamps and dates as local times of the session's zone, and back, with an error for what 64 bits do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.nodes import Node, Site, combine, elementwise
from stretto.expressions.vectors import INT64_MAX, Value, bound, widened
from stretto.expressions.zones import MICROS_PER_DAY, Zone, session_zone

#: So many days fit a timestamp with every offset; the greatest timestamps are two days further away.
SAFE_DAYS = INT64_MAX // MICROS_PER_DAY - 2


class TimeOverflow(ExpressionError):
    """A time beyond the range of timestamps, at which try_make_timestamp fails too, as in Spark."""


def overflow(site: Site) -> Exception:
    error = site.error("timestamp overflow", "a time is outside the years -290308 to 294247", "filter it out first")
    return TimeOverflow(error.fact, error.detail, error.fix)


def instants(zone: Zone, days: Any, micros: Any, valid: Any, site: Site, kept_s: Any = None) -> Any:
    """Returns the instants of local times; raises if one of the valid ones is out of range."""
    if bound(days) <= SAFE_DAYS:
        return zone.instant(days, micros, kept_s)
    whole = np.int64(0) + days
    near = np.clip(whole, -SAFE_DAYS, SAFE_DAYS)
    moved = zone.instant(near, micros, kept_s)
    return fitting(widened(moved) + widened(whole - near) * MICROS_PER_DAY, valid, site)


def day_starts(zone: Zone, days: Any, valid: Any, site: Site) -> Any:
    """Returns the instants at which days begin; raises if one of the valid ones is out of range."""
    if bound(days) <= SAFE_DAYS:
        return zone.start_of_day(days)
    return instants(zone, days, np.int64(0), valid, site)


def fitting(micros: Any, valid: Any, site: Site) -> Any:
    """Returns Python integers as int64; raises if one of the valid ones does not fit."""
    inside = np.asarray((micros >= -INT64_MAX - 1) & (micros <= INT64_MAX), np.bool_)
    if not np.all(inside if valid is None else inside | ~valid):
        raise overflow(site)
    return np.where(inside, micros, 0).astype(np.int64)[()]


def date_to_timestamp(node: Node, site: Site) -> Node:
    """Returns the instants at which days begin."""
    inner, zone = node.run, session_zone()

    def run(batch: pa.RecordBatch) -> Value:
        days, valid = inner(batch)
        return day_starts(zone, days.astype(np.int64), valid, site), valid

    return combine(types.TIMESTAMP, run, site, (node,), fallible=True)


def timestamp_to_date(node: Node, site: Site) -> Node:
    if (zone := session_zone()).is_utc:
        return elementwise(types.DATE, lambda micros: (micros // MICROS_PER_DAY).astype(np.int32), site, (node,))
    return elementwise(types.DATE, lambda micros: zone.local(micros)[0].astype(np.int32), site, (node,))


def of_local_time(kind: pa.DataType, apply: Callable[[Any, Any], Any], site: Site, node: Node) -> Node:
    """Returns a function of the local days and microseconds of the day of a timestamp; it cannot fail."""
    zone = session_zone()
    return elementwise(kind, lambda micros: apply(*zone.local(micros)), site, (node,))
