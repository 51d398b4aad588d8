"""Functions that make rows: explode and its like. One of them may stand in a select list, on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from sqlglot import exp

from stretto.expressions import types
from stretto.expressions.arrays import side_by_side
from stretto.expressions.binder import bind
from stretto.expressions.json_paths import tuple_of
from stretto.expressions.lists import of_lengths, taken_apart
from stretto.expressions.nodes import Node, Site, constant_argument
from stretto.expressions.parse import Parsed
from stretto.expressions.row_makers import ROW_MAKERS
from stretto.expressions.scalar import quoted
from stretto.expressions.vectors import to_arrow

Rows = tuple[Any, list[pa.Array]]
"""The row of the input that each new row comes from, in order, and the columns of the new rows."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A function that makes rows: the fields of its rows, and Spark SQL for it."""

    fields: tuple[pa.Field, ...]
    sql: str
    text: str
    make: Callable[[pa.RecordBatch], Rows]

    def run(self, batch: pa.RecordBatch) -> Rows:
        """Returns the new rows of a batch."""
        with np.errstate(all="ignore"):
            return self.make(batch)


Build = Callable[[Sequence[Node], Site], tuple[list[tuple[str, pa.DataType]], Callable[[pa.RecordBatch], Rows]]]


def generator(parsed: Parsed, schema: pa.Schema, text: str) -> Generator | None:
    """Returns the function that makes rows, or None if the expression is something else."""
    tree = parsed.tree
    if not isinstance(tree, exp.Anonymous) or tree.name.lower() not in ROW_MAKERS:
        return None
    site, name = Site(tree, text), tree.name.lower()
    counts = ROW_MAKERS[name]
    if not counts.least <= len(tree.expressions) <= counts.most:
        raise site.error(
            f"{name} takes {counts.counts}, not {len(tree.expressions)}", None, "see Spark's documentation"
        )
    fields, make = _BUILDERS[name]([bind(argument, schema, text) for argument in tree.expressions], site)
    given = [parsed.alias] if parsed.alias is not None else list(parsed.aliases)
    if given and len(given) != len(fields):
        names = ", ".join(name for name, _ in fields)
        raise site.error(f"{len(given)} name(s) for {len(fields)} column(s)", f"columns: {names}", "name each of them")
    named = tuple(pa.field(own, kind) for own, (_, kind) in zip(given or [n for n, _ in fields], fields, strict=True))
    return Generator(named, f"{parsed.body} AS ({', '.join(quoted(field.name) for field in named)})", text, make)


def _exploding(outer: bool, positions: bool) -> Build:
    """Returns the builder of explode, posexplode and their outer forms, which make a row of nulls of an empty array."""

    def build(nodes: Sequence[Node], site: Site) -> Any:
        node: Any = nodes[0]
        kind = node.type
        if pat.is_map(kind):
            fields = [("key", kind.key_type), ("value", kind.item_type)]
        elif pat.is_list(kind):
            fields = [("col", kind.value_type)]
        else:
            raise site.wrong_type("an array or a map", kind)
        if positions:
            fields.insert(0, ("pos", types.INT))

        def make(batch: pa.RecordBatch) -> Rows:
            parents, places, there, elements = _elements(node, batch, outer)
            columns = [elements.field(0), elements.field(1)] if pat.is_map(kind) else [elements]
            taken = [column.take(pa.array(places, mask=~there)) for column in columns]
            if positions:
                taken.insert(0, _positions(parents, there))
            return parents, taken

        return fields, make

    return build


def _elements(node: Node, batch: pa.RecordBatch, outer: bool) -> tuple[Any, Any, Any, Any]:
    """Returns for each new row its input row, the place of its element, and whether it has one; and all elements."""
    lists = taken_apart(to_arrow(node.run(batch), node.type, batch.num_rows))
    whole = of_lengths(np.maximum(lists.lengths, 1) if outer else lists.lengths, pa.nulls(0), None)
    parents, positions = whole.parents, whole.positions
    there = positions < lists.lengths[parents]
    return parents, np.where(there, lists.offsets[parents] + positions, 0), there, lists.values


