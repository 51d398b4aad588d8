"""Every half second: which shard on which of the actor's workers (elasticutor.txt 3.1)."""

from __future__ import annotations

from stretto.elasticity.balancing import THETA, Balance, Balanced, balance, imbalance
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import MoveShards, ShardMove
from stretto.elasticity.demand import is_saturated
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.view import ActorView, ElasticView

LEAST_CAPACITY = 0.05
"""A worker that has less than this share of itself left for an actor has nothing for it, and is emptied: what it does
not run costs nothing, and would look like a worker without load."""
REST = 0.25
"""The part of the tolerated imbalance that moves leave."""


class ShardBalancer(Controller):
    """Moves shards of each actor whose most loaded task has more than `theta` times the average. An actor that cannot
    keep up is balanced from `theta_saturated` on: its most loaded task bounds its throughput. Once shards move, they
    move until little of what was tolerated is left (`REST`): a balance that is just within theta is out of it again
    with the next second's rows.

    A task's load counts by what its worker has left for it: the rest of the worker runs other functions, or routes for
    the actor itself. Actors are balanced one after the other, and each sees what those before it have moved in the same
    round; otherwise all would go to the same idle worker and back. An actor whose most loaded task takes less than
    `load_min` of its worker is left alone. A worker that is no longer allotted to the actor is emptied at once."""

    name = "shards"

    def __init__(
        self,
        theta: float = THETA,
        theta_saturated: float = 1.1,
        load_min: float = 0.1,
        moves_max: int = 1024,
        every_ns: int = 500_000_000,
    ) -> None:
        self._theta = theta
        self._theta_saturated = theta_saturated
        self._load_min = load_min
        self._moves_max = moves_max
        self.every_ns = every_ns

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns the moves of every actor that is out of balance or has a worker to empty."""
        left = {name: view.left_on(name) for name in view.workers}
        found = []
        for actor in view.actors:
            if actor.may_change and actor.home in view.workers:
                record = self._balanced(view, actor, left, now_ns)
                if record is not None:
                    found.append(record)
        return found

    def _balanced(
        self, view: ElasticView, actor: ActorView, left: dict[str, float], now_ns: int
    ) -> DecisionRecord | None:
        """Returns the record for one actor, None if it is balanced; `left` then has what the moves change."""
        allotted = sorted(name for name in {actor.home, *actor.workers} if name in view.workers)
        leaving = sorted(set(actor.shards.owners).difference(allotted))
        if not leaving and len(allotted) == 1:
            return None
        names = allotted + leaving
        capacities = _capacities(view, actor, allotted, left) + [0.0] * len(leaving)
        theta = self._theta_saturated if is_saturated(view, actor) else self._theta
        if not leaving and not self._is_worth_it(actor, names, capacities, theta):
            return None
        place = {name: task for task, name in enumerate(names)}
        owners = [place[owner] for owner in actor.shards.owners]
        rest = 1 + REST * (theta - 1)
        result = balance([cost_ns / 1e9 for cost_ns in actor.shards.costs_ns], owners, capacities, rest)
        if result.moves:
            return self._moved(actor, result, names, left, now_ns)
        seen = {"capacity_imbalance": result.before, "greatest_shard": max(actor.shards.costs_ns) / 1e9}
        return self.record(actor, now_ns, "no move of a shard helps", None, Trigger.IMBALANCE, seen)

    def _is_worth_it(self, actor: ActorView, names: list[str], capacities: list[float], theta: float) -> bool:
        """Returns whether a worker has nothing left for its shards, or the load is uneven and more than a little."""
        loads = [actor.load_on(name) for name in names]
        if not all(capacities):
            crowded = {name for name, capacity in zip(names, capacities, strict=True) if not capacity}
            if any(owner in crowded for owner in actor.shards.owners) and actor.load >= self._load_min:
                return True
        if imbalance(loads, capacities) <= theta:
            return False
        ratios = [load / capacity for load, capacity in zip(loads, capacities, strict=True) if capacity]
        return max(ratios) >= self._load_min

    def _moved(
        self,
        actor: ActorView,
        result: Balance,
        names: list[str],
        left: dict[str, float],
        now_ns: int,
    ) -> DecisionRecord:
        shards = actor.shards
        chosen = sorted(result.moves, key=lambda move: (-shards.costs_ns[move[0]], move[0]))[: self._moves_max]
        moves = []
        for at, source, target in chosen:
            moves.append(ShardMove(shards.numbers[at], names[source], names[target]))
            for task, sign in ((source, -1), (target, 1)):
                if names[task] in left:
                    left[names[task]] -= sign * shards.costs_ns[at] / 1e9
        state_bytes = sum(shards.state_bytes[at] for at, _, _ in chosen)
        empties = any(move.source not in actor.workers for move in moves)
        candidates = (
            Candidate("stay", {"imbalance": result.before}, "it is above theta" if not empties else "a worker leaves"),
            Candidate(
                f"move {len(moves)} shards",
                {"imbalance": result.after, "moves": float(len(moves)), "state_bytes": float(state_bytes)},
            ),
        )
        because = "a worker is to be emptied" if empties else "the most loaded worker has too many shards"
        if result.ended is not Balanced.WITHIN:
            because += ", and no move gets it within theta"
        return self.record(
            actor,
            now_ns,
            because,
            MoveShards(*actor.address, tuple(moves)),
            Trigger.LEAVING if empties else Trigger.IMBALANCE,
            {"capacity_imbalance": result.before},
            candidates,
        )


def _capacities(view: ElasticView, actor: ActorView, names: list[str], left: dict[str, float]) -> list[float]:
    """Returns how much of each worker is there for the actor: what is left of it, and what the actor has of it. All
    count the same if none has anything left."""
    found = []
    for name in names:
        has, cores = left[name] + actor.load_on(name), view.workers[name].cores
        found.append(has if has >= LEAST_CAPACITY * cores else 0.0)
    return found if any(found) else [view.workers[name].cores for name in names]
