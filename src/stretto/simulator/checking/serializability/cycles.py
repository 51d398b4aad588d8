"""Cycles of dependencies: strongly connected components by Tarjan, and for each name of a cycle the shortest witness.

| name | its edges (Adya) |
| --- | --- |
| G0 | ww only |
| G1c | ww and wr, at least one wr |
| G-single | ww, wr, and exactly one rw (lost update, read skew) |
| G2 | ww, wr, and more than one rw (write skew, long fork) |

With edges of real time in it, a cycle has the ending `-realtime`: the history may be serializable, but not strictly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from stretto.simulator.checking.serializability.dependencies import Dependency, Kind

Graph = Mapping[str, Sequence[Dependency]]
DATA = {Kind.WW, Kind.WR}
NAMES: tuple[tuple[str, Kind, Collection[Kind]], ...] = (
    ("G0", Kind.WW, {Kind.WW}),
    ("G1c", Kind.WR, DATA),
    ("G-single", Kind.RW, DATA),
    ("G2", Kind.RW, {*DATA, Kind.RW}),
)
"""For each name: the edge that a cycle begins with, and the edges that lead back."""


def graph_of(dependencies: Iterable[Dependency]) -> dict[str, list[Dependency]]:
    """Returns the dependencies by their `before`, at most one of each kind between two transactions."""
    once = {(each.before, each.after, each.kind): each for each in dependencies}
    graph: dict[str, list[Dependency]] = {}
    for each in once.values():
        graph.setdefault(each.before, []).append(each)
        graph.setdefault(each.after, [])
    return graph


def cycles(graph: Graph) -> Iterator[tuple[str, list[Dependency]]]:
    """Returns at most one cycle of each strongly connected component: the first name of the table that it has, and
    one without real time rather than one with."""
    for component in components(graph):
        members = set(component)
        inner = {name: [each for each in graph[name] if each.after in members] for name in component}
        found = _named(inner, frozenset(), "") or _named(inner, frozenset({Kind.REAL_TIME}), "-realtime")
        if found is not None:
            yield found


def _named(graph: Graph, more: frozenset[Kind], ending: str) -> tuple[str, list[Dependency]] | None:
    for name, first, back in NAMES:
        shortest: list[Dependency] | None = None
        for edges in graph.values():
            for edge in edges:
                if edge.kind is first:
                    way = _way(graph, edge.after, edge.before, {*back, *more})
                    if way is not None and (shortest is None or len(way) + 1 < len(shortest)):
                        shortest = [edge, *way]
        if shortest is not None:
            return name + ending, shortest
    return None


def _way(graph: Graph, start: str, end: str, kinds: Collection[Kind]) -> list[Dependency] | None:
    """Returns a shortest way over edges of these kinds."""
    came: dict[str, Dependency] = {}
    waiting = deque([start])
    while waiting:
        for edge in graph[waiting.popleft()]:
            if edge.kind in kinds and edge.after not in came:
                came[edge.after] = edge
                if edge.after == end:
                    return _walked(came, start, end)
                waiting.append(edge.after)
    return None


def _walked(came: Mapping[str, Dependency], start: str, end: str) -> list[Dependency]:
    way = [came[end]]
    while way[-1].before != start:
        way.append(came[way[-1].before])
    return way[::-1]


def components(graph: Graph) -> Iterator[list[str]]:
    """Returns the strongly connected components of more than one transaction (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in graph:
        if root in index:
            continue
        visits = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while visits:
            name, edges = visits[-1]
            for edge in edges:
                other = edge.after
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    visits.append((other, iter(graph[other])))
                    break
                if other in on_stack:
                    low[name] = min(low[name], index[other])
            else:
                visits.pop()
                if visits:
                    low[visits[-1][0]] = min(low[visits[-1][0]], low[name])
                if low[name] == index[name]:
                    component = _popped(stack, on_stack, name)
                    if len(component) > 1:
                        yield component


def _popped(stack: list[str], on_stack: set[str], root: str) -> list[str]:
    component = []
    while True:
        name = stack.pop()
        on_stack.discard(name)
        component.append(name)
        if name == root:
            return component
