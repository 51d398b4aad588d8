"""sequence: whole numbers, or days, from a start to an end by a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.lists import is_missing, of_lengths, put_together, ranges, within_bounds
from stretto.expressions.local_times import day_starts
from stretto.expressions.nodes import Node, Site, arrayed, constant, null
from stretto.expressions.registry import Function
from stretto.expressions.vectors import reader, to_arrow
from stretto.expressions.zones import MICROS_PER_DAY, Zone, session_zone


def sequence(site: Site, start: Node, stop: Node, step: Node | None = None) -> Node:
    """Returns the values from a start to an end; without a step it is 1, or -1 if the end is below the start."""
    if types.DATE in (start.type, stop.type) and types.TIMESTAMP not in (start.type, stop.type):
        start, stop = promoted((start, stop), site)
        return _sequence(start, stop, None, site) if step is None else _dates(start, stop, step, site)
    parts = promoted((start, stop) if step is None else (start, stop, step), site)
    if parts[0].type == types.NULL:
        return null(pa.list_(types.NULL), site)
    if not types.is_integral(parts[0].type):
        raise site.error(
            f"a sequence of {types.spark_type_name(parts[0].type)} is not supported",
            "expected integers, or dates with a step of days",
            "make a sequence of integers, and compute what you want of each in transform",
        )
    return _sequence(parts[0], parts[1], parts[2] if len(parts) > 2 else None, site)


def _dates(start: Node, stop: Node, step: Node, site: Site) -> Node:
    """Returns the dates from one to another by an interval of a day or more."""
    if step.type != types.DURATION:
        raise site.wrong_type("an interval of days as the step", step.type)
    zone = session_zone()

    def apply(first: pa.Array, last: pa.Array, steps: pa.Array) -> pa.Array:
        valid, (low, high, by) = _numbers(first, last, steps)
        if np.any(valid & (np.abs(by) < MICROS_PER_DAY)):
            raise site.error("a step of less than a day", None, "use interval 1 day, or more")
        days = np.sign(by) * (np.abs(by) // MICROS_PER_DAY)
        if np.any(by % MICROS_PER_DAY):
            return _by_moments(low, high, by, days, valid, zone, site)
        return _listed(low, _lengths(low, high, days, valid, site), days, valid, types.DATE)

    return arrayed(pa.list_(types.DATE), apply, site, (start, stop, step), fallible=True)


def _by_moments(low: Any, high: Any, by: Any, days: Any, valid: Any, zone: Zone, site: Site) -> pa.Array:
    """Returns dates by steps of which some are not whole days: Spark then adds to the time at which a day begins."""
    rest = by - days * MICROS_PER_DAY
    broken = rest != 0  # Other dates may be beyond all timestamps.
    begin, end = (day_starts(zone, np.where(broken, each, 0), None, site) for each in (low, high))
    first, last, step = (np.where(broken, *each) for each in ((begin, low), (end, high), (by, days)))
    lengths = _lengths(first, last, step, valid, site)
    rows, places = np.repeat(np.arange(len(lengths)), lengths), ranges(np.zeros(len(lengths), np.int64), lengths)
    dates = low[rows] + places * days[rows]
    of_day = zone.local(begin)[1][rows]
    times = zone.instant(np.where(broken[rows], dates, 0), of_day) + places * rest[rows]
    # A day on which clocks change may bring the last one beyond the end.
    kept = ~broken[rows] | np.where(by[rows] > 0, times <= end[rows], times >= end[rows])
    dates = np.where(broken[rows], zone.local(times)[0], dates)[kept]
    found = of_lengths(
        np.bincount(rows[kept], minlength=len(lengths)), to_arrow((dates, None), types.DATE, len(dates)), valid
    )
    return put_together(found, pa.list_(types.DATE))


def _sequence(start: Node, stop: Node, step: Node | None, site: Site) -> Node:
    kind = start.type
    given = constant(types.BIGINT, (np.int64(0), None), site) if step is None else cast(step, types.BIGINT, site)

    def apply(first: pa.Array, last: pa.Array, steps: pa.Array) -> pa.Array:
        valid, (low, high, by) = _numbers(first, last, steps)
        if step is None:
            by = np.where(low <= high, 1, -1)
        return _listed(low, _lengths(low, high, by, valid, site), by, valid, kind)

    return arrayed(pa.list_(kind), apply, site, (start, stop, given), fallible=True)


def _numbers(*columns: pa.Array) -> tuple[Any, list[Any]]:
    """Returns where no column is null, and the columns as bigints, which are 0 elsewhere."""
    valid = ~np.logical_or.reduce([is_missing(column) for column in columns])
    return valid, [np.where(valid, reader(column.type)(column)[0], 0).astype(np.int64) for column in columns]


def _lengths(low: Any, high: Any, by: Any, valid: Any, site: Site) -> Any:
    """Returns the number of values from one number to another; raises if a step does not lead there."""
    ordered = ((by > 0) & (low <= high)) | ((by < 0) & (low >= high)) | (low == high)
    if np.any(valid & ~ordered):
        row = int(np.argmax(valid & ~ordered))
        raise site.error(
            f"a sequence from {low[row]} to {high[row]} by {by[row]}", None, "the step must lead to the end"
        )
    # As doubles first, since the distance of two bigints may not fit a bigint.
    within_bounds((high.astype(float) - low) / np.where(by == 0, 1, by), site)
    return within_bounds(np.where(valid, (high - low) // np.where(by == 0, 1, by) + 1, 0), site)


def _listed(low: Any, lengths: Any, by: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    """Returns so many numbers from a first one on by a step."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    values = low[rows] + ranges(np.zeros(len(lengths), np.int64), lengths) * by[rows]
    return put_together(of_lengths(lengths, to_arrow((values, None), kind, len(values)), valid), pa.list_(kind))


FUNCTIONS = {"sequence": Function(sequence, 2, 3)}
