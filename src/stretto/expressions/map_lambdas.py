"""Functions of functions over maps: of a key and its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import logic, types
from stretto.expressions.casts import cast
from stretto.expressions.lambdas import HigherOrder, Lambda, Scope, condition, over_rows, truth
from stretto.expressions.lists import Lists, entries, of_lengths, put_together, taken_apart
from stretto.expressions.maps import checked, map_of, map_type
from stretto.expressions.nodes import Node, Site
from stretto.expressions.ranks import ranks_together


def _bound(scope: Scope, tree: Any, function: Any, site: Site) -> tuple[Any, Lambda]:
    node = map_of(scope.bind(tree), site)
    return node, scope.function(function, (node.type.key_type, node.type.item_type), 2, site)


def _results(function: Lambda, batch: pa.RecordBatch, lists: Lists) -> pa.Array:
    return function.run(batch, lists.parents, [lists.values.field(0), lists.values.field(1)])


def map_filter(site: Site, scope: Scope, tree: Any, function: Any) -> Node:
    """Returns the entries for which a function is true."""
    node, test = _bound(scope, tree, function, site)
    test = condition(test, site)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        values, valid = truth(_results(test, batch, lists))
        return put_together(lists.filtered(values & valid), node.type)

    return over_rows(node.type, apply, (node,), (test,), site)


def transform_keys(site: Site, scope: Scope, tree: Any, function: Any) -> Node:
    """Returns the map with other keys; raises if two of them are equal, or one is null."""
    node, change = _bound(scope, tree, function, site)
    kind = map_type(change.body.type, node.type.item_type, site)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        keys = _results(change, batch, lists)
        return checked(keys, lists.values.field(1), lists, kind, site, keeps_zeros=True)

    return over_rows(kind, apply, (node,), (change,), site, fallible=True)


def transform_values(site: Site, scope: Scope, tree: Any, function: Any) -> Node:
    """Returns the map with other values."""
    node, change = _bound(scope, tree, function, site)
    kind = pa.map_(node.type.key_type, change.body.type)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        pairs = entries(lists.values.field(0), _results(change, batch, lists))
        return put_together(Lists(lists.offsets, pairs, lists.valid), kind)

    return over_rows(kind, apply, (node,), (change,), site)


def map_zip_with(site: Site, scope: Scope, first: Any, second: Any, function: Any) -> Node:
    """Returns a function of each key and its values in two maps; a value that is missing is null."""
    left, right = map_of(scope.bind(first), site), map_of(scope.bind(second), site)
    key = types.wider(left.type.key_type, right.type.key_type)
    if key is None:
        raise site.mismatch(left.type, right.type)
    left = cast(left, pa.map_(key, left.type.item_type), site)
    right = cast(right, pa.map_(key, right.type.item_type), site)
    merge = scope.function(function, (key, left.type.item_type, right.type.item_type), 3, site)
    kind = pa.map_(key, merge.body.type)

    def apply(batch: pa.RecordBatch, one: pa.Array, other: pa.Array) -> pa.Array:
        mine, theirs = taken_apart(one), taken_apart(other)
        valid = mine.known & theirs.known
        keys, lengths, places = _united(mine, theirs, valid)
        rows = of_lengths(lengths, keys, valid)
        columns = [keys] + [
            side.values.field(1).take(pa.array(place, mask=place < 0))
            for side, place in zip((mine, theirs), places, strict=True)
        ]
        pairs = entries(keys, merge.run(batch, rows.parents, columns))
        return put_together(Lists(rows.offsets, pairs, valid), kind)

    return logic.strict(over_rows(kind, apply, (left, right), (merge,), site), (left, right), site)


def _partners(mine: Lists, theirs: Lists) -> Any:
    """Returns for each of my entries the place of the other side's entry of the same row and key, -1 if missing."""
    left, right = ranks_together(mine.values.field(0), theirs.values.field(0))
    width = int(max(left.max(initial=0), right.max(initial=0))) + 1
    left, right = mine.parents * width + left, theirs.parents * width + right
    if not len(right):
        return np.full(len(left), -1)
    order = np.argsort(right)
    near = order[np.minimum(np.searchsorted(right[order], left), len(right) - 1)]
    return np.where(right[near] == left, near, -1)


def _united(mine: Lists, theirs: Lists, valid: Any) -> tuple[pa.Array, Any, tuple[Any, Any]]:
    """Returns the keys of both sides, how many each row has, and the place of each in either side, -1 if missing."""
    pair = _partners(mine, theirs)
    left = np.flatnonzero(valid[mine.parents])
    right = np.flatnonzero(valid[theirs.parents] & ~np.isin(np.arange(len(theirs.values)), pair[pair >= 0]))
    rows = np.concatenate((mine.parents[left], theirs.parents[right]))
    order = np.argsort(rows, kind="stable")
    places = (
        np.concatenate((left, np.full(len(right), -1)))[order],
        np.concatenate((pair[left], right))[order],
    )
    both = pa.concat_arrays([mine.values.field(0), theirs.values.field(0)])
    source = np.concatenate((left, len(mine.values) + right))[order]
    return both.take(pa.array(source)), np.bincount(rows, minlength=mine.rows), places


HIGHER_ORDER = {
    "map_filter": HigherOrder(map_filter, 2, 2),
    "transform_keys": HigherOrder(transform_keys, 2, 2),
    "transform_values": HigherOrder(transform_values, 2, 2),
    "map_zip_with": HigherOrder(map_zip_with, 3, 3),
}
