"""One element of an array or a map: `a[0]`, `m['k']`, element_at, get; and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import logic, types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.lists import Lists, is_missing, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, constant, constant_argument, elementwise, kernel, null
from stretto.expressions.ranks import ranks_together
from stretto.expressions.registry import fixed, with_aliases
from stretto.expressions.structs import field

CommonType = Callable[[pa.DataType, pa.DataType], pa.DataType | None]
Place = Callable[[Any, Any, Any, Site], tuple[Any, Any]]
"""From indexes, lengths, and the rows that have both: the place of each element from 0, and the rows that have it."""


def subscript(node: Node, index: Node, site: Site) -> Node:
    """Returns `a[0]`, `m['k']` or `s['field']`. An index out of range raises; a key that is missing gives NULL."""
    if pat.is_map(node.type):
        return map_value(node, _as_key(index, node.type.key_type, site), site)
    if pat.is_list(node.type):
        if index.type == types.STRING and index.literal and pat.is_struct(node.type.value_type):
            return field(node, constant_argument(index, types.STRING, "a field"), site)
        return array_item(node, _of_32_bits(index, site), site, _from_zero)
    if pat.is_struct(node.type):
        return field(node, str(constant_argument(index, types.STRING, "the name of a field")), site)
    raise site.wrong_type("an array, a map or a struct", node.type)


def _as_key(index: Node, kind: pa.DataType, site: Site) -> Node:
    """Returns an index as a key of a map. Spark casts a number or a string to one, and no boolean or array."""
    numbers = types.is_numeric(kind) and (types.is_numeric(index.type) or index.type == types.STRING)
    texts = kind == types.STRING and not types.is_nested(index.type)
    if index.type not in (kind, types.NULL) and not numbers and not texts and not types.is_temporal(kind):
        raise site.mismatch(kind, index.type)
    return cast(index, kind, site)


def _of_32_bits(index: Node, site: Site) -> Node:
    """Returns an index as Spark reads it: of a bigint only the lowest 32 bits."""
    if index.type != types.BIGINT:
        return index
    return elementwise(types.INT, lambda values: values.astype(np.int32), site, (index,))


def named(node: Node, name: str, site: Site) -> Node:
    """Returns `struct.field`, or `map.key`."""
    if not pat.is_map(node.type):
        return field(node, name, site)
    return subscript(node, constant(types.STRING, (pa.scalar(name, types.STRING), None), site), site)


def array_item(node: Node, index: Node, site: Site, place: Place) -> Node:
    """Returns the element of an array at an index, which `place` interprets."""
    if index.type == types.NULL:
        return null(node.type.value_type, site)
    if not types.is_integral(index.type):
        raise site.wrong_type("an integer as an index", index.type)

    def apply(array: pa.Array, indexes: pa.Array) -> pa.Array:
        lists = taken_apart(array)
        wanted = indexes.fill_null(0).to_numpy().astype(np.int64)
        asked = lists.known & ~is_missing(indexes)
        places, found = place(wanted, lists.lengths, asked, site)
        return _taken(lists, places, found)

    item = arrayed(node.type.value_type, apply, site, (node, index), fallible=place is not _or_null)
    return logic.strict(item, (node, index), site)


def _taken(lists: Lists, places: Any, found: Any) -> pa.Array:
    return lists.values.take(pa.array(np.where(found, lists.offsets[:-1] + places, 0), mask=~found))


def _from_zero(wanted: Any, lengths: Any, asked: Any, site: Site) -> tuple[Any, Any]:
    outside = asked & ((wanted < 0) | (wanted >= lengths))
    if np.any(outside):
        raise _out_of_bounds(wanted, lengths, outside, "use get() for NULL instead", site)
    return wanted, asked


def _or_null(wanted: Any, lengths: Any, asked: Any, site: Site) -> tuple[Any, Any]:
    return wanted, asked & (wanted >= 0) & (wanted < lengths)


def _from_one(wanted: Any, lengths: Any, asked: Any, site: Site) -> tuple[Any, Any]:
    places, found = _from_one_or_null(wanted, lengths, asked, site)
    if np.any(found != asked):
        raise _out_of_bounds(wanted, lengths, asked & ~found, "use try_element_at() for NULL instead", site)
    return places, found


def _from_one_or_null(wanted: Any, lengths: Any, asked: Any, site: Site) -> tuple[Any, Any]:
    found = asked & (np.abs(wanted) <= lengths)
    if np.any(found & (wanted == 0)):
        raise site.error("index 0", "elements count from 1, or from -1 at the end", "use another index")
    return np.where(wanted < 0, lengths + wanted, wanted - 1), found


def _out_of_bounds(wanted: Any, lengths: Any, outside: Any, fix: str, site: Site) -> Exception:
    row = int(np.argmax(outside))
    return site.error(f"the index {wanted[row]} is out of bounds", f"the array has {lengths[row]} elements", fix)


def map_value(node: Node, key: Node, site: Site) -> Node:
    """Returns the value of a key, null if the map does not have it."""

    def apply(array: pa.Array, keys: pa.Array) -> pa.Array:
        lists = taken_apart(array)
        equal = _hits(lists, keys)
        found = lists.counts(equal) > 0
        hits = np.flatnonzero(equal)[::-1]
        places = np.zeros(lists.rows, np.int64)
        places[lists.parents[hits]] = lists.positions[hits]  # from_json may give a key twice: the first counts.
        return _taken(Lists(lists.offsets, lists.values.field(1), lists.valid), places, found)

    return logic.strict(arrayed(node.type.item_type, apply, site, (node, key)), (node, key), site)


def _hits(lists: Lists, keys: pa.Array) -> Any:
    """Returns true for the entry of each row that has the row's key."""
    mine, wanted = ranks_together(lists.values.field(0), keys)
    return (mine == wanted[lists.parents]) & (mine > 0)


