"""The casts that Spark adds to the arguments of functions: a number becomes a text, a text a number."""

from __future__ import annotations

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site


def string(node: Node, site: Site) -> Node:
    """Returns a string, for the functions that take nothing else."""
    if node.type not in (types.STRING, types.NULL):
        raise site.wrong_type("string", node.type)
    return cast(node, types.STRING, site)


def text(node: Node, site: Site) -> Node:
    """Returns the node as a string, which every value has that is not an array, a map or a struct."""
    if types.is_nested(node.type):
        raise site.wrong_type("string", node.type)
    return cast(node, types.STRING, site)


def text_or_bytes(node: Node, site: Site) -> Node:
    """Returns a binary as it is, and everything else as a string."""
    return node if node.type == types.BINARY else text(node, site)


def data(node: Node, site: Site) -> Node:
    """Returns a binary, or the bytes of a string; Spark makes neither of a number."""
    if node.type not in (types.BINARY, types.STRING, types.NULL):
        raise site.wrong_type("binary or string", node.type)
    return cast(node, types.BINARY, site)


def whole(node: Node, site: Site) -> Node:
    """Returns the node as an int; a fraction is cut off."""
    if node.type not in (types.STRING, types.NULL) and not types.is_numeric(node.type):
        raise site.wrong_type("int", node.type)
    return cast(node, types.INT, site)
