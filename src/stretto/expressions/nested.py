"""Structs and arrays: building a struct, reaching into one, counting an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.nodes import Node, Site, combine, constant_argument, kernel
from stretto.expressions.registry import MANY, Function, fixed, with_aliases
from stretto.expressions.vectors import Value, arrow_operand, to_arrow


def field(node: Node, name: str, site: Site) -> Node:
    """Returns `struct.field`; case does not matter."""
    if not pat.is_struct(node.type):
        raise site.wrong_type(f"a struct with the field {name!r}", node.type)
    names = [entry.name for entry in node.type]
    matches = [i for i, candidate in enumerate(names) if candidate.lower() == name.lower()]
    if len(matches) != 1:
        fact = f"no field {name!r}" if not matches else f"the field {name!r} is ambiguous"
        raise site.error(fact, f"fields: {', '.join(names)}", "use one of them")
    index = matches[0]
    return kernel(node.type[index].type, lambda values: pc.struct_field(values, [index]), site, (node,))


def struct(names: Sequence[str], nodes: Sequence[Node], site: Site) -> Node:
    """Returns a struct of these fields; it is never null itself."""
    if not nodes:
        raise site.error("a struct without fields", None, "add at least one")
    kind = pa.struct([pa.field(name, node.type) for name, node in zip(names, nodes, strict=True)])
    runs = [(node.run, node.type) for node in nodes]

    def run(batch: pa.RecordBatch) -> Value:
        values = [(part(batch), part_type) for part, part_type in runs]
        operands = [arrow_operand(value, part_type) for value, part_type in values]
        if all(isinstance(operand, pa.Scalar) for operand in operands):
            return pa.scalar({n: o.as_py() for n, o in zip(names, operands, strict=True)}, kind), None
        rows = batch.num_rows
        return pa.StructArray.from_arrays([to_arrow(v, t, rows) for v, t in values], fields=list(kind)), None

    return combine(kind, run, site, nodes)


def named_struct(site: Site, *arguments: Node) -> Node:
    """Returns `named_struct('a', x, 'b', y)`."""
    if len(arguments) % 2:
        raise site.error("a name without a value", None, "write named_struct('name', value, ...)")
    names = [str(constant_argument(node, types.STRING, "a field's name")) for node in arguments[::2]]
    return struct(names, arguments[1::2], site)


def size(site: Site, node: Node) -> Node:
    """Returns the number of elements; null for a null array."""
    if not pat.is_list(node.type):
        raise site.wrong_type("array", node.type)
    return kernel(types.INT, _lengths, site, (node,))


def _lengths(values: Any) -> Any:
    return pc.cast(pc.list_value_length(values), types.INT)


FUNCTIONS = with_aliases(
    {
        "named_struct": Function(named_struct, 2, MANY),
        "size": fixed(size, 1),
    },
    array_size="size",
    cardinality="size",
)
