"""Functions that mean one thing for strings and another for arrays."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.types as pat

from stretto.expressions import arrays
from stretto.expressions.nodes import Node, Site
from stretto.expressions.registry import MANY, Function, fixed

_OF_ARRAYS = {"concat": Function(arrays.concatenated, 1, MANY), "reverse": fixed(arrays.reversed_array, 1)}


def with_array_forms(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Returns the functions, of which some have another form that is taken if an argument is an array."""
    return {**functions, **{name: _by_type(form, functions.get(name)) for name, form in _OF_ARRAYS.items()}}


def _by_type(of_arrays: Function, other: Function | None) -> Function:
    def build(site: Site, *nodes: Node) -> Node:
        if other is None or any(pat.is_list(node.type) for node in nodes):
            return of_arrays.build(site, *nodes)
        return other.build(site, *nodes)

    return Function(build, min(of_arrays.least, other.least if other else MANY), of_arrays.most)
