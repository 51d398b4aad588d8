"""A controller that has shards moving all the time: whatever the load is, and to no purpose but to find faults."""

from __future__ import annotations

import random

from stretto.elasticity import ActorView, Controller, DecisionRecord, ElasticView, MoveShards, ShardMove

PERIOD_MS = (50, 200)
MOVED_MAX = 64


class ShuffleShards(Controller):
    """Every 50 to 200 ms, some random shards of each elastic actor go to random workers (seeded)."""

    name = "shuffle"

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self.every_ns = PERIOD_MS[0] * 1_000_000

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns moves of every actor that may be changed."""
        self.every_ns = self._chance.randint(*PERIOD_MS) * 1_000_000
        found = []
        for actor in view.actors:
            moves = self._moves(view, actor) if actor.may_change else ()
            if moves:
                decision = MoveShards(*actor.address, moves)
                found.append(self.record(actor, now_ns, "shards are to move all the time", decision))
        return found

    def _moves(self, view: ElasticView, actor: ActorView) -> tuple[ShardMove, ...]:
        others = [name for name in view.workers if name != actor.home]
        targets = [actor.home, *others][: actor.workers_max]
        places = self._chance.sample(range(len(actor.shards.numbers)), self._chance.randint(1, MOVED_MAX))
        moves = (
            ShardMove(actor.shards.numbers[place], actor.shards.owners[place], self._chance.choice(targets))
            for place in sorted(places)
        )
        return tuple(move for move in moves if move.source != move.target)


SHUFFLING = f"{ShuffleShards.__module__}:{ShuffleShards.__name__}"
"""Its name for `Cluster.on_spark(elasticity=...)`."""
