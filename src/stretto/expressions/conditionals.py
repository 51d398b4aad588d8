"""Functions that choose among their arguments."""

from __future__ import annotations

import numpy as np

from stretto.expressions import comparisons, logic, types
from stretto.expressions.nodes import Node, Site, constant, null
from stretto.expressions.registry import MANY, Function, fixed, with_aliases


def _zero(site: Site) -> Node:
    return constant(types.INT, (np.int32(0), None), site, literal=True)


def nvl2(site: Site, node: Node, then: Node, otherwise: Node) -> Node:
    """Returns `then` where the node is not null, else `otherwise`."""
    return logic.case([(comparisons.null_test(node, site), otherwise)], then, site)


def decode(site: Site, node: Node, *pairs: Node) -> Node:
    """Returns the result beside the first search value that equals the node, where NULL equals NULL."""
    branches = [
        (comparisons.null_safe_equal(node, search, site), result)
        for search, result in zip(pairs[::2], pairs[1::2], strict=False)
    ]
    # The default of Spark's is a NULL string, which the other results meet: decode(i, 0, 2) is a bigint.
    return logic.case(branches, pairs[-1] if len(pairs) % 2 else null(types.STRING, site), site)


FUNCTIONS = with_aliases(
    {
        "coalesce": Function(lambda site, *nodes: logic.coalesce(nodes, site), 1, MANY),
        "nvl": fixed(lambda site, *nodes: logic.coalesce(nodes, site), 2),
        "nvl2": fixed(nvl2, 3),
        "nullif": fixed(lambda site, a, b: logic.nullif(a, b, site), 2),
        "nullifzero": fixed(lambda site, node: logic.nullif(node, _zero(site), site), 1),
        "zeroifnull": fixed(lambda site, node: logic.coalesce((node, _zero(site)), site), 1),
        "greatest": Function(lambda site, *nodes: logic.extreme(nodes, True, site), 2, MANY),
        "least": Function(lambda site, *nodes: logic.extreme(nodes, False, site), 2, MANY),
        "isnull": fixed(lambda site, node: comparisons.null_test(node, site), 1),
        "isnotnull": fixed(lambda site, node: logic.negation(comparisons.null_test(node, site), site), 1),
        "equal_null": fixed(lambda site, a, b: comparisons.null_safe_equal(a, b, site), 2),
    },
    ifnull="nvl",
)
