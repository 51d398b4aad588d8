"""Functions that mean one thing for strings and another for arrays."""

from __future__ import annotations

import pyarrow.types as pat

from stretto.expressions import arrays, strings
from stretto.expressions.nodes import Node, Site
from stretto.expressions.registry import MANY, Build, Function


def _by_type(of_arrays: Build, of_strings: Build) -> Build:
    """Returns a builder that takes one of two: the first if an argument is an array."""

    def build(site: Site, *nodes: Node) -> Node:
        if any(pat.is_list(node.type) for node in nodes):
            return of_arrays(site, *nodes)
        return of_strings(site, *nodes)

    return build


FUNCTIONS = {
    "concat": Function(_by_type(arrays.concatenated, strings.concat), 1, MANY),
}
