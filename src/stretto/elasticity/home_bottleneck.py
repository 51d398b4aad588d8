"""Chooses another parallelism where the home of an actor is the bottleneck, which more workers cannot help.

All rows of an actor pass through its home, so the home's routing or its network bounds what further workers can do. The
paper shows it (elasticutor.txt figure 10: from a skew of 0.7 on, repartitioning the operator is better) and does not
act on it. Repartitioning divides the actor; it does not help if a single shard has most of the load.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.actors.address import Address
from stretto.actors.shards import SHARDS
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import Repartition
from stretto.elasticity.demand import is_saturated
from stretto.elasticity.patience import Patience
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.skew import same_key_probability, zipf_factor
from stretto.elasticity.view import ActorView, ElasticView

GIGABIT = 125e6
TOO_MANY = "its home is the bottleneck, and it has as many partitions as it may have"
ONE_SHARD = "its home is the bottleneck, and one shard has most of its load"


@dataclass(frozen=True, slots=True)
class _Signs:
    """What is seen of a home: the shares of its core and of its network that the actor takes, and the skew of the keys
    of its function."""

    routing: float
    network: float
    skew: float

    def values(self) -> dict[str, float]:
        return {"routing_share": self.routing, "network_share": self.network, "skew": self.skew}


class HomeBottleneck(Controller):
    """Doubles the parallelism of a function if one of its homes has been the bottleneck for `patience_ns`.

    A home is the bottleneck if its routing takes `routing_max` of its worker, if its traffic takes `network_max` of
    `bandwidth_bytes_per_s`, or if the function's keys are skewed by `skew_max` and the actor cannot keep up with all
    the workers that it may have. A function has at most `parallelism_max` partitions, by default one per worker."""

    name = "homes"

    def __init__(
        self,
        routing_max: float = 0.8,
        network_max: float = 0.8,
        bandwidth_bytes_per_s: float = GIGABIT,
        skew_max: float = 0.7,
        parallelism_max: int | None = None,
        every_ns: int = 5_000_000_000,
        effect_ns: int = 30_000_000_000,
        patience_ns: int = 10_000_000_000,
    ) -> None:
        self._routing_max = routing_max
        self._network_max = network_max
        self._bandwidth = bandwidth_bytes_per_s
        self._skew_max = skew_max
        self._parallelism_max = parallelism_max
        self.every_ns = every_ns
        self.effect_ns = effect_ns
        self._patience_ns = patience_ns
        self._since: Patience[Address] = Patience()
        self._decided_ns: dict[tuple[str, str], int] = {}

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns at most one decision per function, for the actor that is the worst bottleneck."""
        functions: dict[tuple[str, str], list[ActorView]] = {}
        for actor in view.actors:
            functions.setdefault((actor.address.job, actor.address.function), []).append(actor)
        found = []
        for key, actors in functions.items():
            recent = now_ns - self._decided_ns.get(key, -self.effect_ns) < self.effect_ns
            if not recent and all(actor.may_change for actor in actors):
                found += self._function(view, key, actors, now_ns)
        self._since.keep_only(view.by_address)
        self._decided_ns = {key: at_ns for key, at_ns in self._decided_ns.items() if key in functions}
        return found

    def _function(
        self, view: ElasticView, key: tuple[str, str], actors: list[ActorView], now_ns: int
    ) -> list[DecisionRecord]:
        skew = _skew(actors)
        waiting: list[tuple[float, ActorView, _Signs, Trigger]] = []
        for actor in actors:
            if actor.home not in view.workers:
                continue
            signs = self._signs(view, actor, skew)
            trigger = self._trigger(view, actor, signs)
            if trigger is None:
                self._since.end(actor.address)
            elif self._since.note(actor.address, now_ns) >= self._patience_ns:
                waiting.append((-max(signs.routing, signs.network, actor.load), actor, signs, trigger))
        if not waiting:
            return []
        _, actor, signs, trigger = min(waiting, key=lambda each: (each[0], each[1].address))
        return [self._decided(view, key, actor, signs, trigger, now_ns)]

    def _signs(self, view: ElasticView, actor: ActorView, skew: float) -> _Signs:
        cores = view.workers[actor.home].cores
        traffic = actor.bytes_per_s + actor.remote_bytes_per_s
        return _Signs(actor.routing_ns / 1e9 / cores, traffic / self._bandwidth, skew)

    def _trigger(self, view: ElasticView, actor: ActorView, signs: _Signs) -> Trigger | None:
        """Returns by which sign a home is the bottleneck, None if it is not."""
        if signs.routing >= self._routing_max:
            return Trigger.HOME_ROUTING
        if signs.network >= self._network_max:
            return Trigger.HOME_NETWORK
        at_most = len(actor.workers) >= min(actor.workers_max, len(view.workers))
        if signs.skew >= self._skew_max and at_most and is_saturated(view, actor):
            return Trigger.SKEW
        return None

    def _decided(
        self,
        view: ElasticView,
        key: tuple[str, str],
        actor: ActorView,
        signs: _Signs,
        trigger: Trigger,
        now_ns: int,
    ) -> DecisionRecord:
        most = min(SHARDS, len(view.workers) if self._parallelism_max is None else self._parallelism_max)
        parallelism = min(2 * actor.parallelism, most)
        greatest = max(actor.shards.costs_ns) / max(1, sum(actor.shards.costs_ns))
        seen = {**signs.values(), "parallelism": float(actor.parallelism), "greatest_shard_share": greatest}
        if parallelism <= actor.parallelism:
            return self.record(actor, now_ns, TOO_MANY, None, trigger, seen)
        if greatest > 0.5:
            return self.record(actor, now_ns, ONE_SHARD, None, trigger, seen)
        self._decided_ns[key] = now_ns
        part = max(actor.parallelism / parallelism, greatest)
        candidates = (
            Candidate(f"stay with {actor.parallelism}", _predicted(signs, 1.0), "the home stays the bottleneck"),
            Candidate("more workers", _predicted(signs, 1.0), "all rows still pass through the same home"),
            Candidate(f"repartition into {parallelism}", _predicted(signs, part)),
        )
        decision = Repartition(*key, parallelism)
        return self.record(actor, now_ns, _because(trigger), decision, trigger, seen, candidates)


def _skew(actors: list[ActorView]) -> float:
    """Returns the skew of a function's keys, over the shards of all its partitions."""
    costs = [float(cost) for actor in actors for cost in actor.shards.costs_ns]
    return zipf_factor(same_key_probability(costs, sum(actor.rows_per_s for actor in actors)))


def _predicted(signs: _Signs, part: float) -> dict[str, float]:
    return {"routing_share": signs.routing * part, "network_share": signs.network * part}


def _because(trigger: Trigger) -> str:
    match trigger:
        case Trigger.HOME_ROUTING:
            return "routing takes most of its home"
        case Trigger.HOME_NETWORK:
            return "its traffic takes most of its home's network"
        case _:
            return "its keys are too skewed for one home"
