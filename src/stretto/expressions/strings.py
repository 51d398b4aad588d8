"""Functions of strings, with Arrow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, constant_argument, kernel, null
from stretto.expressions.registry import MANY, Function, fixed, with_aliases


def string(node: Node, site: Site) -> Node:
    """Returns the node; raises if it is not a string."""
    if node.type == types.NULL:
        return cast(node, types.STRING, site)
    if node.type != types.STRING:
        raise site.wrong_type("string", node.type)
    return node


def simple(apply: Callable[..., Any]) -> Callable[[Site, Node], Node]:
    """Returns the builder of a kernel from string to string."""
    return lambda site, node: kernel(types.STRING, apply, site, (string(node, site),))


def length(site: Site, node: Node) -> Node:
    if node.type == types.BINARY:
        return kernel(types.INT, lambda values: pc.cast(pc.binary_length(values), types.INT), site, (node,))
    return kernel(types.INT, lambda values: pc.cast(pc.utf8_length(values), types.INT), site, (string(node, site),))


def trim(apply: Callable[..., Any]) -> Callable[[Site, Node], Node]:
    """Returns the builder of a trim of spaces only, not all white space, as in Spark."""
    return simple(lambda values: apply(values, characters=" "))


def concat(site: Site, *nodes: Node) -> Node:
    """Returns the concatenation, null where any part is null."""
    parts = [string(node, site) for node in nodes]
    if not parts:
        raise site.error("nothing to concatenate", None, "give at least one string")
    return kernel(types.STRING, lambda *values: pc.binary_join_element_wise(*values, ""), site, parts)


def substring(site: Site, node: Node, start: Node, size: Node | None = None) -> Node:
    """Returns a substring. Start 1 or 0 is the first character; a negative start counts from the end."""
    text = string(node, site)
    first = constant_argument(start, types.INT, "the start of substring")
    count = 2**31 - 1 if size is None else constant_argument(size, types.INT, "the length of substring")
    if first is None or count is None:
        return null(types.STRING, site)
    if count <= 0:
        return kernel(types.STRING, lambda values: pc.utf8_slice_codeunits(values, 0, 0), site, (text,))
    if first >= 0:
        begin = max(first - 1, 0)
        end = begin + count
        return kernel(types.STRING, lambda values: pc.utf8_slice_codeunits(values, begin, end), site, (text,))
    # Python's slices count from the end and clip a start before the text, as Spark does.
    stop = None if first + count >= 0 else first + count
    return kernel(types.STRING, lambda values: pc.utf8_slice_codeunits(values, first, stop), site, (text,))


def replace(site: Site, node: Node, search: Node, replacement: Node | None = None) -> Node:
    text = string(node, site)
    wanted = constant_argument(search, types.STRING, "the search text of replace")
    new = "" if replacement is None else constant_argument(replacement, types.STRING, "the replacement of replace")
    if wanted is None or new is None:
        return null(types.STRING, site)
    if not wanted:
        return text
    return kernel(
        types.STRING, lambda values: pc.replace_substring(values, pattern=wanted, replacement=new), site, (text,)
    )


def predicate(apply: Callable[..., Any]) -> Callable[[Site, Node, Node], Node]:
    """Returns the builder of startswith, endswith or contains, for a constant second argument."""

    def build(site: Site, node: Node, pattern: Node) -> Node:
        text = string(node, site)
        wanted = constant_argument(pattern, types.STRING, "the second argument")
        if wanted is None:
            return null(types.BOOLEAN, site)
        return kernel(types.BOOLEAN, lambda values: apply(values, pattern=wanted), site, (text,))

    return build


FUNCTIONS = with_aliases(
    {
        "length": fixed(length, 1),
        "trim": fixed(trim(pc.utf8_trim), 1),
        "ltrim": fixed(trim(pc.utf8_ltrim), 1),
        "rtrim": fixed(trim(pc.utf8_rtrim), 1),
        "concat": Function(concat, 1, MANY),
        "substring": Function(substring, 2, 3),
        "replace": Function(replace, 2, 3),
        "startswith": fixed(predicate(pc.starts_with), 2),
        "endswith": fixed(predicate(pc.ends_with), 2),
        "contains": fixed(predicate(pc.match_substring), 2),
    },
    substr="substring",
    len="length",
    char_length="length",
    character_length="length",
)