def _keyed(node: Node, key: Node, common: CommonType, site: Site) -> tuple[Node, Node]:
    """Returns a map and a key of one type."""
    kind = common(node.type.key_type, key.type)
    if kind is None or key.type == types.NULL:
        raise site.mismatch(node.type, key.type)
    return cast(node, pa.map_(kind, node.type.item_type), site), cast(key, kind, site)


def _element_at(place: Place) -> Callable[[Site, Node, Node], Node]:
    def build(site: Site, node: Node, index: Node) -> Node:
        if pat.is_map(node.type):
            # Spark wants a type here that holds all values of both, so no int beside decimal(10,2).
            return map_value(*_keyed(node, index, types.tightest, site), site)
        if not pat.is_list(node.type):
            raise site.wrong_type("an array or a map", node.type)
        if index.type in (types.BIGINT, types.NULL):
            raise site.wrong_type("int", index.type)
        return array_item(node, index, site, place)

    return build


def get(site: Site, node: Node, index: Node) -> Node:
    """Returns the element at an index from 0, null if there is none."""
    if not pat.is_list(node.type):
        raise site.wrong_type("array", node.type)
    (index,) = promoted((index,), site)
    if index.type == types.BIGINT:
        index = cast(index, types.INT, site)
    return array_item(node, index, site, _or_null)


def map_contains_key(site: Site, node: Node, key: Node) -> Node:
    if not pat.is_map(node.type):
        raise site.wrong_type("map", node.type)
    node, key = _keyed(node, key, types.sought, site)

    def apply(array: pa.Array, keys: pa.Array) -> pa.Array:
        lists = taken_apart(array)
        return pa.array(lists.counts(_hits(lists, keys)) > 0, mask=~lists.known | is_missing(keys))

    return arrayed(types.BOOLEAN, apply, site, (node, key))


def size(site: Site, node: Node) -> Node:
    """Returns the number of elements; null for a null array or map."""
    if node.type == types.NULL:
        return null(types.INT, site)
    if not pat.is_list(node.type) and not pat.is_map(node.type):
        raise site.wrong_type("an array or a map", node.type)
    if pat.is_list(node.type):
        return kernel(types.INT, lambda values: pc.cast(pc.list_value_length(values), types.INT), site, (node,))

    def apply(array: pa.Array) -> pa.Array:
        lists = taken_apart(array)
        return pa.array(lists.lengths, types.INT, mask=~lists.known)

    return arrayed(types.INT, apply, site, (node,))


def array_size(site: Site, node: Node) -> Node:
    if pat.is_map(node.type):
        raise site.wrong_type("array", node.type)
    return size(site, node)


FUNCTIONS = with_aliases(
    {
        "size": fixed(size, 1),
        "array_size": fixed(array_size, 1),
        "element_at": fixed(_element_at(_from_one), 2),
        "try_element_at": fixed(_element_at(_from_one_or_null), 2),
        "get": fixed(get, 2),
        "map_contains_key": fixed(map_contains_key, 2),
    },
    cardinality="size",
)
