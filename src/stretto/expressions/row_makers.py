"""The names of the functions that make rows. Inside of another expression they are refused; see `generators.py`."""

from __future__ import annotations

from stretto.expressions.nodes import Node, Site
from stretto.expressions.registry import MANY, Function


def _alone(site: Site, *arguments: Node) -> Node:
    raise site.error(
        "a function that makes rows stands inside of an expression",
        None,
        'select it on its own, with a name: select("id", "explode(tags) AS tag")',
    )


ROW_MAKERS = {
    **dict.fromkeys(
        ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"), Function(_alone, 1, 1)
    ),
    "stack": Function(_alone, 2, MANY),
    "json_tuple": Function(_alone, 2, MANY),
}
FUNCTIONS = ROW_MAKERS
