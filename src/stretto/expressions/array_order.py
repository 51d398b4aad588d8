"""The order of an array's elements: sorting, the least and the greatest; and their texts joined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import string
from stretto.expressions.array_sets import comparable_elements
from stretto.expressions.arrays import array_of
from stretto.expressions.casts import cast
from stretto.expressions.lists import Lists, is_missing, put_together, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, constant_argument, null
from stretto.expressions.ranks import ranks
from stretto.expressions.registry import Function, fixed


def sorted_array(node: Node, site: Site, descending: bool, nulls_last: bool) -> Node:
    """Returns the elements in order; equal ones stay as they are among themselves."""
    kind = comparable_elements(node, site).type

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        found = ranks(lists.values)
        keys = np.where(found == 0, 0, -found) if descending else found.copy()
        low, high = int(keys.min(initial=0)) - 1, int(keys.max(initial=0)) + 1
        keys[found == 0] = high if nulls_last else low
        order = np.lexsort((keys, lists.parents))
        return put_together(Lists(lists.offsets, lists.values.take(pa.array(order)), lists.valid), kind)

    return arrayed(kind, apply, site, (node,))


def array_sort(site: Site, node: Node) -> Node:
    """Returns the elements in ascending order, nulls last."""
    return sorted_array(node, site, descending=False, nulls_last=True)


def sort_array(site: Site, node: Node, ascending: Node | None = None) -> Node:
    """Returns the elements in ascending order with nulls first, or in descending order with nulls last."""
    if ascending is None:
        return sorted_array(node, site, descending=False, nulls_last=False)
    up = constant_argument(ascending, types.BOOLEAN, "the order of sort_array")
    if up is None:
        return null(array_of(node, site).type, site)
    return sorted_array(node, site, descending=not up, nulls_last=not up)


def _extreme(largest: bool) -> Callable[[Site, Node], Node]:
    """Returns the builder of array_max or array_min, which ignore nulls."""

    def build(site: Site, node: Node) -> Node:
        kind = comparable_elements(node, site).type.value_type

        def apply(rows: pa.Array) -> pa.Array:
            lists = taken_apart(rows)
            found = ranks(lists.values)
            order = np.lexsort((-found if largest else found, found == 0, lists.parents))
            first = lists.offsets[:-1]
            there = lists.counts(found > 0) > 0
            best = np.zeros(lists.rows, np.int64)
            best[there] = order[first[there]]
            return lists.values.take(pa.array(best, mask=~there))

        return arrayed(kind, apply, site, (node,))

    return build


def array_join(site: Site, node: Node, delimiter: Node, replacement: Node | None = None) -> Node:
    """Returns the texts of the elements with a delimiter between them; nulls are left out, or replaced."""
    if node.type != types.NULL and types.is_nested(array_of(node, site).type.value_type):
        raise site.wrong_type("an array of strings", node.type)
    texts = [string(each, site) for each in (delimiter, replacement) if each is not None]
    if types.NULL in (node.type, delimiter.type, types.STRING if replacement is None else replacement.type):
        return null(types.STRING, site)
    elements = cast(node, pa.list_(types.STRING), site)
    parts = [elements, *texts]

    def apply(rows: pa.Array, delimiters: pa.Array, *replacements: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        if replacements:
            instead = replacements[0].take(pa.array(lists.parents))
            lists = Lists(lists.offsets, pc.coalesce(lists.values, instead), lists.valid)
        lists = lists.filtered(~lists.null_elements())
        joined = pc.binary_join(put_together(lists, pa.list_(types.STRING)), delimiters)
        for replaced in replacements:
            joined = pc.if_else(pa.array(is_missing(replaced)), pa.scalar(None, types.STRING), joined)
        return joined

    return arrayed(types.STRING, apply, site, parts)


FUNCTIONS = {
    "array_sort": fixed(array_sort, 1),
    "sort_array": Function(sort_array, 1, 2),
    "array_max": fixed(_extreme(True), 1),
    "array_min": fixed(_extreme(False), 1),
    "array_join": Function(array_join, 2, 3),
}
