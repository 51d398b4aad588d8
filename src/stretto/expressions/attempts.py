"""try_cast, try_add and their like: a row on which the operation itself fails is NULL; its operands may still raise.

The strict operation runs on the whole batch. Only if that raises, halves of it run on their own, down to single rows,
so that a batch without a bad row costs what it does without `try_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import ExpressionError
from stretto.expressions import nested_casts, signs, types
from stretto.expressions.arithmetic import arithmetic
from stretto.expressions.casts import cast
from stretto.expressions.decimals import FarApart
from stretto.expressions.nodes import Node, Run, Site, combine, null, slot
from stretto.expressions.registry import Function, fixed
from stretto.expressions.shifts import time_arithmetic
from stretto.expressions.vectors import Value, from_arrow, to_arrow

Build = Callable[..., Node]
"""Called with the operands and the site; returns the strict operation."""
Beyond = type[ExpressionError] | tuple[()]
"""What is raised though it fails in the operation itself."""


class _QuietSite(Site):
    """A place whose errors nobody reads, so that no text is rendered for each failing row."""

    @property
    def part(self) -> str:
        return ""


def attempted(build: Build, nodes: Sequence[Node], site: Site, beyond: Beyond = ()) -> Node:
    """Returns `build(*nodes, site)` that is null on the rows where it would raise, unless it raises what is beyond."""
    plain = build(*nodes, site)
    if not plain.fallible:
        return plain
    places = [place for place, node in enumerate(nodes) if node.columns or node.fallible]
    if not any(node.columns for node in nodes):
        # A constant that did not fail is not fallible any more, so it is this one, or an operand of it.
        fails = any(node.fallible for node in nodes) or _raises(plain, beyond)
        return plain if fails else _evaluated_null(plain, site)
    slots = list(nodes)
    for place in places:
        slots[place] = slot(nodes[place].type, str(place), nodes[place].site)
    strict = build(*slots, _QuietSite(site.tree, site.whole))
    run_strict, kind = strict.run, strict.type
    inputs = [(nodes[place].run, nodes[place].type) for place in places]
    names = [str(place) for place in places]

    def tried(rows: pa.RecordBatch) -> Value:
        try:
            return run_strict(rows)
        except beyond:
            raise
        except ExpressionError:
            return from_arrow(_row_by_row(run_strict, kind, rows, beyond), kind)

    def run(batch: pa.RecordBatch) -> Value:
        columns = [to_arrow(inner(batch), source, batch.num_rows) for inner, source in inputs]
        rows = pa.RecordBatch.from_arrays(columns, names=names)
        try:
            return tried(rows)
        except beyond as error:
            raise _told(error, site) from None

    return combine(kind, run, site, nodes, fallible=beyond != ())


def _told(error: ExpressionError, site: Site) -> ExpressionError:
    """Returns an error of a quiet place with the text of the place."""
    return type(error)(error.fact.removesuffix("''") + repr(site.part), error.detail, error.fix)


def _evaluated_null(node: Node, site: Site) -> Node:
    """Returns the NULL of a constant that fails: Spark has to evaluate it, and sees no NULL before."""
    return replace(null(node.type, site), nulled=False, folds=node.folds)


def _raises(node: Node, beyond: Beyond) -> bool:
    """Whether a constant that fails raises what is beyond."""
    try:
        node.run(pa.record_batch({"row": [0]}))
    except beyond:
        return True
    except ExpressionError:
        return False
    return False


def attempted_whole(node: Node, site: Site) -> Node:
    """Returns a node that is null on the rows where it, or any part of it, would raise."""
    if not node.fallible:
        return node
    if not node.columns:
        return _evaluated_null(node, site)
    inner, kind = node.run, node.type

    def run(batch: pa.RecordBatch) -> Value:
        try:
            return inner(batch)
        except ExpressionError:
            return from_arrow(pa.concat_arrays(_halved(inner, kind, batch, ())), kind)

    return replace(combine(kind, run, site, (node,)), fallible=False, fields=node.fields)


def _row_by_row(run: Run, kind: pa.DataType, rows: pa.RecordBatch, beyond: Beyond) -> pa.Array:
    """Returns the results of rows of which some fail; of equal texts only one is tried."""
    if rows.num_columns > 1 or rows.schema.types[0] != types.STRING:
        return pa.concat_arrays(_halved(run, kind, rows, beyond))
    texts = rows.column(0).dictionary_encode()
    distinct = pa.RecordBatch.from_arrays([texts.dictionary], names=rows.schema.names)
    if not distinct.num_rows:
        return pa.nulls(rows.num_rows, kind)
    return pa.concat_arrays(_halved(run, kind, distinct, beyond)).take(texts.indices)


def _halved(run: Run, kind: pa.DataType, rows: pa.RecordBatch, beyond: Beyond) -> list[pa.Array]:
    count = rows.num_rows
    try:
        return [to_arrow(run(rows), kind, count)]
    except beyond:
        raise
    except ExpressionError:
        if count <= 1:
            return [pa.nulls(count, kind)]
    half = count // 2
    return _halved(run, kind, rows.slice(0, half), beyond) + _halved(run, kind, rows.slice(half), beyond)


def try_cast(node: Node, kind: pa.DataType, site: Site) -> Node:
    """Returns the node as another type, null where it has no such value."""
    if types.is_nested(node.type) and node.type != kind:
        if pat.is_map(node.type) and pat.is_map(kind):
            key = cast(slot(node.type.key_type, "key", site), kind.key_type, site)
            if key.fallible:  # It would be null, which no key is.
                raise nested_casts.no_cast(node.type, kind, site)
        # A value that cannot be cast is null where it stands, in the array or the field.
        return nested_casts.cast_nested(node, kind, site, try_cast)
    return attempted(lambda inner, place: cast(inner, kind, place), (node,), site)


def _trying(operator: str) -> Function:
    def strict(left: Node, right: Node, site: Site) -> Node:
        node = time_arithmetic(operator, left, right, site)
        if node is not None:
            return node
        # A string that is no number is null here too.
        left, right = signs.numbers(left, right, site)
        return arithmetic(operator, left, right, site)

    def build(site: Site, left: Node, right: Node) -> Node:
        if types.is_numeric(left.type) and types.is_numeric(right.type):
            return attempted(strict, (left, right), site, FarApart if operator == "%" else ())
        return attempted_whole(strict(left, right, site), site)

    return fixed(build, 2)


FUNCTIONS = {
    "try_add": _trying("+"),
    "try_subtract": _trying("-"),
    "try_multiply": _trying("*"),
    "try_divide": _trying("/"),
    "try_mod": _trying("%"),
}
