"""Structs: building one, and reaching into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.lists import Lists, put_together, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, constant_argument, kernel
from stretto.expressions.registry import MANY, Function


def field(node: Node, name: str, site: Site) -> Node:
    """Returns `struct.field`, or the field of each element of `array.field`; case does not matter."""
    if pat.is_list(node.type) and pat.is_struct(node.type.value_type):
        return _field_of_each(node, name, site)
    if not pat.is_struct(node.type):
        raise site.wrong_type(f"a struct with the field {name!r}", node.type)
    index = field_index(node.type, name, site)
    return kernel(node.type[index].type, lambda values: pc.struct_field(values, [index]), site, (node,))


def _field_of_each(node: Node, name: str, site: Site) -> Node:
    index = field_index(node.type.value_type, name, site)
    kind = pa.list_(node.type.value_type[index].type)

    def apply(array: pa.Array) -> pa.Array:
        lists = taken_apart(array)
        return put_together(Lists(lists.offsets, pc.struct_field(lists.values, [index]), lists.valid), kind)

    return arrayed(kind, apply, site, (node,))


def names_of(node: Node, site: Site) -> list[str]:
    """Returns the names of a struct's fields, for `s.*`."""
    if not pat.is_struct(node.type):
        raise site.wrong_type("a struct before .*", node.type)
    return [entry.name for entry in node.type]


def field_index(kind: Any, name: str, site: Site) -> int:
    """Returns the place of a struct's field of this name."""
    names = [entry.name for entry in kind]
    matches = [place for place, candidate in enumerate(names) if candidate.lower() == name.lower()]
    if len(matches) != 1:
        fact = f"no field {name!r}" if not matches else f"the field {name!r} is ambiguous"
        raise site.error(fact, f"fields: {', '.join(names)}", "use one of them")
    return matches[0]


def struct(names: Sequence[str], nodes: Sequence[Node], site: Site) -> Node:
    """Returns a struct of these fields; it is never null itself."""
    if not nodes:
        raise site.error("a struct without fields", None, "add at least one")
    fields = [pa.field(name, node.type) for name, node in zip(names, nodes, strict=True)]

    def apply(*arrays: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return arrayed(pa.struct(fields), apply, site, nodes)


def named_struct(site: Site, *arguments: Node) -> Node:
    """Returns `named_struct('a', x, 'b', y)`."""
    if len(arguments) % 2:
        raise site.error("a name without a value", None, "write named_struct('name', value, ...)")
    names = [constant_argument(node, types.STRING, "a field's name") for node in arguments[::2]]
    if None in names:
        raise site.error("a field without a name", None, "name it")
    return struct(names, arguments[1::2], site)


FUNCTIONS = {"named_struct": Function(named_struct, 2, MANY)}
