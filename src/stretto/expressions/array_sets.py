"""Arrays as sets of values: which are in one, which in both, each once.

Values are equal as in `=`, but a null equals a null; NaN equals NaN, and 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.arrays import array_of, side_by_side, with_element
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import not_orderable
from stretto.expressions.lists import Lists, is_missing, of_lengths, put_together, ranges, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, null
from stretto.expressions.ranks import ranks, ranks_together
from stretto.expressions.registry import fixed
from stretto.expressions.zeros import one_zero


def comparable_elements(node: Node, site: Site) -> Any:
    """Returns the array; raises if its elements cannot be compared."""
    if not types.is_orderable(array_of(node, site).type.value_type):
        raise not_orderable(node.type.value_type, site)
    return node


def _with_value(node: Node, value: Node, site: Site) -> tuple[Node, Node]:
    """Returns an array and a value that may be among its elements, of one type."""
    node, value = with_element(comparable_elements(node, site), value, site)
    return node, value


def _equal(lists: Lists, values: pa.Array) -> Any:
    """Returns true for each element that equals the value of its row; a null equals nothing."""
    mine, wanted = ranks_together(lists.values, values)
    return (mine == wanted[lists.parents]) & (mine > 0)


def array_contains(site: Site, node: Node, value: Node) -> Node:
    """Returns whether the value is an element; null if it is not, and an element is null."""
    if types.NULL in (node.type, value.type):
        raise site.error("array_contains of NULL", None, "CAST the NULL")
    kind = types.sought(array_of(node, site).type.value_type, value.type)
    if kind is None:
        raise site.mismatch(node.type, value.type)
    node, value = cast(comparable_elements(node, site), pa.list_(kind), site), cast(value, kind, site)

    def apply(rows: pa.Array, values: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        found = lists.counts(_equal(lists, values)) > 0
        known = found | (lists.counts(lists.null_elements()) == 0)
        return pa.array(found, mask=~(known & lists.known & ~is_missing(values)))

    return arrayed(types.BOOLEAN, apply, site, (node, value))


def array_position(site: Site, node: Node, value: Node) -> Node:
    """Returns the place of the value from 1, and 0 if it is no element."""
    if value.type == types.NULL:
        array_of(node, site)
        return null(types.BIGINT, site)
    node, value = _with_value(node, value, site)

    def apply(rows: pa.Array, values: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        hits = np.flatnonzero(_equal(lists, values))[::-1]
        places = np.zeros(lists.rows, np.int64)
        places[lists.parents[hits]] = lists.positions[hits] + 1  # The first of a row is written last.
        return pa.array(places, mask=~(lists.known & ~is_missing(values)))

    return arrayed(types.BIGINT, apply, site, (node, value))


def array_remove(site: Site, node: Node, value: Node) -> Node:
    """Returns the elements that do not equal the value; null if the value is."""
    if value.type == types.NULL:
        return null(array_of(node, site).type, site)
    node, value = _with_value(node, value, site)

    def apply(rows: pa.Array, values: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        valid = lists.known & ~is_missing(values)
        keep = ~_equal(lists, values) & valid[lists.parents]
        kept = lists.filtered(keep)
        return put_together(Lists(kept.offsets, kept.values, valid), node.type)

    return arrayed(node.type, apply, site, (node, value))


def _one_zero(lists: Lists) -> Lists:
    """Returns the elements with 0.0 in the place of -0.0, as Spark's sets have it."""
    return Lists(lists.offsets, one_zero(lists.values), lists.valid)


def _firsts(lists: Lists, found: Any) -> Any:
    """Returns true for each element that is the first of its rank in its row."""
    _, first = np.unique(lists.parents * (int(found.max(initial=0)) + 1) + found, return_index=True)
    mask = np.zeros(len(found), np.bool_)
    mask[first] = True
    return mask


