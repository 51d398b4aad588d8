"""Places of entities that move at random, while transactions run: one by one, and as workers come and go."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

from stretto.coordinator.entity_moves import next_move
from stretto.coordinator.events import DrainRequested, ScaleOutRequested
from stretto.simulator.engine.hosted_entities import HostedEntities
from stretto.transactions.machine import TransactionWorker

SPAN_NS = 250_000_000
"""In which workers come and go."""
AGAIN_NS = 5_000_000


class Movers:
    """Who has places move in one run: nobody, in every other seed."""

    def __init__(self, chance: random.Random, workers: int, seed: int) -> None:
        self._chance = chance
        self.are_active = seed % 2 == 1
        self.places = workers + (chance.choice((0, 1, 2)) if self.are_active else 0)
        self._share = chance.choice((0.0, 0.3, 1.0))
        self._part_max, self._parts, self._left_max = chance.choice(((1, 1, 0), (2, 1, 1), (1_000, 2, 1_000)))

    def machine(self, kind: type[TransactionWorker]) -> type[TransactionWorker]:
        """Returns a class of machines that copy a place in small parts."""
        sizes = {"part_max": self._part_max, "parts_under_way": self._parts, "left_max": self._left_max}
        departure = type("Small", (kind.departure,), sizes)
        return type(kind.__name__, (kind,), {"departure": departure})

    def begin(self, cluster: HostedEntities) -> None:
        entities = cluster.coordinator.entities
        entities.moving.again_ns = AGAIN_NS
        if self.are_active:
            entities.planner = partial(self._next_move, cluster)

    def _next_move(
        self, cluster: HostedEntities, places: Sequence[str | None], active: Sequence[str], load: Mapping[str, int]
    ) -> tuple[int, str] | None:
        """Returns what must move, or else anything."""
        found = next_move(places, active, load)
        if found is not None or cluster.is_calm or self._chance.random() >= self._share:
            return found
        place = self._chance.randint(1, len(places))
        others = [name for name in active if name != places[place - 1]]
        return (place, self._chance.choice(others)) if others else None

    def plan(self, cluster: HostedEntities) -> None:
        """Have workers come and go."""
        if not self.are_active:
            return
        for _ in range(self._chance.choice((0, 1, 2))):
            cluster.after(self._chance.randint(0, SPAN_NS), partial(self._add, cluster))
        for _ in range(self._chance.choice((0, 1, 2))):
            cluster.after(self._chance.randint(0, SPAN_NS), partial(self._drain, cluster))

    def _add(self, cluster: HostedEntities) -> None:
        if not cluster.is_calm:
            cluster.ask(ScaleOutRequested(1))

    def _drain(self, cluster: HostedEntities) -> None:
        names = cluster.names_of_workers()
        if names and not cluster.is_calm:
            cluster.ask(DrainRequested(self._chance.choice(names)))
