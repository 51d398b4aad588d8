"""What more capacity means for a function: its discipline decides, the controller only asks.

| discipline | one unit more is | decision |
| --- | --- | --- |
| spread: stateless, or state that combines | a lessee more, of each partition | `SetLessees` |
| keyed and elastic | a worker more for the shards of its fullest partition | `SetWorkers` |
| keyed and not elastic, or an elastic one whose home is the bottleneck | a partition more | `Repartition` |
| sequential, a source, on the driver | nothing: it cannot have more | none |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from stretto.actors.shape import FunctionShape
from stretto.elasticity.decisions import Capacity, Decision, GiveCapacity, Repartition, SetLessees, SetWorkers
from stretto.elasticity.view import ActorView, WorkerView


class Means(Enum):
    """How a function gets more or less capacity."""

    LESSEES = "lessees, since its state combines"
    SHARDS = "shards on more workers, since it is keyed"
    PARALLELISM = "another parallelism"
    NONE = "it cannot have more instances"


def means_of(shape: FunctionShape, home_is_full: bool = False) -> Means:
    """Returns how a function gets more capacity. `home_is_full` says that the home of an elastic actor is the
    bottleneck, so that more workers would not help."""
    if shape.on_driver or (not shape.feeds and shape.shards is None):
        return Means.NONE
    if shape.lessees_max:
        return Means.LESSEES
    if shape.workers_max and not home_is_full:
        return Means.SHARDS
    if shape.shards is not None or not shape.states:
        return Means.PARALLELISM
    return Means.NONE


@dataclass(frozen=True, slots=True)
class Holding:
    """What a function has now: its means, its partitions, how many lessees each actor may have now and at most, and its
    elastic actors."""

    means: Means
    parallelism: int
    lessees: int = 0
    lessees_max: int = 0
    actors: Sequence[ActorView] = ()


def lessees_possible(lessees: int, workers: int) -> int:
    """Returns how many of the lessees that an actor may have there is room for: one on each worker but its home."""
    return min(lessees, max(0, workers - 1))


def levers_for(ask: Capacity, holding: Holding, workers: Mapping[str, WorkerView]) -> list[Decision]:
    """Returns the decisions that carry out an ask for capacity; none where it cannot be done."""
    units = ask.units if isinstance(ask, GiveCapacity) else -ask.units
    match holding.means:
        case Means.LESSEES:
            most = lessees_possible(holding.lessees_max, len(workers))
            before = min(holding.lessees, most)
            # A unit is an instance, and each partition gets as many: a part of a round is a whole one.
            rounds = math.ceil(abs(units) / holding.parallelism)
            lessees = min(most, max(0, before + (rounds if units > 0 else -rounds)))
            return [SetLessees(ask.job, ask.function, lessees)] if lessees != before else []
        case Means.PARALLELISM:
            parallelism = max(1, holding.parallelism + units)
            return [Repartition(ask.job, ask.function, parallelism)] if parallelism != holding.parallelism else []
        case Means.SHARDS:
            return _allotted(units, holding.actors, workers)
        case Means.NONE:
            return []


def _allotted(units: int, actors: Sequence[ActorView], workers: Mapping[str, WorkerView]) -> list[Decision]:
    """Gives workers one by one to the actor with the greatest load per worker, the idlest worker first; or takes the
    last worker from the actor with the least. A home is never taken."""
    allotted = {actor.address: list(actor.workers) for actor in actors}
    guests = dict.fromkeys(workers, 0)

    def per_worker(actor: ActorView) -> float:
        return actor.load / len(allotted[actor.address])

    for _ in range(abs(units)):
        if units > 0:
            able = [actor for actor in actors if len(allotted[actor.address]) < min(actor.workers_max, len(workers))]
            if not able:
                break
            actor = max(able, key=per_worker)
            free = [name for name in workers if name not in allotted[actor.address]]
            chosen = min(free, key=lambda name: (workers[name].busy_share + guests[name], name))
            guests[chosen] += 1
            allotted[actor.address].append(chosen)
        else:
            able = [actor for actor in actors if len(allotted[actor.address]) > 1]
            if not able:
                break
            allotted[min(able, key=per_worker).address].pop()
    return [
        SetWorkers(*actor.address, tuple(allotted[actor.address]))
        for actor in actors
        if tuple(allotted[actor.address]) != tuple(actor.workers)
    ]
