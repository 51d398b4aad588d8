"""Timestamps and dates as numbers since 1970, and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stretto.expressions import types
from stretto.expressions.casts import cast, times_micros
from stretto.expressions.moments import day, integer, moment
from stretto.expressions.nodes import Node, Site, elementwise
from stretto.expressions.registry import fixed
from stretto.expressions.zones import MICROS_PER_SECOND


def since_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of unix_seconds, unix_millis or unix_micros."""

    def build(site: Site, node: Node) -> Node:
        if node.type == types.STRING:
            raise site.wrong_type("timestamp", node.type)
        return elementwise(types.BIGINT, lambda micros: micros // unit_micros, site, (moment(node, site),))

    return build


def from_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of timestamp_seconds, timestamp_millis or timestamp_micros."""

    def build(site: Site, node: Node) -> Node:
        if unit_micros == MICROS_PER_SECOND and types.is_numeric(node.type):
            return cast(node, types.TIMESTAMP, site)
        if node.type != types.NULL and not types.is_integral(node.type):
            raise site.wrong_type("bigint", node.type)
        return times_micros(cast(node, types.BIGINT, site), unit_micros, site)

    return build


def unix_date(site: Site, node: Node) -> Node:
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
