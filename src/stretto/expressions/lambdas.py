"""Functions of functions over arrays: transform, filter, exists, forall, zip_with and their like.

A function's body runs once for a batch, over the elements of all rows at once: the batch that it sees has a column for
each of its parameters, and the outer columns that it names, repeated for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from stretto.errors import ExpressionError
from stretto.expressions import logic, types
from stretto.expressions.lists import Lists, of_lengths, put_together, taken_apart
from stretto.expressions.nodes import Node, Site, combine
from stretto.expressions.registry import Function
from stretto.expressions.vectors import Value, from_arrow, is_constant, reader, to_arrow


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function in an expression: its body, the columns that its body reads its parameters from, and other columns."""

    body: Node
    parameters: tuple[str, ...]
    outer: tuple[str, ...]

    @property
    def part(self) -> Node:
        """The body as a part of the expression that has it, which does not have its parameters."""
        return replace(self.body, columns=frozenset(self.outer))

    def over(self, batch: pa.RecordBatch, rows: Any, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Returns the batch that the body sees: parameters, and for each of their values a row of the outer batch."""
        named: dict[str, pa.Array] = dict(zip(self.parameters, columns, strict=False))
        places = pa.array(rows) if self.outer else None
        for name in self.outer:
            named[name] = batch.column(name).take(places)
        return pa.RecordBatch.from_arrays(list(named.values()), names=list(named))

    def run(self, batch: pa.RecordBatch, rows: Any, columns: Sequence[pa.Array]) -> pa.Array:
        """Returns the results of the body, one for each value of the parameters."""
        return to_arrow(self.body.run(self.over(batch, rows, columns)), self.body.type, len(columns[0]))


class Scope:
    """What a builder of a function of functions gets to bind its arguments with."""

    def __init__(
        self, bind: Callable[[Any], Node], bind_lambda: Callable[[exp.Lambda, Sequence[pa.DataType]], Lambda]
    ) -> None:
        self.bind = bind
        self._bind_lambda = bind_lambda

    def function(self, tree: Any, kinds: Sequence[pa.DataType], least: int, site: Site) -> Lambda:
        """Returns a function of parameters of these types, of which the last may be left out."""
        if not isinstance(tree, exp.Lambda):
            raise site.error("not a function", "an argument is a function here", "write x -> x + 1")
        count = len(tree.expressions)
        if not least <= count <= len(kinds):
            wanted = str(least) if least == len(kinds) else f"{least} to {len(kinds)}"
            raise site.error(f"a function of {count} parameters", f"expected {wanted}", "write (x, y) -> ...")
        return self._bind_lambda(tree, kinds[:count])

    def array(self, tree: Any, site: Site) -> Node:
        """Returns an argument that is an array."""
        node = self.bind(tree)
        if not pat.is_list(node.type):
            raise site.wrong_type("array", node.type)
        return node


class HigherOrder(Function):
    """A function of functions. Its builder gets the site, the scope and the arguments as trees."""


def condition(function: Lambda, site: Site) -> Lambda:
    """Returns a function whose result is a boolean."""
    return replace(function, body=logic.boolean(function.body, site))


def over_rows(
    kind: pa.DataType,
    apply: Callable[..., pa.Array],
    arrays: Sequence[Node],
    functions: Sequence[Lambda],
    site: Site,
    fallible: bool = False,
) -> Node:
    """Returns a node of whole Arrow arrays; `apply` gets the batch as well, for the functions' outer columns."""
    runs = [(node.run, node.type) for node in arrays]
    outer = any(function.outer for function in functions)

    def run(batch: pa.RecordBatch) -> Value:
        values = [(part(batch), part_type) for part, part_type in runs]
        fixed = not outer and all(is_constant(value, part_type) for value, part_type in values)
        count = 1 if fixed else batch.num_rows
        result = apply(batch, *(to_arrow(value, part_type, count) for value, part_type in values))
        return from_arrow(result[0] if fixed else result, kind)

    return combine(kind, run, site, [*arrays, *(function.part for function in functions)], fallible)


def parameters_of(lists: Lists, function: Lambda) -> list[pa.Array]:
    """Returns the columns of an element and, if the function wants it, its index."""
    columns = [lists.values]
    if len(function.parameters) > 1:
        columns.append(pa.array(lists.positions, types.INT))
    return columns


def transform(site: Site, scope: Scope, array: Any, tree: Any) -> Node:
    """Returns each element changed by a function of it, and of its index."""
    node = scope.array(array, site)
    function = scope.function(tree, (node.type.value_type, types.INT), 1, site)
    kind = pa.list_(function.body.type)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        results = function.run(batch, lists.parents, parameters_of(lists, function))
        return put_together(Lists(lists.offsets, results, lists.valid), kind)

    return over_rows(kind, apply, (node,), (function,), site)


def filter_elements(site: Site, scope: Scope, array: Any, tree: Any) -> Node:
    """Returns the elements for which a function is true."""
    node = scope.array(array, site)
    function = condition(scope.function(tree, (node.type.value_type, types.INT), 1, site), site)

    def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
        lists = taken_apart(rows)
        values, valid = truth(function.run(batch, lists.parents, parameters_of(lists, function)))
        return put_together(lists.filtered(values & valid), node.type)

    return over_rows(node.type, apply, (node,), (function,), site)


def truth(results: pa.Array) -> tuple[Any, Any]:
    """Returns booleans, and which of them are not null."""
    values, valid = reader(types.BOOLEAN)(results)
    return values, np.ones(len(results), np.bool_) if valid is None else valid


def _quantified(decisive: bool) -> Callable[..., Node]:
    """Returns the builder of exists (`decisive` true) or forall (false): one such element decides."""

    def build(site: Site, scope: Scope, array: Any, tree: Any) -> Node:
        node = scope.array(array, site)
        function = condition(scope.function(tree, (node.type.value_type,), 1, site), site)

        def apply(batch: pa.RecordBatch, rows: pa.Array) -> pa.Array:
            lists = taken_apart(rows)
            try:
                decided, unknown = _decided(function, batch, lists, decisive)
            except ExpressionError:
                # Spark stops at the element that decides, and what comes after it may fail.
                decided, unknown = _decided_in_order(function, batch, lists, decisive)
            return pa.array(decided == decisive, types.BOOLEAN, mask=~lists.known | (unknown & ~decided))

        return over_rows(types.BOOLEAN, apply, (node,), (function,), site)

    return build


def _decided(function: Lambda, batch: pa.RecordBatch, lists: Lists, decisive: bool) -> tuple[Any, Any]:
    values, valid = truth(function.run(batch, lists.parents, [lists.values]))
    return lists.counts(valid & (values == decisive)) > 0, lists.counts(~valid) > 0


def _decided_in_order(function: Lambda, batch: pa.RecordBatch, lists: Lists, decisive: bool) -> tuple[Any, Any]:
    decided, unknown = np.zeros(lists.rows, np.bool_), np.zeros(lists.rows, np.bool_)
    lengths = lists.lengths
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero((lengths > place) & ~decided)
        values, valid = truth(function.run(batch, rows, [lists.values.take(pa.array(lists.offsets[rows] + place))]))
        decided[rows] = valid & (values == decisive)
        unknown[rows] |= ~valid
    return decided, unknown


def zip_with(site: Site, scope: Scope, first: Any, second: Any, tree: Any) -> Node:
    """Returns a function of the elements of two arrays at the same place; the shorter one is filled with nulls."""
    left, right = scope.array(first, site), scope.array(second, site)
    function = scope.function(tree, (left.type.value_type, right.type.value_type), 2, site)
    kind = pa.list_(function.body.type)

    def apply(batch: pa.RecordBatch, one: pa.Array, other: pa.Array) -> pa.Array:
        (lengths, valid), columns = aligned((taken_apart(one), taken_apart(other)))
        rows = of_lengths(lengths, columns[0], valid)
        return put_together(replace(rows, values=function.run(batch, rows.parents, columns)), kind)

    return logic.strict(over_rows(kind, apply, (left, right), (function,), site), (left, right), site)


def aligned(arrays: Sequence[Lists]) -> tuple[tuple[Any, Any], list[pa.Array]]:
    """Returns the length of each row, the rows in which no array is null, and the elements of each array, filled with
    nulls up to that length."""
    valid = np.logical_and.reduce([lists.known for lists in arrays])
    lengths = np.where(valid, np.maximum.reduce([lists.lengths for lists in arrays]), 0)
    whole = of_lengths(lengths, pa.nulls(int(lengths.sum())), valid)
    rows, places = whole.parents, whole.positions
    columns = []
    for lists in arrays:
        there = places < lists.lengths[rows]
        columns.append(lists.values.take(pa.array(np.where(there, lists.offsets[rows] + places, 0), mask=~there)))
    return (lengths, valid), columns


HIGHER_ORDER: Mapping[str, HigherOrder] = {
    "transform": HigherOrder(transform, 2, 2),
    "filter": HigherOrder(filter_elements, 2, 2),
    "exists": HigherOrder(_quantified(True), 2, 2),
    "forall": HigherOrder(_quantified(False), 2, 2),
    "zip_with": HigherOrder(zip_with, 3, 3),
}


def without_function(function: HigherOrder) -> Function:
    """Returns the entry of a function of functions in the table of all functions; it is bound elsewhere."""

    def build(site: Site, *arguments: Node) -> Node:
        raise site.error("an argument must be a function", None, "write x -> x + 1, or (x, y) -> x + y")

    return Function(build, function.least, function.most)
