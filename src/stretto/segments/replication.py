"""Which node is to hold which segments: Getafix (thesis 4.2-4.4), and the ways that it is compared with.

A way to replicate says how many copies there are and at which nodes; all that is around it is the same for each:

- A segment that exists has one copy at least, popular or not, unless nodes lack the memory.
- A node that has less memory than it is to hold does without the least popular segments per byte, first those of which
  others have a copy.
- A copy that is not wanted any more is dropped when all that are wanted of its segment have been loaded (`droppable`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from stretto.segments.allocation import Allocation, copies, equal_rooms, fewest_copies
from stretto.segments.matching import matched
from stretto.segments.popularity import Popularity

UNITS = 10_000
"""Into how many units all work is divided, since bins are filled by whole units."""

BUSY_MAX = 0.6
"""How busy a node may be by questions, while others have less to do."""
UNEVEN, SURPLUS = 0.1, 0.1
"""How much more than it has room for a node may have to do, and how many more copies there may be than the fewest,
before segments are divided again."""

CUSHION = 1
"""Questions that Scarlett expects beside those that it has seen."""

Holdings = dict[str, set[str]]
"""The segments of each node."""


@dataclass(frozen=True)
class Node:
    """A worker that holds segments."""

    present: Collection[str] = ()
    capacity: float | None = None
    """The work that it can do in a round, in the unit of `Popularity.work`; None if nobody knows."""
    memory_bytes: int | None = None
    """What its copies may take in memory; None if nobody has said."""


@dataclass(frozen=True)
class Cluster:
    """What is decided about: the nodes by their names, and all segments with their sizes."""

    nodes: Mapping[str, Node]
    bytes_of: Mapping[str, int]


class Replication(ABC):
    """A way to replicate segments."""

    def plan(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        """Returns what each node is to hold."""
        found = self.popular(cluster, popularity)
        _give_homes(found, cluster)
        for name, node in cluster.nodes.items():
            if node.memory_bytes is not None:
                _fit(found, name, node.memory_bytes, cluster, popularity)
        return found

    @abstractmethod
    def popular(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        """Returns where popular segments are to be."""


class Getafix(Replication):
    """The fewest copies with which no node has more to do than it can, where they cost least to load.

    Other than in the thesis, work is divided evenly only where nodes would be too busy otherwise, or where nobody knows
    what they can do: while there is little to do, most segments need one copy. And what is asked for varies from round
    to round, so copies stay where they are while they can carry the work, and there are not many too many."""

    def __init__(self, busy_max: float = BUSY_MAX, uneven: float = UNEVEN, surplus: float = SURPLUS) -> None:
        self._busy_max = busy_max
        self._uneven = uneven
        self._surplus = surplus

    def popular(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        work = in_units(popularity.work, cluster.bytes_of)
        names = sorted(cluster.nodes)
        rooms = self._rooms([cluster.nodes[name].capacity for name in names], popularity, work)
        sets = fewest_copies(work, rooms)
        there = {name: set(cluster.nodes[name].present) & cluster.bytes_of.keys() for name in names}
        held = sum(len(segments & work.keys()) for segments in there.values())
        wider = {name: round((1 + self._uneven) * room) for name, room in zip(names, rooms, strict=True)}
        if work and held <= (1 + self._surplus) * copies(sets) and carries(there, work, wider):
            return there
        return _placed(cluster, names, rooms, sets)

    def _rooms(self, capacities: Sequence[float | None], popularity: Popularity, work: Mapping[str, int]) -> list[int]:
        """Returns what each node may have to do, in units of work."""
        known = [each for each in capacities if each]
        if not work or len(known) < len(capacities):
            return equal_rooms(work, len(capacities))
        total, unit = sum(work.values()), sum(popularity.work.values()) / sum(work.values())
        return [
            max(math.ceil(total * capacity / sum(known)), round(self._busy_max * capacity / unit)) for capacity in known
        ]


def _placed(cluster: Cluster, names: Sequence[str], rooms: Sequence[int], sets: Allocation) -> Holdings:
    """Matches nodes with sets. Those of another capacity have no room for each other's."""
    found: Holdings = {}
    for room in sorted(set(rooms)):
        places = [place for place, each in enumerate(rooms) if each == room]
        present = {names[place]: cluster.nodes[names[place]].present for place in places}
        own = [sets[place] for place in places]
        set_of = matched(own, present, cluster.bytes_of)
        found |= {name: set(own[set_of[name]]) for name in present}
    return found


