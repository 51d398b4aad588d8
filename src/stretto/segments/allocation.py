"""How many copies of each segment there are: the fewest with which all nodes have the same work (thesis 4.2).

The work of a segment is what its questions take, in whole units. Nodes are bins with room for an even part of it, or
for what they can do, and each bin that has work of a segment needs a copy. `fitted` is the thesis' algorithm 4.1. Its
best fit is optimal in the thesis' examples, but not always: for work of 9, 9, 9, 7 and 7 on three nodes it makes 7
copies, and 6 do. So `fewest_copies` tries all ways to group segments where there are few of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from enum import Enum

GROUPED_MAX = 8
"""With so many segments, all groups are tried. It takes 3 to the power of this steps."""

Allocation = list[dict[str, int]]
"""The work of each segment at each node. A segment has a copy wherever it has work."""


def copies(allocation: Sequence[Mapping[str, int]]) -> int:
    """Returns how many copies there are in all."""
    return sum(map(len, allocation))


def makespan(allocation: Sequence[Mapping[str, int]]) -> int:
    """Returns how long the node takes that has the most work, in units of work."""
    return max((sum(node.values()) for node in allocation), default=0)


def equal_rooms(work: Mapping[str, int], nodes: int) -> list[int]:
    """Returns the room of each node when all are equal: an even part of the work."""
    return [-(-sum(work.values()) // nodes)] * nodes


class Fit(Enum):
    """Which bin a segment gets of those that have room for all its work."""

    BEST = "the one that it leaves with the least room"
    LARGEST = "the one with the most room"


def fitted(work: Mapping[str, int], rooms: Sequence[int], fit: Fit = Fit.BEST) -> Allocation:
    """Returns what algorithm 4.1 does: the segment with the most work gets a bin, until all work has its place. What
    fits nowhere fills the emptiest bin, and the rest of it is a segment of its own. Ties go to the earlier bin."""
    free = list(rooms)
    found: Allocation = [{} for _ in free]
    heap = [(-units, segment) for segment, units in sorted(work.items()) if units > 0]
    heapq.heapify(heap)
    while heap:
        less, segment = heapq.heappop(heap)
        units = -less
        fitting = [(room - units, node) for node, room in enumerate(free) if room >= units]
        if fitting and fit is Fit.BEST:
            node = min(fitting)[1]
        else:
            node = max(range(len(free)), key=lambda each: (free[each], -each))
        part = min(units, free[node])
        assert part > 0, f"{units} units of {segment} have no room in {list(rooms)}"
        free[node] -= part
        found[node][segment] = found[node].get(segment, 0) + part
        if part < units:
            heapq.heappush(heap, (part - units, segment))
    return found


def fewest_copies(work: Mapping[str, int], rooms: Sequence[int]) -> Allocation:
    """Returns a division of work over nodes with as few copies as is known to do; of several, the most even one.

    Segments that share nodes, directly or by others, are a group. A group of s segments on b nodes needs s + b - 1
    copies, so the fewest copies are those of the most groups that fit (`grouped`)."""
    asked = {segment: units for segment, units in sorted(work.items()) if units > 0}
    found = [fitted(asked, rooms, fit) for fit in (Fit.LARGEST, Fit.BEST)]
    if len(asked) <= GROUPED_MAX and len(set(rooms)) == 1:
        found.append(grouped(asked, rooms[0], len(rooms)))
    return min(found, key=lambda each: (copies(each), makespan(each)))


def grouped(work: Mapping[str, int], room: int, nodes: int) -> Allocation:
    """Returns the optimal division over equal nodes: of all ways to group segments, one with the fewest copies."""
    segments = sorted(work, key=lambda segment: (-work[segment], segment))
    best = _groups([work[segment] for segment in segments], room, nodes)
    found: Allocation = []
    for group in best:
        found += _in_a_row(
            {segment: work[segment] for place, segment in enumerate(segments) if group >> place & 1}, room
        )
    return found + [{} for _ in range(nodes - len(found))]


def _groups(units: Sequence[int], room: int, nodes: int) -> list[int]:
    """Returns the groups of the best division as sets of bits. By the number of nodes in use, each set of segments has
    its fewest splits, which are copies beyond one of each segment."""
    every = (1 << len(units)) - 1
    work = [sum(own for place, own in enumerate(units) if each >> place & 1) for each in range(every + 1)]
    nodes_of = [-(-each // max(room, 1)) for each in work]
    best: list[dict[int, tuple[int, list[int]]]] = [{} for _ in range(every + 1)]
    best[0] = {0: (0, [])}
    for each in range(1, every + 1):
        first = each & -each
        others = part = each ^ first
        while True:
            group = part | first
            for used, (splits, groups) in best[each ^ group].items():
                in_use, more = used + nodes_of[group], splits + nodes_of[group] - 1
                if in_use <= nodes and (in_use not in best[each] or more < best[each][in_use][0]):
                    best[each][in_use] = (more, [*groups, group])
            if not part:
                break
            part = (part - 1) & others
    return min(best[every].values())[1]


def _in_a_row(work: Mapping[str, int], room: int) -> Allocation:
    """Fills one node after the other, so that two neighbours share a segment at most."""
    found: Allocation = [{}]
    left = room
    for segment, units in work.items():
        while units:
            if not left:
                found.append({})
                left = room
            part = min(units, left)
            found[-1][segment] = part
            units, left = units - part, left - part
    return found
