"""array_sort with a function of two elements that says which comes first.

The function runs once, over all pairs of elements of a row. If its answers are those of an order, any stable sort gives
the same result, so Spark's does. If not, the result is an accident of Java's sort. Of fewer than 32 elements that is an
insertion sort, which Python's is too, with the same comparisons; a longer array is refused.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.lambdas import HigherOrder, Lambda, Scope, over_rows
from stretto.expressions.lists import Lists, put_together, ranges, taken_apart
from stretto.expressions.nodes import Node, Site
from stretto.expressions.vectors import reader

#: Pairs that are compared at once, to bound the memory; one row may have more.
_PAIRS_MAX = 1_000_000
#: From this length on, Java's sort merges runs.
_INSERTED_MAX = 32


def array_sort(site: Site, scope: Scope, array: Any, tree: Any) -> Node:
    """Returns the elements in the order of a function, which is negative if its first comes before its second."""
    node = scope.array(array, site)
    function = scope.function(tree, (node.type.value_type, node.type.value_type), 2, site)
    if function.body.type != types.INT:
        raise site.wrong_type("int from the function", function.body.type)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        order = np.arange(len(lists.values))
        for some in _groups(lists.lengths):
            _sort(function, batch, lists, some, order, site)
        return put_together(Lists(lists.offsets, lists.values.take(pa.array(order)), lists.valid), node.type)

    return over_rows(node.type, apply, (node,), (function,), site, fallible=True)


def _groups(lengths: Any) -> list[Any]:
    """Returns the rows that have anything to sort, in groups that do not have too many pairs."""
    rows = np.flatnonzero(lengths > 1)
    group = np.cumsum(lengths[rows] ** 2) // _PAIRS_MAX
    return [rows[group == number] for number in np.unique(group)]


def _sort(function: Lambda, batch: pa.RecordBatch, lists: Lists, rows: Any, order: Any, site: Site) -> None:
    """Writes the places of the elements of these rows, in their order, to `order`."""
    lengths = lists.lengths[rows]
    elements = ranges(lists.offsets[rows], lengths)
    # Each element of a row, beside each element of the row.
    left = np.repeat(elements, np.repeat(lengths, lengths))
    right = ranges(np.repeat(lists.offsets[rows], lengths), np.repeat(lengths, lengths))
    apart = left != right
    left, right = left[apart], right[apart]
    parents = np.repeat(rows, lengths**2)[apart]
    columns = [lists.values.take(pa.array(left)), lists.values.take(pa.array(right))]
    values, valid = reader(types.INT)(function.run(batch, parents, columns))
    if valid is not None and not valid.all():
        raise site.error("the function of array_sort returned NULL", None, "return a number for nulls too")
    before = (values < 0) | ((values == 0) & (left < right))
    places = np.bincount(right[before], minlength=len(order))
    unclear = np.any(before == (places[left] > places[right])) or np.any(places[left] == places[right])
    if unclear or not _is_order(values, places, left, right):
        _insert(values, lists.offsets[rows], lengths, order, site)
    else:
        order[lists.offsets[:-1].repeat(lists.lengths)[elements] + places[elements]] = elements


def _insert(values: Any, starts: Any, lengths: Any, order: Any, site: Site) -> None:
    """Writes the places of the elements of rows in the order that an insertion sort gives them."""
    if np.any(lengths >= _INSERTED_MAX):
        raise _no_order(site)
    done = 0
    for start, count in zip(starts.tolist(), lengths.tolist(), strict=True):
        answers = values[done : done + count * (count - 1)].reshape(count, count - 1).tolist()
        done += count * (count - 1)

        def compare(one: int, other: int, answers: Any = answers) -> int:
            return int(answers[one][other - (other > one)])  # No element is compared with itself.

        order[start : start + count] = start + np.array(sorted(range(count), key=cmp_to_key(compare)))


def _is_order(values: Any, places: Any, left: Any, right: Any) -> bool:
    """Whether what comes first is never said to come later, and equals are equal both ways."""
    ahead = places[left] < places[right]
    return not (np.any(values[ahead] > 0) or np.any(values[~ahead] < 0) or _ties_differ(values, left, right))


def _ties_differ(values: Any, left: Any, right: Any) -> bool:
    """Whether an element equals another that does not equal it."""
    ties = values == 0
    pairs = np.stack((left[ties], right[ties]))
    width = int(max(left.max(initial=0), right.max(initial=0))) + 1
    return not np.array_equal(np.sort(pairs[0] * width + pairs[1]), np.sort(pairs[1] * width + pairs[0]))


def _no_order(site: Site) -> Exception:
    return site.error(
        "the function of array_sort is not an order",
        "of two elements each comes before the other, or three form a circle",
        "return -1, 0 or 1 by comparing the same expression of both elements",
    )


HIGHER_ORDER = {"array_sort": HigherOrder(array_sort, 2, 2)}
