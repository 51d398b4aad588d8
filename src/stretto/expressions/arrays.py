"""Making arrays, and putting their elements in other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import promoted
from stretto.expressions.lambdas import aligned
from stretto.expressions.lists import Lists, is_missing, of_lengths, put_together, ranges, taken_apart, within_bounds
from stretto.expressions.nodes import Node, Site, arrayed, null
from stretto.expressions.registry import MANY, Function, fixed


def array_of(node: Node, site: Site) -> Any:
    """Returns the node; raises if it is not an array."""
    if not pat.is_list(node.type):
        raise site.wrong_type("array", node.type)
    return node


def array(site: Site, *nodes: Node) -> Node:
    """Returns an array of these values, cast to their common type."""
    nodes = tuple(promoted(nodes, site)) if nodes else ()
    kind = pa.list_(nodes[0].type if nodes else types.NULL)
    if not nodes:
        return arrayed(kind, lambda rows: pa.array([[]] * len(rows), kind), site, (null(types.NULL, site),))
    return arrayed(kind, lambda *columns: put_together(side_by_side(columns), kind), site, nodes)


def side_by_side(columns: Sequence[pa.Array]) -> Lists:
    """Returns rows with an element from each of these columns."""
    count, rows = len(columns), len(columns[0])
    # The first row's elements, then the second's: from each column in turn.
    order = np.arange(rows * count).reshape(count, rows).T.reshape(-1)
    values = pa.concat_arrays(columns).take(pa.array(order))
    return of_lengths(np.full(rows, count), values, None)


def integer(node: Node, site: Site) -> Node:
    """Returns an argument as an int; what may not fit raises if it does not."""
    if node.type == types.NULL:
        return null(types.INT, site)
    if not types.is_integral(node.type) and node.type != types.STRING:
        raise site.wrong_type("int", node.type)
    return cast(node, types.INT, site)


def numbers(column: pa.Array) -> Any:
    """Returns integers as numpy; under a null is 0."""
    return column.fill_null(0).to_numpy().astype(np.int64)


def array_repeat(site: Site, node: Node, count: Node) -> Node:
    if count.type not in (types.INT, types.NULL):
        raise site.wrong_type("int", count.type)
    times, kind = integer(count, site), pa.list_(node.type)

    def apply(values: pa.Array, counts: pa.Array) -> pa.Array:
        lengths = within_bounds(np.maximum(numbers(counts), 0), site)
        repeated = values.take(pa.array(np.repeat(np.arange(len(values)), lengths)))
        return put_together(of_lengths(lengths, repeated, ~is_missing(counts)), kind)

    return arrayed(kind, apply, site, (node, times), fallible=True)


def array_compact(site: Site, node: Node) -> Node:
    """Returns the elements that are not null."""
    kind = array_of(node, site).type

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        return put_together(lists.filtered(~lists.null_elements()), kind)

    return arrayed(kind, apply, site, (node,))


def with_element(node: Node, element: Node, site: Site) -> tuple[Node, Node]:
    """Returns an array and a value of its elements' type; no string is cast for it."""
    array_of(node, site)
    kind = types.tightest(node.type.value_type, element.type)
    if kind is None:
        raise site.mismatch(node.type, element.type)
    return cast(node, pa.list_(kind), site), cast(element, kind, site)


def _adding(place: Callable[[Any], Any]) -> Callable[[Site, Node, Node], Node]:
    """Returns the builder of array_append or array_prepend; `place` is where the new element stands."""

    def build(site: Site, node: Node, element: Node) -> Node:
        node, element = with_element(node, element, site)

        def apply(rows: pa.Array, values: pa.Array) -> pa.Array:
            lists = taken_apart(rows)
            return put_together(_inserted(lists, place(lists.lengths), lists.lengths + 1, values), node.type)

        return arrayed(node.type, apply, site, (node, element))

    return build


def _inserted(lists: Lists, places: Any, lengths: Any, values: pa.Array, shift: Any = None) -> Lists:
    """Returns rows of these lengths with a new element each. Old elements keep their places before it, and move by one
    after it, or by `shift` if it stands before all of them; a place that is left is null."""
    known = lists.known
    whole = of_lengths(np.where(known, lengths, 0), pa.nulls(0), lists.valid)
    rows, here = whole.parents, whole.positions
    new = here == places[rows]
    moved = np.where(here > places[rows], 1 if shift is None else np.maximum(shift[rows], 1), 0)
    old = here - moved
    there = ~new & (old >= 0) & (old < lists.lengths[rows])
    # The new elements stand behind the old ones in one array, from which all are taken.
    source = np.where(new, len(lists.values) + rows, lists.offsets[rows] + old)
    both = pa.concat_arrays([lists.values, values])
    taken = both.take(pa.array(np.where(there | new, source, 0), mask=~(there | new)))
    return Lists(whole.offsets, taken, lists.valid)


