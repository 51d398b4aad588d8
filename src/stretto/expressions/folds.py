"""aggregate and reduce: a value that a function carries from element to element, for all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.lambdas import HigherOrder, Lambda, Scope, over_rows
from stretto.expressions.lists import Lists, taken_apart
from stretto.expressions.logic import strict
from stretto.expressions.nodes import Node, Site


def aggregate(site: Site, scope: Scope, array: Any, start: Any, step: Any, end: Any = None) -> Node:
    """Returns what a function makes of a start value and each element in turn, and another of the last result."""
    node, first = scope.array(array, site), scope.bind(start)
    merge = scope.function(step, (first.type, node.type.value_type), 2, site)
    if merge.body.type != first.type:
        raise site.error(
            f"the function returns {types.spark_type_name(merge.body.type)}",
            f"the start value is {types.spark_type_name(first.type)}",
            "CAST the start value, or the result",
        )
    finish = None if end is None else scope.function(end, (first.type,), 1, site)
    functions = [merge] if finish is None else [merge, finish]

    def apply(batch: pa.RecordBatch, rows: pa.Array, starts: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        folded = _folded(merge, batch, lists, starts)
        if finish is None:
            return folded
        known = np.flatnonzero(lists.known)
        results = finish.run(batch, known, [folded.take(pa.array(known))])
        return results.take(pa.array(np.cumsum(lists.known) - 1, mask=~lists.known))

    kind = first.type if finish is None else finish.body.type
    folded = over_rows(kind, apply, (node, first), functions, site)
    # Where there is no array, the start value is not evaluated.
    return strict(folded, (node, node), site, casts=True)


def _folded(merge: Lambda, batch: pa.RecordBatch, lists: Lists, starts: pa.Array) -> pa.Array:
    """Returns the last result of each row. A step runs for all rows that still have an element."""
    lengths = lists.lengths
    active = np.flatnonzero(lists.known)
    carried = starts.take(pa.array(active))
    pieces, places = [pa.nulls(int(lists.rows - len(active)), starts.type)], [np.flatnonzero(~lists.known)]
    for place in range(int(lengths.max(initial=0)) + 1):
        ended = lengths[active] == place
        if ended.any():
            pieces.append(carried.filter(pa.array(ended)))
            places.append(active[ended])
            carried, active = carried.filter(pa.array(~ended)), active[~ended]
        if len(active):
            elements = lists.values.take(pa.array(lists.offsets[active] + place))
            carried = merge.run(batch, active, [carried, elements])
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


HIGHER_ORDER = {"aggregate": HigherOrder(aggregate, 3, 4), "reduce": HigherOrder(aggregate, 3, 4)}
