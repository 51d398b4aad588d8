"""Functions that choose among their arguments."""

from __future__ import annotations

from stretto.expressions import comparisons, logic
from stretto.expressions.registry import MANY, Function, fixed, with_aliases

FUNCTIONS = with_aliases(
    {
        "coalesce": Function(lambda site, *nodes: logic.coalesce(nodes, site), 1, MANY),
        "nvl": fixed(lambda site, *nodes: logic.coalesce(nodes, site), 2),
        "nullif": fixed(lambda site, a, b: logic.nullif(a, b, site), 2),
        "greatest": Function(lambda site, *nodes: logic.extreme(nodes, True, site), 2, MANY),
        "least": Function(lambda site, *nodes: logic.extreme(nodes, False, site), 2, MANY),
        "isnull": fixed(lambda site, node: comparisons.null_test(node, site), 1),
        "isnotnull": fixed(lambda site, node: logic.negation(comparisons.null_test(node, site), site), 1),
    },
    ifnull="nvl",
)