def array_insert(site: Site, node: Node, position: Node, element: Node) -> Node:
    """Returns the array with a new element at a position from 1, or from -1 at the end; a gap is filled with nulls."""
    node, element = with_element(node, element, site)
    if position.type not in (types.TINYINT, types.SMALLINT, types.INT):
        raise site.wrong_type("int", position.type)

    def apply(rows: pa.Array, positions: pa.Array, values: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        asked = lists.known & ~is_missing(positions)
        wanted = numbers(positions)
        if np.any(asked & (wanted == 0)):
            raise site.error("index 0", "elements count from 1, or from -1 at the end", "use another index")
        lists = taken_apart(pc.if_else(pa.array(asked), rows, pa.scalar(None, rows.type)))
        before = lists.lengths + wanted + 1  # Negative if the new element stands before all others.
        places = np.where(wanted > 0, wanted - 1, np.maximum(before, 0))
        shift = np.where(wanted > 0, 0, np.maximum(-before, 0) + 1)
        lengths = np.maximum(lists.lengths + shift * (wanted < 0) + (wanted > 0), places + 1)
        return put_together(_inserted(lists, places, within_bounds(lengths * asked, site), values, shift), node.type)

    return arrayed(node.type, apply, site, (node, cast(position, types.INT, site), element), fallible=True)


def flatten(site: Site, node: Node) -> Node:
    """Returns the elements of an array's arrays; null if one of them is null."""
    if not pat.is_list(array_of(node, site).type.value_type):
        raise site.wrong_type("an array of arrays", node.type)
    kind = node.type.value_type

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        inner = taken_apart(lists.values)
        valid = lists.known & (lists.counts(~inner.known) == 0)
        starts, ends = inner.offsets[lists.offsets[:-1]], inner.offsets[lists.offsets[1:]]
        lengths = np.where(valid, ends - starts, 0)
        return put_together(of_lengths(lengths, inner.values.take(pa.array(ranges(starts, lengths))), valid), kind)

    return arrayed(kind, apply, site, (node,))


def slice_of(site: Site, node: Node, start: Node, length: Node) -> Node:
    """Returns so many elements from a start, which counts from 1, or from -1 at the end."""
    kind = array_of(node, site).type

    def apply(rows: pa.Array, starts: pa.Array, lengths: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        asked = lists.known & ~is_missing(starts) & ~is_missing(lengths)
        first, count = numbers(starts), numbers(lengths)
        if np.any(asked & (first == 0)):
            raise site.error("slice from 0", "elements count from 1, or from -1 at the end", "use another start")
        if np.any(asked & (count < 0)):
            raise site.error("a slice of negative length", None, "use 0 or more")
        begin = np.where(first > 0, first - 1, lists.lengths + first)
        inside = asked & (begin >= 0) & (begin < lists.lengths)
        kept = np.where(inside, np.minimum(count, lists.lengths - begin), 0)
        values = lists.values.take(pa.array(ranges(lists.offsets[:-1] + np.where(inside, begin, 0), kept)))
        return put_together(of_lengths(kept, values, asked), kind)

    return arrayed(kind, apply, site, (node, integer(start, site), integer(length, site)), fallible=True)


def reversed_array(site: Site, node: Node) -> Node:
    """Returns the elements in the other order."""
    array_of(node, site)

    def apply(rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        last = np.repeat(lists.offsets[1:] - 1, lists.lengths)
        values = lists.values.take(pa.array(last - lists.positions))
        return put_together(Lists(lists.offsets, values, lists.valid), node.type)

    return arrayed(node.type, apply, site, (node,))


def concatenated(site: Site, *nodes: Node) -> Node:
    """Returns the elements of all these arrays; null if one of them is null."""
    for node in nodes:
        array_of(node, site)
    nodes = tuple(promoted(nodes, site))
    kind = nodes[0].type

    def apply(*columns: pa.Array) -> pa.Array:
        rows = taken_apart(put_together(side_by_side(columns), pa.list_(kind)))
        inner = taken_apart(rows.values)
        valid = rows.counts(~inner.known) == 0
        starts, ends = inner.offsets[rows.offsets[:-1]], inner.offsets[rows.offsets[1:]]
        lengths = within_bounds(np.where(valid, ends - starts, 0), site)
        return put_together(of_lengths(lengths, inner.values.take(pa.array(ranges(starts, lengths))), valid), kind)

    return arrayed(kind, apply, site, nodes, fallible=True)


def arrays_zip(names: Sequence[str], nodes: Sequence[Node], site: Site) -> Node:
    """Returns structs of the elements at the same place; the shorter arrays are filled with nulls."""
    if any(node.type == types.NULL for node in nodes):
        fields = [array_of(node, site).type.value_type if node.type != types.NULL else types.NULL for node in nodes]
        return null(pa.list_(pa.struct(list(zip(names, fields, strict=True)))), site)
    kinds = [array_of(node, site).type.value_type for node in nodes]
    entry = pa.struct([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])

    def apply(*columns: pa.Array) -> pa.Array:
        (lengths, valid), values = aligned([taken_apart(column) for column in columns])
        return put_together(
            of_lengths(lengths, pa.StructArray.from_arrays(values, fields=list(entry)), valid), pa.list_(entry)
        )

    return arrayed(pa.list_(entry), apply, site, nodes)


FUNCTIONS = {
    "array": Function(array, 0, MANY),
    "array_repeat": fixed(array_repeat, 2),
    "array_compact": fixed(array_compact, 1),
    "array_append": fixed(_adding(lambda lengths: lengths), 2),
    "array_prepend": fixed(_adding(lambda lengths: np.zeros_like(lengths)), 2),
    "array_insert": fixed(array_insert, 3),
    "flatten": fixed(flatten, 1),
    "slice": fixed(slice_of, 3),
}
