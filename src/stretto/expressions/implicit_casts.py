"""Which arguments of a function are cast, and to what, while its call is compiled.

Spark evaluates an argument together with its implicit cast, which may fail, before it evaluates the next one. Here a
function casts its arguments itself, so who calls it notes the casts, to know what is evaluated in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from stretto.expressions.nodes import Node

_noted: ContextVar[dict[int, Node] | None] = ContextVar("noted", default=None)


@contextmanager
def casts_of(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Yields the nodes; afterwards those that were cast meanwhile are in the list as what they were cast to."""
    found = {id(node): node for node in nodes}
    given = list(nodes)
    before = _noted.set(found)
    try:
        yield given
    finally:
        _noted.reset(before)
    given[:] = [found[id(node)] for node in nodes]


def noted(node: Node, made: Node) -> Node:
    """Returns what a node was cast to, after it was noted for those who want to know."""
    found = _noted.get()
    if found is not None and id(node) in found:
        found[id(node)] = made
    return made
