"""Signs, and strings where an operator needs numbers: `+x`, `-x`, `x + '1'`."""

from __future__ import annotations

from stretto.expressions import types
from stretto.expressions.arithmetic import negate
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, null
from stretto.expressions.registry import fixed


def number(node: Node, site: Site) -> Node:
    """Returns the operand of a sign: a string is cast to double."""
    return cast(node, types.DOUBLE, site) if node.type == types.STRING else node


def numbers(left: Node, right: Node, site: Site) -> tuple[Node, Node]:
    """Returns the operands of arithmetic: a string beside a number becomes a bigint or a double."""
    if types.STRING not in (left.type, right.type):
        return left, right
    if types.is_numeric(left.type):
        return left, cast(right, types.beside_string(left.type), site)
    if types.is_numeric(right.type):
        return cast(left, types.beside_string(right.type), site), right
    raise site.mismatch(left.type, right.type)


def _positive(site: Site, node: Node) -> Node:
    if node.type == types.NULL:
        return null(types.DOUBLE, site)
    node = number(node, site)
    if not types.is_numeric(node.type) and node.type not in (types.DURATION, types.MONTHS):
        raise site.wrong_type("a number", node.type)
    return node


FUNCTIONS = {
    "positive": fixed(_positive, 1),
    "negative": fixed(lambda site, node: negate(number(node, site), site), 1),
}
