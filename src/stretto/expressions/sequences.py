"""sequence: whole numbers, or days, from a start to an end by a step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.lists import is_missing, of_lengths, put_together, ranges, within_bounds
from stretto.expressions.nodes import Node, Site, arrayed, constant, null
from stretto.expressions.registry import Function
from stretto.expressions.vectors import reader, to_arrow
from stretto.expressions.zones import MICROS_PER_DAY


def sequence(site: Site, start: Node, stop: Node, step: Node | None = None) -> Node:
    """Returns the values from a start to an end; without a step it is 1, or -1 if the end is below the start."""
    if types.DATE in (start.type, stop.type) and types.TIMESTAMP not in (start.type, stop.type):
        start, stop = promoted((start, stop), site)
        return _sequence(start, stop, None if step is None else _days(step, site), site)
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


def _days(step: Node, site: Site) -> Node:
    """Returns an interval as a number of days."""
    if step.type != types.DURATION:
        raise site.wrong_type("an interval of days as the step", step.type)

    def apply(column: pa.Array) -> pa.Array:
        micros, valid = reader(types.DURATION)(column)
        if np.any(((micros % MICROS_PER_DAY != 0) | (micros == 0)) & (True if valid is None else valid)):
            raise site.error("a step that is not whole days", None, "use interval 1 day, or more")
        return to_arrow((micros // MICROS_PER_DAY, valid), types.BIGINT, len(column))

    return arrayed(types.BIGINT, apply, site, (step,), fallible=True)


def _sequence(start: Node, stop: Node, step: Node | None, site: Site) -> Node:
    kind = start.type
    given = constant(types.BIGINT, (np.int64(0), None), site) if step is None else cast(step, types.BIGINT, site)

    def apply(first: pa.Array, last: pa.Array, steps: pa.Array) -> pa.Array:
        valid = ~(is_missing(first) | is_missing(last) | is_missing(steps))
        low, high, by = (
            np.where(valid, reader(column.type)(column)[0], 0).astype(np.int64) for column in (first, last, steps)
        )
        if step is None:
            by = np.where(low <= high, 1, -1)
        ordered = ((by > 0) & (low <= high)) | ((by < 0) & (low >= high)) | (low == high)
        if np.any(valid & ~ordered):
            row = int(np.argmax(valid & ~ordered))
            raise site.error(
                f"a sequence from {low[row]} to {high[row]} by {by[row]}", None, "the step must lead to the end"
            )
        # As doubles first, since the distance of two bigints may not fit a bigint.
        within_bounds((high.astype(float) - low) / np.where(by == 0, 1, by), site)
        lengths = np.where(valid, (high - low) // np.where(by == 0, 1, by) + 1, 0)
        within_bounds(lengths, site)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        values = low[rows] + ranges(np.zeros(len(lengths), np.int64), lengths) * by[rows]
        return put_together(of_lengths(lengths, to_arrow((values, None), kind, len(values)), valid), pa.list_(kind))

    return arrayed(pa.list_(kind), apply, site, (start, stop, given), fallible=True)


FUNCTIONS = {"sequence": Function(sequence, 2, 3)}
