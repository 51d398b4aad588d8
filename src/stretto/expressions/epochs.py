"""Timestamps and dates as numbers since 1970, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stretto.expressions import types
from stretto.expressions.casts import cast, times_micros
from stretto.expressions.moments import day, integer, moment
from stretto.expressions.nodes import Node, Site, computed, elementwise
from stretto.expressions.registry import fixed
from stretto.expressions.vectors import Value, widened
from stretto.expressions.zones import MICROS_PER_SECOND


def since_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of unix_seconds, unix_millis or unix_micros."""

    def build(site: Site, node: Node) -> Node:
        if node.type not in (types.NULL, types.TIMESTAMP):
            raise site.wrong_type("timestamp", node.type)
        return elementwise(types.BIGINT, lambda micros: micros // unit_micros, site, (moment(node, site),))

    return build


def from_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of timestamp_seconds, timestamp_millis or timestamp_micros."""

    def build(site: Site, node: Node) -> Node:
        if unit_micros == MICROS_PER_SECOND and types.is_fractional(node.type):
            return _of_doubles(cast(node, types.DOUBLE, site), site)
        if unit_micros == MICROS_PER_SECOND and types.is_decimal(node.type):
            return _exactly(node, site)
        if node.type != types.NULL and not types.is_integral(node.type):
            raise site.wrong_type("bigint", node.type)
        return times_micros(cast(node, types.BIGINT, site), unit_micros, site)

    return build


def _of_doubles(node: Node, site: Site) -> Node:
    """Returns seconds as a timestamp: null for NaN and infinity, and the first or last of all beyond the range."""

    def apply(valid: Any, values: Any) -> Value:
        finite = np.isfinite(values)
        micros = np.where(finite, values, 0.0) * MICROS_PER_SECOND
        inside = np.abs(micros) < 2.0**63
        limits = np.where(micros > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
        made = np.where(inside, np.where(inside, micros, 0.0).astype(np.int64), limits)[()]
        return made, finite if valid is None else finite & valid

    return computed(types.TIMESTAMP, apply, site, (node,), fallible=False)


def _exactly(node: Node, site: Site) -> Node:
    """Returns a decimal number of seconds as a timestamp; raises if it has digits below a microsecond."""
    scale = node.type.scale

    def apply(valid: Any, values: Any) -> Value:
        micros = np.asarray(widened(values), object) * 10 ** max(0, 6 - scale)
        unit = 10 ** max(0, scale - 6)
        fits = (micros % unit == 0) & (micros // unit < 2**63) & (micros // unit >= -(2**63))
        if not np.all(fits if valid is None else fits | ~valid):
            raise site.error(
                "seconds that are no timestamp", "digits below a microsecond, or out of range", "round them first"
            )
        return np.where(fits, micros // unit, 0).astype(np.int64)[()], valid

    return computed(types.TIMESTAMP, apply, site, (node,))


def unix_date(site: Site, node: Node) -> Node:
    if node.type not in (types.NULL, types.DATE):
        raise site.wrong_type("date", node.type)
    return elementwise(types.INT, lambda days: days.astype(np.int32), site, (day(node, site),))


def date_from_unix_date(site: Site, node: Node) -> Node:
    return elementwise(types.DATE, lambda days: days.astype(np.int32), site, (integer(node, site),))


FUNCTIONS = {
    "unix_seconds": fixed(since_epoch(1_000_000), 1),
    "unix_millis": fixed(since_epoch(1_000), 1),
    "unix_micros": fixed(since_epoch(1), 1),
    "unix_date": fixed(unix_date, 1),
    "timestamp_seconds": fixed(from_epoch(1_000_000), 1),
    "timestamp_millis": fixed(from_epoch(1_000), 1),
    "timestamp_micros": fixed(from_epoch(1), 1),
    "date_from_unix_date": fixed(date_from_unix_date, 1),
}