def _positions(parents: Any, there: Any) -> pa.Array:
    starts = np.concatenate(([0], np.flatnonzero(np.diff(parents)) + 1)) if len(parents) else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((starts, [len(parents)])))
    return pa.array(np.arange(len(parents)) - np.repeat(starts, lengths), types.INT, mask=~there)


def _inlining(outer: bool) -> Build:
    """Returns the builder of inline: a row for each struct of an array, with a column for each field."""

    def build(nodes: Sequence[Node], site: Site) -> Any:
        node: Any = nodes[0]
        if not pat.is_list(node.type) or not pat.is_struct(node.type.value_type):
            raise site.wrong_type("an array of structs", node.type)
        inner = node.type.value_type

        def make(batch: pa.RecordBatch) -> Rows:
            parents, places, there, elements = _elements(node, batch, outer)
            structs = elements.take(pa.array(places, mask=~there))
            return parents, [pc.struct_field(structs, [place]) for place in range(inner.num_fields)]

        return [(field.name, field.type) for field in inner], make

    return build


def _stack(nodes: Sequence[Node], site: Site) -> Any:
    """Returns so many rows of the values that follow."""
    count = constant_argument(nodes[0], types.INT, "the number of rows of stack")
    if count is None or count < 1:
        raise site.error("stack of no rows", None, "give 1 or more")
    width = -(-(len(nodes) - 1) // count)
    cells: list[list[Node]] = [list(nodes[1 + place :: width]) for place in range(width)]
    kinds = []
    for place, column in enumerate(cells):
        known = [node.type for node in column if node.type != types.NULL] or [types.NULL]
        if any(kind != known[0] for kind in known):
            raise site.error(f"column {place} of stack has two types", None, "CAST its values to one type")
        kinds.append(known[0])

    def make(batch: pa.RecordBatch) -> Rows:
        rows = batch.num_rows
        columns = []
        for column, kind in zip(cells, kinds, strict=True):
            arrays = [
                pa.nulls(rows, kind) if node.type == types.NULL else to_arrow(node.run(batch), kind, rows)
                for node in column
            ]
            arrays += [pa.nulls(rows, kind)] * (count - len(arrays))
            columns.append(side_by_side(arrays).values)
        return np.repeat(np.arange(rows), count), columns

    return [(f"col{place}", kind) for place, kind in enumerate(kinds)], make


def _json_tuple(nodes: Sequence[Node], site: Site) -> Any:
    """Returns one row of the fields of a JSON object, as texts."""
    for node in nodes:
        if node.type != types.STRING:
            raise site.wrong_type("string", node.type)

    def make(batch: pa.RecordBatch) -> Rows:
        rows = batch.num_rows
        texts, *names = (to_arrow(node.run(batch), node.type, rows).to_pylist() for node in nodes)
        found: dict[Any, tuple[str | None, ...]] = {}
        columns: list[list[str | None]] = [[] for _ in names]
        for row in zip(texts, *names, strict=True):
            if row not in found:
                found[row] = (None,) * len(names) if row[0] is None else tuple_of(row[0], row[1:])
            for column, value in zip(columns, found[row], strict=True):
                column.append(value)
        return np.arange(rows), [pa.array(column, types.STRING) for column in columns]

    return [(f"c{place}", types.STRING) for place in range(len(nodes) - 1)], make


_BUILDERS: dict[str, Build] = {
    "explode": _exploding(outer=False, positions=False),
    "explode_outer": _exploding(outer=True, positions=False),
    "posexplode": _exploding(outer=False, positions=True),
    "posexplode_outer": _exploding(outer=True, positions=True),
    "inline": _inlining(outer=False),
    "inline_outer": _inlining(outer=True),
    "stack": _stack,
    "json_tuple": _json_tuple,
}
