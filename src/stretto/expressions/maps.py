"""Maps: making them, and taking their keys and values. No map has a key twice, and no key is null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.arrays import array_of, side_by_side
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.lists import Lists, entries, of_lengths, put_together, ranges, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, null
from stretto.expressions.ranks import ranks
from stretto.expressions.registry import MANY, Function, fixed


def map_of(node: Node, site: Site) -> Any:
    """Returns the node; raises if it is not a map."""
    if not pat.is_map(node.type):
        raise site.wrong_type("map", node.type)
    return node


def map_type(key: pa.DataType, item: pa.DataType, site: Site) -> Any:
    """Returns the type of a map; raises if its keys would have maps in them."""
    if key == types.NULL:
        raise site.error("a map of keys without a type", None, "CAST the keys")
    if not types.is_orderable(key):
        raise site.error(f"a key of type {types.spark_type_name(key)}", "a map is not comparable", "use another key")
    return pa.map_(key, item)


def _shown(key: pa.Scalar) -> str:
    try:
        return str(key)
    except OverflowError:  # Python's times end with the year 9999.
        return f"of type {types.spark_type_name(key.type)}"


def checked(
    keys: pa.Array, items: pa.Array, lists: Lists, kind: Any, site: Site, keeps_zeros: bool = False
) -> pa.Array:
    """Returns maps in rows as those of `lists`; raises if a key is null or comes twice in a row.

    Keys that are -0.0 become 0.0, unless they are kept, as by Spark's functions that take whole arrays of keys."""
    if keys.null_count:
        raise site.error("a map with a null key", None, "filter nulls out of the keys")
    found = ranks(keys)
    pairs = lists.parents * (int(found.max(initial=0)) + 1) + found
    if len(np.unique(pairs)) < len(pairs):
        twice = np.setdiff1d(np.arange(len(pairs)), np.unique(pairs, return_index=True)[1])
        raise site.error(f"the map key {_shown(keys[int(twice[0])])} comes twice", None, "keep one value of each key")
    if types.is_fractional(kind.key_type) and not keeps_zeros:
        keys = pc.add(keys, pa.scalar(0.0, kind.key_type))  # Makes 0.0 of -0.0.
    return put_together(Lists(lists.offsets, entries(keys, items), lists.valid), kind)


def map_literal(site: Site, *nodes: Node) -> Node:
    """Returns `map(key, value, ...)`; the keys are cast to their common type, and so are the values."""
    if not nodes:
        raise site.error("a map without a type", None, "CAST(map_concat() AS map<string,int>) is an empty map")
    if len(nodes) % 2:
        raise site.error("a key without a value", None, "write map(key, value, ...)")
    keys, items = promoted(nodes[::2], site), promoted(nodes[1::2], site)
    kind = map_type(keys[0].type, items[0].type, site)

    def apply(*columns: pa.Array) -> pa.Array:
        lists, values = side_by_side(columns[: len(keys)]), side_by_side(columns[len(keys) :])
        return checked(lists.values, values.values, lists, kind, site)

    return arrayed(kind, apply, site, [*keys, *items], fallible=True)


def _inside(place: int) -> Any:
    """Returns the builder of map_keys (0) or map_values (1)."""

    def build(site: Site, node: Node) -> Node:
        if node.type == types.NULL:
            return null(pa.list_(types.NULL), site)
        kind = pa.list_((map_of(node, site).type.key_type, node.type.item_type)[place])

        def apply(rows: pa.Array) -> pa.Array:
            lists = taken_apart(rows)
            return put_together(Lists(lists.offsets, lists.values.field(place), lists.valid), kind)

        return arrayed(kind, apply, site, (node,))

    return build


def map_entries(site: Site, node: Node) -> Node:
    """Returns an array of structs of key and value."""
    inner = map_of(node, site).type
    entry = pa.struct([pa.field("key", inner.key_type), pa.field("value", inner.item_type)])

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        parts = [lists.values.field(0), lists.values.field(1)]
        pairs = pa.StructArray.from_arrays(parts, fields=list(entry))
        return put_together(Lists(lists.offsets, pairs, lists.valid), pa.list_(entry))

    return arrayed(pa.list_(entry), apply, site, (node,))


def map_from_arrays(site: Site, keys: Node, items: Node) -> Node:
    """Returns a map of an array of keys and one of values."""
    sides = [cast(node, pa.list_(types.NULL), site) if node.type == types.NULL else node for node in (keys, items)]
    kind = map_type(array_of(sides[0], site).type.value_type, array_of(sides[1], site).type.value_type, site)

    def apply(one: pa.Array, other: pa.Array) -> pa.Array:
        left, right = taken_apart(one), taken_apart(other)
        valid = left.known & right.known
        if np.any(valid & (left.lengths != right.lengths)):
            raise site.error("a map of arrays of different lengths", None, "give as many keys as values")
        lengths = np.where(valid, left.lengths, 0)
        one, other = (side.values.take(pa.array(ranges(side.offsets[:-1], lengths))) for side in (left, right))
        return checked(one, other, of_lengths(lengths, one, valid), kind, site, keeps_zeros=True)

    return arrayed(kind, apply, site, sides, fallible=True)


def map_from_entries(site: Site, node: Node) -> Node:
    """Returns a map of an array of structs of two fields; null if one of them is null."""
    entry = array_of(node, site).type.value_type
    if not pat.is_struct(entry) or entry.num_fields != 2:
        raise site.wrong_type("an array of structs of two fields", node.type)
    kind = map_type(entry[0].type, entry[1].type, site)

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        valid = lists.known & (lists.counts(lists.null_elements()) == 0)
        lengths = np.where(valid, lists.lengths, 0)
        pairs = lists.values.take(pa.array(ranges(lists.offsets[:-1], lengths)))
        return checked(pairs.field(0), pairs.field(1), of_lengths(lengths, pairs, valid), kind, site)

    return arrayed(kind, apply, site, (node,), fallible=True)


def map_concat(site: Site, *nodes: Node) -> Node:
    """Returns the entries of all these maps; null if one of them is null."""
    if not nodes:
        kind = pa.map_(types.STRING, types.STRING)
        return arrayed(kind, lambda rows: pa.array([[]] * len(rows), kind), site, (null(types.NULL, site),))
    for node in nodes:
        map_of(node, site)
    parts = promoted(nodes, site, strings=False)
    kind = map_type(parts[0].type.key_type, parts[0].type.item_type, site)

    def apply(*columns: pa.Array) -> pa.Array:
        rows = side_by_side(columns)
        inner = taken_apart(rows.values)
        valid = rows.counts(~inner.known) == 0
        starts, ends = inner.offsets[rows.offsets[:-1]], inner.offsets[rows.offsets[1:]]
        lengths = np.where(valid, ends - starts, 0)
        pairs = inner.values.take(pa.array(ranges(starts, lengths)))
        return checked(pairs.field(0), pairs.field(1), of_lengths(lengths, pairs, valid), kind, site)

    return arrayed(kind, apply, site, parts, fallible=True)


FUNCTIONS = {
    "map": Function(map_literal, 0, MANY),
    "map_keys": fixed(_inside(0), 1),
    "map_values": fixed(_inside(1), 1),
    "map_entries": fixed(map_entries, 1),
    "map_from_arrays": fixed(map_from_arrays, 2),
    "map_from_entries": fixed(map_from_entries, 1),
    "map_concat": Function(map_concat, 0, MANY),
}
