"""sequence: whole numbers, dates or timestamps, from a start to an end by a step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.nodes import Node, Site, arrayed, constant, null
from stretto.expressions.registry import Function
from stretto.expressions.steps import known_numbers, lengths_of, listed
from stretto.expressions.time_sequences import time_sequence


def sequence(site: Site, start: Node, stop: Node, step: Node | None = None) -> Node:
    """Returns the values from a start to an end; without a step it is 1, or -1 if the end is below the start."""
    if types.is_temporal(start.type) or types.is_temporal(stop.type):
        first, last = promoted((start, stop), site)
        return time_sequence(first, last, step, site)
    parts = promoted((start, stop) if step is None else (start, stop, step), site)
    if parts[0].type == types.NULL:
        return null(pa.list_(types.NULL), site)
    if not types.is_integral(parts[0].type):
        raise site.error(
            f"a sequence of {types.spark_type_name(parts[0].type)} is not supported",
            "expected integers, dates or timestamps",
            "make a sequence of integers, and compute what you want of each in transform",
        )
    return _sequence(parts[0], parts[1], parts[2] if len(parts) > 2 else None, site)


def _sequence(start: Node, stop: Node, step: Node | None, site: Site) -> Node:
    kind = start.type
    given = constant(types.BIGINT, (np.int64(0), None), site) if step is None else cast(step, types.BIGINT, site)

    def apply(first: pa.Array, last: pa.Array, steps: pa.Array) -> pa.Array:
        valid, (low, high, by) = known_numbers(first, last, steps)
        if step is None:
            by = np.where(low <= high, 1, -1)
        return listed(low, lengths_of(low, high, by, valid, site), by, valid, kind)

    return arrayed(pa.list_(kind), apply, site, (start, stop, given), fallible=True)


FUNCTIONS = {"sequence": Function(sequence, 2, 3)}
