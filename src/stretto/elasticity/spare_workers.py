"""Between workers and the assignment problem: which workers actors may get besides their homes, as cores of nodes, and
which workers an assignment of cores means.

A worker is one core: it holds at most one task of an actor that is not at home there. It is spare unless it is the home
of an actor that needs more than itself, or has too much other work. A core of each such home is added to its node, and
its actor keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stretto.elasticity.assignment import AssignmentProblem, Counts
from stretto.elasticity.view import ActorView, ElasticView

SHARED_LOAD_MAX = 0.5
STAYS_UP_TO = 0.25
"""A worker that has a task already stays spare with this much more of other work, so that tasks do not come and go."""


class SpareWorkers:
    """The spare workers by node. `homes` are those that must not be shared, `fixed` the actors that keep what they
    have."""

    def __init__(
        self,
        view: ElasticView,
        homes: set[str],
        fixed: Sequence[ActorView],
        shared_load_max: float = SHARED_LOAD_MAX,
    ) -> None:
        self._view = view
        self._nodes = sorted({worker.node for worker in view.workers.values()})
        self._node = {name: self._nodes.index(worker.node) for name, worker in view.workers.items()}
        guests = {name for actor in view.actors for name in actor.workers if name != actor.home}
        taken = {name for actor in fixed for name in actor.workers}
        self._other = {
            name: (worker.other_share + view.elastic_load[name] - view.guest_load[name]) / worker.cores
            for name, worker in view.workers.items()
        }
        self.names = [
            name
            for name in sorted(view.workers)
            if name not in homes
            and name not in taken
            and self._other[name] <= shared_load_max + (STAYS_UP_TO if name in guests else 0.0)
        ]

    def node_of(self, worker: str) -> str:
        return self._nodes[self._node[worker]]

    def problem(self, actors: Sequence[ActorView], wanted: Sequence[int], near: Sequence[bool]) -> AssignmentProblem:
        """Returns the assignment problem of some actors. Locality counts for those that are `near`."""
        cores = np.zeros(len(self._nodes), np.int64)
        for name in self.names:
            cores[self._node[name]] += 1
        current = np.zeros((len(self._nodes), len(actors)), np.int64)
        spare = set(self.names)
        for j, actor in enumerate(actors):
            cores[self._node[actor.home]] += 1
            current[self._node[actor.home], j] += 1
            for name in actor.workers:
                if name in spare and name != actor.home:
                    current[self._node[name], j] += 1
        return AssignmentProblem(
            cores,
            np.array(wanted, np.int64),
            np.array([self._node[actor.home] for actor in actors], np.int64),
            np.array([actor.state_bytes for actor in actors], np.float64),
            np.array([actor.bytes_per_s * at for actor, at in zip(actors, near, strict=True)], np.float64),
            current,
        )

    def chosen(self, actors: Sequence[ActorView], cores: Counts) -> list[tuple[str, ...]]:
        """Returns the workers of each actor, its home first. A worker stays where it can; the one with the least load
        of the actor goes first, and the one with the least other work comes first."""
        free = set(self.names)
        kept: list[list[str]] = []
        for j, actor in enumerate(actors):
            mine = [name for name in actor.workers if name in free and name != actor.home]
            mine.sort(key=lambda name: (-actor.load_on(name), name))
            left = [self._count(actor, cores, i, j) for i in range(len(self._nodes))]
            kept.append([])
            for name in mine:
                if left[self._node[name]] > 0:
                    left[self._node[name]] -= 1
                    kept[j].append(name)
            free.difference_update(kept[j])
        order: list[list[str]] = [[] for _ in self._nodes]
        for name in sorted(free, key=lambda name: (self._other[name], name), reverse=True):
            order[self._node[name]].append(name)
        for j, actor in enumerate(actors):
            for i in np.flatnonzero(cores[:, j]):
                have = sum(self._node[name] == i for name in kept[j])
                kept[j] += [order[i].pop() for _ in range(self._count(actor, cores, int(i), j) - have)]
        return [(actor.home, *sorted(mine)) for actor, mine in zip(actors, kept, strict=True)]

    def _count(self, actor: ActorView, cores: Counts, i: int, j: int) -> int:
        """Returns how many workers of a node an actor gets besides its home."""
        return int(cores[i, j]) - (self._node[actor.home] == i)