def array_distinct(site: Site, node: Node) -> Node:
    """Returns each element once, where it stands first."""
    kind = comparable_elements(node, site).type

    def apply(rows: pa.Array) -> pa.Array:
        lists = _one_zero(taken_apart(rows))
        return put_together(lists.filtered(_firsts(lists, ranks(lists.values))), kind)

    return arrayed(kind, apply, site, (node,))


def two_arrays(left: Node, right: Node, site: Site) -> tuple[Node, Node]:
    """Returns two arrays of one type; no string is cast for it."""
    kind = types.tightest(array_of(left, site).type, array_of(right, site).type)
    if kind is None:
        raise site.mismatch(left.type, right.type)
    left, right = cast(left, kind, site), cast(right, kind, site)
    return comparable_elements(left, site), right


def array_union(site: Site, left: Node, right: Node) -> Node:
    """Returns the elements of both, each once."""
    left, right = two_arrays(left, right, site)

    def apply(one: pa.Array, other: pa.Array) -> pa.Array:
        pairs = side_by_side((one, other))
        inner = taken_apart(pairs.values)
        starts, ends = inner.offsets[pairs.offsets[:-1]], inner.offsets[pairs.offsets[1:]]
        valid = pairs.counts(~inner.known) == 0
        lengths = np.where(valid, ends - starts, 0)
        both = _one_zero(of_lengths(lengths, inner.values.take(pa.array(ranges(starts, lengths))), valid))
        return put_together(both.filtered(_firsts(both, ranks(both.values))), left.type)

    return arrayed(left.type, apply, site, (left, right))


def _among(lists: Lists, mine: Any, others: Lists, theirs: Any) -> Any:
    """Returns true for each element that is also an element of the same row of the others."""
    width = int(max(mine.max(initial=0), theirs.max(initial=0))) + 1
    return np.isin(lists.parents * width + mine, others.parents * width + theirs)


def _selecting(wanted: bool) -> Callable[[Site, Node, Node], Node]:
    """Returns the builder of array_intersect (true) or array_except (false)."""

    def build(site: Site, left: Node, right: Node) -> Node:
        left, right = two_arrays(left, right, site)

        def apply(one: pa.Array, other: pa.Array) -> pa.Array:
            lists, others = _one_zero(taken_apart(one)), taken_apart(other)
            mine, theirs = ranks_together(lists.values, others.values)
            valid = lists.known & others.known
            keep = _firsts(lists, mine) & (_among(lists, mine, others, theirs) == wanted) & valid[lists.parents]
            kept = lists.filtered(keep)
            return put_together(Lists(kept.offsets, kept.values, valid), left.type)

        return arrayed(left.type, apply, site, (left, right))

    return build


def arrays_overlap(site: Site, left: Node, right: Node) -> Node:
    """Returns whether a value is in both; null if none is, both have elements, and one of those is null."""
    left, right = two_arrays(left, right, site)

    def apply(one: pa.Array, other: pa.Array) -> pa.Array:
        lists, others = taken_apart(one), taken_apart(other)
        mine, theirs = ranks_together(lists.values, others.values)
        shared = lists.counts(_among(lists, mine, others, theirs) & (mine > 0)) > 0
        nulls = (lists.counts(mine == 0) > 0) | (others.counts(theirs == 0) > 0)
        unknown = nulls & (lists.lengths > 0) & (others.lengths > 0) & ~shared
        return pa.array(shared, mask=unknown | ~(lists.known & others.known))

    return arrayed(types.BOOLEAN, apply, site, (left, right))


FUNCTIONS = {
    "array_contains": fixed(array_contains, 2),
    "array_position": fixed(array_position, 2),
    "array_remove": fixed(array_remove, 2),
    "array_distinct": fixed(array_distinct, 1),
    "array_union": fixed(array_union, 2),
    "array_intersect": fixed(_selecting(True), 2),
    "array_except": fixed(_selecting(False), 2),
    "arrays_overlap": fixed(arrays_overlap, 2),
}
