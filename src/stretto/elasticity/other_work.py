"""How much of each worker is left beside the shards of elastic actors, and what else it does."""

from __future__ import annotations

from stretto.actors.address import Address
from stretto.elasticity.view import ElasticView

SETTLED_NS = 1_500_000_000
"""Costs are those of the last second, and reports come four times a second."""


class OtherWork:
    """What workers do besides elastic actors' shards: other functions, sources, and the routing of homes.

    It is what a worker was busy with, less the costs of the shards that it owns. For a second after shards have moved
    these do not belong together: the worker was busy with shards that it does not own any more. Until then the last
    value counts."""

    def __init__(self) -> None:
        self._other: dict[str, float] = {}
        self._moved_ns: dict[str, int] = {}
        self._owners: dict[Address, tuple[str, ...]] = {}

    def seen(self, view: ElasticView, now_ns: int) -> dict[str, float]:
        """Notes a view. Returns how much of each worker is left beside all shards and all other work; less than nothing
        if more was asked of it."""
        self._note_moves(view, now_ns)
        left = {}
        for name, worker in view.workers.items():
            elastic = view.elastic_load[name]
            if now_ns - self._moved_ns.get(name, -SETTLED_NS) >= SETTLED_NS or name not in self._other:
                self._other[name] = max(0.0, worker.busy_share - elastic)
            left[name] = worker.cores - self._other[name] - elastic
        self._other = {name: other for name, other in self._other.items() if name in view.workers}
        self._moved_ns = {name: at_ns for name, at_ns in self._moved_ns.items() if name in view.workers}
        return left

    def _note_moves(self, view: ElasticView, now_ns: int) -> None:
        owners = {actor.address: actor.shards.owners for actor in view.actors}
        for address, now in owners.items():
            before = self._owners.get(address, now)
            if before != now:
                moved = [name for pair in zip(before, now, strict=False) if pair[0] != pair[1] for name in pair]
                self._moved_ns.update(dict.fromkeys(moved, now_ns))
        self._owners = owners