class Scarlett(Replication):
    """As many copies as it takes to answer all questions that were there at the same time and one more, each at the
    node with the least to do (Ananthanarayanan and others, EuroSys 2011, 4). Copies stay where they are while they are
    wanted."""

    def __init__(self, at_a_time: int) -> None:
        self._at_a_time = at_a_time

    def popular(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        found: Holdings = {name: set() for name in cluster.nodes}
        load = dict.fromkeys(found, 0.0)
        by_work = sorted(popularity.work, key=lambda each: (-popularity.work[each], each))
        for segment in (each for each in by_work if each in cluster.bytes_of):
            count = min(math.ceil((popularity.at_once_max(segment) + CUSHION) / self._at_a_time), len(found))
            share = popularity.work[segment] / count
            # A copy that is there is worth as much as the work of this segment: it need not be loaded.
            order = sorted(
                found, key=lambda each: (load[each] - share * (segment in cluster.nodes[each].present), each)
            )
            for name in order[:count]:
                found[name].add(segment)
                load[name] += share / (cluster.nodes[name].capacity or 1.0)
        return found


class Uniform(Replication):
    """The same number of copies of every segment."""

    def __init__(self, count: int) -> None:
        self._count = count

    def popular(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        found: Holdings = {name: set() for name in cluster.nodes}
        for segment in sorted(cluster.bytes_of):
            # Those that have it keep it.
            order = sorted(found, key=lambda each: (segment not in cluster.nodes[each].present, len(found[each]), each))
            for name in order[: self._count]:
                found[name].add(segment)
        return found


class Full(Replication):
    """Every segment at every node."""

    def popular(self, cluster: Cluster, popularity: Popularity) -> Holdings:
        return {name: set(cluster.bytes_of) for name in cluster.nodes}


def in_units(work: Mapping[str, float], known: Collection[str]) -> dict[str, int]:
    """Returns the work of the segments that are known in whole units, so that all of it is `UNITS` or a little more."""
    asked = {segment: each for segment, each in work.items() if segment in known and each > 0}
    total = sum(asked.values())
    return {segment: max(1, round(each * UNITS / total)) for segment, each in asked.items()}


def carries(held: Mapping[str, Collection[str]], work: Mapping[str, int], rooms: Mapping[str, int]) -> bool:
    """Whether nodes can do all work with the copies that they hold, none more than it has room for: a flow from
    segments through their copies to nodes that lets all of it pass."""
    segments, nodes = sorted(work), sorted(held)
    total = sum(work.values())
    column = {segment: 1 + place for place, segment in enumerate(segments)}
    sink = 1 + len(segments) + len(nodes)
    edges = {(0, column[segment]): units for segment, units in work.items()}
    for place, node in enumerate(nodes):
        row = 1 + len(segments) + place
        edges |= {(column[segment], row): total for segment in held[node] if segment in column}
        edges[row, sink] = min(rooms[node], total)
    begins, ends = np.array(list(edges)).T
    graph = csr_array((np.array(list(edges.values()), np.int32), (begins, ends)), shape=(sink + 1, sink + 1))
    return bool(maximum_flow(graph, 0, sink).flow_value == total)


def droppable(copies: Mapping[str, Collection[str]], wanted: Mapping[str, Collection[str]]) -> Holdings:
    """Returns the copies that can go: those that are not wanted, of segments whose wanted copies are all there."""
    waits = {segment for name, segments in wanted.items() for segment in segments if segment not in copies[name]}
    return {
        name: {each for each in segments if each not in wanted[name] and each not in waits}
        for name, segments in copies.items()
    }


def _give_homes(found: Holdings, cluster: Cluster) -> None:
    """Every segment without a copy gets one: where it is, or where least is held."""
    held = set().union(*found.values())
    filled = {name: sum(cluster.bytes_of[each] for each in segments) for name, segments in found.items()}
    for segment in sorted(cluster.bytes_of.keys() - held):
        there = [name for name, node in cluster.nodes.items() if segment in node.present]
        name = min(there or found, key=lambda each: (filled[each], each))
        found[name].add(segment)
        filled[name] += cluster.bytes_of[segment]


def _fit(found: Holdings, name: str, memory_bytes: int, cluster: Cluster, popularity: Popularity) -> None:
    """Drops what a node has no memory for."""
    others = set().union(*(segments for other, segments in found.items() if other != name))
    bytes_of = cluster.bytes_of
    filled = sum(bytes_of[each] for each in found[name])
    worth = {each: popularity.work.get(each, 0.0) / max(bytes_of[each], 1) for each in found[name]}
    for segment in sorted(found[name], key=lambda each: (each not in others, worth[each], each)):
        if filled <= memory_bytes:
            return
        found[name].remove(segment)
        filled -= bytes_of[segment]
